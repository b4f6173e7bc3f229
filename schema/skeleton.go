package schema

import (
	"slices"
	"strconv"
	"strings"

	"espalier.dev/api"
)

// Skeleton returns skel(s), as the pruning proposal of 2018 defines it: what s
// says about types, fields and items, and nothing else, with everything that is
// said under a logical operator (allOf, anyOf, oneOf, not) moved to the level around it.
// Nil gives nil. s is left alone and the result shares nothing with it.
//
// The definition is
//
//	skel(s) := merge(drop(s), s_1, …, s_n)
//
// where s_1 … s_n are the skeletons of the schemas under the logical operators of s, drop
// keeps type, items, additionalItems, properties, patternProperties and
// additionalProperties, and merge takes the parts together, keyword by keyword.
// Where it leaves something open, this is the reading:
//
//   - "t if all x_i agree on t": a part that states no type disagrees, and drop(s)
//     is a part. So type: object beside an anyOf whose branches state no type is
//     dropped. This is what makes the skeleton weaker than s.
//   - Under a key of properties or patternProperties, only the parts that have the
//     key are parts: in example 5, b keeps its type although one branch only
//     names it. The same goes for items and additionalProperties.
//   - A boolean is the schema that it stands for: true is {} and false is
//     {"not": {}}, and the skeleton of both is {}, written as true. That false
//     rejects values is no matter of structure, as the later pruning proposal
//     says too (its example 5).
//   - items as a list is merged position by position, as written. The definition
//     does not say how to merge a list with a single schema. Both become a
//     single schema for all positions, which also takes in the additionalItems of the
//     lists. What only some positions are asked for loses its types there.
//   - additionalItems without a list of items says nothing about any item. Its
//     fields count as specified, its types do not.
//   - $ref, definitions and dependencies are not among the keywords that are
//     kept, and are not followed.
//
// The definition nests merges. Merging is associative, so here the parts of one
// path are gathered first and merged once: each schema in s is visited once,
// however deep the logical operators are.
func Skeleton(s *api.JSONSchemaProps) *api.JSONSchemaProps {
	if s == nil {
		return nil
	}
	var k skeletonizer
	return k.merge([]skelPart{{schema: s}})
}

// skelPart is one x_i of a merge. The schema is nil for a boolean.
type skelPart struct {
	schema *api.JSONSchemaProps
	// untyped makes the part, and what is below it, state no types.
	untyped bool
}

// skeletonizer counts the schemas it visits, to show that the cost is linear.
type skeletonizer struct {
	visited int
}

// logical operators adds the schemas under the logical operators of p's schema, and those under
// theirs: they are all parts of the same merge.
func (k *skeletonizer) junctors(parts []skelPart, p skelPart) []skelPart {
	k.visited++
	parts = append(parts, p)
	if p.schema == nil {
		return parts
	}
	for _, branches := range [...][]api.JSONSchemaProps{p.schema.AllOf, p.schema.AnyOf, p.schema.OneOf} {
		for i := range branches {
			parts = k.junctors(parts, skelPart{&branches[i], p.untyped})
		}
	}
	if p.schema.Not != nil {
		parts = k.junctors(parts, skelPart{p.schema.Not, p.untyped})
	}
	return parts
}

func (k *skeletonizer) merge(given []skelPart) *api.JSONSchemaProps {
	var parts []skelPart
	for _, p := range given {
		parts = k.junctors(parts, p)
	}
	out := &api.JSONSchemaProps{Type: agreedType(parts)}

	var props, patterns map[string][]skelPart
	var additional []skelPart
	for _, p := range parts {
		if p.schema == nil {
			continue
		}
		props = gatherParts(props, p.schema.Properties, p.untyped)
		patterns = gatherParts(patterns, p.schema.PatternProperties, p.untyped)
		if ap := p.schema.AdditionalProperties; ap != nil {
			additional = append(additional, skelPart{ap.Schema, p.untyped})
		}
	}
	out.Properties = k.mergeKeys(props)
	out.PatternProperties = k.mergeKeys(patterns)
	out.AdditionalProperties = k.mergeOrBool(additional)
	k.mergeItems(out, parts)
	return out
}

// agreedType is the type that every part states, or none.
func agreedType(parts []skelPart) api.StringOrArray {
	var t api.StringOrArray
	for _, p := range parts {
		if p.untyped || p.schema == nil || len(p.schema.Type) == 0 {
			return nil
		}
		if t == nil {
			t = p.schema.Type
		} else if !sameTypes(t, p.schema.Type) {
			return nil
		}
	}
	return slices.Clone(t)
}

