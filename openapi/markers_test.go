package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/internal/gomod"
)

// TestMarkers holds markers.json to what the comments in the sources of Kubernetes' types say.
// With -update it writes the file.
func TestMarkers(t *testing.T) {
	r := &markerReader{root: map[string]string{}, packages: map[string]*sourcePackage{}, imports: map[string]bool{}}
	for _, module := range []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/kube-aggregator"} {
		dir, err := gomod.Dir("", module)
		if err != nil {
			t.Skipf("the sources of Kubernetes' types are not available: %v", err)
		}
		r.root[module] = dir
	}
	api := r.root["k8s.io/api"]
	out := map[string]map[string]*typeMarkers{}
	for _, pattern := range []string{"*/v1", "*/v2"} {
		found, err := filepath.Glob(filepath.Join(api, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no sources in %s: %v", api, err)
		}
		for _, dir := range found {
			name := strings.TrimPrefix(filepath.ToSlash(dir), filepath.ToSlash(api)+"/")
			switch name {
			case "admission/v1", "apidiscovery/v2": // these are not resources
			default:
				out["k8s.io/api/"+name] = r.read(t, "k8s.io/api/"+name)
			}
		}
	}
	const registration = "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	out[registration] = r.read(t, registration)
	const pkg = "k8s.io/apimachinery/pkg/"
	out[pkg+"apis/meta/v1"] = r.read(t, pkg+"apis/meta/v1")
	for name, used := range map[string]string{pkg + "api/resource": "Quantity", pkg + "runtime": "RawExtension", pkg + "util/intstr": "IntOrString"} {
		out[name] = map[string]*typeMarkers{used: r.read(t, name)[used]}
	}
	// Stable types refer to some that are not.
	for added := true; added; {
		added = false
		for path := range r.imports {
			if _, ok := out[path]; !ok && strings.HasPrefix(path, "k8s.io/api/") {
				out[path], added = r.read(t, path), true
			}
		}
	}
	want := encodeMarkers(t, out)
	if *update {
		if err := os.WriteFile("markers.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(markersJSON, want) {
		t.Error("markers.json is not what the sources of Kubernetes' types say: run go test ./openapi -run TestMarkers -update")
	}
}

// encodeMarkers writes a line for each type.
func encodeMarkers(t *testing.T, all map[string]map[string]*typeMarkers) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("{")
	for i, name := range sortedKeys(all) {
		fmt.Fprintf(&out, "%s\n%q: {", separator(i), name)
		for j, typeName := range sortedKeys(all[name]) {
			var line bytes.Buffer
			enc := json.NewEncoder(&line)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(all[name][typeName]); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s\n  %q: %s", separator(j), typeName, bytes.TrimSpace(line.Bytes()))
		}
		out.WriteString("\n}")
	}
	out.WriteString("\n}\n")
	return out.Bytes()
}

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// sourcePackage is a parsed package.
type sourcePackage struct {
	types      map[string]*ast.TypeSpec
	docs       map[string]*ast.CommentGroup // of types
	constants  map[string]*constant
	documented map[string]bool // types with generated documentation
}

type constant struct {
	name, typeName string
	doc            *ast.CommentGroup
	value          ast.Expr
	imports        map[string]string // of the file, by name
}

// markerReader reads the markers of packages.
type markerReader struct {
	root     map[string]string // directories of modules
	packages map[string]*sourcePackage
	imports  map[string]bool // of all packages
}

func (r *markerReader) parse(t *testing.T, path string) *sourcePackage {
	t.Helper()
	if p := r.packages[path]; p != nil {
		return p
	}
	p := &sourcePackage{types: map[string]*ast.TypeSpec{}, docs: map[string]*ast.CommentGroup{}, constants: map[string]*constant{}, documented: map[string]bool{}}
	r.packages[path] = p
	for module, dir := range r.root {
		rest, ok := strings.CutPrefix(path, module+"/")
		if !ok {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, rest, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.Base(name), "generated") && !strings.Contains(name, "swagger_doc") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range p.add(file) {
				r.imports[path] = true
			}
		}
	}
	return p
}

// add adds the declarations of a file, and returns its imports by name.
func (p *sourcePackage) add(file *ast.File) (imports map[string]string) {
	imports = map[string]string{}
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = path
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "SwaggerDoc" && f.Recv != nil {
			if receiver, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
				p.documented[receiver.Name] = true
			}
		}
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range gen.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				p.types[s.Name.Name], p.docs[s.Name.Name] = s, gen.Doc
				if s.Doc != nil {
					p.docs[s.Name.Name] = s.Doc
				}
			case *ast.ValueSpec:
				if gen.Tok != token.CONST || len(s.Names) != 1 || len(s.Values) != 1 {
					continue
				}
				c := &constant{name: s.Names[0].Name, doc: s.Doc, value: s.Values[0], imports: imports}
				if !gen.Lparen.IsValid() {
					c.doc = gen.Doc
				}
				if of, ok := s.Type.(*ast.Ident); ok {
					c.typeName = of.Name
				} else if call, ok := s.Values[0].(*ast.CallExpr); ok && s.Type == nil {
					if of, ok := call.Fun.(*ast.Ident); ok {
						c.typeName = of.Name
					}
				}
				p.constants[c.name] = c
			}
		}
	}
	return imports
}

