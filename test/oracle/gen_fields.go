package oracle

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	engine "espalier.dev/schema"
)

// fieldsCRD generates a CRD for sequences of writes. Its versions have schemas that differ in
// some fields, or not at all.
func (g *gen) fieldsCRD() map[string]any {
	schema := g.fieldsSchema()
	versions := []any{}
	for i := range 1 + g.weighted(60, 30, 10) {
		if i > 0 && g.chance(50) {
			schema = cloneAny(schema).(map[string]any)
			props := schema["properties"].(map[string]any)
			spec := g.objectSchema(1)
			if g.chance(70) { // a small change
				spec = props["spec"].(map[string]any)
				fields, _ := spec["properties"].(map[string]any)
				if len(fields) > 1 {
					delete(fields, pick(g, sortedKeys(fields)))
				}
			}
			props["spec"] = spec
		}
		versions = append(versions, map[string]any{
			"name": fmt.Sprint("v", i+1), "served": true, "storage": i == 0,
			"schema":       map[string]any{"openAPIV3Schema": schema},
			"subresources": map[string]any{"status": map[string]any{}},
		})
	}
	names := map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
	return map[string]any{
		"metadata": map[string]any{"name": "things.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Cluster", "names": names, "versions": versions,
			"conversion": map[string]any{"strategy": "None"},
		},
	}
}

func (g *gen) fieldsSchema() map[string]any {
	g.room = 40
	root := g.rootSchema()
	props, _ := root["properties"].(map[string]any)
	if props == nil {
		props = map[string]any{}
		root["properties"] = props
	}
	delete(root, "additionalProperties")
	props["spec"] = g.objectSchema(1)
	props["status"] = g.objectSchema(2)
	if g.chance(60) {
		list := object("type", "array")
		g.listMap(list, 2)
		spec := props["spec"].(map[string]any)
		if spec["properties"] == nil {
			spec["properties"] = map[string]any{}
		}
		spec["properties"].(map[string]any)["items"] = list
		delete(spec, "additionalProperties")
	}
	return root
}

// fieldSequence generates writes to one object.
type fieldSequence struct {
	*gen
	crd      map[string]any
	managers *fieldManagers
	schemas  map[string]map[string]any // by version
	// calm is set if most writes are valid, and most configurations have the fields of those
	// before them: the writes that need no stock field manager.
	calm bool
	// stored is the object, in the version of the last write, or nil.
	stored map[string]any
	// configs are the configurations that managers have applied last.
	configs map[string]map[string]any
}

func (g *gen) fieldSequence(tree map[string]any, m *fieldManagers) *fieldSequence {
	s := &fieldSequence{gen: g, configs: map[string]map[string]any{}, calm: g.chance(40)}
	s.define(tree, m)
	return s
}

// define sets the CRD.
func (s *fieldSequence) define(tree map[string]any, m *fieldManagers) {
	s.crd, s.managers, s.schemas = tree, m, map[string]map[string]any{}
	for _, v := range tree["spec"].(map[string]any)["versions"].([]any) {
		version := v.(map[string]any)
		s.schemas[version["name"].(string)] = version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	}
}

// redefine changes the CRD under the object, if the server accepts the change.
func (s *fieldSequence) redefine() {
	tree := cloneAny(s.crd).(map[string]any)
	spec := tree["spec"].(map[string]any)
	versions := spec["versions"].([]any)
	if len(versions) > 1 && s.chance(20) {
		versions = versions[:len(versions)-1]
		spec["versions"] = versions
	}
	for _, v := range versions {
		schema := v.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		s.changeTypes(schema["properties"].(map[string]any)["spec"].(map[string]any))
	}
	if m, err := newFieldManagers(tree); err == nil {
		s.define(tree, m)
	}
}

// changeTypes changes how some values merge, and which fields exist.
func (s *fieldSequence) changeTypes(schema map[string]any) {
	props, _ := schema["properties"].(map[string]any)
	for _, name := range sortedKeys(props) {
		if child, ok := props[name].(map[string]any); ok {
			s.changeTypes(child)
		}
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if child, ok := schema[name].(map[string]any); ok {
			s.changeTypes(child)
		}
	}
	if !s.chance(25) {
		return
	}
	switch schema["type"] {
	case "object":
		switch s.weighted(50, 25, 25) {
		case 0:
			if schema["x-kubernetes-map-type"] == "atomic" {
				delete(schema, "x-kubernetes-map-type")
			} else {
				schema["x-kubernetes-map-type"] = "atomic"
			}
		case 1:
			if len(props) > 1 {
				delete(props, pick(s.gen, sortedKeys(props)))
			}
		case 2:
			delete(schema, "properties")
			delete(schema, "additionalProperties")
			schema["x-kubernetes-preserve-unknown-fields"] = true
		}
	case "array":
		switch schema["x-kubernetes-list-type"] {
		case "set", "map":
			delete(schema, "x-kubernetes-list-type")
			delete(schema, "x-kubernetes-list-map-keys")
		default:
			schema["x-kubernetes-list-type"] = "set"
		}
	}
}

