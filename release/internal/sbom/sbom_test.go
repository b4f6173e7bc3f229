package sbom

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program builds a program whose dependencies have various licenses: programs of tests do not name them.
func program(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "unpack")
	if out, err := exec.Command("go", "build", "-o", file, "espalier.dev/release/unpack").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

func TestLicenses(t *testing.T) {
	t.Parallel()
	g, err := New()
	if err != nil {
		t.Fatal(err)
	}
	file := program(t)
	text, err := g.Generate(file, "v1.2.3", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Components []struct {
			Name     string
			Licenses []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range bom.Components {
		for _, l := range c.Licenses {
			got[c.Name] = strings.TrimSpace(got[c.Name] + " " + l.License.ID)
		}
		if got[c.Name] == "" {
			t.Errorf("%s has no license", c.Name)
		}
	}
	for name, want := range map[string]string{
		"std": "BSD-3-Clause", "golang.org/x/sync": "BSD-3-Clause", "github.com/opencontainers/go-digest": "Apache-2.0 CC-BY-SA-4.0",
		"github.com/google/go-containerregistry": "Apache-2.0", "github.com/klauspost/compress": "Apache-2.0 BSD-3-Clause MIT",
	} {
		if got[name] != want {
			t.Errorf("%s: license %q, expected %q", name, got[name], want)
		}
	}
	notices, err := g.Licenses(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\ngithub.com/google/go-containerregistry v", " (Apache-2.0)\n", "\ngolang.org/x/sync v", " (BSD-3-Clause)\n\nCopyright 2009 The Go Authors.",
		"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION", "\nstd go1.",
	} {
		if !strings.Contains(string(notices), want) {
			t.Errorf("the licenses lack %q", want)
		}
	}
	g.read = map[string]*licenses{}
	g.cache, g.root = t.TempDir(), t.TempDir()
	if _, err := g.Generate(file, "v1.2.3", time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "license of ") {
		t.Errorf("without the module cache: error %v, expected one that names the module", err)
	}
}
