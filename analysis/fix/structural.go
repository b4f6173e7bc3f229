package fix

import (
	"slices"

	"espalier.dev/schema"
)

// Keywords that the rewriter sets.
const (
	preserve      = "x-kubernetes-preserve-unknown-fields"
	embedded      = "x-kubernetes-embedded-resource"
	intOrStringKW = "x-kubernetes-int-or-string"
)

// rewriter makes schemas structural, in place.
type rewriter struct {
	sem schema.Semantics
	// keepAll reports whether the old CRD prunes nothing, and the new one must not either.
	keepAll bool
	// note is called for each part that the rewritten schema leaves open or no longer
	// states.
	note func(kind noteKind, at []string, keyword string)
}

// noteKind is the kind of a note about a rewritten schema.
type noteKind int

const (
	// leftOpen is a value without a known type.
	leftOpen noteKind = iota
	// weakened is a condition that accepts more than before.
	weakened
	// dropped is a keyword that is removed together with its condition.
	dropped
)

// role is the role of a schema outside of logical operators.
type role int

const (
	anyRole role = iota
	rootRole
	// nameRole is the role of apiVersion and kind of a resource, metadataRole that of its
	// metadata.
	nameRole
	metadataRole
	rootMetadataRole
	// keyRole is the role of the items of a list of type set or map. They must not be null.
	keyRole
)

// root rewrites the schema of a version.
func (r *rewriter) root(s node, at []string) { r.core(s, outlineOf(s), rootRole, at) }

// core rewrites a schema outside of logical operators, and everything below it. o is the
// outline of its values. An empty s is filled in from o.
func (r *rewriter) core(s node, o *outline, as role, at []string) {
	if o == nil {
		o = &outline{null: true}
	}
	had := s[preserve] == true
	r.plain(s, at)
	typ := r.typ(s, o, as, at)
	closed := r.shape(s, o, typ, as, at)
	r.fields(s, o, typ, as, at)
	r.items(s, o, typ, at)
	r.operators(s, place{s, typ, as == rootRole}, true, func(keyword string) { r.note(weakened, at, keyword) })
	switch {
	case as == rootMetadataRole:
		r.rootMetadata(s, at)
	case r.keepAll && !closed && (typ == "object" || typ == "") && as != metadataRole && schemaOf(s["additionalProperties"]) == nil:
		s[preserve] = true
	}
	if s[preserve] == true && (r.keepAll || !had) && s["additionalProperties"] == true {
		delete(s, "additionalProperties") // kube-apiserver would prune below
	}
}

// plain removes draft-4 keywords that the OpenAPI of a CRD does not have.
func (r *rewriter) plain(s node, at []string) {
	for _, k := range []string{"id", "$schema", "definitions"} {
		delete(s, k)
	}
	for _, k := range []string{"$ref", "patternProperties", "dependencies"} {
		if _, ok := s[k]; ok {
			delete(s, k)
			r.note(dropped, at, k)
		}
	}
	if s["uniqueItems"] == true {
		delete(s, "uniqueItems")
		r.note(dropped, at, "uniqueItems")
	}
	if _, ok := s["items"].([]any); ok {
		delete(s, "items") // restored from the outline
		r.note(dropped, at, "items")
	}
	delete(s, "additionalItems")
	t, ok := s["type"]
	if name, _ := t.(string); !ok || isType(name) {
		return
	}
	typ, null := statedType(s)
	delete(s, "type")
	switch typ {
	case "":
		if t != "" && t != nil {
			r.note(dropped, at, "type")
		}
		return
	case intOrString:
		s[intOrStringKW] = true
	default:
		s["type"] = typ
	}
	if null {
		s["nullable"] = true
	}
}

// typ ensures that s has a type or is marked as open, and returns the type.
func (r *rewriter) typ(s node, o *outline, as role, at []string) string {
	stated, _ := statedType(s)
	must := ""
	switch {
	case as == rootRole || as == metadataRole || as == rootMetadataRole:
		must = "object"
	case as == nameRole:
		must = "string"
	case stated != "":
	case s[embedded] == true || s["x-kubernetes-map-type"] != nil:
		must = "object"
	case s["x-kubernetes-list-type"] != nil || s["x-kubernetes-list-map-keys"] != nil:
		must = "array"
	}
	if as == rootRole {
		delete(s, "nullable")
	}
	if must != "" {
		if stated != must {
			delete(s, intOrStringKW)
			s["type"] = must
		}
		return must
	}
	if stated != "" {
		return stated
	}
	typ := o.typ
	if s[preserve] == true {
		typ = ""
		if !r.keepAll {
			return typ // already structural
		}
	}
	switch typ {
	case "":
		if s[preserve] != true {
			s[preserve] = true
			r.note(leftOpen, at, "type")
		}
	case intOrString:
		s[intOrStringKW] = true
	default:
		s["type"] = typ
	}
	if o.null && as != keyRole {
		s["nullable"] = true
	}
	return typ
}

