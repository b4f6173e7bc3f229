package fix

import (
	"maps"
	"slices"
)

// verdict is the effect of rewriting a condition.
type verdict int

const (
	// same accepts the same values, together with the schema outside of logical operators.
	same verdict = iota
	// weaker accepts more.
	weaker
	// never means that the condition accepts no value.
	never
)

// and returns the verdict on the conjunction of two conditions.
func (v verdict) and(w verdict) verdict { return max(v, w) }

// place is a schema outside of logical operators, whose values the logical operators
// constrain.
type place struct {
	core node
	typ  string
	root bool
}

// field returns the place of a field, or nil if it is not specified.
func (p place) field(name string) *place {
	props, _ := p.core["properties"].(map[string]any)
	return placeOf(schemaOf(props[name]))
}

func placeOf(s node) *place {
	if s == nil {
		return nil
	}
	typ, _ := statedType(s)
	return &place{core: s, typ: typ}
}

// mayBe reports whether values at the place can have a type.
func (p place) mayBe(typ string) bool { return p.typ == "" || p.typ == typ }

// operators rewrites the logical operators of s, which constrain the values at p. It calls
// tell for each one that becomes weaker. top is set if s is the schema at p or the first
// part of its allOf, where the two types of int-or-string are allowed.
func (r *rewriter) operators(s node, p place, top bool, tell func(keyword string)) (out verdict) {
	r.pairs(s, p, top)
	record := func(keyword string, v verdict) {
		out = out.and(v)
		if v == weaker {
			tell(keyword)
		}
	}
	if list := schemaList(s["allOf"]); len(list) > 0 {
		kept, v := r.parts(list, p, top)
		put(s, "allOf", kept)
		record("allOf", v)
	}
	if list := schemaList(s["anyOf"]); len(list) > 0 && !(top && p.typ == intOrString && isPair(list)) {
		kept, v := r.branches(list, p, false)
		put(s, "anyOf", kept)
		record("anyOf", v)
	}
	if list := schemaList(s["oneOf"]); len(list) > 0 {
		kept, v := r.branches(list, p, true)
		if v == weaker {
			// Without the types, more than one branch may accept a value.
			delete(s, "oneOf")
			addAnyOf(s, kept)
		} else {
			put(s, "oneOf", kept)
		}
		record("oneOf", v)
	}
	if not := schemaOf(s["not"]); not != nil {
		if v := r.nested(not, p, true, false); v != same {
			delete(s, "not")
			if v == weaker {
				record("not", weaker)
			}
		}
	}
	return out
}

// pairs rewrites the two types of int-or-string to the allowed form, and removes them where
// they are not allowed: the place has the type already.
func (r *rewriter) pairs(s node, p place, top bool) {
	if p.typ != intOrString {
		return
	}
	for _, k := range []string{"oneOf", "anyOf"} {
		switch {
		case !isPair(schemaList(s[k])):
		case top && (k == "anyOf" || s["anyOf"] == nil):
			delete(s, k)
			s["anyOf"] = []any{node{"type": "integer"}, node{"type": "string"}}
		default:
			delete(s, k)
		}
	}
}

// isPair reports whether the branches are exactly the types integer and string.
func isPair(branches []node) bool {
	if len(branches) != 2 || len(branches[0]) != 1 || len(branches[1]) != 1 {
		return false
	}
	a, b := branches[0]["type"], branches[1]["type"]
	return a == "integer" && b == "string" || a == "string" && b == "integer"
}

// put sets a list of schemas, or removes the keyword if the list is empty.
func put(s node, keyword string, list []node) {
	if len(list) == 0 {
		delete(s, keyword)
		return
	}
	values := make([]any, len(list))
	for i := range list {
		values[i] = list[i]
	}
	s[keyword] = values
}

// addAnyOf adds an anyOf to s, which may have one already.
func addAnyOf(s node, branches []node) {
	switch {
	case len(branches) == 0:
	case s["anyOf"] == nil:
		put(s, "anyOf", branches)
	default:
		wrapped := node{}
		put(wrapped, "anyOf", branches)
		put(s, "allOf", append(schemaList(s["allOf"]), wrapped))
	}
}

// parts rewrites the schemas of an allOf, and omits those that no longer have any
// condition.
func (r *rewriter) parts(list []node, p place, top bool) (kept []node, out verdict) {
	for i, n := range list {
		wasEmpty := len(n) == 0
		out = out.and(r.nested(n, p, true, top && i == 0))
		if len(n) > 0 || wasEmpty {
			kept = append(kept, n)
		}
	}
	return kept, out
}