// value returns the text that an expression of strings has.
func (r *markerReader) value(t *testing.T, p *sourcePackage, e ast.Expr, imports map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.CallExpr:
		if len(e.Args) == 1 {
			return r.value(t, p, e.Args[0], imports)
		}
	case *ast.Ident:
		if c := p.constants[e.Name]; c != nil {
			return r.value(t, p, c.value, c.imports)
		}
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok {
			other := r.parse(t, imports[of.Name])
			if c := other.constants[e.Sel.Name]; c != nil {
				return r.value(t, other, c.value, c.imports)
			}
		}
	case *ast.BinaryExpr:
		x, ok := r.value(t, p, e.X, imports)
		y, alsoOK := r.value(t, p, e.Y, imports)
		return x + y, ok && alsoOK && e.Op == token.ADD
	}
	return "", false
}

// read returns the markers of the types in a package that have any.
func (r *markerReader) read(t *testing.T, path string) map[string]*typeMarkers {
	t.Helper()
	p := r.parse(t, path)
	out := map[string]*typeMarkers{}
	for name, spec := range p.types {
		if !spec.Name.IsExported() || spec.Assign.IsValid() {
			continue
		}
		m := &typeMarkers{}
		tags := tagsOf(p.docs[name])
		if structure, ok := spec.Type.(*ast.StructType); ok {
			m.Map = first(tags, "structType", "mapType")
			if !p.documented[name] {
				m.Doc = description(p.docs[name])
			}
			r.readFields(t, p, structure, tags, m, p.documented[name])
		} else if _, ok := tags["enum"]; ok {
			m.Enum = map[string]string{}
			for _, c := range p.constants {
				if c.typeName != name {
					continue
				}
				value, ok := r.value(t, p, c.value, c.imports)
				if !ok {
					t.Errorf("%s.%s has no text", path, c.name)
				}
				doc := strings.TrimSpace(strings.TrimPrefix(strings.Join(lines(c.doc), " "), c.name))
				if old, ok := m.Enum[value]; !ok || len(doc) > len(old) {
					m.Enum[value] = strings.Join(strings.Fields(doc), " ")
				}
			}
		}
		if !reflect.DeepEqual(m, &typeMarkers{}) {
			out[name] = m
		}
	}
	return out
}

func (r *markerReader) readFields(t *testing.T, p *sourcePackage, structure *ast.StructType, tags map[string][]string, m *typeMarkers, documented bool) {
	t.Helper()
	_, isUnion := tags["union"]
	u := unionMarkers{Fields: map[string]string{}}
	for _, f := range structure.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		name, options, _ := strings.Cut(tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		tags := tagsOf(f.Doc)
		fm := fieldMarkers{List: first(tags, "listType"), Keys: tags["listMapKey"], Map: first(tags, "mapType", "structType")}
		// SwaggerDoc ends descriptions at three dashes, wherever they are, and reads escapes.
		if comment := strings.Join(lines(f.Doc), "\n"); !documented || strings.Contains(comment, "---") || strings.Contains(comment, `\`) {
			fm.Doc = description(f.Doc)
		}
		_, optional := tags["optional"]
		if _, ok := tags["required"]; !ok && !optional {
			optional = slices.Contains(strings.Split(options, ","), "omitempty")
		}
		if optional != isOmitted(options) {
			required := !optional
			fm.Required = &required
		}
		if text := first(tags, "default"); text != "" {
			if constant, ok := strings.CutPrefix(text, "ref("); ok {
				value, ok := r.value(t, p, ast.NewIdent(strings.TrimSuffix(constant, ")")), nil)
				if !ok {
					t.Errorf("the default of %s has no value: %s", name, text)
				}
				fm.Default = value
			} else if err := json.Unmarshal([]byte(text), &fm.Default); err != nil {
				t.Errorf("default of %s: %v", name, err)
			}
		}
		if !reflect.DeepEqual(fm, fieldMarkers{}) {
			if m.Fields == nil {
				m.Fields = map[string]fieldMarkers{}
			}
			m.Fields[name] = fm
		}
		if _, ok := tags["unionDiscriminator"]; ok {
			u.Discriminator = name
		} else if len(f.Names) == 1 {
			u.Fields[name] = f.Names[0].Name
		}
	}
	if isUnion {
		m.Union = &u
	}
}

// lines returns the lines of a comment without its delimiters.
func lines(c *ast.CommentGroup) (out []string) {
	if c == nil {
		return nil
	}
	for _, line := range c.List {
		out = append(out, strings.TrimPrefix(strings.TrimPrefix(line.Text, "//"), " "))
	}
	return out
}

// tagsOf returns the markers in a comment: +name=value.
func tagsOf(c *ast.CommentGroup) map[string][]string {
	out := map[string][]string{}
	for _, line := range lines(c) {
		if tag, ok := strings.CutPrefix(strings.TrimSpace(line), "+"); ok {
			name, value, _ := strings.Cut(tag, "=")
			out[name] = append(out[name], value)
		}
	}
	return out
}

func first(tags map[string][]string, names ...string) string {
	for _, name := range names {
		if values := tags[name]; len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// description returns a comment as Kubernetes publishes it.
func description(c *ast.CommentGroup) string {
	var out strings.Builder
	text := func() string { return out.String() }
	cut := func() {
		if s := text(); s != "" {
			out.Reset()
			out.WriteString(s[:len(s)-1])
		}
	}
	for _, line := range lines(c) {
		if line == "---" {
			break
		}
		line = strings.TrimRight(line, " ")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case line == "":
			cut()
			out.WriteString("\n\n")
		case strings.HasPrefix(trimmed, "TODO"), strings.HasPrefix(trimmed, "+"):
		case line[0] == ' ' || line[0] == '\t':
			cut()
			out.WriteString("\n" + line + "\n")
		default:
			out.WriteString(line + " ")
		}
	}
	return strings.TrimSpace(text())
}