// shape keeps one description of the fields of an object: either properties or
// additionalProperties. closed reports whether additional fields were rejected.
func (r *rewriter) shape(s node, o *outline, typ string, as role, at []string) (closed bool) {
	ap, isMap := s["additionalProperties"]
	resource := as == rootRole || s[embedded] == true
	props, _ := s["properties"].(map[string]any)
	switch {
	case isMap && (resource || len(props) > 0 && ap != true):
		delete(s, "additionalProperties")
		closed = ap == false && !o.open
		if !closed && (typ == "object" || typ == "") {
			s[preserve] = true
		}
		if sub := schemaOf(ap); ap == false || len(sub) > 0 {
			r.note(dropped, at, "additionalProperties")
		}
	case isMap:
		r.values(s, o, at)
	case o.open && (typ == "object" || typ == "") && as != metadataRole && as != rootMetadataRole:
		s[preserve] = true
	}
	if s[embedded] == true && len(props) == 0 {
		s[preserve] = true
	}
	return closed
}

// values rewrites the schema of the values of a map. It also covers the fields that only
// logical operators name.
func (r *rewriter) values(s node, o *outline, at []string) {
	values := o.values
	props, _ := s["properties"].(map[string]any)
	for _, name := range sortedKeys(o.fields) {
		if _, ok := props[name]; !ok {
			values = both(values, o.fields[name].loose())
		}
	}
	if sub := schemaOf(s["additionalProperties"]); sub != nil {
		r.core(sub, values, anyRole, below(at, "additionalProperties"))
	} else if values != nil {
		s[preserve] = true
	}
}

// fields rewrites the fields that s specifies, and adds those that only its logical
// operators specify.
func (r *rewriter) fields(s node, o *outline, typ string, as role, at []string) {
	props, _ := s["properties"].(map[string]any)
	_, isMap := s["additionalProperties"]
	add := (typ == "object" || typ == "") && !isMap
	names := sortedKeys(props)
	for _, name := range sortedKeys(o.fields) {
		if _, ok := props[name]; !ok && add && !(as == rootRole && name == "metadata") {
			names = append(names, name)
		}
	}
	if len(names) > 0 && props == nil {
		props = map[string]any{}
		s["properties"] = props
	}
	for _, name := range names {
		f := schemaOf(props[name])
		if f == nil {
			f = node{}
			props[name] = f
		}
		r.core(f, o.fields[name], fieldRole(s, as, name), below(at, "properties", name))
	}
}

func fieldRole(parent node, as role, name string) role {
	if as == rootRole || parent[embedded] == true {
		switch {
		case name == "apiVersion" || name == "kind":
			return nameRole
		case name == "metadata" && as == rootRole:
			return rootMetadataRole
		case name == "metadata":
			return metadataRole
		}
	}
	return anyRole
}

func (r *rewriter) items(s node, o *outline, typ string, at []string) {
	items := schemaOf(s["items"])
	if items == nil {
		if typ != "array" && (typ != "" || o.items == nil) {
			return
		}
		items = node{}
		s["items"] = items
	}
	as := anyRole
	if t := s["x-kubernetes-list-type"]; t == "set" || t == "map" {
		as = keyRole
	}
	r.core(items, o.items, as, below(at, "items"))
	switch t, _ := statedType(items); {
	case s["x-kubernetes-list-type"] != "set":
	// The whole value identifies an item of a set, so items cannot be merged.
	case t == "object":
		items["x-kubernetes-map-type"] = "atomic"
	case t == "array" && items["x-kubernetes-list-type"] != nil:
		items["x-kubernetes-list-type"] = "atomic"
	}
}

// hasLooseSets reports whether there is a set whose items are merged, which v1 rejects.
func hasLooseSets(s node) bool {
	items := schemaOf(s["items"])
	if s["x-kubernetes-list-type"] == "set" && items != nil {
		switch t, _ := statedType(items); t {
		case "object":
			if items["x-kubernetes-map-type"] != "atomic" {
				return true
			}
		case "array":
			if kind, ok := items["x-kubernetes-list-type"]; ok && kind != "atomic" {
				return true
			}
		}
	}
	for _, f := range schemas(s["properties"]) {
		if hasLooseSets(f) {
			return true
		}
	}
	values := schemaOf(s["additionalProperties"])
	return items != nil && hasLooseSets(items) || values != nil && hasLooseSets(values)
}

// rootMetadata reduces the schema of an object's metadata to the constraints that a CRD may
// state: those on names. The API server validates the types of the other fields.
func (r *rewriter) rootMetadata(s node, at []string) {
	for _, k := range sortedKeys(s) {
		switch k {
		case "type":
		case "properties":
			props, _ := s[k].(map[string]any)
			for _, name := range sortedKeys(props) {
				if name == "name" || name == "generateName" {
					continue
				}
				if f := schemaOf(props[name]); slices.ContainsFunc(sortedKeys(f), func(k string) bool { return k != "required" && isCondition(k) }) {
					r.note(dropped, below(at, k), name)
				}
				delete(props, name)
			}
			if len(props) == 0 {
				delete(s, k)
			}
		default:
			delete(s, k)
			if isCondition(k) {
				r.note(dropped, at, k)
			}
		}
	}
}

// isCondition reports whether a keyword can reject a value of the right type.
func isCondition(keyword string) bool {
	switch keyword {
	case "type", "format", "properties", "items", "additionalProperties", "nullable", preserve, "x-kubernetes-map-type":
		return false
	}
	return !isDocumentation(keyword)
}

func isDocumentation(keyword string) bool {
	switch keyword {
	case "description", "title", "example", "externalDocs", "default", "readOnly":
		return true
	}
	return false
}

// below returns the path extended by tokens.
func below(at []string, tokens ...string) []string { return slices.Concat(at, tokens) }