// branches rewrites the schemas of an anyOf or oneOf. It omits branches that accept
// nothing, and all branches if one accepts everything.
func (r *rewriter) branches(list []node, p place, exactlyOne bool) (kept []node, out verdict) {
	hadEmpty := slices.ContainsFunc(list, func(n node) bool { return len(n) == 0 })
	for _, n := range list {
		if v := r.nested(n, p, true, false); v != never {
			out = out.and(v)
			kept = append(kept, n)
		}
	}
	if len(kept) == 0 {
		return []node{nothing()}, never
	}
	if (out == weaker || !exactlyOne) && !hadEmpty && slices.ContainsFunc(kept, func(n node) bool { return len(n) == 0 }) {
		kept = nil
	}
	return kept, out
}

// nothing returns a schema that accepts no value.
func nothing() node { return node{"not": node{}} }

// nested rewrites a schema below a logical operator, which constrains the values at p.
// direct is set if it constrains the same value as the operator, and not a field or item of
// it.
func (r *rewriter) nested(n node, p place, direct, top bool) verdict {
	out := r.nestedType(n, p, direct)
	for _, k := range sortedKeys(n) {
		switch k {
		case "description", "title", "default", "readOnly", "nullable", "id", "$schema", "definitions", "additionalItems", preserve:
			delete(n, k) // these keywords reject nothing
		case "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-unions",
			"x-kubernetes-validations", embedded, "$ref", "patternProperties", "dependencies":
			delete(n, k)
			out = out.and(weaker)
		case "uniqueItems":
			if n[k] == true {
				delete(n, k)
				out = out.and(weaker)
			}
		case "additionalProperties":
			if n[k] == false && n["properties"] == nil {
				continue
			}
			if n[k] != true && p.mayBe("object") {
				out = out.and(weaker)
			}
			delete(n, k)
		}
	}
	out = out.and(r.nestedFields(n, p))
	out = out.and(r.nestedItems(n, p))
	out = out.and(r.operators(n, p, top, func(string) {}))
	if out == never {
		clear(n)
		maps.Copy(n, nothing())
	}
	return out
}

// nestedType removes the type of a schema under a logical operator.
func (r *rewriter) nestedType(n node, p place, direct bool) verdict {
	_, stated := n["type"]
	if !stated && n[intOrStringKW] == nil {
		return same
	}
	t, null := statedType(n)
	delete(n, "type")
	delete(n, intOrStringKW)
	out := same
	if _, ok := n["format"]; ok && t != "string" {
		// Without the type, the format would apply to values of other types.
		delete(n, "format")
		out = weaker
	}
	// For null, only the type and the enum are checked.
	nullable := !direct && p.core["nullable"] == true
	if nullable && !null {
		out = weaker
	}
	switch {
	case t == p.typ && t != "" || narrower(p.typ, t):
		return out
	case t == "" || p.typ == "" || meetTypes(p.typ, t) != p.typ || nullable:
		return weaker
	}
	return never
}

// nestedFields rewrites the field schemas of a schema below a logical operator.
func (r *rewriter) nestedFields(n node, p place) (out verdict) {
	props, ok := n["properties"].(map[string]any)
	if !ok {
		return same
	}
	for _, name := range sortedKeys(props) {
		f, field := schemaOf(props[name]), p.field(name)
		if f == nil {
			f = node{}
			props[name] = f
		}
		switch {
		case !p.mayBe("object"):
			delete(props, name) // values of this type have no fields
		case field == nil || name == "metadata" && (p.root || r.sem.RefusesEmbeddedMetadataInJunctors()):
			delete(props, name)
			if len(f) > 0 {
				out = out.and(weaker)
			}
		default:
			wasEmpty := len(f) == 0
			out = out.and(r.part(f, *field))
			if len(f) == 0 && !wasEmpty {
				delete(props, name) // no condition is left
			}
		}
	}
	if len(props) == 0 {
		delete(n, "properties")
	}
	return out
}

// nestedItems rewrites the item schema of a schema below a logical operator.
func (r *rewriter) nestedItems(n node, p place) verdict {
	if _, ok := n["items"]; !ok {
		return same
	}
	items, at := schemaOf(n["items"]), placeOf(schemaOf(p.core["items"]))
	switch {
	case !p.mayBe("array"):
		delete(n, "items") // values of this type have no items
		return same
	case items == nil || at == nil:
		delete(n, "items")
		return weaker
	}
	wasEmpty := len(items) == 0
	v := r.part(items, *at)
	if len(items) == 0 && !wasEmpty {
		delete(n, "items") // no condition is left
	}
	return v
}

// part rewrites the schema of a field or of items below a logical operator. If it accepts
// nothing, values without that field or item are still accepted, and so is null, to which
// logical operators do not apply.
func (r *rewriter) part(n node, p place) verdict {
	switch v := r.nested(n, p, false, false); {
	case v != never:
		return v
	case p.core["nullable"] == true:
		return weaker
	}
	return same
}
