// Package golang writes the Go types of custom resources: structs with doc comments and
// kubebuilder markers, from which controller-gen derives the schema again, lists, deep copies,
// and the registration with a runtime.Scheme.
//
// The schema comes back with these options of controller-gen:
//
//	controller-gen crd:allowDangerousTypes=true,generateEmbeddedObjectMeta=true paths=./...
//
// Keywords for which controller-gen has no marker are written as markers that start with
// +espalier, which other tools ignore.
package golang

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/generate"
)

// RuleInexpressible is the rule about parts of a schema that Go types cannot express.
const RuleInexpressible = "inexpressible-in-go"

// Rules returns the rules of the problems that Generate reports.
func Rules() []analysis.Rule {
	return []analysis.Rule{{ID: RuleInexpressible, Severity: analysis.Warning,
		Summary: "A field cannot be a field of a Go struct: its values are preserved as JSON."}}
}

// Generate returns the files of the packages, and problems with what Go types cannot express.
// The error is not nil only if the files are not valid Go, which is a bug.
func Generate(packages []*generate.Package) (generate.Files, []generate.Problem, error) {
	files := generate.Files{}
	var problems []generate.Problem
	for _, p := range packages {
		w := newWriter(p)
		for _, f := range []struct{ name, text string }{
			{"types", w.types()}, {"register", w.register()}, {"deepcopy", w.deepCopies()}, {"unknown", w.unknown()},
		} {
			if f.text == "" {
				continue
			}
			name := p.Dir() + "/zz_generated." + f.name + ".go"
			text, err := finish(name, f.text)
			if err != nil {
				return nil, nil, err
			}
			files[name] = text
		}
		problems = append(problems, w.problems...)
	}
	return files, problems, nil
}

// imports are the import paths of the packages that generated code uses, by name.
var imports = map[string]string{
	"apiextensionsv1": "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
	"corev1":          "k8s.io/api/core/v1",
	"intstr":          "k8s.io/apimachinery/pkg/util/intstr",
	"json":            "encoding/json",
	"metav1":          "k8s.io/apimachinery/pkg/apis/meta/v1",
	"resource":        "k8s.io/apimachinery/pkg/api/resource",
	"runtime":         "k8s.io/apimachinery/pkg/runtime",
	"schema":          "k8s.io/apimachinery/pkg/runtime/schema",
	"utiljson":        "k8s.io/apimachinery/pkg/util/json",
}

// finish adds the imports that a file uses, and formats it. The file has the line "import"
// where the imports belong.
func finish(name, text string) ([]byte, error) {
	before, after, _ := strings.Cut(text, "\nimport\n")
	parsed, err := parser.ParseFile(token.NewFileSet(), name, before+"\n"+after, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("the generated Go code is not valid: %w", err)
	}
	used := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && imports[x.Name] != "" {
				used[x.Name] = true
			}
		}
		return true
	})
	var b strings.Builder
	b.WriteString(before + "\n\nimport (\n")
	// The standard library comes first, in a group of its own.
	for _, standard := range []bool{true, false} {
		for _, alias := range slices.Sorted(maps.Keys(used)) {
			path := imports[alias]
			if strings.Contains(path, ".") == standard {
				continue
			}
			if strings.HasSuffix(path, "/"+alias) {
				fmt.Fprintf(&b, "%q\n", path)
			} else {
				fmt.Fprintf(&b, "%s %q\n", alias, path)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n" + after)
	out, err := format.Source([]byte(b.String()))
	if err != nil {
		return nil, fmt.Errorf("the generated Go code is not valid: %w", err)
	}
	return out, nil
}

// writer writes the files of one package.
type writer struct {
	p        *generate.Package
	problems []generate.Problem
	// names are the names of all declarations.
	names   generate.Names
	structs []*structType
	// elems are the types of list items and map values that have markers or a description,
	// and elemsByText finds them by what follows their names.
	elems       []*elemType
	elemsByText map[string]*elemType
	// fingerprints finds types of other packages.
	fingerprints *generate.Fingerprints
	// groupVersion, schemeBuilder and addToScheme are the names of the variables.
	groupVersion, schemeBuilder, addToScheme string
}

func newWriter(p *generate.Package) *writer {
	w := &writer{p: p, names: generate.Names{}, elemsByText: map[string]*elemType{}, fingerprints: generate.NewFingerprints()}
	for _, t := range p.Types {
		w.names[t.Name] = true
	}
	w.groupVersion, w.schemeBuilder, w.addToScheme = w.names.Unique("GroupVersion"),
		w.names.Unique("SchemeBuilder"), w.names.Unique("AddToScheme")
	used := w.used()
	var rest []*structType
	for _, t := range p.Types {
		if !used[t] {
			continue
		}
		if t.Kind == nil {
			rest = append(rest, &structType{Type: t})
			continue
		}
		w.structs = append(w.structs, &structType{Type: t, list: w.names.Unique(t.Name + "List")})
	}
	w.structs = append(w.structs, rest...)
	for _, s := range w.structs {
		w.fields(s)
	}
	return w
}

// packageName returns the name of the Go package: the version without characters that Go does
// not allow.
func (w *writer) packageName() string {
	var b strings.Builder
	for _, r := range w.p.Version {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' && b.Len() > 0 {
			b.WriteRune(r)
		}
	}
	if name := b.String(); !token.IsKeyword(name) && name != "" && imports[name] == "" {
		return name
	}
	return "v" + b.String()
}

// header returns the first lines of a file.
func (w *writer) header(doc string) string {
	return "// " + generate.Marker + "\n\n" + doc + "package " + w.packageName() + "\n\nimport\n"
}
