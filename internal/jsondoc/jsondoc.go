// Package jsondoc describes the JSON of Go types as JSON Schemas, with the comments of the source. Tests
// generate the reference of output formats with it.
package jsondoc

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Generator makes JSON Schemas.
type Generator struct {
	// Root is the directory of the module, and Module its path. Comments of other modules are left out.
	Root, Module string
	// Extended are the types whose MarshalJSON writes their fields, and others beside them. What other
	// types with such a method write is not known.
	Extended []reflect.Type

	comments    map[string]map[string]string
	definitions map[string]any
	types       map[string]reflect.Type // of the definitions
	err         error
}

// Schema returns the JSON Schema of a type. Fields that are always present are required, and further
// fields are allowed, because programs must ignore fields that they do not know.
func (g *Generator) Schema(t reflect.Type, title string) ([]byte, error) {
	if g.comments == nil {
		g.comments = map[string]map[string]string{}
	}
	g.definitions, g.types, g.err = map[string]any{}, map[string]reflect.Type{}, nil
	schema := map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
	for name, value := range g.inline(t) {
		schema[name] = value
	}
	if len(g.definitions) > 0 {
		schema["definitions"] = g.definitions
	}
	if g.err != nil {
		return nil, g.err
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

// schema returns the schema of a type. Structs with a name are definitions, because they may contain themselves.
func (g *Generator) schema(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		return g.schema(t.Elem())
	}
	if t.Kind() != reflect.Struct || t.Name() == "" || g.opaque(t) || t == timeType {
		return g.inline(t)
	}
	name := t.Name()
	switch g.types[name] {
	case t:
	case nil:
		g.types[name] = t // before its fields, which may contain it
		g.definitions[name] = g.inline(t)
	default:
		g.err = fmt.Errorf("%s and %s have the same name", t, g.types[name])
	}
	return map[string]any{"$ref": "#/definitions/" + name}
}

// opaque reports whether a type writes JSON that its fields do not tell.
func (g *Generator) opaque(t reflect.Type) bool {
	p := reflect.PointerTo(t) // which has the methods of the type, too
	return (p.Implements(jsonMarshaler) || p.Implements(textMarshaler)) && !slices.Contains(g.Extended, t)
}

// inline returns the schema of a type without a reference to it.
func (g *Generator) inline(t reflect.Type) map[string]any {
	switch {
	case t == timeType:
		return map[string]any{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case g.opaque(t):
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": g.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.schema(t.Elem())}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Pointer:
		return g.inline(t.Elem())
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		g.fields(t, properties, &required)
		out := map[string]any{"type": "object", "properties": properties}
		if doc := g.comment(t, ""); doc != "" {
			out["description"] = doc
		}
		if len(required) > 0 {
			out["required"] = required
		}
		return out
	}
	g.err = fmt.Errorf("%s has no JSON", t)
	return nil
}

// fields adds the fields of a struct, and those of structs that are embedded in it.
func (g *Generator) fields(t reflect.Type, properties map[string]any, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			g.fields(embedded, properties, required)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		schema := g.schema(f.Type)
		if doc := g.comment(t, f.Name); doc != "" {
			if schema["$ref"] != nil { // other keywords beside a reference are ignored
				schema = map[string]any{"allOf": []any{schema}}
			}
			schema["description"] = doc
		}
		properties[name] = schema
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, name)
		}
	}
}

// comment returns the comment of a type of the module, or of a field of it.
func (g *Generator) comment(t reflect.Type, field string) string {
	below, ok := strings.CutPrefix(t.PkgPath(), g.Module)
	if !ok && t.PkgPath() != "main" {
		return ""
	}
	if t.PkgPath() == "main" {
		below = "/cmd/espalier"
	}
	if g.comments[below] == nil {
		g.comments[below] = map[string]string{}
		if err := readComments(filepath.Join(g.Root, filepath.FromSlash(below)), g.comments[below]); err != nil {
			g.err = err
		}
	}
	return g.comments[below][t.Name()+"."+field]
}

// readComments reads the comments of the types of a package, by TYPE.FIELD; that of a type has no field.
func readComments(dir string, comments map[string]string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			for _, spec := range decl.Specs {
				s := spec.(*ast.TypeSpec)
				if doc := s.Doc; doc != nil || len(decl.Specs) == 1 {
					if doc == nil {
						doc = decl.Doc
					}
					comments[s.Name.Name+"."] = sentence(doc.Text())
				}
				if structure, ok := s.Type.(*ast.StructType); ok {
					fieldComments(s.Name.Name, structure, comments)
				}
			}
		}
	}
	return nil
}

// fieldComments adds the comments of the fields of a struct. A comment may begin with the names of several
// fields, and is then about all of them. There they have the names that they have in JSON. In the rest, a word
// such as CRDs is one of the language, although a field may have this name.
func fieldComments(name string, structure *ast.StructType, comments map[string]string) {
	names, last := map[string]string{}, ""
	for _, f := range structure.Fields.List {
		for _, n := range f.Names {
			if f.Tag != nil {
				names[n.Name], _, _ = strings.Cut(jsonTag(f), ",")
			}
		}
	}
	for _, f := range structure.Fields.List {
		if f.Doc != nil {
			last = sentence(f.Doc.Text())
		}
		for _, n := range f.Names {
			about, rest := subject(last)
			if f.Doc == nil && !slices.Contains(about, n.Name) {
				comments[name+"."+n.Name] = ""
				continue
			}
			var b strings.Builder
			for _, w := range about {
				if in := names[w]; in != "" && in != "-" {
					w = in
				}
				b.WriteString(w)
			}
			// Fields that are left out are not null.
			absent := "null"
			if options := jsonTag(f); strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
				absent = "missing"
			}
			comments[name+"."+n.Name] = b.String() + none.ReplaceAllString(rest, absent)
		}
	}
}

// jsonTag returns the tag of a field for encoding/json.
func jsonTag(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	return reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
}

var (
	list = regexp.MustCompile(`^[\pL\pN]+((, and |, | and )[\pL\pN]+)*`)
	word = regexp.MustCompile(`[\pL\pN]+|[^\pL\pN]+`)
	none = regexp.MustCompile(`\bnil\b`)
	see  = regexp.MustCompile(`[,:;]? see \[[^\]\s]+\]`)
	link = regexp.MustCompile(`(^|[\s(])\[\*?([\pL_][\pL\pN_.]*)\]`)
)

// subject splits a text after the words that it is about, such as "A", "A and B" or "A, B and C", and returns
// them with what is between them.
func subject(text string) (words []string, rest string) {
	begin := list.FindString(text)
	return word.FindAllString(begin, -1), text[len(begin):]
}

// sentence returns a comment as one line, without links to Go declarations, which JSON does not have.
func sentence(comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	return link.ReplaceAllString(see.ReplaceAllString(text, ""), "$1$2")
}