var fieldManagerNames = []string{"a", "b", "c", "kubectl", "d<>", "", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8"}

// next generates the next write.
func (s *fieldSequence) next() fieldStep {
	step := fieldStep{endpoint: pick(s.gen, s.managers.endpoints), manager: pick(s.gen, fieldManagerNames[:4+s.weighted(80, 15, 5)*5])}
	if s.chance(70) || s.calm && s.chance(70) {
		step.endpoint = s.managers.endpoints[0]
	}
	kind := step.endpoint.kind()
	step.live = map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind}
	schema := s.schemas[step.endpoint.version]
	if s.stored != nil {
		step.live = s.normal(s.stored, step.endpoint)
	} else {
		step.endpoint.subresource = ""
	}
	step.apply = s.chance(55)
	step.force = s.chance(60)
	if !step.apply {
		step.obj = s.written(schema, step.live)
		if s.calm || s.chance(90) {
			step.obj = s.straighten(schema, step.obj).(map[string]any)
		}
		step.obj = s.normal(step.obj, step.endpoint)
		s.oddOwners(step.obj)
		return step
	}
	key := step.manager + step.endpoint.version + step.endpoint.subresource
	config := s.configs[key]
	switch {
	case config == nil || !s.calm && s.chance(15):
		config = s.whole(schema, step.endpoint)
	case s.chance(50):
		config = s.tweaked(schema, runtime.DeepCopyJSON(config))
	}
	if !s.calm && s.chance(15) && s.stored != nil {
		config = runtime.DeepCopyJSON(step.live) // takes over everything
		config["metadata"] = map[string]any{"name": "foo"}
	}
	if s.calm || s.chance(90) {
		config = s.straighten(schema, config).(map[string]any)
	}
	config["apiVersion"], config["kind"] = kind.GroupVersion().String(), kind.Kind
	s.configs[key] = config
	step.obj = runtime.DeepCopyJSON(config)
	if s.calm || s.chance(80) {
		step.obj = s.normal(step.obj, step.endpoint)
	}
	if !s.calm && s.chance(1) {
		step.obj["apiVersion"] = "example.com/other"
	}
	return step
}

// normal returns an object in a version, mostly as the server decodes it.
func (s *fieldSequence) normal(obj map[string]any, e endpoint) map[string]any {
	out := runtime.DeepCopyJSON(obj)
	out["apiVersion"] = e.kind().GroupVersion().String()
	if !s.calm && s.chance(4) {
		return out // with fields that are not in the schema
	}
	program, err := s.managers.definition.Version(e.version).Program()
	if err != nil {
		return out
	}
	if _, err := program.Normalize(out, engine.DecodeOptions{FromStorage: true, WithoutDefaults: s.chance(50)}); err != nil {
		return runtime.DeepCopyJSON(obj)
	}
	return out
}

// whole generates an object.
func (s *fieldSequence) whole(schema map[string]any, e endpoint) map[string]any {
	obj, ok := s.value(s.constraints(schema), 0).(map[string]any)
	if !ok {
		obj = map[string]any{}
	}
	obj["apiVersion"], obj["kind"] = e.kind().GroupVersion().String(), e.kind().Kind
	obj["metadata"] = s.fieldsMeta(map[string]any{"name": "foo"})
	return obj
}

