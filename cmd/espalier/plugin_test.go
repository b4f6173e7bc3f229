package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestKubectlComplete runs the script that kubectl runs to complete the arguments of the
// plugin.
func TestKubectlComplete(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../scripts/kubectl_complete-espalier")
	if err != nil {
		t.Fatal(err)
	}
	crd, err := filepath.Abs("testdata/examples/crontab-crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(programCommand(t).Path, filepath.Join(bin, "kubectl-espalier")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"vali"}, []string{"validate", ":4"}},
		{[]string{"lint", "--semantics", ""}, []string{"kep", "kubernetes", ":4"}},
		{[]string{"explain", "--crd", crd, "ct.spec.im"}, []string{"ct.spec.image", ":6"}},
	} {
		c := exec.Command(script, test.args...)
		c.Env = append(os.Environ(), asProgram+"=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%q: %v", test.args, err)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.args, got, test.want)
		}
	}
}

// TestPreCommit runs each hook as pre-commit does, with files of all kinds.
func TestPreCommit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Name, Description, Entry, Language string
		Types                                  []string
		PassFilenames                          bool `json:"pass_filenames"`
		RequireSerial                          bool `json:"require_serial"`
	}
	if err := yaml.UnmarshalStrict(text, &hooks); err != nil {
		t.Fatal(err)
	}
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: A, plural: as}\n  versions:\n" +
		"  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: integer}}}}}\n"
	others := map[string]string{
		"deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}\n",
		"empty.yaml":      "# nothing\n",
		"helm.yaml":       "{{- if .Values.crds }}\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n{{- end }}\n",
		"list.yaml":       "- hosts: all\n  tasks:\n  - k8s: {definition: {apiVersion: v1, kind: Pod}}\n",
		"tags.yaml":       "key: !reference [a, b]\nother: !Ref c\n",
		"values.yaml":     "kind: DaemonSet\nimage: {tag: v1}\n",
		"broken.yaml":     "a: [\n",
		"patch.yaml":      "- op: replace\n  path: /spec\n  value: 1\n",
	}
	good := map[string]string{"crd.yaml": crd, "good.yaml": "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\nspec: 1\n"}
	bad := map[string]map[string]string{
		"espalier-lint":     {"bad.yaml": strings.Replace(crd, "type: integer", "type: imteger", 1)},
		"espalier-fix":      {"bad.yaml": strings.Replace(crd, "k8s.io/v1", "k8s.io/v1beta1", 1)},
		"espalier-validate": {"crd.yaml": crd, "bad.yaml": "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\nspec: x\n"},
	}
	var ids []string
	for _, hook := range hooks {
		ids = append(ids, hook.ID)
		if hook.Language != "golang" || !slices.Equal(hook.Types, []string{"yaml"}) || !hook.PassFilenames || hook.Name == "" || hook.Description == "" {
			t.Errorf("%+v", hook)
		}
		entry := strings.Fields(hook.Entry)
		if entry[0] != "espalier" {
			t.Fatalf("%s does not run espalier", hook.Entry)
		}
		var p place
		run := func(files ...map[string]string) (string, int) {
			p = newPlace(t)
			args := slices.Clone(entry[1:])
			for _, group := range files {
				for name, text := range group {
					p.write(name, text)
					args = append(args, name)
				}
			}
			return p.run(args...)
		}
		if out, code := run(others); code != 0 {
			t.Errorf("%s: files of other kinds: exit code %d\n%s", hook.ID, code, out)
		}
		if out, code := run(others, good); code != 0 {
			t.Errorf("%s: good files: exit code %d\n%s", hook.ID, code, out)
		}
		out, code := run(others, bad[hook.ID])
		if hook.ID == "espalier-fix" {
			// pre-commit notices that the hook has changed a file.
			if text := p.read("bad.yaml"); strings.Contains(text, "v1beta1") {
				t.Errorf("%s: exit code %d\n%s%s", hook.ID, code, out, text)
			}
		} else if code != 1 || !strings.Contains(out, "bad.yaml") {
			t.Errorf("%s: bad files: exit code %d\n%s", hook.ID, code, out)
		}
	}
	if want := []string{"espalier-lint", "espalier-fix", "espalier-validate"}; !slices.Equal(ids, want) {
		t.Errorf("got %q", ids)
	}
}

// TestProgressInCI makes sure that CI systems with a terminal get no progress.
func TestProgressInCI(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "false": false, "true": true, "1": true} {
		a := &app{environ: func(name string) (string, bool) { return value, name == "CI" }}
		if a.inCI() != want {
			t.Errorf("CI=%s: got %v", value, !want)
		}
	}
}
