package compare

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// mutator applies random changes to v1beta1 CRDs, the same ones for the same seed. Most of
// them affect validation.
type mutator struct{ r *rand.Rand }

// newMutator returns the mutator of one case.
func newMutator(seed, number uint64) mutator {
	return mutator{rand.New(rand.NewPCG(seed, number))}
}

// change applies up to n changes to a CRD.
func (m mutator) change(crd map[string]any, n int) {
	spec, ok := crd["spec"].(map[string]any)
	if !ok {
		return
	}
	for range n {
		switch {
		case m.r.IntN(3) > 0:
			if s := m.someSchema(spec); s != nil {
				m.changeSchema(s)
				continue
			}
			m.changeSpec(crd, spec)
		default:
			m.changeSpec(crd, spec)
		}
	}
}

// store adds the status of a stored CRD.
func (m mutator) store(crd map[string]any) {
	meta, _ := crd["metadata"].(map[string]any)
	if meta == nil {
		return
	}
	meta["resourceVersion"] = "1"
	var stored []any
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && (v["storage"] == true || m.r.IntN(3) == 0) {
			stored = append(stored, v["name"])
		}
	}
	if len(stored) == 0 && spec["version"] != nil {
		stored = append(stored, spec["version"])
	}
	status := map[string]any{"storedVersions": stored}
	if m.r.IntN(2) == 0 {
		status["conditions"] = []any{map[string]any{"type": "Established", "status": "True"}}
	}
	crd["status"] = status
}

