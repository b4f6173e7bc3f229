package lint

import (
	"slices"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// node is a schema within a schema, on a walk.
type node struct {
	s  *api.JSONSchemaProps
	at *place
	up *node
	// kind says how it is reached from the one above, name by which name.
	kind nodeKind
	name string
	// core is the schema outside of junctors that is about the same value: the node's
	// own outside of them, nil if there is none.
	core *api.JSONSchemaProps
	// inJunctor says that it stands under allOf, anyOf, oneOf or not.
	inJunctor bool
	// inMeta says that it is apiVersion, kind or metadata of a resource, or below.
	inMeta bool
	// keeps says whether unknown fields of its values are kept. Under a junctor, that
	// is decided outside of it.
	keeps bool
	site  *schemaSite
}

type nodeKind uint8

const (
	rootNode nodeKind = iota
	fieldNode
	itemNode
	mapNode
	junctorNode
	// draft4Node is anything that only the schema of 2017 may have.
	draft4Node
)

// walk visits all schemas in a schema, those around others first.
func walk(s *schemaSite, sem schema.Semantics, visit func(*node)) {
	w := walker{sem, visit}
	w.node(&node{s: s.props, at: s.at, core: s.props, site: s, keeps: !s.prunes || preserves(s.props)})
}

type walker struct {
	sem   schema.Semantics
	visit func(*node)
}

// sub goes on with a schema below n. Under a junctor, core is the schema outside of
// it that is about the same value.
func (w *walker) sub(n *node, props *api.JSONSchemaProps, kind nodeKind, at *place, name string, core *api.JSONSchemaProps) {
	if props == nil {
		return
	}
	m := &node{s: props, at: at, up: n, kind: kind, name: name, core: core, site: n.site, keeps: n.keeps}
	m.inJunctor = n.inJunctor || kind == junctorNode || kind == draft4Node
	m.inMeta = n.inMeta || kind == fieldNode && n.isResource() && isMeta(name)
	if !m.inJunctor {
		m.core = props
	}
	if m.core != nil && n.site.prunes {
		fields := len(m.core.Properties) > 0 || m.core.AdditionalProperties != nil
		if m.keeps && kind != junctorNode && w.sem.RestartsAt(kind == itemNode, fields) {
			m.keeps = false
		}
		m.keeps = m.keeps || preserves(m.core)
	}
	w.node(m)
}

func (w *walker) node(n *node) {
	w.visit(n)
	s := n.s
	// Outside of junctors a schema is its own core.
	var core api.JSONSchemaProps
	if n.inJunctor && n.core != nil {
		core = *n.core
	}
	for _, name := range sortedNames(s.Properties) {
		prop := s.Properties[name]
		var outside *api.JSONSchemaProps
		if p, ok := core.Properties[name]; ok {
			outside = &p
		}
		w.sub(n, &prop, fieldNode, n.at.child("properties").key(name), name, outside)
	}
	if s.Items != nil {
		var outside *api.JSONSchemaProps
		if core.Items != nil {
			outside = core.Items.Schema
		}
		at := n.at.child("items")
		w.sub(n, s.Items.Schema, itemNode, at, "", outside)
		for i := range s.Items.JSONSchemas {
			w.sub(n, &s.Items.JSONSchemas[i], draft4Node, at.index(i), "", nil)
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		var outside *api.JSONSchemaProps
		if core.AdditionalProperties != nil {
			outside = core.AdditionalProperties.Schema
		}
		w.sub(n, ap.Schema, mapNode, n.at.child("additionalProperties"), "", outside)
	}
	w.junctors(n)
	w.draft4(n)
}

func (w *walker) junctors(n *node) {
	for _, j := range [...]struct {
		keyword string
		schemas []api.JSONSchemaProps
	}{{"allOf", n.s.AllOf}, {"anyOf", n.s.AnyOf}, {"oneOf", n.s.OneOf}} {
		for i := range j.schemas {
			w.sub(n, &j.schemas[i], junctorNode, n.at.child(j.keyword).index(i), "", n.core)
		}
	}
	w.sub(n, n.s.Not, junctorNode, n.at.child("not"), "", n.core)
}

func (w *walker) draft4(n *node) {
	for _, m := range [...]struct {
		keyword string
		schemas map[string]api.JSONSchemaProps
	}{{"patternProperties", n.s.PatternProperties}, {"definitions", n.s.Definitions}} {
		for _, name := range sortedNames(m.schemas) {
			s := m.schemas[name]
			w.sub(n, &s, draft4Node, n.at.child(m.keyword).key(name), name, nil)
		}
	}
	for _, name := range sortedNames(n.s.Dependencies) {
		w.sub(n, n.s.Dependencies[name].Schema, draft4Node, n.at.child("dependencies").key(name), name, nil)
	}
	if n.s.AdditionalItems != nil {
		w.sub(n, n.s.AdditionalItems.Schema, draft4Node, n.at.child("additionalItems"), "", nil)
	}
}

// isResource says whether values of the node have apiVersion, kind and metadata.
func (n *node) isResource() bool {
	return n.kind == rootNode || n.core != nil && n.core.XEmbeddedResource
}

func isMeta(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

// typ is the type of the node's values, wherever it is stated, or "".
func (n *node) typ() string {
	if t := n.s.Type.Single(); t != "" || n.core == nil {
		return t
	}
	return n.core.Type.Single()
}

// nullable says whether null is a value of the node.
func (n *node) nullable() bool { return n.s.Nullable || n.core != nil && n.core.Nullable }

// negated says whether the schema stands under a not, where refusing is accepting.
func (n *node) negated() bool {
	for ; n.up != nil; n = n.up {
		if n.up.s.Not == n.s {
			return true
		}
	}
	return false
}

// intOrString says whether values are integers or strings.
func (n *node) intOrString() bool { return n.s.XIntOrString || n.core != nil && n.core.XIntOrString }

func preserves(s *api.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}

// isRequired says whether the value must be there.
func (n *node) isRequired() bool {
	return n.kind == fieldNode && slices.Contains(n.up.s.Required, n.name)
}
