package lint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

func TestBadText(t *testing.T) {
	for _, text := range []string{"", "{", "null", "3", `"x"`, "{} {}", `{"kind": 3}`, `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","spec":[]}`} {
		found, err := lint.Run(context.Background(), [][]byte{[]byte(text)}, lint.Options{Rules: cel.Checker{}})
		if err != nil {
			t.Fatal(err)
		}
		if fs := found[0]; len(fs) != 1 || fs[0].Rule != "undecodable" || fs[0].Severity != analysis.Error {
			t.Errorf("%s: got %v", text, fs)
		}
	}
}

func TestDuplicateKeys(t *testing.T) {
	text := string(analysistest.JSON(t, v1(`{type: object, properties: {a: {type: string}}}`)))
	text = strings.Replace(text, `"a":{`, `"a":{"type":"integer","type":"integer"},"a":{`, 1)
	found, err := lint.Run(context.Background(), [][]byte{[]byte(text)}, lint.Options{Rules: cel.Checker{}, Configs: []lint.Config{only("duplicate-key")}})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, found[0], "warning .properties[a]", "warning .properties[a].type")
	// The total length of the paths is limited.
	name := strings.Repeat("n", 1<<20)
	text = strings.Replace(text, `"a":{`, `"`+name+`":{"type":"string","type":"string","title":"a","title":"a","format":"a","format":"a","pattern":"a","pattern":"a"},"a":{`, 1)
	if found, err = lint.Run(context.Background(), [][]byte{[]byte(text)}, lint.Options{Configs: []lint.Config{only("duplicate-key")}}); err != nil {
		t.Fatal(err)
	}
	if n := len(found[0]); n != 2 {
		t.Errorf("got %d findings with long paths", n)
	}
}

func TestCollisions(t *testing.T) {
	named := func(group, plural, names string) string {
		return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: %[2]s, %[3]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, group, plural, names)
	}
	found := lintAll(t, schema.KEP, only("name-collision", "short-name-ambiguous"),
		named("a.io", "shirts", "kind: Shirt, singular: shirt, shortNames: [s]"),
		named("a.io", "socks", "kind: Sock, singular: sock, shortNames: [s, x]"),
		named("a.io", "tees", "kind: Shirt, singular: shirts, listKind: Sock"),
		named("b.io", "shirts", "kind: Shirt, singular: shirt, shortNames: [s]"),
		named("a.io", "shirts", "kind: Shirt, singular: shirt, shortNames: [s, x]"),
		named("a.io", "sheep", "kind: Sheep, singular: sheep"),
	)
	expect(t, found[0])
	expect(t, found[1], "error spec.names.shortNames[0]")
	says(t, found[1][0], `"s" is already in use in group a.io: it is spec.names.shortNames[0] of shirts.a.io`, "NamesAccepted")
	expect(t, found[2], "error spec.names.kind", "error spec.names.listKind", "error spec.names.singular")
	expect(t, found[3], "info spec.names.shortNames[0]")
	expect(t, found[4], "warning metadata.name", "error spec.names.shortNames[1]")
	expect(t, found[5])
}

func TestSize(t *testing.T) {
	sized := func(n int) string {
		return v1(`{type: object, properties: {a: {type: string}}, description: "` + strings.Repeat("x", n) + `"}`)
	}
	expect(t, lintAll(t, schema.KEP, only("size-apply", "size-storage"), sized(250_000))[0])
	expect(t, lintAll(t, schema.KEP, only("size-apply", "size-storage"), sized(263_000))[0], "warning ")
	expect(t, lintAll(t, schema.KEP, only("size-apply", "size-storage"), sized(1_573_000))[0], "warning ", "warning ")
	// The limits are exact. kubectl apply stores a line break, too.
	fill := func(limit, others int) int {
		return limit - others - len(analysistest.JSON(t, sized(0))) - 1
	}
	annotated := func(n int) string {
		return strings.Replace(sized(n), "metadata: {", "metadata: {annotations: {ab: cde, kubectl.kubernetes.io/last-applied-configuration: x}, ", 1)
	}
	added := len(analysistest.JSON(t, annotated(0))) - len(analysistest.JSON(t, sized(0)))
	const name = len("kubectl.kubernetes.io/last-applied-configuration")
	for _, c := range []struct {
		text string
		want []string
	}{
		{sized(fill(256<<10, name)), nil},
		{sized(fill(256<<10, name) + 1), []string{"size-apply"}},
		{annotated(fill(256<<10, name+len("abcde")+added)), nil},
		{annotated(fill(256<<10, name+len("abcde")+added) + 1), []string{"size-apply"}},
		{sized(fill(3<<19, 0)), []string{"size-apply"}},
		{sized(fill(3<<19, 0) + 1), []string{"size-apply", "size-storage"}},
	} {
		var got []string
		for _, f := range lintAll(t, schema.KEP, only("size-apply", "size-storage"), c.text)[0] {
			got = append(got, f.Rule)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%d bytes: got %q, want %q", len(c.text), got, c.want)
		}
	}
	says(t, lintAll(t, schema.KEP, only("size-storage"), sized(fill(3<<19, 0)+1))[0][0], "the CRD has 1572865 bytes as JSON, and etcd accepts at most 1572864")
	// JSON escapes < to six bytes.
	escaped := strings.Replace(sized(60_000), "xxxx", strings.Repeat("<", 40_000), 1)
	expect(t, lintAll(t, schema.KEP, only("size-apply"), escaped)[0], "warning ")
}

