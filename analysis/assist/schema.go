package assist

import (
	"espalier.dev/analysis/explain"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// SchemaRef is the schema of a field.
type SchemaRef struct {
	// Version is the version whose schema it is, Path leads to the schema.
	Version *crd.Version
	Path    schema.SchemaPath
	// Pointer is the JSON pointer to the schema in the CRD if it is written as v1.
	Pointer string
	// Exact is false if the schema does not specify the field. Path is then that of the schema that
	// could.
	Exact bool
	// Range is the key or value in the document.
	Range Range
}

// SchemaAt returns the schema of the value at an offset of an object, or nil.
func SchemaAt(text []byte, offset int, env Env) *SchemaRef {
	p := Locate(text, offset)
	if p.Position == Nowhere || p.node == nil || env.Version == nil {
		return nil
	}
	v, path := env.innermost(&p, p.Path)
	out := &SchemaRef{Version: v, Range: p.Range}
	if out.Range.Start == out.Range.End && p.node.keyed {
		out.Range = Range{p.node.keyStart, p.node.keyEnd}
	}
	out.Path, out.Exact = schemaPath(v, path)
	for i, o := range v.Definition().Versions() {
		if o == v {
			out.Pointer = pointerToSchema(i) + out.Path.Pointer()
		}
	}
	return out
}

// schemaPath follows a path of an object into the schema of a version as far as possible, and
// reports whether it is specified.
func schemaPath(v *crd.Version, path schema.Path) (at schema.SchemaPath, exact bool) {
	s, err := explain.SchemaOf(v)
	if err != nil {
		return nil, false
	}
	for _, step := range path {
		if s == nil {
			return at, false
		}
		switch {
		case step.Kind == schema.Index:
			if s.Items == nil {
				return at, false
			}
			s, at = s.Items, append(at, schema.SchemaStep{Keyword: "items"})
		case s.Properties[step.Key] != nil:
			s, at = s.Properties[step.Key], append(at, schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: step.Key})
		case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
			s, at = s.AdditionalProperties.Structural, append(at, schema.SchemaStep{Keyword: "additionalProperties"})
		default:
			return at, false
		}
	}
	return at, s != nil
}

// Field is a field that a schema in a CRD document describes.
type Field struct {
	// Group and Kind are those of the CRD.
	Group, Kind string
	// Version is the name of the version, or empty if the schema is that of all versions.
	Version string
	// Path leads to the schema.
	Path schema.SchemaPath
	// Range is the key or value under the cursor.
	Range Range
}

// FieldAt returns the field that the schema at an offset of a CRD document describes, or nil if the
// offset is not in a schema.
func FieldAt(text []byte, offset int) *Field {
	p := Locate(text, offset)
	spot, ok := spotOf(p.Path)
	if !ok || p.Position == Nowhere {
		return nil
	}
	root := p.tree.root
	texts := func(keys ...string) map[string]string {
		n := root
		for _, key := range keys {
			n = n.entry(key)
		}
		return p.tree.scalars(n)
	}
	f := &Field{Group: texts("spec")["group"], Kind: texts("spec", "names")["kind"], Path: spot.path, Range: p.Range}
	if spot.version >= 0 {
		f.Version = p.tree.scalars(root.at(schema.Path{{Key: "spec"}, {Key: "versions"}, {Kind: schema.Index, Index: spot.version}}))["name"]
	}
	return f
}

// In returns the ranges of the keys and items that have the field in an object. It returns nil if the
// object is not of the kind and version.
func (f *Field) In(text []byte) (ranges []Range) {
	p := Locate(text, 0)
	want := f.Group + "/" + f.Version
	if p.Root["kind"] != f.Kind || f.Version != "" && p.Root["apiVersion"] != want || groupOf("apiVersion", p.Root["apiVersion"]) != f.Group {
		return nil
	}
	nodes := []*node{p.tree.root}
	for _, step := range f.Path {
		var next []*node
		for _, n := range nodes {
			for _, c := range n.children {
				switch {
				case step.Keyword == "properties" && n.form == mapping && c.key == step.Name && c.colon >= 0,
					step.Keyword == "items" && n.form == sequence,
					step.Keyword == "additionalProperties" && n.form == mapping && c.colon >= 0:
					next = append(next, c)
				}
			}
		}
		switch step.Keyword {
		case "properties", "items", "additionalProperties":
			nodes = next
		}
		// A schema under a logical operator describes the same value.
	}
	for _, n := range nodes {
		if n.keyed {
			ranges = append(ranges, Range{n.keyStart, n.keyEnd})
		} else {
			ranges = append(ranges, Range{n.start, max(n.start, n.end)})
		}
	}
	return ranges
}
