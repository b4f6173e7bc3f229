package fix

import (
	"maps"
	"slices"
)

// verdict says what became of a condition.
type verdict int

const (
	// same accepts what it accepted, together with what is said outside of logical operators.
	same verdict = iota
	// weaker accepts more.
	weaker
	// never accepted anything.
	never
)

// and is the verdict on two conditions that must both hold.
func (v verdict) and(w verdict) verdict { return max(v, w) }

// place is a schema outside of logical operators, for what logical operators say about its values.
type place struct {
	core node
	typ  string
	root bool
}

// field is the place of a field, or nil if it is not specified.
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

// mayBe reports whether values there can have a type.
func (p place) mayBe(typ string) bool { return p.typ == "" || p.typ == typ }

// logical operators rewrites the logical operators of s, which are about the values at p. It tells which
// of them are weaker than they were. top says that s is the schema at p, or the first part
// of its allOf: there, the two types of int-or-string may stay.
func (r *rewriter) junctors(s node, p place, top bool, tell func(keyword string)) (out verdict) {
	r.pairs(s, p, top)
	judge := func(keyword string, v verdict) {
		out = out.and(v)
		if v == weaker {
			tell(keyword)
		}
	}
	if list := schemaList(s["allOf"]); len(list) > 0 {
		kept, v := r.parts(list, p, top)
		put(s, "allOf", kept)
		judge("allOf", v)
	}
	if list := schemaList(s["anyOf"]); len(list) > 0 && !(top && p.typ == intOrString && isPair(list)) {
		kept, v := r.branches(list, p, false)
		put(s, "anyOf", kept)
		judge("anyOf", v)
	}
	if list := schemaList(s["oneOf"]); len(list) > 0 {
		kept, v := r.branches(list, p, true)
		if v == weaker {
			// That no more than one holds can no longer be told.
			delete(s, "oneOf")
			addAnyOf(s, kept)
		} else {
			put(s, "oneOf", kept)
		}
		judge("oneOf", v)
	}
	if not := schemaOf(s["not"]); not != nil {
		if v := r.nested(not, p, true, false); v != same {
			delete(s, "not")
			if v == weaker {
				judge("not", weaker)
			}
		}
	}
	return out
}

// pairs brings the two types of int-or-string into the form that may stay, and removes
// them where they may not: the place has the type already.
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

// isPair reports whether branches are the types integer and string, and nothing else.
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

// addAnyOf adds an anyOf to what s has already.
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

// parts rewrites schemas that all hold, and leaves out those that have come to say
// nothing.
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

// branches rewrites schemas of which one holds, or exactly one. It leaves out those that
// never do, and all of them if one has come to accept everything.
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

// nothing is the schema that accepts no value.
func nothing() node { return node{"not": node{}} }

// nested rewrites a schema under a logical operator, which is about the values at p. direct says that
// the logical operator is about the same value, and not about one that it is a part of.
func (r *rewriter) nested(n node, p place, direct, top bool) verdict {
	out := r.nestedType(n, p, direct)
	for _, k := range sortedKeys(n) {
		switch k {
		case "description", "title", "default", "readOnly", "nullable", "id", "$schema", "definitions", "additionalItems", preserve:
			delete(n, k) // they reject nothing
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
	out = out.and(r.junctors(n, p, top, func(string) {}))
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
		// Without the type it would be held against values that it is not about.
		delete(n, "format")
		out = weaker
	}
	// Of null, nothing but the type and the enum is looked at.
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

// nestedFields rewrites the fields that a schema under a logical operator is about.
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
			delete(props, name) // such a value has no fields
		case field == nil || name == "metadata" && (p.root || r.sem.RefusesEmbeddedMetadataInJunctors()):
			delete(props, name)
			if len(f) > 0 {
				out = out.and(weaker)
			}
		default:
			wasEmpty := len(f) == 0
			out = out.and(r.part(f, *field))
			if len(f) == 0 && !wasEmpty {
				delete(props, name) // it has come to say nothing
			}
		}
	}
	if len(props) == 0 {
		delete(n, "properties")
	}
	return out
}

// nestedItems rewrites the items that a schema under a logical operator is about.
func (r *rewriter) nestedItems(n node, p place) verdict {
	if _, ok := n["items"]; !ok {
		return same
	}
	items, at := schemaOf(n["items"]), placeOf(schemaOf(p.core["items"]))
	switch {
	case !p.mayBe("array"):
		delete(n, "items") // such a value has no items
		return same
	case items == nil || at == nil:
		delete(n, "items")
		return weaker
	}
	wasEmpty := len(items) == 0
	v := r.part(items, *at)
	if len(items) == 0 && !wasEmpty {
		delete(n, "items") // it has come to say nothing
	}
	return v
}

// part rewrites the schema of a field or of items under a logical operator. If it accepts
// nothing then whatever lacks the part is still accepted, and so is null, of which
// logical operators say nothing.
func (r *rewriter) part(n node, p place) verdict {
	switch v := r.nested(n, p, false, false); {
	case v != never:
		return v
	case p.core["nullable"] == true:
		return weaker
	}
	return same
}
