package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/api"
)

// Skeleton returns skel(s), as the pruning proposal of 2018 defines it: the types,
// fields and items that s specifies, with those under a logical operator (allOf, anyOf,
// oneOf, not) moved to the level around it. It returns nil for nil. The result shares
// nothing with s.
//
// The definition is
//
//	skel(s) := merge(drop(s), s_1, …, s_n)
//
// where s_1 … s_n are the skeletons of the schemas under the logical operators of s, drop
// keeps type, items, additionalItems, properties, patternProperties and
// additionalProperties, and merge combines the parts, keyword by keyword. Where the
// definition is incomplete, Skeleton interprets it as follows:
//
//   - "t if all x_i agree on t": a part without a type disagrees, and drop(s) is a part.
//     So type: object beside an anyOf whose branches have no type is dropped. This makes
//     the skeleton weaker than s.
//   - Under a key of properties or patternProperties, only the schemas that have the key
//     are merged: in example 5, b keeps its type although one branch only mentions it.
//     The same applies to items and additionalProperties.
//   - A boolean is equivalent to a schema: true is {} and false is {"not": {}}. The
//     skeleton of both is {}, written as true. That false rejects values is not part of
//     the structure, as the later pruning proposal says too (its example 5).
//   - Lists of items are merged position by position, as written. The definition does not
//     say how to merge a list with a single schema. Both become a single schema for all
//     positions, which includes the additionalItems of the lists. Types that apply to some
//     positions only are lost.
//   - additionalItems without a list of items does not apply to any item. Its fields count
//     as specified, its types do not.
//   - A $ref to a definition of s is replaced by the skeleton of the definition, whatever is
//     beside it. One that refers to anything else, or to a definition that it is in, stays.
//     So do references after the first maxFollowed schemas, because few definitions can
//     stand for very many fields.
//   - definitions and dependencies are dropped.
//
// The definition nests merges. Merging is associative, so Skeleton collects the parts for
// a path first and merges them once: it visits each schema in s once, however deeply the
// logical operators are nested. A definition is only one part of a merge, however often it is
// referred to.
func Skeleton(s *api.JSONSchemaProps) *api.JSONSchemaProps {
	if s == nil {
		return nil
	}
	k := skeletonizer{definitions: s.Definitions}
	return k.merge([]skelPart{{schema: s}})
}

const (
	// maxFollowed is the number of visited schemas after which Skeleton follows no more references.
	maxFollowed = 10_000
	// longName is the number of bytes of a name that count as another schema.
	longName = 256
)

// skelPart is one x_i of a merge. The schema is nil for a boolean.
type skelPart struct {
	schema *api.JSONSchemaProps
	// untyped removes the types of the part and of everything below it.
	untyped bool
	// inside is the definition that the part is in, if any.
	inside *openDefinition
}

// at returns the part for a schema below that of p. It is nil for a boolean.
func (p skelPart) at(s *api.JSONSchemaProps) skelPart { return skelPart{s, p.untyped, p.inside} }

func (p skelPart) asUntyped() skelPart {
	p.untyped = true
	return p
}

// openDefinition is a definition whose skeleton is being made, and those around it.
type openDefinition struct {
	name  string
	outer *openDefinition
}

func (d *openDefinition) has(name string) bool {
	for ; d != nil; d = d.outer {
		if d.name == name {
			return true
		}
	}
	return false
}

// skeletonizer counts the schemas it visits, so that tests can check that the cost is
// linear.
type skeletonizer struct {
	definitions map[string]api.JSONSchemaProps
	visited     int
}

// skelMerge are the parts of a merge, and the definitions that are among them.
type skelMerge struct {
	parts       []skelPart
	definitions map[skelDefinition]bool
}

type skelDefinition struct {
	name    string
	untyped bool
}

// add adds p and the schemas under the logical operators of its schema, recursively: they are
// all parts of the same merge.
func (k *skeletonizer) add(m *skelMerge, p skelPart) {
	k.visited++
	if p.schema != nil && p.schema.Ref != nil && *p.schema.Ref != "" {
		k.follow(m, p)
		return
	}
	m.parts = append(m.parts, p)
	if p.schema == nil {
		return
	}
	for _, branches := range [...][]api.JSONSchemaProps{p.schema.AllOf, p.schema.AnyOf, p.schema.OneOf} {
		for i := range branches {
			k.add(m, p.at(&branches[i]))
		}
	}
	if p.schema.Not != nil {
		k.add(m, p.at(p.schema.Not))
	}
}