// anyKey picks a random key.
func anyKey(r *rand.Rand, m map[string]any) string {
	if len(m) == 0 {
		return ""
	}
	keys := slices.Sorted(maps.Keys(m))
	return keys[r.IntN(len(keys))]
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// someSchema picks a schema somewhere in the spec.
func (m mutator) someSchema(spec map[string]any) map[string]any {
	var roots []map[string]any
	add := func(v any) {
		if v, ok := v.(map[string]any); ok {
			if s, ok := v["openAPIV3Schema"].(map[string]any); ok {
				roots = append(roots, s)
			}
		}
	}
	add(spec["validation"])
	if versions, ok := spec["versions"].([]any); ok {
		for _, v := range versions {
			if v, ok := v.(map[string]any); ok {
				add(v["schema"])
			}
		}
	}
	if len(roots) == 0 {
		return nil
	}
	s := pick(m.r, roots...)
	for m.r.IntN(5) > 0 {
		below := schemasBelow(s)
		if len(below) == 0 {
			break
		}
		s = pick(m.r, below...)
	}
	return s
}

// schemasBelow returns the schemas directly below a schema.
func schemasBelow(s map[string]any) (out []map[string]any) {
	for _, k := range []string{"items", "additionalProperties", "not"} {
		if v, ok := s[k].(map[string]any); ok {
			out = append(out, v)
		}
	}
	if props, ok := s["properties"].(map[string]any); ok {
		for _, k := range slices.Sorted(maps.Keys(props)) {
			if v, ok := props[k].(map[string]any); ok {
				out = append(out, v)
			}
		}
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		if list, ok := s[k].([]any); ok {
			for _, v := range list {
				if v, ok := v.(map[string]any); ok {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// changeSchema changes one keyword of a schema.
func (m mutator) changeSchema(s map[string]any) {
	obj := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	type keyword struct {
		name   string
		values []any
	}
	k := pick(m.r,
		keyword{"type", []any{"object", "array", "string", "integer", "number", "boolean", "null", "bogus", nil}},
		keyword{"default", []any{"a", int64(1), obj(), obj("unknown", int64(1)), []any{}, nil}},
		keyword{"nullable", []any{true, nil}},
		keyword{"x-kubernetes-preserve-unknown-fields", []any{true, true, false, nil}},
		keyword{"x-kubernetes-embedded-resource", []any{true, nil}},
		keyword{"x-kubernetes-int-or-string", []any{true, nil}},
		keyword{"x-kubernetes-list-type", []any{"atomic", "set", "map", "bogus", nil}},
		keyword{"x-kubernetes-list-map-keys", []any{[]any{"name"}, []any{"name", "name"}, []any{}, nil}},
		keyword{"x-kubernetes-map-type", []any{"atomic", "granular", "bogus", nil}},
		keyword{"properties", []any{obj("name", obj("type", "string")), obj("metadata", obj("type", "object")), obj("a", obj()), obj(), nil}},
		keyword{"additionalProperties", []any{true, false, obj("type", "string"), obj(), nil}},
		keyword{"items", []any{obj("type", "string"), obj(), obj("type", "object", "properties", obj("name", obj("type", "string")), "required", []any{"name"}), []any{obj()}, nil}},
		keyword{"anyOf", []any{[]any{obj("type", "integer"), obj("type", "string")}, []any{obj("required", []any{"a"})}, []any{obj("properties", obj("a", obj("minimum", int64(1))))}, nil}},
		keyword{"allOf", []any{[]any{obj("minLength", int64(1))}, []any{obj("default", "a")}, []any{obj("description", "d")}, nil}},
		keyword{"oneOf", []any{[]any{obj("type", "string")}, []any{obj("x-kubernetes-preserve-unknown-fields", true)}, nil}},
		keyword{"not", []any{obj("required", []any{"a"}), obj("nullable", true), obj("additionalProperties", obj()), nil}},
		keyword{"required", []any{[]any{"a"}, []any{}, nil}},
		keyword{"enum", []any{[]any{"a", "b"}, []any{}, nil}},
		keyword{"pattern", []any{"^a$", "(", nil}},
		keyword{"format", []any{"int32", "date-time", "bogus", nil}},
		keyword{"maximum", []any{int64(3), nil}},
		keyword{"minLength", []any{int64(1), int64(-1), nil}},
		keyword{"multipleOf", []any{int64(2), int64(0), nil}},
		keyword{"uniqueItems", []any{true, false}},
		keyword{"description", []any{"text", nil}},
		keyword{"example", []any{"text", nil}},
		keyword{"id", []any{"x", nil}},
		keyword{"$ref", []any{"#/definitions/a", nil}},
		keyword{"$schema", []any{"http://json-schema.org/schema#", nil}},
		keyword{"definitions", []any{obj("a", obj()), nil}},
		keyword{"dependencies", []any{obj("a", []any{"b"}), nil}},
		keyword{"patternProperties", []any{obj("^a", obj()), nil}},
		keyword{"additionalItems", []any{true, false, nil}},
	)
	if v := clone(pick(m.r, k.values...)); v != nil {
		s[k.name] = v
	} else {
		delete(s, k.name)
	}
}

// changeSpec changes a field outside of the schemas.
func (m mutator) changeSpec(crd, spec map[string]any) {
	names, _ := spec["names"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	var version map[string]any
	if len(versions) > 0 {
		version, _ = versions[m.r.IntN(len(versions))].(map[string]any)
	}
	set := func(in map[string]any, key string, values ...any) {
		if in == nil {
			return
		}
		if v := clone(pick(m.r, values...)); v != nil {
			in[key] = v
		} else {
			delete(in, key)
		}
	}
	switch m.r.IntN(22) {
	case 0, 1, 2:
		set(spec, "preserveUnknownFields", true, false, false, nil)
	case 3:
		set(spec, "scope", "Cluster", "Namespaced", "bogus", nil)
	case 4:
		set(spec, "group", "example.com", "nodot", "Bad.Group", nil)
	case 5:
		set(spec, "version", "v1", "v2", "V1", nil)
	case 6:
		set(names, pick(m.r, "plural", "singular", "kind", "listKind"), "things", "Thing", "Bad_", "", nil)
	case 7:
		set(names, pick(m.r, "shortNames", "categories"), []any{"a"}, []any{"A_"}, []any{}, nil)
	case 8:
		set(version, "name", "v1", "v9", "V1", "")
	case 9:
		set(version, pick(m.r, "served", "storage"), true, false)
	case 10:
		set(version, "deprecated", true, nil)
		set(version, "deprecationWarning", "old", "", strings.Repeat("x", 300), nil)
	case 11:
		set(version, "schema", map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}, map[string]any{}, nil)
	case 12:
		spec["versions"] = append(versions, map[string]any{"name": pick(m.r, "v1", "v2", "v1alpha1"), "served": true, "storage": m.r.IntN(3) == 0})
	case 13:
		if len(versions) > 0 {
			i := m.r.IntN(len(versions))
			spec["versions"] = slices.Delete(slices.Clone(versions), i, i+1)
		}
	case 14:
		m.moveSchema(spec, versions)
	case 15:
		set(pick(m.r, spec, version), "subresources", m.subresources(), m.subresources(), nil)
	case 16:
		set(pick(m.r, spec, version), "additionalPrinterColumns", m.columns(), m.columns(), []any{}, nil)
	case 17, 18:
		set(spec, "conversion", m.conversion(), m.conversion(), nil)
	case 19:
		set(spec, "validation", map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}, map[string]any{}, nil)
	case 20:
		meta, _ := crd["metadata"].(map[string]any)
		set(meta, "annotations", map[string]any{"api-approved.kubernetes.io": pick(m.r, "", "unapproved, x", "https://github.com/kubernetes/kubernetes/pull/1", "y")}, nil)
		set(spec, "group", "sub.k8s.io", "x.kubernetes.io", "example.com")
	case 21:
		meta, _ := crd["metadata"].(map[string]any)
		set(meta, "name", "things.example.com", "Bad Name", "")
	}
}

// moveSchema moves the schema from the top to the versions, or back.
func (m mutator) moveSchema(spec map[string]any, versions []any) {
	top := spec["validation"]
	for _, v := range versions {
		v, ok := v.(map[string]any)
		if !ok {
			continue
		}
		if top != nil {
			v["schema"] = clone(top)
			if m.r.IntN(2) == 0 {
				v["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
			}
		} else if v["schema"] != nil {
			spec["validation"] = v["schema"]
			delete(v, "schema")
		}
	}
	if top != nil && len(versions) > 0 && m.r.IntN(4) > 0 {
		delete(spec, "validation")
	}
}

func (m mutator) subresources() map[string]any {
	out := map[string]any{}
	if m.r.IntN(2) == 0 {
		out["status"] = map[string]any{}
	}
	if m.r.IntN(2) == 0 {
		out["scale"] = map[string]any{
			"specReplicasPath":   pick(m.r, ".spec.replicas", ".replicas", "spec", "", ".spec.a[0]"),
			"statusReplicasPath": pick(m.r, ".status.replicas", ".spec.replicas", ""),
			"labelSelectorPath":  pick(m.r, ".status.selector", ".spec.selector", "x", ".metadata.x"),
		}
	}
	return out
}

func (m mutator) columns() []any {
	var out []any
	for range 1 + m.r.IntN(2) {
		out = append(out, map[string]any{
			"name": pick(m.r, "A", "B", ""), "type": pick(m.r, "string", "integer", "date", "bogus", ""),
			"JSONPath": pick(m.r, ".spec.a", ".metadata.creationTimestamp", "x", ".a[", ""), "format": pick(m.r, "", "int32", "bogus"),
		})
	}
	return out
}

func (m mutator) conversion() map[string]any {
	out := map[string]any{"strategy": pick(m.r, "None", "Webhook", "Webhook", "Webhook", "bogus", "")}
	if m.r.IntN(4) > 0 {
		out["webhookClientConfig"] = pick(m.r,
			map[string]any{"url": "https://example.com/x"},
			map[string]any{"url": "http://example.com"},
			map[string]any{"service": map[string]any{"namespace": "n", "name": "s", "port": int64(443)}},
			map[string]any{"service": map[string]any{"namespace": "n", "name": "", "path": "x//y", "port": int64(0)}},
			map[string]any{"url": "https://a", "service": map[string]any{"namespace": "n", "name": "s"}},
			map[string]any{})
	}
	switch m.r.IntN(4) {
	case 0:
		out["conversionReviewVersions"] = []any{"v1beta1"}
	case 1:
		out["conversionReviewVersions"] = []any{"v1", "v1beta1", "v1"}
	case 2:
		out["conversionReviewVersions"] = []any{"v9", "B_"}
	}
	return out
}
