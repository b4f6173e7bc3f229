package layers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestBrowser checks that the packages that may run in a browser have no forbidden
// dependency. It uses the go command, because TestTree sees only direct imports.
func TestBrowser(t *testing.T) {
	dirs, without := browser()
	for _, dir := range dirs {
		pkgs := browserDependencies(t, "./"+dir+"/...")
		if len(pkgs) == 0 {
			t.Errorf("there are no packages in %s", dir)
		}
		for path, deps := range pkgs {
			for _, p := range without {
				if dep := firstBelow(p, deps); dep != "" {
					t.Errorf("%s depends on %s", path, dep)
				}
			}
		}
	}
	// Programs that use nothing but CRDs must not link the built-in kinds, 20 MB: package kinds
	// registers itself in the root.
	for path, deps := range browserDependencies(t, ".") {
		if dep := firstBelow("k8s.io/api", deps); dep != "" {
			t.Errorf("%s depends on %s", path, dep)
		}
	}
	// The check must find the dependencies of crd/cel, or it cannot find any.
	for path, deps := range browserDependencies(t, "./crd/cel") {
		for _, p := range []string{"k8s.io/apiserver", "github.com/google/cel-go"} {
			if firstBelow(p, deps) == "" {
				t.Errorf("%s does not depend on %s", path, p)
			}
		}
	}
}

// firstBelow returns the first import path in deps that is at or below path, or "".
func firstBelow(path string, deps []string) string {
	for _, dep := range deps {
		if _, ok := within(path, dep); ok {
			return dep
		}
	}
	return ""
}

// browserDependencies returns the packages of a pattern with all their dependencies when compiled
// to WebAssembly.
func browserDependencies(t *testing.T, pattern string) map[string][]string {
	t.Helper()
	return dependencies(t, []string{"GOOS=js", "GOARCH=wasm"}, pattern)
}

// dependencies returns the packages that arguments of go list name, with all their dependencies in an
// environment.
func dependencies(t *testing.T, environment []string, args ...string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Deps,Error"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), environment...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v: %s", strings.Join(args, " "), err, &stderr)
	}
	pkgs := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Deps       []string
			Error      *struct{ Err string }
		}
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pkgs
		case err != nil:
			t.Fatal(err)
		case p.Error != nil:
			t.Fatalf("%s: %s", p.ImportPath, p.Error.Err)
		default:
			pkgs[p.ImportPath] = p.Deps
		}
	}
}