// TestImpliedMetadata covers the advice of the document on structural schemas.
func TestImpliedMetadata(t *testing.T) {
	t.Run("S-23", func(t *testing.T) {
		embedded := func(metadata string) string {
			return v1(`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {metadata: ` + metadata + `}}}}`)
		}
		// All of it, as a generator writes it.
		full, err := json.Marshal(schema.ObjectMeta().ToJSONSchemaProps())
		if err != nil {
			t.Fatal(err)
		}
		fs := lintAll(t, schema.KEP, lint.Config{}, embedded(string(full)))[0]
		expect(t, fs, "info .properties[e].properties[metadata]")
		says(t, fs[0], "the metadata of an embedded resource is implied", "annotations, creationTimestamp", "uid")
		// Also in lists and maps.
		fs = lintAll(t, schema.KEP, only("implied-metadata"), v1(`{type: object, properties: {
			l: {type: array, items: {type: object, x-kubernetes-embedded-resource: true, properties: {metadata: `+string(full)+`}}},
			m: {type: object, additionalProperties: {type: object, x-kubernetes-embedded-resource: true, properties: {metadata: `+string(full)+`}}}}}`))[0]
		expect(t, fs, "info .properties[l].items.properties[metadata]", "info .properties[m].additionalProperties.properties[metadata]")
		expect(t, lintAll(t, schema.KEP, lint.Config{}, embedded(`{type: object}`))[0])
		// Each restriction is more than what is implied, also below the field.
		for _, field := range []string{
			"name: {type: string, maxLength: 40}", "name: {type: string, minLength: 2}", "name: {type: string, pattern: ^a}",
			"name: {type: string, enum: [a, b]}", "name: {type: string, not: {enum: [a]}}", "name: {type: string, allOf: [{maxLength: 3}]}",
			"name: {type: string, anyOf: [{maxLength: 3}]}", "name: {type: string, oneOf: [{maxLength: 3}]}",
			"name: {type: string, maxLength: 9, x-kubernetes-validations: [{rule: \"self != 'a'\", message: no}]}",
			"generation: {type: integer, format: int64, minimum: 1}", "generation: {type: integer, format: int64, maximum: 9}",
			"generation: {type: integer, format: int64, multipleOf: 2}", "name: {type: string, default: a}",
			"finalizers: {type: array, maxItems: 3, items: {type: string}}", "finalizers: {type: array, minItems: 1, items: {type: string}}",
			"finalizers: {type: array, items: {type: string, pattern: ^a}}",
			"labels: {type: object, maxProperties: 3, additionalProperties: {type: string}}", "labels: {type: object, minProperties: 1, additionalProperties: {type: string}}",
			"labels: {type: object, required: [a], additionalProperties: {type: string}}", "labels: {type: object, additionalProperties: {type: string, maxLength: 3}}",
		} {
			if fs := lintAll(t, schema.KEP, only("implied-metadata"), embedded(`{type: object, properties: {`+field+`}}`))[0]; len(fs) > 0 {
				t.Errorf("%s is no restriction: got %v", field, fs)
			}
		}
		for _, field := range []string{"name: {type: string}", "generation: {type: integer, format: int64}", "finalizers: {type: array, items: {type: string}}", "labels: {type: object, additionalProperties: {type: string}}"} {
			expect(t, lintAll(t, schema.KEP, only("implied-metadata"), embedded(`{type: object, properties: {`+field+`}}`))[0], "info .properties[e].properties[metadata]")
		}
	})
}

