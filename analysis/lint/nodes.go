package lint

import (
	"slices"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// node is a subschema visited by walk.
type node struct {
	s  *api.JSONSchemaProps
	at *place
	up *node
	// kind is the relation to the parent schema, name the field name.
	kind nodeKind
	name string
	// core is the position outside of logical operators that describes the same value. Its
	// schema is the node's own outside of logical operators, and nil if there is no such
	// position.
	core schema.Cursor
	// inOperator is set below allOf, anyOf, oneOf or not.
	inOperator bool
	// inMeta is set for apiVersion, kind and metadata of a resource, and below.
	inMeta bool
	site   *schemaSite
	// known is the type of the Kubernetes API that the schema describes, or nil, and inKnown is
	// set for the fields of such a type, and below. Only the rules of the conventions set them.
	known   *knownType
	inKnown bool
}

type nodeKind uint8

const (
	rootNode nodeKind = iota
	fieldNode
	itemNode
	mapNode
	operatorNode
	// draft4Node is a subschema that only draft-4 schemas have.
	draft4Node
)

// walk visits all subschemas of a schema, parents first.
func walk(s *schemaSite, sem schema.Semantics, visit func(*node)) {
	pruning := schema.PruningOff
	if s.prunes {
		pruning = schema.PruningOn
	}
	w := walker{visit}
	w.node(&node{s: s.props, at: s.at, site: s, core: schema.NewCursor(s.core(), sem, pruning)})
}

type walker struct {
	visit func(*node)
}

// sub visits a subschema of n. core is the position outside of logical operators that
// describes the same value.
func (w *walker) sub(n *node, props *api.JSONSchemaProps, kind nodeKind, at *place, name string, core schema.Cursor) {
	if props == nil {
		return
	}
	m := &node{s: props, at: at, up: n, kind: kind, name: name, core: core, site: n.site}
	m.inOperator = n.inOperator || kind == operatorNode || kind == draft4Node
	m.inMeta = n.inMeta || kind == fieldNode && n.core.IsResource() && schema.IsMetaField(name)
	w.node(m)
}

func (w *walker) node(n *node) {
	w.visit(n)
	s := n.s
	core := n.core.Schema()
	if core == nil {
		core = &schema.Structural{}
	}
	for _, name := range sortedNames(s.Properties) {
		prop := s.Properties[name]
		var outside schema.Cursor
		if core.Properties[name] != nil {
			outside, _ = n.core.Field(name)
		}
		w.sub(n, &prop, fieldNode, n.at.child("properties").key(name), name, outside)
	}
	if s.Items != nil {
		var outside schema.Cursor
		if core.Items != nil {
			outside = n.core.Items()
		}
		at := n.at.child("items")
		w.sub(n, s.Items.Schema, itemNode, at, "", outside)
		for i := range s.Items.JSONSchemas {
			w.sub(n, &s.Items.JSONSchemas[i], draft4Node, at.index(i), "", schema.Cursor{})
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		var outside schema.Cursor
		if core.AdditionalProperties != nil {
			outside, _ = n.core.MapValue()
		}
		w.sub(n, ap.Schema, mapNode, n.at.child("additionalProperties"), "", outside)
	}
	w.operators(n)
	w.draft4(n)
}

func (w *walker) operators(n *node) {
	for _, j := range [...]struct {
		keyword string
		schemas []api.JSONSchemaProps
	}{{"allOf", n.s.AllOf}, {"anyOf", n.s.AnyOf}, {"oneOf", n.s.OneOf}} {
		for i := range j.schemas {
			w.sub(n, &j.schemas[i], operatorNode, n.at.child(j.keyword).index(i), "", n.core)
		}
	}
	w.sub(n, n.s.Not, operatorNode, n.at.child("not"), "", n.core)
}

func (w *walker) draft4(n *node) {
	for _, m := range [...]struct {
		keyword string
		schemas map[string]api.JSONSchemaProps
	}{{"patternProperties", n.s.PatternProperties}, {"definitions", n.s.Definitions}} {
		for _, name := range sortedNames(m.schemas) {
			s := m.schemas[name]
			w.sub(n, &s, draft4Node, n.at.child(m.keyword).key(name), name, schema.Cursor{})
		}
	}
	for _, name := range sortedNames(n.s.Dependencies) {
		w.sub(n, n.s.Dependencies[name].Schema, draft4Node, n.at.child("dependencies").key(name), name, schema.Cursor{})
	}
	if n.s.AdditionalItems != nil {
		w.sub(n, n.s.AdditionalItems.Schema, draft4Node, n.at.child("additionalItems"), "", schema.Cursor{})
	}
}

// typ returns the type of the node's values, stated here or in the core, or "".
func (n *node) typ() string {
	core := n.core.Schema()
	if t := n.s.Type.Single(); t != "" || core == nil {
		return t
	}
	return core.Type
}

// nullable reports whether the node accepts null.
func (n *node) nullable() bool {
	core := n.core.Schema()
	return core != nil && core.Nullable
}

// negated reports whether the schema is below a not, which inverts accept and reject.
func (n *node) negated() bool {
	for ; n.up != nil; n = n.up {
		if n.up.s.Not == n.s {
			return true
		}
	}
	return false
}

// intOrString reports whether values are integers or strings.
func (n *node) intOrString() bool {
	core := n.core.Schema()
	return n.s.XIntOrString || core != nil && core.XIntOrString
}

// isRequired reports whether the field is required.
func (n *node) isRequired() bool {
	return n.kind == fieldNode && slices.Contains(n.up.s.Required, n.name)
}
