package assist

import (
	"espalier.dev/analysis/explain"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Env is what is known besides the text of a document. All of its fields are optional.
type Env struct {
	// Version is the version of the CRD, or of the built-in kind as package kinds/schemas describes
	// it, that the document is an object of. For a CRD it is that of CustomResourceDefinition.
	Version *crd.Version
	// BuiltIn is set if the version is one of a built-in kind.
	BuiltIn bool
	// Kinds returns the kinds that a document can have.
	Kinds func() []Kind
	// Resource returns the version for an apiVersion and kind, or nil, for embedded resources.
	Resource func(apiVersion, kind string) *crd.Version
	// Names returns the names of the objects in the workspace that a field can refer to.
	Names func(Reference) []string

	// Definition is the CRD that the document itself defines. It is nil if the document is no CRD, or
	// one that is not valid at the moment.
	Definition *crd.Definition
	// Rules returns the checked rules of a version, for their cost, or nil.
	Rules func(*crd.Version) *schema.RuleReport
	// Functions are the functions and macros of CEL. Nil stands for those of [Functions].
	Functions []Function
}

// Kind is a kind that a document can have.
type Kind struct {
	APIVersion, Kind string
	// Description is its documentation.
	Description string
	// Deprecated is set if the API server warns about the version.
	Deprecated bool
}

// Reference describes the objects that a field can refer to.
type Reference struct {
	// Group and Kind are those of the objects. If AnyGroup is set, only the kind is known.
	Group, Kind string
	AnyGroup    bool
	// Namespace is the namespace of the objects as far as it is known. It is empty for objects of the
	// cluster.
	Namespace string
}

// definesCRD reports whether a document is a CRD.
func (e *Env) definesCRD(p *Place) bool {
	if e.Version != nil {
		gvk := e.Version.GroupVersionKind()
		return gvk.Group == api.GroupName && gvk.Kind == api.Kind
	}
	return p.Root["kind"] == api.Kind
}

// cursor returns the schema and the pruning at a path of the document, and reports whether the
// schema specifies the path. Without a version only metadata is specified.
func (e *Env) cursor(p *Place, path schema.Path) (schema.Cursor, bool) {
	if e.definesCRD(p) {
		path = withoutNesting(path)
	}
	c := e.root(e.Version)
	for i, step := range path {
		if s := c.Schema(); s != nil && s.XEmbeddedResource {
			c = c.WithSchema(explain.Resource(s))
			if v := e.embedded(p, path[:i]); v != nil {
				c = e.root(v)
			}
		}
		if step.Kind == schema.Index {
			c = c.Items()
		} else {
			var kept bool
			if c, kept = c.Field(step.Key); !kept {
				return c, false
			}
		}
		if c.Schema() == nil {
			return c, false
		}
	}
	if s := c.Schema(); s != nil && s.XEmbeddedResource {
		c = c.WithSchema(explain.Resource(s))
		if v := e.embedded(p, path); v != nil {
			c = e.root(v)
		}
	}
	return c, c.Schema() != nil
}

// root returns the cursor at the root of an object.
func (e *Env) root(v *crd.Version) schema.Cursor {
	s := &schema.Structural{Generic: schema.Generic{Type: "object"}, Extensions: schema.Extensions{XPreserveUnknownFields: true}}
	sem, pruning := schema.Kubernetes, schema.PruningOn
	if v != nil {
		if found, err := explain.SchemaOf(v); err == nil && found != nil {
			s = found
		}
		sem = v.Definition().Semantics()
		if v.Definition().PreservesUnknownFields() {
			pruning = schema.PruningOff
		}
	}
	return schema.NewCursor(explain.Resource(s), sem, pruning)
}

// embedded returns the version of an embedded resource, or nil.
func (e *Env) embedded(p *Place, path schema.Path) *crd.Version {
	if e.Resource == nil || len(path) == 0 {
		return nil
	}
	texts := p.tree.scalars(p.tree.root.at(path))
	if texts["apiVersion"] == "" || texts["kind"] == "" {
		return nil
	}
	return e.Resource(texts["apiVersion"], texts["kind"])
}

// semantics returns the semantics of the version.
func (e *Env) semantics() schema.Semantics {
	if e.Version == nil {
		return schema.Kubernetes
	}
	return e.Version.Definition().Semantics()
}