// TestNonStructuralReasons lints the example of a non-structural schema.
func TestNonStructuralReasons(t *testing.T) {
	const bad = `
  properties:
    spec:
      type: object
      properties:
        command: {type: string, minLength: 1}
        shell: {type: string, minLength: 1}
        machines: {type: array, items: {type: string, pattern: "^[a-z0-9]+(-[a-z0-9]+)*$"}}
      oneOf:
      - {properties: {command: {type: string}}, required: [command]}
      - {properties: {shell: {type: string}}, required: [shell]}
      not: {properties: {privileged: {}}}
  required: [spec]`
	t.Run("B-02", func(t *testing.T) {
		fs := lintAll(t, schema.KEP, lint.Config{}, v1(bad))[0]
		expect(t, fs,
			"error .properties[spec].oneOf[0].properties[command].type",
			"error .properties[spec].oneOf[1].properties[shell].type",
			"error .properties[spec].properties[privileged]",
			"error .type")
		says(t, fs[0], "must be empty to be structural")
		says(t, fs[2], "because it is defined in "+site+".properties[spec].not.properties[privileged]", "only kep semantics rejects this")
		says(t, fs[3], "must be non-empty")
		// v1beta1 accepts it, and lint reports it anyway.
		fs = lintAll(t, schema.KEP, only("non-structural"), v1beta1("validation:\n  openAPIV3Schema:\n  "+strings.ReplaceAll(strings.TrimPrefix(bad, "\n"), "\n", "\n  ")))[0]
		if len(fs) != 4 || slices.ContainsFunc(fs, func(f analysis.Finding) bool { return f.Severity != analysis.Warning }) {
			t.Errorf("got %v", fs)
		}
	})
	t.Run("fixes", func(t *testing.T) {
		for i, f := range lintAll(t, schema.KEP, lint.Config{}, v1(bad))[0] {
			if fixable := f.Fix != nil; fixable == (i == 2) {
				t.Errorf("%v: fix %v", f, f.Fix)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	text := v1(`{type: object, properties: {a: {type: object}, b: {type: string, format: ip}}}`)
	run := func(configs ...lint.Config) (lines []string) {
		t.Helper()
		found, err := lint.Run(context.Background(), [][]byte{analysistest.JSON(t, text)}, lint.Options{Rules: cel.Checker{}, Configs: configs})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found[0] {
			lines = append(lines, string(f.Severity)+" "+f.Rule)
		}
		return lines
	}
	file := lint.Config{Disable: []string{"pruned-empty"}, Severity: map[string]analysis.Severity{"unknown-format": "error"}}
	for _, tt := range []struct {
		configs []lint.Config
		want    []string
	}{
		{nil, []string{"warning pruned-empty", "warning unknown-format"}},
		{[]lint.Config{file}, []string{"error unknown-format"}},
		{[]lint.Config{file, {Enable: []string{"pruned-empty"}, Severity: map[string]analysis.Severity{"unknown-format": "info"}}}, []string{"warning pruned-empty", "info unknown-format"}},
		{[]lint.Config{file, {Disable: []string{"all"}}}, nil},
		{[]lint.Config{{Disable: []string{"all"}, Enable: []string{"pruned-empty"}}}, []string{"warning pruned-empty"}},
	} {
		if got := run(tt.configs...); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %q, want %q", tt.configs, got, tt.want)
		}
	}
	for _, bad := range []lint.Config{
		{Disable: []string{"pruned-emty"}},
		{Enable: []string{"pruned-emty"}},
		{Severity: map[string]analysis.Severity{"pruned-empty": "fatal"}},
		{Severity: map[string]analysis.Severity{"x": "error"}},
	} {
		if _, err := lint.Configured(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	rules, err := lint.Configured(file)
	if err != nil || len(rules) != len(lint.Rules()) {
		t.Fatalf("%d rules, error %v", len(rules), err)
	}
	for _, r := range rules {
		switch r.ID {
		case "pruned-empty":
			if !r.Off {
				t.Error("pruned-empty is on")
			}
		case "unknown-format":
			if r.Severity != analysis.Error {
				t.Errorf("unknown-format is %s", r.Severity)
			}
		}
	}
}

// TestAboutKey checks which rules are about the name of a field.
func TestAboutKey(t *testing.T) {
	var names []string
	for _, r := range lint.Rules() {
		if lint.AboutKey(r.ID) {
			names = append(names, r.ID)
		}
	}
	if got, want := strings.Join(names, " "), "boolean-name duplicate-key leftover semantics-dropped superseded-spelling unknown-field"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestWarnings checks that an API server gets few warnings about a CRD.
func TestWarnings(t *testing.T) {
	warnings := func(fields int) []string {
		var props strings.Builder
		for i := range fields {
			fmt.Fprintf(&props, "f%d: {type: string, readOnly: true}, ", i)
		}
		c, err := codec.Decode(analysistest.JSON(t, v1(`{type: object, properties: {`+props.String()+`}}`)))
		if err != nil {
			t.Fatal(err)
		}
		return lint.Warnings(t.Context(), c)
	}
	if got := warnings(0); got != nil {
		t.Errorf("got %q", got)
	}
	broken, err := codec.Decode(analysistest.JSON(t, v1(`{type: object, properties: {f: {type: string, default: a}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	broken.Spec.Versions[0].Schema.OpenAPIV3Schema.Default = &api.JSON{Raw: []byte("{")}
	if fs, err := lint.Differences(t.Context(), broken); err == nil || fs != nil || lint.Warnings(t.Context(), broken) != nil {
		t.Errorf("a default that is not JSON: got %v, error %v", fs, err)
	}
	one := site + ".properties[f0].readOnly: readOnly has a meaning in kep semantics only; kube-apiserver drops it"
	if got := warnings(5); len(got) != 5 || got[0] != one {
		t.Errorf("got %q", got)
	}
	if got := warnings(7); len(got) != 6 || got[0] != one || got[5] != "2 more differences between kep and kubernetes semantics: run `espalier lint` to list them" {
		t.Errorf("got %q", got)
	}
}
