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
	t.Parallel()
	dirs, without := browser()
	patterns := []string{".", "./crd/cel"}
	for _, dir := range dirs {
		patterns = append(patterns, "./"+dir+"/...")
	}
	all := dependencies(t, []string{"GOOS=js", "GOARCH=wasm"}, patterns...)
	for _, dir := range dirs {
		found := false
		for path, deps := range all {
			if _, ok := within(module+"/"+dir, path); !ok {
				continue
			}
			found = true
			for _, p := range without {
				if dep := firstBelow(p, deps); dep != "" {
					t.Errorf("%s depends on %s", path, dep)
				}
			}
		}
		if !found {
			t.Errorf("there are no packages in %s", dir)
		}
	}
	// Programs that use nothing but CRDs must not link the built-in kinds, 20 MB: package kinds
	// registers itself in the root.
	if dep := firstBelow("k8s.io/api", all[module]); dep != "" || all[module] == nil {
		t.Errorf("%s depends on %q", module, dep)
	}
	// The check must find the dependencies of crd/cel, or it cannot find any.
	for _, p := range []string{"k8s.io/apiserver", "github.com/google/cel-go"} {
		if firstBelow(p, all[module+"/crd/cel"]) == "" {
			t.Errorf("crd/cel does not depend on %s", p)
		}
	}
}

// TestNoServer checks that the command line without the server has none of the dependencies that
// the tag leaves out.
func TestNoServer(t *testing.T) {
	t.Parallel()
	const program = "./cmd/espalier"
	for path, deps := range dependencies(t, nil, "-tags", "noserver,grpcnotrace", program) {
		for _, p := range noServer() {
			if dep := firstBelow(p, deps); dep != "" {
				t.Errorf("%s with the tags of espalier-cli depends on %s", path, dep)
			}
		}
	}
	// The check must find the dependencies of the complete program, or it cannot find any.
	for path, deps := range dependencies(t, nil, program) {
		for _, p := range noServer() {
			if firstBelow(p, deps) == "" {
				t.Errorf("%s does not depend on %s: remove it from the list", path, p)
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
