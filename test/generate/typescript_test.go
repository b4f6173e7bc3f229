package generate

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/typescript"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// findTSC returns the compiler of TypeScript. It skips the test if there is no tsc in PATH and
// ESPALIER_TSC does not name one.
func findTSC(t *testing.T) string {
	t.Helper()
	if tsc := os.Getenv("ESPALIER_TSC"); tsc != "" {
		return tsc
	}
	tsc, err := exec.LookPath("tsc")
	if err != nil {
		t.Skip("SKIPPED: there is no tsc: install Node and typescript, or set ESPALIER_TSC")
	}
	return tsc
}

// checkTypeScript runs tsc --strict on files.
func checkTypeScript(t *testing.T, tsc string, files map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	files = maps.Clone(files)
	files["tsconfig.json"] = []byte(`{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2022", "module": "esnext", "moduleResolution": "bundler",
		"exactOptionalPropertyTypes": true, "noUnusedLocals": true, "types": []}, "include": ["**/*.ts"]}`)
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), tsc, "-p", dir).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %.4000s", err, out)
	}
}

// TestTypeScriptCorpus compiles the interfaces of the corpus, and valid objects of the corpus
// as values of these interfaces.
func TestTypeScriptCorpus(t *testing.T) {
	t.Parallel()
	tsc := findTSC(t)
	files := map[string][]byte{}
	dirs := map[string]string{} // of the files of a CRD and version
	kinds := map[string]*generate.Kind{}
	for file, all := range corpus(t) {
		for _, p := range all {
			for _, text := range typescript.Generate([]*generate.Package{p}) {
				dir := fmt.Sprintf("p%d", len(dirs))
				dirs[file+" "+p.Version] = dir
				kinds[file+" "+p.Version] = p.Kinds[0]
				files[dir+"/types.ts"] = text
			}
		}
	}
	objects := 0
	for _, o := range corpusObjects(t) {
		key := o.crd + " " + o.version
		if dirs[key] == "" {
			continue
		}
		if text := normalized(t, kinds[key], o.file); text != nil {
			name := kinds[key].Type.Name
			files[fmt.Sprintf("%s/object%d.ts", dirs[key], objects)] = fmt.Appendf(nil, "import type { %s } from \"./types\";\nexport const object: %s = %s;\n", name, name, text)
			objects++
		}
	}
	t.Logf("%d versions, %d objects", len(dirs), objects)
	checkTypeScript(t, tsc, files)
}

// corpusObject is an object of the corpus.
type corpusObject struct{ file, crd, version string }

// corpusObjects returns the objects of v1 CRDs in the corpus, or one in nine of them.
func corpusObjects(t testing.TB) (all []corpusObject) {
	t.Helper()
	root := corpusDir(t)
	index, err := os.ReadFile(filepath.Join(root, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(index)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		if len(parts) == 4 && strings.HasPrefix(parts[1], "v1/") {
			all = append(all, corpusObject{filepath.Join(root, parts[0]), filepath.Join(root, parts[1]), parts[2][strings.LastIndex(parts[2], "/")+1:]})
		}
	}
	if testcase.WholeCorpus() {
		return all
	}
	return slices.DeleteFunc(all, func(o corpusObject) bool { return len(o.file)%3 != 0 })
}

// normalized returns an object as the API server stores it, or nil if it is not valid.
func normalized(t testing.TB, k *generate.Kind, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	program, err := k.Version.Program()
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil
	}
	object, _, err := program.Decode(text, schema.DecodeOptions{})
	if err != nil || len(program.Validate(t.Context(), object, nil)) > 0 {
		return nil
	}
	if text, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTypeScriptTypes checks what the interfaces accept and reject.
func TestTypeScriptTypes(t *testing.T) {
	t.Parallel()
	tsc := findTSC(t)
	const crd = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "tests.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "tests", "kind": "Test"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties":
		{"spec": {"type": "object", "required": ["mode"], "properties": {
			"mode": {"type": "string", "enum": ["On", "Off"]}, "port": {"x-kubernetes-int-or-string": true}, "text": {"type": "string", "nullable": true},
			"labels": {"type": "object", "additionalProperties": {"type": "string"}}, "any": {"x-kubernetes-preserve-unknown-fields": true},
			"open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
			"steps": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
			"raw": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
			"class": {"type": "string"}, "a-b": {"type": "string", "description": "*/ export const x = 1; /*"}, "__proto__": {"type": "string"}}}}}}}]}}`
	const test = `import type { Test, TestSpec, TestList } from "./example.com/v1/types";
export const good: Test = { apiVersion: "example.com/v1", kind: "Test", metadata: { name: "n", labels: { a: "b" } }, spec: {
  mode: "On", port: 80, text: null, labels: { x: "y" }, any: [1, null], open: { a: "x", more: 1 }, steps: [{ a: "x", more: 1 }], raw: { apiVersion: "v1", kind: "Pod", spec: {} }, class: "c", "a-b": "d" } };
export const list: TestList = { apiVersion: "example.com/v1", kind: "TestList", metadata: {}, items: [good] };
export const port: TestSpec = { mode: "Off", port: "http" };
// @ts-expect-error: another kind
export const kind: Test = { ...good, kind: "Other" };
// @ts-expect-error: a required field
export const missing: TestSpec = {};
// @ts-expect-error: not in the enum
export const mode: TestSpec = { mode: "Maybe" };
// @ts-expect-error: not nullable
export const nothing: TestSpec = { mode: "On", port: null };
// @ts-expect-error: neither an integer nor a string
export const truth: TestSpec = { mode: "On", port: true };
// @ts-expect-error: an unknown field
export const unknown: TestSpec = { mode: "On", other: 1 };
// @ts-expect-error: a map of strings
export const labels: TestSpec = { mode: "On", labels: { a: 1 } };
// @ts-expect-error: a specified field of an open object
export const open: TestSpec = { mode: "On", open: { a: 1 } };
// @ts-expect-error: not a resource
export const raw: TestSpec = { mode: "On", raw: {} };
`
	files := maps.Clone(map[string][]byte(typescript.Generate(packages(t, []byte(crd)))))
	files["test.ts"] = []byte(test)
	checkTypeScript(t, tsc, files)
}
