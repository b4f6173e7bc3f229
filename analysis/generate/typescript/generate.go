package typescript

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"espalier.dev/analysis/generate"
	"espalier.dev/schema"
)

// Generate returns a file with the types of each package.
func Generate(packages []*generate.Package) generate.Files {
	files := generate.Files{}
	for _, p := range packages {
		files[p.Dir()+"/types.ts"] = newWriter(p).file()
	}
	return files
}

// writer writes the file of one package.
type writer struct {
	bytes.Buffer
	p *generate.Package
	// The names of the types that the file declares beside those of the package.
	objectMeta, ownerReference, managedFields, listMeta, resource string
	// usesResource reports that the file needs the type of embedded resources.
	usesResource bool
}

func newWriter(p *generate.Package) *writer {
	names := generate.Names{}
	for _, t := range p.Types {
		names[t.Name] = true
	}
	return &writer{p: p, objectMeta: names.Unique("ObjectMeta"),
		ownerReference: names.Unique("OwnerReference"), managedFields: names.Unique("ManagedFieldsEntry"),
		listMeta: names.Unique("ListMeta"), resource: names.Unique("EmbeddedResource")}
}

// listName returns the name of the type of lists of a kind.
func listName(k *generate.Kind) string { return k.Type.Name + "List" }

func (w *writer) file() []byte {
	fmt.Fprintf(w, "// %s\n\n// Version %s of the API group %s.\n", generate.Marker, w.p.Version, w.p.Group)
	for _, t := range w.p.Types {
		w.typ(t)
		if t.Kind != nil {
			w.list(t.Kind)
		}
	}
	w.shared()
	return w.Bytes()
}

// typ writes the interface of a type.
func (w *writer) typ(t *generate.Type) {
	w.open(t.Name, typeDoc(t))
	if t.Kind != nil {
		w.property("apiVersion", generate.JSONText(w.p.Group+"/"+w.p.Version), true, nil)
		w.property("kind", generate.JSONText(t.Kind.Name), true, nil)
		w.property("metadata", w.objectMeta, true, nil)
	} else if t.Embedded {
		w.property("apiVersion", "string", true, nil)
		w.property("kind", "string", true, nil)
		w.property("metadata", w.objectMeta, false, nil)
	}
	for _, f := range t.Fields {
		if t.Embedded && generate.IsMeta(f.Name) {
			continue
		}
		w.property(f.Name, w.value(f.Value), f.Required, f.Value.Schema)
	}
	if t.Open {
		w.WriteString("  [field: string]: unknown;\n")
	}
	w.WriteString("}\n")
}

// typeDoc returns the comment of a type.
func typeDoc(t *generate.Type) string {
	if t.Kind == nil {
		return t.Doc
	}
	doc := generate.Doc(t.Schema, false)
	if warning := t.Kind.Version.DeprecationWarning(); warning != "" {
		return strings.TrimLeft(doc+"\n@deprecated "+warning, "\n")
	}
	return doc
}

// list writes the interface of the lists of a kind.
func (w *writer) list(k *generate.Kind) {
	w.open(listName(k), "A list of "+k.Type.Name+".")
	w.property("apiVersion", generate.JSONText(w.p.Group+"/"+w.p.Version), true, nil)
	w.property("kind", generate.JSONText(k.ListKind()), true, nil)
	w.property("metadata", w.listMeta, true, nil)
	w.property("items", k.Type.Name+"[]", true, nil)
	w.WriteString("}\n")
}

// open writes the beginning of an interface.
func (w *writer) open(name, doc string) {
	w.WriteByte('\n')
	w.comment("", doc)
	fmt.Fprintf(w, "export interface %s {\n", name)
}

// property writes a property of an interface. s may be nil.
func (w *writer) property(name, typ string, required bool, s *schema.Structural) {
	modifier, mark := "", "?"
	if s != nil {
		w.comment("  ", generate.Doc(s, false))
		if s.ReadOnly {
			modifier = "readonly "
		}
	}
	if required {
		mark = ""
	}
	if !identifier.MatchString(name) {
		name = generate.JSONText(name)
	}
	fmt.Fprintf(w, "  %s%s%s: %s;\n", modifier, name, mark, typ)
}

// identifier matches the names that need no quotes.
var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// shared writes the types that all packages need.
func (w *writer) shared() {
	meta := schema.ObjectMeta()
	w.fields(w.objectMeta, "The metadata of an object.", meta)
	w.fields(w.ownerReference, "The reference of an object to its owner.", meta.Properties["ownerReferences"].Items)
	w.fields(w.managedFields, "The fields that a manager has set.", meta.Properties["managedFields"].Items)
	w.open(w.listMeta, "The metadata of a list.")
	w.property("resourceVersion", "string", false, nil)
	w.property("continue", "string", false, nil)
	w.property("remainingItemCount", "number", false, nil)
	w.WriteString("}\n")
	if !w.usesResource {
		return
	}
	w.open(w.resource, "A Kubernetes object of any kind.")
	w.property("apiVersion", "string", true, nil)
	w.property("kind", "string", true, nil)
	w.property("metadata", w.objectMeta, false, nil)
	w.WriteString("  [field: string]: unknown;\n}\n")
}

// fields writes the interface of a part of metadata.
func (w *writer) fields(name, doc string, s *schema.Structural) {
	var required []string
	if s.ValueValidation != nil {
		required = s.ValueValidation.Required
	}
	w.open(name, doc)
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		sub := s.Properties[field]
		typ := ""
		switch field {
		case "ownerReferences":
			typ = w.ownerReference + "[]"
		case "managedFields":
			typ = w.managedFields + "[]"
		default:
			typ = w.value(metaValue(sub))
		}
		w.property(field, typ, slices.Contains(required, field), sub)
	}
	w.WriteString("}\n")
}

// metaValue returns the type of a value in metadata that is not an object with fields.
func metaValue(s *schema.Structural) *generate.Value {
	v := &generate.Value{Kind: generate.KindOf(s), Schema: s}
	switch v.Kind {
	case generate.List:
		v.Elem = metaValue(s.Items)
	case generate.Map:
		v.Elem = metaValue(s.AdditionalProperties.Structural)
	}
	return v
}