// sameTypes compares lists of types; their order means nothing.
func sameTypes(a, b api.StringOrArray) bool {
	if len(a) == 1 && len(b) == 1 {
		return a[0] == b[0]
	}
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

func gatherParts(into map[string][]skelPart, from map[string]api.JSONSchemaProps, untyped bool) map[string][]skelPart {
	if len(from) > 0 && into == nil {
		into = make(map[string][]skelPart, len(from))
	}
	for key, s := range from {
		into[key] = append(into[key], skelPart{&s, untyped})
	}
	return into
}

func (k *skeletonizer) mergeKeys(keys map[string][]skelPart) map[string]api.JSONSchemaProps {
	if len(keys) == 0 {
		return nil
	}
	out := make(map[string]api.JSONSchemaProps, len(keys))
	for key, parts := range keys {
		out[key] = *k.merge(parts)
	}
	return out
}

// mergeOrBool merges parts of which some, or all, are booleans.
func (k *skeletonizer) mergeOrBool(parts []skelPart) *api.JSONSchemaPropsOrBool {
	if len(parts) == 0 {
		return nil
	}
	out := &api.JSONSchemaPropsOrBool{Allows: true}
	if slices.ContainsFunc(parts, func(p skelPart) bool { return p.schema != nil }) {
		out.Schema = k.merge(parts)
	} else {
		k.visited += len(parts)
	}
	return out
}

func (k *skeletonizer) mergeItems(out *api.JSONSchemaProps, parts []skelPart) {
	var single []skelPart      // items as a schema
	var positions [][]skelPart // items as lists, by position
	var rest, idle []skelPart  // additionalItems, with a list of items and without
	for _, p := range parts {
		if p.schema == nil {
			continue
		}
		isList := false
		if items := p.schema.Items; items != nil {
			isList = len(items.JSONSchemas) > 0
			for i := range items.JSONSchemas {
				if i == len(positions) {
					positions = append(positions, nil)
				}
				positions[i] = append(positions[i], skelPart{&items.JSONSchemas[i], p.untyped})
			}
			if !isList && items.Schema != nil {
				single = append(single, skelPart{items.Schema, p.untyped})
			}
		}
		if ai := p.schema.AdditionalItems; ai != nil {
			if isList {
				rest = append(rest, skelPart{ai.Schema, p.untyped})
			} else {
				idle = append(idle, skelPart{ai.Schema, true})
			}
		}
	}

	switch {
	case len(single) > 0 && len(positions) > 0:
		for _, p := range append(slices.Concat(positions...), rest...) {
			single = append(single, skelPart{p.schema, true})
		}
		out.Items = &api.JSONSchemaPropsOrArray{Schema: k.merge(single)}
		rest = nil
	case len(single) > 0:
		out.Items = &api.JSONSchemaPropsOrArray{Schema: k.merge(single)}
	case len(positions) > 0:
		out.Items = &api.JSONSchemaPropsOrArray{JSONSchemas: make([]api.JSONSchemaProps, len(positions))}
		for i, ps := range positions {
			out.Items.JSONSchemas[i] = *k.merge(ps)
		}
	}
	out.AdditionalItems = k.mergeOrBool(append(rest, idle...))
}

// Specified lists the JSON paths that are specified in s: those that end in a key of
// some properties, wherever in the schema it stands, logical operators included. They are
// written as spec.containers[].name; what additionalProperties describes is
// written as *, what patternProperties describes as /pattern/, and a name that
// would be mistaken for something else as ["a.b"]. The list is sorted.
//
// This is the 2018 meaning of "specified", which Skeleton keeps. For a structural
// schema only the keys outside of logical operators count.
func Specified(s *api.JSONSchemaProps) []string {
	found := map[string]bool{}
	addSpecified(found, "", s)
	paths := make([]string, 0, len(found))
	for p := range found {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

func addSpecified(found map[string]bool, at string, s *api.JSONSchemaProps) {
	for step, sub := range Subschemas(s) {
		path, ok := valuePath(at, step)
		if !ok {
			continue
		}
		if step.Keyword == "properties" {
			found[path] = true
		}
		addSpecified(found, path, sub)
	}
}

// valuePath returns the JSON path of the values of a schema one step below that of the
// values at path. It returns false if the schema says nothing about parts of a value.
func valuePath(at string, step SchemaStep) (path string, ok bool) {
	switch step.Keyword {
	case "properties":
		return joinName(at, step.Name), true
	case "patternProperties":
		return joinStep(at, "/"+step.Name+"/"), true
	case "additionalProperties":
		return joinStep(at, "*"), true
	case "items", "additionalItems":
		return at + "[]", true
	case "definitions", "dependencies":
		return "", false
	}
	return at, true // a logical operator
}

func joinStep(at, step string) string {
	if at == "" {
		return step
	}
	return at + "." + step
}

func joinName(at, name string) string {
	if name == "" || strings.ContainsAny(name, `.[]*/"`) {
		return at + "[" + strconv.Quote(name) + "]"
	}
	return joinStep(at, name)
}

// PruneConflict is a place that cannot be pruned, because the schema describes it
// both as an object with fields and as a map.
type PruneConflict struct {
	// Path is the JSON path of the place, written as Specified does. It is empty
	// for the root.
	Path string
	// Message says what is wrong.
	Message string
}

// Error is the message after the path.
func (c *PruneConflict) Error() string {
	if c.Path == "" {
		return "at the root: " + c.Message
	}
	return c.Path + ": " + c.Message
}

// PruneConflicts finds what the pruning proposal of 2018 rejects (restriction 1):
// the places for which the skeleton of s has properties together with
// additionalProperties or patternProperties. It returns none for a schema that
// can be pruned. They are ordered by path.
//
// properties without a key specifies no field and conflicts with nothing.
func PruneConflicts(s *api.JSONSchemaProps) []*PruneConflict {
	var found []*PruneConflict
	addConflicts(&found, "", Skeleton(s))
	slices.SortFunc(found, func(a, b *PruneConflict) int { return strings.Compare(a.Path, b.Path) })
	return found
}

func addConflicts(found *[]*PruneConflict, at string, s *api.JSONSchemaProps) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		other := ""
		switch {
		case s.AdditionalProperties != nil && len(s.PatternProperties) > 0:
			other = "additionalProperties and patternProperties"
		case s.AdditionalProperties != nil:
			other = "additionalProperties"
		case len(s.PatternProperties) > 0:
			other = "patternProperties"
		}
		if other != "" {
			*found = append(*found, &PruneConflict{at, "properties and " + other +
				" are specified for the same path: an object with known fields can be pruned, a map cannot"})
		}
	}
	for step, sub := range Subschemas(s) {
		if path, ok := valuePath(at, step); ok {
			addConflicts(found, path, sub)
		}
	}
}