// follow adds the definition that p refers to. If it cannot be followed, the reference itself
// is the part.
func (k *skeletonizer) follow(m *skelMerge, p skelPart) {
	name, reason := referredDefinition(*p.schema.Ref, k.definitions)
	if reason != "" || p.inside.has(name) || k.visited > maxFollowed {
		k.visited += len(*p.schema.Ref) / longName
		m.parts = append(m.parts, p.at(&api.JSONSchemaProps{Ref: p.schema.Ref}))
		return
	}
	key := skelDefinition{name, p.untyped}
	if m.definitions[key] {
		return
	}
	if m.definitions == nil {
		m.definitions = map[skelDefinition]bool{}
	}
	m.definitions[key] = true
	definition := k.definitions[name]
	k.add(m, skelPart{&definition, p.untyped, &openDefinition{name, p.inside}})
}

func (k *skeletonizer) merge(given []skelPart) *api.JSONSchemaProps {
	var m skelMerge
	for _, p := range given {
		k.add(&m, p)
	}
	parts := m.parts
	out := &api.JSONSchemaProps{Type: agreedType(parts)}

	var props, patterns map[string][]skelPart
	var additional []skelPart
	for _, p := range parts {
		if p.schema == nil {
			continue
		}
		if ref := p.schema.Ref; ref != nil && *ref != "" {
			out.Ref = new(*ref)
		}
		props = gatherParts(props, p.schema.Properties, p)
		patterns = gatherParts(patterns, p.schema.PatternProperties, p)
		if ap := p.schema.AdditionalProperties; ap != nil {
			additional = append(additional, p.at(ap.Schema))
		}
	}
	out.Properties = k.mergeKeys(props)
	out.PatternProperties = k.mergeKeys(patterns)
	out.AdditionalProperties = k.mergeOrBool(additional)
	k.mergeItems(out, parts)
	return out
}

// agreedType returns the type that all parts have, or none.
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

// sameTypes compares lists of types, ignoring their order.
func sameTypes(a, b api.StringOrArray) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

func gatherParts(into map[string][]skelPart, from map[string]api.JSONSchemaProps, p skelPart) map[string][]skelPart {
	for key, s := range from {
		if into == nil {
			into = make(map[string][]skelPart, len(from))
		}
		into[key] = append(into[key], p.at(&s))
	}
	return into
}

func (k *skeletonizer) mergeKeys(keys map[string][]skelPart) map[string]api.JSONSchemaProps {
	if len(keys) == 0 {
		return nil
	}
	out := make(map[string]api.JSONSchemaProps, len(keys))
	// In order, because references are followed up to a limit.
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		k.visited += len(key) / longName
		out[key] = *k.merge(keys[key])
	}
	return out
}

// mergeOrBool merges parts, some or all of which are booleans.
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
				positions[i] = append(positions[i], p.at(&items.JSONSchemas[i]))
			}
			if items.Schema != nil {
				single = append(single, p.at(items.Schema))
			}
		}
		if ai := p.schema.AdditionalItems; ai != nil {
			if isList {
				rest = append(rest, p.at(ai.Schema))
			} else {
				idle = append(idle, p.asUntyped().at(ai.Schema))
			}
		}
	}

	switch {
	case len(single) > 0:
		for _, p := range append(slices.Concat(positions...), rest...) {
			single = append(single, p.asUntyped())
		}
		out.Items = &api.JSONSchemaPropsOrArray{Schema: k.merge(single)}
		rest = nil
	case len(positions) > 0:
		out.Items = &api.JSONSchemaPropsOrArray{JSONSchemas: make([]api.JSONSchemaProps, len(positions))}
		for i, ps := range positions {
			out.Items.JSONSchemas[i] = *k.merge(ps)
		}
	}
	out.AdditionalItems = k.mergeOrBool(append(rest, idle...))
}

// Specified returns the JSON paths that s specifies: those that end in a key of
// properties, anywhere in the schema, including logical operators. They have the form
// spec.containers[].name. Fields under additionalProperties are written as *, those
// under patternProperties as /pattern/, and ambiguous names as ["a.b"]. The result is
// sorted.
//
// This is the definition of "specified" of 2018, which Skeleton preserves. It does not follow
// references, as Skeleton does. In a structural schema, only the keys outside of logical operators
// are specified.
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

// valuePath returns the JSON path of the values of a subschema, given the path of the
// values of the schema. It returns false if the subschema is not about fields or items
// of a value.
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

// PruneConflict is a path that cannot be pruned, because the schema describes it both
// as an object with known fields and as a map.
type PruneConflict struct {
	// Path is the JSON path, in the form of Specified. It is empty for the root.
	Path string
	// Message is what is wrong.
	Message string
}

// Error returns the path and the message.
func (c *PruneConflict) Error() string {
	if c.Path == "" {
		return "at the root: " + c.Message
	}
	return c.Path + ": " + c.Message
}

// PruneConflicts returns the paths that the pruning proposal of 2018 rejects
// (restriction 1): those for which the skeleton of s has properties together with
// additionalProperties or patternProperties. They are sorted by path. A schema that can
// be pruned has none.
//
// Empty properties specify no field and cause no conflict.
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
