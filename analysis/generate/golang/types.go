package golang

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"espalier.dev/analysis"
	"espalier.dev/analysis/generate"
	"espalier.dev/api"
)

// structType is a struct.
type structType struct {
	*generate.Type
	// list is the name of the list type of a kind.
	list   string
	fields []*structField
	// open reports that the struct has a field for unknown fields.
	open bool
	// unknown is the name of that field.
	unknown string
}

// structField is a field of a struct.
type structField struct {
	name, tag string
	of        *expression
	// json is the name in JSON.
	json    string
	doc     string
	markers []string
}

// fields determines the fields of a struct.
func (w *writer) fields(s *structType) {
	s.open = isOpen(s.Type)
	names := generate.Names{"DeepCopy": true, "DeepCopyInto": true, "MarshalJSON": true, "UnmarshalJSON": true}
	if s.Kind != nil {
		for _, name := range []string{"TypeMeta", "ObjectMeta", "DeepCopyObject", "GetObjectKind"} {
			names[name] = true
		}
	}
	for _, f := range s.Fields {
		if !isTagName(f.Name) {
			w.inexpressible(s.Type, f)
			s.open = true
			continue
		}
		name := generate.CamelCase(f.Name)
		if s.Kind != nil && (strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "Set")) {
			name = "Field" + name // ObjectMeta has methods with such names
		}
		s.fields = append(s.fields, w.field(s, f, names.Unique(name)))
	}
	if s.open {
		s.unknown = names.Unique("Unknown")
	}
}

// isOpen reports whether objects have fields that the struct has no field for. Every embedded resource has an
// apiVersion, a kind and metadata.
func isOpen(t *generate.Type) bool {
	specified := 0
	for _, f := range t.Fields {
		if generate.IsMeta(f.Name) {
			specified++
		}
	}
	return t.Open || t.Embedded && specified < 3
}

// isTagName reports whether encoding/json accepts a name in a struct tag.
func isTagName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}

func (w *writer) inexpressible(t *generate.Type, f *generate.Field) {
	kind := t.Kind
	if kind == nil {
		for _, k := range w.p.Kinds {
			if strings.HasPrefix(t.Path, k.Name+".") {
				kind = k
			}
		}
	}
	w.problems = append(w.problems, generate.Problem{Input: kind.Input, Finding: analysis.Finding{
		Rule: RuleInexpressible, Severity: analysis.Warning, Path: t.Path,
		Message: fmt.Sprintf("field %q has a name that a Go struct tag cannot contain: its values are preserved as JSON", f.Name),
	}})
}

// field returns the Go field of a field.
func (w *writer) field(s *structType, f *generate.Field, name string) *structField {
	g := &structField{name: name, tag: f.Name, json: f.Name, doc: f.Value.Schema.Description}
	if s.Embedded && f.Name == "metadata" {
		// All fields of metadata are specified implicitly.
		g.of = metaType
		m := newMarkers(f.Value, atField)
		m.rest.Properties = f.Value.Schema.ToJSONSchemaProps().Properties
		g.markers = append([]string{"+kubebuilder:validation:Schemaless", "+kubebuilder:validation:Type=object"}, m.onlyRest().lines...)
	} else {
		g.of, g.markers = w.value(f.Value, s.Name+name)
	}
	if f.Union != nil {
		g.markers = append(g.markers, "+union")
	}
	if f.Discriminates != nil {
		g.markers = append(g.markers, "+discriminator")
	}
	switch {
	case f.Required:
		g.markers = append(g.markers, "+required")
		if f.Value.Schema.Nullable && !g.of.isNilable() {
			g.of = pointerTo(g.of)
		}
	case g.of.isNilable():
		// Unlike omitempty, omitzero keeps empty lists and maps.
		g.markers = append(g.markers, "+optional")
		g.tag += ",omitzero"
	default:
		g.markers = append(g.markers, "+optional")
		g.of = pointerTo(g.of)
		g.tag += ",omitempty"
	}
	if g.tag == "-" {
		g.tag = "-," // without the comma, the field would be ignored
	}
	return g
}

// types returns the file with the types.
func (w *writer) types() string {
	var b strings.Builder
	b.WriteString(w.header(""))
	for _, s := range w.structs {
		if s.Kind != nil {
			w.kind(&b, s)
			continue
		}
		declaration(&b, typeMarkers(s.Type), s.Doc)
		fmt.Fprintf(&b, "type %s struct {\n", s.Name)
		s.writeFields(&b)
		b.WriteString("}\n")
	}
	for _, e := range w.elems {
		declaration(&b, e.markers, e.doc)
		equals := ""
		if e.of.shape == plain {
			equals = "= " // an alias: values need no conversion; controller-gen supports it for scalars
		}
		fmt.Fprintf(&b, "type %s %s%s\n", e.name, equals, e.of.text)
	}
	return b.String()
}

// declaration starts a declaration with its comments. Markers are separate from the doc
// comment: gofmt must not format them.
func declaration(b *strings.Builder, markers []string, doc string) {
	b.WriteString("\n")
	for _, m := range markers {
		b.WriteString("// " + m + "\n")
	}
	if len(markers) > 0 {
		b.WriteString("\n")
	}
	comment(b, "", doc)
}