// fieldsMeta changes metadata that has owners.
func (s *fieldSequence) fieldsMeta(metadata map[string]any) map[string]any {
	switch s.weighted(40, 20, 10, 15, 10, 5) {
	case 1:
		metadata["labels"] = map[string]any{pick(s.gen, mapKeys[:3]): pick(s.gen, []any{"x", "y"})}
	case 2:
		metadata["annotations"] = map[string]any{pick(s.gen, mapKeys[:3]): "x"}
		if s.chance(30) {
			metadata["annotations"].(map[string]any)["kubectl.kubernetes.io/last-applied-configuration"] = string(mustJSON(map[string]any{
				"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "foo"}, "spec": map[string]any{}}))
		}
	case 3:
		metadata["finalizers"] = []any{pick(s.gen, []any{"a/b", "c/d"}), "e/f"}
	case 4:
		metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pick(s.gen, []any{"1", "2"})}}
	case 5:
		delete(metadata, pick(s.gen, []string{"labels", "annotations", "finalizers"}))
	}
	return metadata
}

// written returns the object that an update or a patch writes.
func (s *fieldSequence) written(schema, live map[string]any) map[string]any {
	obj := runtime.DeepCopyJSON(live)
	metadata, ok := obj["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{"name": "foo"}
	}
	obj["metadata"] = s.fieldsMeta(metadata)
	if len(live) <= 2 || s.chance(10) {
		generated, _ := s.value(s.constraints(schema), 0).(map[string]any)
		for name, v := range generated {
			if !metaName(name) {
				obj[name] = v
			}
		}
	}
	for range s.weighted(20, 40, 30, 10) {
		obj = s.tweaked(schema, obj)
	}
	if !s.calm && s.chance(3) {
		var v any = obj
		s.mutate(&v, 1)
	}
	if metadata, ok := obj["metadata"].(map[string]any); !ok {
		obj["metadata"] = map[string]any{"name": "foo"}
	} else if s.chance(50) {
		delete(metadata, "managedFields")
	}
	return obj
}

// oddOwners sometimes writes managedFields that a client would not.
func (s *fieldSequence) oddOwners(obj map[string]any) {
	metadata, ok := obj["metadata"].(map[string]any)
	if !ok || s.calm || !s.chance(4) {
		return
	}
	entries, _ := metadata["managedFields"].([]any)
	if s.chance(40) {
		metadata["managedFields"] = pick(s.gen, []any{[]any{}, []any{map[string]any{}}, nil, "x", []any{"x"}, []any{map[string]any{"manager": int64(1)}}})
		return
	}
	if len(entries) == 0 {
		return
	}
	entry, ok := pick(s.gen, entries).(map[string]any)
	if !ok {
		return
	}
	odd := pick(s.gen, []map[string]any{
		{"operation": "Delete"}, {"apiVersion": ""}, {"apiVersion": "example.com/v0"}, {"apiVersion": "example.com/v2"}, {"fieldsType": "FieldsV2"}, {"fieldsType": ""}, {"time": nil}, {"manager": ""},
		{"time": "2020-01-01T00:00:00+02:00"}, {"time": "2020-01-01T00:00:00.5Z"}, {"time": "soon"}, {"subresource": "status"}, {"operation": "Apply"}, {"operation": "Update"},
		{"unknown": "x"}, {"fieldsV1": map[string]any{}}, {"fieldsV1": nil},
		{"fieldsV1": map[string]any{"f:spec": map[string]any{".": map[string]any{}}}},
		{"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:managedFields": map[string]any{}, "f:labels": map[string]any{"f:a": map[string]any{}}}}},
		{"fieldsV1": map[string]any{"f:spec": map[string]any{"f:items": map[string]any{`k:{"name": "a"}`: map[string]any{}, `k:{"name":"b"}`: map[string]any{".": map[string]any{}, "f:name": map[string]any{}}}}}},
		{"fieldsV1": map[string]any{"f:spec": map[string]any{"v:1": map[string]any{}, "v:1.0": map[string]any{}, "i:3": map[string]any{}, `v:"é"`: map[string]any{}}}},
		{"fieldsV1": map[string]any{"x": map[string]any{}}},
		{"fieldsV1": map[string]any{"f:spec": map[string]any{"x:": map[string]any{}, "f:a": map[string]any{"f:b": map[string]any{}}}}},
	})
	maps.Copy(entry, runtime.DeepCopyJSON(odd))
}

