package kustomize

import (
	"strings"
	"testing"
)

const kustomization = `
resources:
- a.yaml
- ./b/../b.yaml
- https://example.com/c.yaml
- github.com/owner/repo//dir?ref=v1
- git@example.com:owner/repo.git
- ../base
- host.example.com
bases: [old]
components: ["https://example.com/owner/repo//component"]
patchesStrategicMerge:
- merge.yaml
- |
  kind: X
patchesJson6902:
- {path: json.yaml, target: {kind: Deployment, name: a}}
patches:
- {path: patch.yaml}
- {path: a.yaml}
- {patch: "- op: remove", target: {name: b}}
configurations: [config.yaml]
generators: [generators]
validators: [" apiVersion: v1\n kind: Y"]
openapi: {path: schema.json}
configMapGenerator: [{files: [f.yaml, k=g.yaml], envs: [e.env], env: old.env}]
secretGenerator: [{files: [secret.txt]}]
helmCharts: [{name: chart, repo: "https://charts.example.com/", valuesFile: values.yaml, additionalValuesFiles: [more.yaml]}]
namePrefix: 3
images: nonsense
`

func TestParse(t *testing.T) {
	t.Parallel()
	k, err := Parse([]byte(kustomization))
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]Role{
		"a.yaml": Resource, "b.yaml": Resource, "merge.yaml": Patch, "json.yaml": Patch, "patch.yaml": Patch,
		"config.yaml": Configuration, "generators/x/y.yaml": Configuration, "schema.json": Configuration,
		"f.yaml": GeneratorInput, "g.yaml": GeneratorInput, "e.env": GeneratorInput, "old.env": GeneratorInput,
		"secret.txt": GeneratorInput, "values.yaml": GeneratorInput, "more.yaml": GeneratorInput, "charts/x/values.yaml": GeneratorInput,
		"other.yaml": None, "x/a.yaml": None, "../base/a.yaml": None,
	} {
		if got := k.Role(file); got != want {
			t.Errorf("%s: got %d, want %d", file, got, want)
		}
	}
	if got := strings.Join(k.Directories, " "); got != "../base host.example.com old generators" {
		t.Errorf("directories: %s", got)
	}
	want := "https://example.com/c.yaml github.com/owner/repo//dir?ref=v1 git@example.com:owner/repo.git" +
		" https://example.com/owner/repo//component Helm chart https://charts.example.com/chart"
	if got := strings.Join(k.Remote, " "); got != want {
		t.Errorf("remote: %s", got)
	}
	if len(k.Patches) != 6 || k.Patches[5].Target["kind"] != "Deployment" && k.Patches[4].Target["name"] == "" {
		t.Errorf("patches: %+v", k.Patches)
	}
}

// TestParseMalformed parses what is no kustomization. Nothing of it panics.
func TestParseMalformed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "[]", "a", "resources: {}", "patches: [[1], {target: 3}]", "configMapGenerator: [x]", "helmCharts: {}", "resources: [1, null]"} {
		if k, err := Parse([]byte(text)); err == nil && k.Role("a.yaml") != None {
			t.Errorf("%s: %+v", text, k)
		}
	}
}

func TestNamedLikePatch(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{
		"patches/a.yaml": true, "manager_auth_proxy_patch.yaml": true, "patch-a.yaml": true, "x/patch/a.yaml": true,
		"dispatch.yaml": false, "a.yaml": false, "patches.yaml": false,
	} {
		if NamedLikePatch(file) != want {
			t.Errorf("%s: want %t", file, want)
		}
	}
}
