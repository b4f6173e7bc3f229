package layers

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "espalier.dev"
	root   = "../.."
)

// TestTree checks the packages of the module against the rules.
func TestTree(t *testing.T) {
	pkgs := scan(t, root)
	// The scan must have found these packages.
	for _, dir := range []string{".", "api", "schema", "internal/layers"} {
		if !slices.ContainsFunc(pkgs, func(p pkg) bool { return p.dir == dir }) {
			t.Errorf("package %s was not found", dir)
		}
	}
	for _, b := range check(module, layers(), fences(), pkgs) {
		t.Error(b)
	}
	for _, b := range checkModules(fences(), required(t, filepath.Join(root, "go.mod"))) {
		t.Error(b)
	}
}

// TestRules breaks each rule on made-up packages.
func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name string
		pkg  pkg
		want []string
	}{
		{"lower layers may be imported, at any depth", pkg{dir: "server/builtin", imports: []string{
			"fmt", "espalier.dev", "espalier.dev/schema", "espalier.dev/api/v1beta1", "espalier.dev/server", "k8s.io/apiserver/pkg/endpoints", "go.etcd.io/etcd/client/v3"}}, nil},
		{"tests may import upward", pkg{dir: "schema", testImports: []string{"espalier.dev/crd", "go.etcd.io/etcd/client/v3"}}, nil},
		{"a prefix of a name is not a directory", pkg{dir: "schema", imports: []string{"k8s.io/apiserverless", "espalier.development/crd"}}, nil},
		{"a layer above", pkg{dir: "api/v1beta1", imports: []string{"espalier.dev/api", "espalier.dev/schema"}}, []string{"api/v1beta1 imports schema, which is not beneath it"}},
		{"rules are injected", pkg{dir: "analysis/lint", imports: []string{"espalier.dev/crd", "espalier.dev/crd/cel"}}, []string{"analysis/lint imports crd/cel, which is not beneath it"}},
		{"neighbours do not import each other", pkg{dir: "openapi", imports: []string{"espalier.dev/analysis", "espalier.dev"}},
			[]string{"openapi imports analysis, which is not beneath it", "openapi imports ., which is not beneath it"}},
		{"the product does not import what tests share", pkg{dir: "cmd/espalier", imports: []string{"espalier.dev/server", "espalier.dev/server/servertest"}},
			[]string{"cmd/espalier imports server/servertest, which is not beneath it"}},
		{"a package without a layer", pkg{dir: "other"}, []string{"other is in no layer"}},
		{"a layer imports a package without one", pkg{dir: "cmd/espalier", imports: []string{"espalier.dev/other"}}, []string{"cmd/espalier imports other, which is not beneath it"}},
		{"a fence", pkg{dir: "schema", imports: []string{"k8s.io/apiserver"}}, []string{"schema imports k8s.io/apiserver"}},
		{"a fence, below its path", pkg{dir: "cmd/espalier", imports: []string{"go.etcd.io/etcd/server/v3/embed"}}, []string{"cmd/espalier imports go.etcd.io/etcd/server/v3/embed"}},
		{"a fence for tests", pkg{dir: "schema", testImports: []string{"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"}},
			[]string{"schema imports k8s.io/apiextensions-apiserver/pkg/apiserver/schema"}},
	} {
		if got := check(module, layers(), fences(), []pkg{tt.pkg}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	got := checkModules(fences(), []string{"k8s.io/apimachinery", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver"})
	if want := []string{"the module depends on k8s.io/apiextensions-apiserver"}; !slices.Equal(got, want) {
		t.Errorf("through others: got %q, want %q", got, want)
	}
}

// TestScan checks that the scan finds imports behind build tags and in tests, and ignores
// files that do not belong to the module.
func TestScan(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module m\n\nrequire k8s.io/x v1.0.0 // indirect\nrequire (\n\tk8s.io/y v1.0.0\n)\n",
		"a.go":               "package m\n\nimport \"fmt\"\n",
		"b/b.go":             "//go:build never\n\npackage b\n\nimport _ \"m/c\"\n",
		"b/b_test.go":        "package b_test\n\nimport x \"testing\"\n",
		"b/testdata/t.go":    "package t\n\nimport \"not/scanned\"\n",
		"_b/x.go":            "package b\n\nimport \"not/scanned\"\n",
		"test/go.mod":        "module m/test\n",
		"test/sub/x.go":      "package sub\n\nimport \"not/scanned\"\n",
		"empty/notes.txt":    "no Go here",
		"vendor/v/vendor.go": "package v\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := scan(t, dir)
	want := []pkg{
		{dir: ".", imports: []string{"fmt"}},
		{dir: "b", imports: []string{"m/c"}, testImports: []string{"testing"}},
	}
	if !slices.EqualFunc(got, want, func(a, b pkg) bool {
		return a.dir == b.dir && slices.Equal(a.imports, b.imports) && slices.Equal(a.testImports, b.testImports)
	}) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := required(t, filepath.Join(dir, "go.mod")), []string{"k8s.io/x", "k8s.io/y"}; !slices.Equal(got, want) {
		t.Errorf("required: got %q, want %q", got, want)
	}
}

// scan reads the packages of the module at root, in the order of their directories. It
// ignores build tags, because the rules apply on all platforms.
func scan(t *testing.T, root string) []pkg {
	t.Helper()
	byDir := map[string]*pkg{}
	err := walkModule(root, func(path string) error {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(rel)
		p := byDir[dir]
		if p == nil {
			p = &pkg{dir: dir}
			byDir[dir] = p
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, "_test.go") {
				p.testImports = append(p.testImports, imp)
			} else {
				p.imports = append(p.imports, imp)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pkgs := make([]pkg, 0, len(byDir))
	for _, p := range byDir {
		pkgs = append(pkgs, *p)
	}
	slices.SortFunc(pkgs, func(a, b pkg) int { return strings.Compare(a.dir, b.dir) })
	return pkgs
}

// required reads the module paths in a go.mod, including indirect dependencies.
func required(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var mods []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") {
			mods = append(mods, fields[0])
		}
	}
	return mods
}
