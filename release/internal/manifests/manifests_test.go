package manifests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"espalier.dev/release/internal/gobuild"
)

func manifests(t *testing.T, platforms []gobuild.Platform) map[string]string {
	t.Helper()
	r := Release{Version: "1.2.3-rc.1"}
	for _, f := range gobuild.Flavors() {
		for _, p := range platforms {
			name := f.Name + "_" + p.OS + "_" + p.Arch
			r.Archives = append(r.Archives, Archive{f.Name, p, "https://example.com/v1.2.3-rc.1/" + name, "sum-of-" + name})
		}
	}
	files, err := Write(r)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]string{}
	for _, f := range files {
		byName[f.Name] = string(f.Data)
	}
	return byName
}

func TestKrew(t *testing.T) {
	t.Parallel()
	var m struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string } `yaml:"selector"`
				URI, SHA256, Bin string
			}
		}
	}
	text := strings.ReplaceAll(manifests(t, gobuild.Platforms())["espalier.yaml"], "matchLabels", "matchlabels")
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	if m.Metadata.Name != "espalier" || m.Spec.Version != "v1.2.3-rc.1" || len(m.Spec.Platforms) != 6 {
		t.Errorf("%+v", m)
	}
	for _, p := range m.Spec.Platforms {
		name := "espalier-cli_" + p.Selector.MatchLabels["os"] + "_" + p.Selector.MatchLabels["arch"]
		exe := gobuild.Platform{OS: p.Selector.MatchLabels["os"]}.Exe()
		if p.URI != "https://example.com/v1.2.3-rc.1/"+name || p.SHA256 != "sum-of-"+name || p.Bin != exe {
			t.Errorf("%+v", p)
		}
	}
}

func TestHomebrew(t *testing.T) {
	t.Parallel()
	text := manifests(t, gobuild.Platforms())["espalier.rb"]
	for _, want := range []string{`
  on_macos do
    on_intel do
      url "https://example.com/v1.2.3-rc.1/espalier_darwin_amd64"
      sha256 "sum-of-espalier_darwin_amd64"
    end
    on_arm do
      url "https://example.com/v1.2.3-rc.1/espalier_darwin_arm64"
      sha256 "sum-of-espalier_darwin_arm64"
    end
  end
`, "  on_linux do\n    on_intel do\n      url \"https://example.com/v1.2.3-rc.1/espalier_linux_amd64\"\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no\n%sin\n%s", want, text)
		}
	}
	t.Run("ruby", func(t *testing.T) {
		if _, err := exec.LookPath("ruby"); err != nil {
			t.Skip("ruby is not installed")
		}
		name := filepath.Join(t.TempDir(), "espalier.rb")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("ruby", "-c", name).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestScoop(t *testing.T) {
	t.Parallel()
	var m scoopManifest
	if err := json.Unmarshal([]byte(manifests(t, gobuild.Platforms())["espalier.json"]), &m); err != nil {
		t.Fatal(err)
	}
	if m.Version != "1.2.3-rc.1" || m.Bin != "espalier.exe" || m.Architecture["64bit"].Hash != "sum-of-espalier_windows_amd64" ||
		m.Architecture["arm64"].URL != "https://example.com/v1.2.3-rc.1/espalier_windows_arm64" {
		t.Errorf("%+v", m)
	}
}

// A release for some platforms has only the manifests that it has archives for.
func TestSomePlatforms(t *testing.T) {
	t.Parallel()
	files := manifests(t, []gobuild.Platform{{OS: "linux", Arch: "amd64"}})
	if len(files) != 2 || strings.Contains(files["espalier.rb"], "on_macos") || files["espalier.yaml"] == "" {
		t.Errorf("%v", files)
	}
}