// comment writes a description as a comment. Lines that controller-gen would take for markers
// are quoted.
func comment(b *strings.Builder, indent, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Map(func(r rune) rune {
			if r == '\r' || r == 0 || r == '\ufeff' || r == unicode.ReplacementChar {
				return -1
			}
			return r
		}, line)
		if strings.HasPrefix(strings.TrimSpace(line), "+") {
			line = strconv.Quote(line)
		}
		b.WriteString(strings.TrimRight(indent+"// "+line, " \t") + "\n")
	}
}

// writeFields writes fields. They are indented, because gofmt would otherwise format their
// comments, and the markers in them, as doc comments.
func (s *structType) writeFields(b *strings.Builder) {
	for i, f := range s.fields {
		if i > 0 && (f.doc != "" || len(f.markers) > 1) {
			b.WriteString("\n")
		}
		comment(b, "\t", f.doc)
		for _, m := range f.markers {
			b.WriteString("\t// " + m + "\n")
		}
		fmt.Fprintf(b, "\t%s %s `json:\"%s\"`\n", f.name, f.of.text, f.tag)
	}
	if s.open {
		fmt.Fprintf(b, "\n// %s has the fields that the schema does not specify.\n%s map[string]apiextensionsv1.JSON `json:\"-\"`\n",
			s.unknown, s.unknown)
	}
}

// kind writes the types of a custom resource and of its list.
func (w *writer) kind(b *strings.Builder, s *structType) {
	declaration(b, append(kindMarkers(s.Kind), typeMarkers(s.Type)...), s.Doc)
	metadata := ",omitzero"
	if s.Schema.ValueValidation != nil {
		for _, name := range s.Schema.ValueValidation.Required {
			if name == "metadata" {
				metadata = ""
			}
		}
	}
	fmt.Fprintf(b, "type %s struct {\nmetav1.TypeMeta `json:\",inline\"`\nmetav1.ObjectMeta `json:\"metadata%s\"`\n\n", s.Name, metadata)
	s.writeFields(b)
	b.WriteString("}\n")
	declaration(b, []string{"+kubebuilder:object:root=true"}, s.list+" is a list of "+s.Name+".")
	fmt.Fprintf(b, "type %s struct {\nmetav1.TypeMeta `json:\",inline\"`\nmetav1.ListMeta `json:\"metadata,omitempty\"`\nItems []%s `json:\"items\"`\n}\n", s.list, s.Name)
}

// kindMarkers returns the markers that describe the resource rather than its schema.
func kindMarkers(k *generate.Kind) []string {
	d, v := k.Version.Definition(), k.Version.Spec()
	names := d.Names()
	markers := []string{"+kubebuilder:object:root=true"}
	resource := "+kubebuilder:resource:path=" + names.Plural
	if !d.Namespaced() {
		resource += ",scope=Cluster"
	}
	if names.Singular != "" && names.Singular != strings.ToLower(k.Name) {
		resource += ",singular=" + names.Singular
	}
	if len(names.ShortNames) > 0 {
		resource += ",shortName={" + strings.Join(names.ShortNames, ",") + "}"
	}
	if len(names.Categories) > 0 {
		resource += ",categories={" + strings.Join(names.Categories, ",") + "}"
	}
	markers = append(markers, resource)
	annotations := d.CRD().Annotations
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if !isToolAnnotation(name) {
			markers = append(markers, "+kubebuilder:metadata:annotations="+strconv.Quote(name+"="+annotations[name]))
		}
	}
	if k.Version.Storage() {
		markers = append(markers, "+kubebuilder:storageversion")
	}
	if !k.Version.Served() {
		markers = append(markers, "+kubebuilder:unservedversion")
	}
	if v.Deprecated {
		marker := "+kubebuilder:deprecatedversion"
		if v.DeprecationWarning != nil {
			marker += ":warning=" + strconv.Quote(*v.DeprecationWarning)
		}
		markers = append(markers, marker)
	}
	if v.Subresources != nil {
		markers = append(markers, subresourceMarkers(v.Subresources)...)
	}
	for _, c := range v.AdditionalPrinterColumns {
		marker := fmt.Sprintf("+kubebuilder:printcolumn:name=%q,type=%s,JSONPath=%q", c.Name, c.Type, c.JSONPath)
		if c.Description != "" {
			marker += fmt.Sprintf(",description=%q", c.Description)
		}
		if c.Format != "" {
			marker += fmt.Sprintf(",format=%q", c.Format)
		}
		if c.Priority != 0 {
			marker += fmt.Sprintf(",priority=%d", c.Priority)
		}
		markers = append(markers, marker)
	}
	for _, f := range v.SelectableFields {
		markers = append(markers, fmt.Sprintf("+kubebuilder:selectablefield:JSONPath=%q", f.JSONPath))
	}
	return markers
}

// isToolAnnotation reports whether an annotation is written by the tool that makes or installs a
// CRD, and does not belong to the API.
func isToolAnnotation(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "controller-gen.kubebuilder.io" || domain == "kubectl.kubernetes.io" || domain == "meta.helm.sh"
}

func subresourceMarkers(s *api.CustomResourceSubresources) (markers []string) {
	if s.Status != nil {
		markers = append(markers, "+kubebuilder:subresource:status")
	}
	if s.Scale != nil {
		marker := fmt.Sprintf("+kubebuilder:subresource:scale:specpath=%s,statuspath=%s",
			s.Scale.SpecReplicasPath, s.Scale.StatusReplicasPath)
		if s.Scale.LabelSelectorPath != nil {
			marker += ",selectorpath=" + *s.Scale.LabelSelectorPath
		}
		markers = append(markers, marker)
	}
	return markers
}