// tweaked changes a few fields of an object.
func (s *fieldSequence) tweaked(schema, obj map[string]any) map[string]any {
	props, _ := schema["properties"].(map[string]any)
	names := []string{}
	for _, name := range sortedKeys(props) {
		if !metaName(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return obj
	}
	name := pick(s.gen, names)
	if s.chance(60) {
		name = "spec"
	}
	child, _ := props[name].(map[string]any)
	if v, ok := obj[name]; ok {
		if !s.calm && s.chance(8) {
			delete(obj, name)
			return obj
		}
		obj[name] = s.tweak(child, v, 1)
	} else {
		obj[name] = s.value(s.constraints(child), 1)
	}
	return obj
}

func (s *fieldSequence) tweak(schema map[string]any, v any, depth int) any {
	if schema == nil || s.chance(12) && !s.calm {
		return s.value(s.constraints(schema), depth)
	}
	switch v := v.(type) {
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		element, _ := schema["additionalProperties"].(map[string]any)
		var names []string
		if len(props) > 0 {
			names = sortedKeys(props)
		} else {
			names = append(sortedKeys(v), pick(s.gen, mapKeys))
		}
		name := pick(s.gen, names)
		child, ok := props[name].(map[string]any)
		if !ok {
			child = element
		}
		switch old, ok := v[name]; {
		case !ok:
			v[name] = s.value(s.constraints(child), depth+1)
		case !s.calm && s.chance(20):
			delete(v, name)
		case s.chance(4) || s.calm && s.chance(6):
			v[name] = pick(s.gen, []any{nil, map[string]any{}, []any{}})
		default:
			v[name] = s.tweak(child, old, depth+1)
		}
		return v
	case []any:
		items, _ := schema["items"].(map[string]any)
		i := s.r.IntN(len(v) + 1)
		switch {
		case i == len(v) || s.chance(15):
			item := s.value(s.constraints(items), depth+1)
			return append(v[:i:i], append([]any{item}, v[i:]...)...)
		case !s.calm && s.chance(20):
			return append(v[:i:i], v[i+1:]...)
		case !s.calm && s.chance(15):
			v[0], v[i] = v[i], v[0]
		case !s.calm && s.chance(3):
			return append(v, cloneAny(v[i]))
		default:
			v[i] = s.tweak(items, v[i], depth+1)
		}
		return v
	}
	return s.value(s.constraints(schema), depth)
}

// straighten makes a value one that field managers accept: of the type in the schema, without
// duplicate items. Mostly, keys of items become simple.
func (s *fieldSequence) straighten(schema map[string]any, v any) any {
	if v == nil || schema == nil {
		return v
	}
	switch schema["type"] {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return map[string]any{}
		}
		props, _ := schema["properties"].(map[string]any)
		element, _ := schema["additionalProperties"].(map[string]any)
		for _, name := range sortedKeys(m) {
			child, ok := props[name].(map[string]any)
			if !ok {
				child = element
			}
			m[name] = s.straighten(child, m[name])
		}
		return m
	case "array":
		list, _ := v.([]any)
		return s.straightItems(schema, list)
	case "string":
		if _, ok := v.(string); !ok {
			return "a"
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return true
		}
	case "integer", "number":
		switch v.(type) {
		case int64, float64:
		default:
			return int64(1)
		}
	}
	return v
}

func (s *fieldSequence) straightItems(schema map[string]any, list []any) []any {
	items, _ := schema["items"].(map[string]any)
	keys, _ := schema["x-kubernetes-list-map-keys"].([]any)
	out, seen := []any{}, map[string]bool{}
	for _, item := range list {
		item = s.straighten(items, item)
		identity := item
		switch schema["x-kubernetes-list-type"] {
		case "set":
			switch item.(type) {
			case nil, map[string]any, []any:
				continue
			case float64:
				item = int64(1)
			}
			identity = item
		case "map":
			m, ok := item.(map[string]any)
			if !ok {
				continue
			}
			values := []any{}
			for i, k := range keys {
				key := k.(string)
				props, _ := items["properties"].(map[string]any)
				typ, _ := props[key].(map[string]any)
				_, ok := m[key]
				if !ok && i == 0 || ok && !s.chance(3) {
					var value any
					switch typ["type"] {
					case "integer", "number":
						value = pick(s.gen, []any{int64(1), int64(2), int64(-3)})
					case "boolean":
						value = s.chance(50)
					default:
						value = pick(s.gen, []any{"x", "y", "z-1"})
					}
					if old, ok := m[key]; !ok || !simpleKeyValue(old) {
						m[key] = value
					}
				}
				if v, ok := m[key]; ok {
					values = append(values, v)
				} else {
					values = append(values, typ["default"])
				}
			}
			identity = values
		default:
			out = append(out, item)
			continue
		}
		if text := string(mustJSON(identity)); !seen[text] {
			seen[text] = true
			out = append(out, item)
		}
	}
	return out
}

// simpleKeyValue reports whether a key of an item is one of those that straightItems picks.
func simpleKeyValue(v any) bool {
	switch v {
	case "x", "y", "z-1", int64(1), int64(2), int64(-3), true, false:
		return true
	}
	return false
}
