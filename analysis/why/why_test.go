package why_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/why"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

func definition(t *testing.T, sem schema.Semantics, spec string, versions ...string) *crd.Definition {
	t.Helper()
	hub, err := codec.DecodeLenient([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
		"names":{"kind":"Job","listKind":"JobList","plural":"jobs","singular":"job"},"scope":"Cluster",` + spec + `"versions":[` + strings.Join(versions, ",") + `]}}`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(hub, crd.Options{Semantics: sem, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func version(name string, storage bool, properties string) string {
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}}}`, name, storage, properties)
}

func TestExplain(t *testing.T) {
	t.Parallel()
	const (
		one = `"n":{"type":"integer"},"d":{"type":"string","default":"x"},"o":{"type":"object","properties":{"d":{"type":"string","default":"x"}}},` +
			`"m":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"string"}}}},"any":{"type":"object","additionalProperties":true},` +
			`"p":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"string"}}},` +
			`"e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}`
		stored = `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","labels":{"a.b/c":"x"},"annotations":5,"unknown":1},"spec":{"n":1,"N":2,` +
			`"m":{"k.1":{"a":"x","b":"y"},"7":{"a":"z"}},"any":{"x":1},"p":{"known":"k","other":{"deep":[1]}},"e":{"metadata":{"name":"x"}},"hidden":{"n":1}}}`
	)
	for _, tc := range []struct {
		path string
		want string // decision, value, schema, and what else is known
	}{
		{"spec.n", `specified 1 .properties[spec].properties[n]`},
		{"spec.N", `pruned nothing .properties[spec] nearest n`},
		{"spec.hidden.n", `pruned nothing .properties[spec] at spec.hidden`},
		{"spec.hidden2.n", `pruned nothing .properties[spec] at spec.hidden2`},
		{"spec.m[k.1].a", `specified x .properties[spec].properties[m].additionalProperties.properties[a]`},
		{"spec.m.k.1.b", `pruned nothing .properties[spec].properties[m].additionalProperties`},
		{"spec.m[7].a", `specified z .properties[spec].properties[m].additionalProperties.properties[a]`},
		{"/spec/m/7/a", `specified z .properties[spec].properties[m].additionalProperties.properties[a]`},
		{"spec.any.x", `specified 1 .properties[spec].properties[any].additionalProperties`},
		{"spec.p.known", `specified k .properties[spec].properties[p].properties[known]`},
		{"spec.p.other.deep[0]", `preserved 1 .properties[spec].properties[p]`},
		{"spec.p.other.deep[1]", `absent nothing .properties[spec].properties[p]`},
		{"spec.d", `defaulted x .properties[spec].properties[d]`},
		{"spec.o.d", `absent nothing .properties[spec].properties[o].properties[d]`},
		{"spec.e.metadata.name", `metadata x none`},
		{"metadata.name", `metadata a none`},
		{"metadata.labels.a.b/c", `metadata x none`},
		{"metadata.annotations", `malformed nothing none`},
		{"metadata.unknown", `pruned nothing none`},
		{"apiVersion", `metadata example.com/v1 none`},
	} {
		t.Run(tc.path, func(t *testing.T) {
			t.Parallel()
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				e, err := why.Explain(definition(t, sem, "", version("v1", true, one)), []byte(stored), tc.path, why.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if got := describe(&e.Versions[0]); got != tc.want {
					t.Errorf("%v: got %q, want %q: %+v", sem, got, tc.want, e.Versions[0])
				}
			}
		})
	}
}

// describe returns a version in one line.
func describe(v *why.Version) string {
	value := "nothing"
	if v.Found {
		value = fmt.Sprint(v.Value)
	}
	at := "none"
	if v.Schema != nil {
		if at = v.Schema.Path; v.Schema.Version == "" {
			at = v.Schema.Pointer
		} else if v.Schema.Version != "v1" {
			at = v.Schema.Version + " " + at
		}
	}
	text := fmt.Sprintf("%s %s %s", v.Decision, value, at)
	if v.At != "" {
		text += " at " + v.At
	}
	if v.Nearest != "" {
		text += " nearest " + v.Nearest
	}
	return text
}

func TestExplainVersions(t *testing.T) {
	t.Parallel()
	v1 := version("v1", false, `"a":{"type":"string"},"old":{"type":"string"},"d":{"type":"string","default":"1"}`)
	v2 := version("v2", true, `"a":{"type":"string"},"new":{"type":"string"},"d":{"type":"string","default":"2"},"d2":{"type":"string","default":"2"}`)
	const webhook = `"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1"}}},`
	const stored = `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"a":"x","old":"y","new":"z","none":null}}`
	for _, tc := range []struct {
		name, spec, stored, path string
		want                     []string
	}{
		{"both specify it", "", stored, "spec.a", []string{"specified x .properties[spec].properties[a]", "specified x v2 .properties[spec].properties[a]"}},
		{"only the stored version specifies it", "", stored, "spec.old", []string{"specified y .properties[spec].properties[old]", "pruned nothing v2 .properties[spec]"}},
		{"only another version specifies it", "", stored, "spec.new", []string{"pruned nothing .properties[spec]", "pruned nothing .properties[spec]"}},
		{"the stored version has a default", "", stored, "spec.d", []string{"defaulted 1 .properties[spec].properties[d]", "defaulted 1 .properties[spec].properties[d]"}},
		{"only another version has a default", "", stored, "spec.d2", []string{"pruned nothing .properties[spec] nearest d", "absent nothing v2 .properties[spec].properties[d2]"}},
		{"removed version", "", strings.ReplaceAll(stored, "/v1", "/v0"), "spec.new", []string{"pruned nothing .properties[spec]", "specified z v2 .properties[spec].properties[new]"}},
		{"a webhook converts", webhook, stored, "spec.a", []string{"specified x .properties[spec].properties[a]", "webhook nothing /spec/conversion/strategy"}},
		{"dropped before a webhook converts", webhook, stored, "spec.new", []string{"pruned nothing .properties[spec]", "pruned nothing .properties[spec]"}},
		{"preserveUnknownFields", `"preserveUnknownFields":true,`, stored, "spec.any", []string{"absent nothing .properties[spec]", "absent nothing v2 .properties[spec]"}},
		{"preserveUnknownFields keeps it", `"preserveUnknownFields":true,`, stored, "spec.new", []string{"preserved z /spec/preserveUnknownFields", "specified z v2 .properties[spec].properties[new]"}},
		{"not readable", "", `{"apiVersion":"example.com/v1","kind":"Job","metadata":5}`, "spec.a", []string{"unreadable nothing none", "unreadable nothing none"}},
		{"not an object", "", `[]`, "spec.a", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := why.Explain(definition(t, schema.KEP, tc.spec, v1, v2), []byte(tc.stored), tc.path, why.Options{})
			if (err != nil) != (tc.want == nil) {
				t.Fatal(err)
			}
			for i, want := range tc.want {
				if got := describe(&e.Versions[i]); got != want {
					t.Errorf("%s: got %q, want %q: %+v", e.Versions[i].Name, got, want, e.Versions[i])
				}
			}
		})
	}
}

// TestExplainFromServer explains what an API server has returned, which is not what is stored.
func TestExplainFromServer(t *testing.T) {
	t.Parallel()
	d := definition(t, schema.KEP, "", version("v1", true, `"d":{"type":"string","default":"x"}`))
	served := []byte(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"d":"x"}}`)
	for path, want := range map[string]string{"spec.d": "which need not be stored", "spec.x": "if it is stored, it is not served"} {
		e, err := why.Explain(d, served, path, why.Options{FromServer: true})
		if err != nil {
			t.Fatal(err)
		}
		if e.Stored != nil || !strings.Contains(e.Versions[0].Reason, want) {
			t.Errorf("%s: got %+v, want %q", path, e.Versions[0], want)
		}
	}
}

func TestExplainPathErrors(t *testing.T) {
	t.Parallel()
	d := definition(t, schema.KEP, "", version("v1", true, `"l":{"type":"array"}`))
	stored := []byte(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"l":[1]}}`)
	for _, path := range []string{"", ".", "spec.", "spec..l", "spec[", `spec["l]`, "spec[]", "spec.l.x", "spec.l[-1]", "/spec/l/x"} {
		if e, err := why.Explain(d, stored, path, why.Options{}); err == nil {
			t.Errorf("%q is accepted: %+v", path, e)
		}
	}
}

// TestExplainBroken checks that a schema that cannot be compiled is an error, whether the object is
// stored or requested in its version.
func TestExplainBroken(t *testing.T) {
	t.Parallel()
	fine, broken := version("v1", false, `"a":{"type":"string"}`), version("v2", true, `"a":{"type":"string","x-kubernetes-validations":[{"rule":"self != 'x'"}]}`)
	d, err := crd.New(definition(t, schema.KEP, "", fine, broken).CRD(), crd.Options{Semantics: schema.KEP}) // rules need a checker
	if err != nil {
		t.Fatal(err)
	}
	for _, stored := range []string{"v1", "v2"} {
		source := `{"apiVersion":"example.com/` + stored + `","kind":"Job","metadata":{"name":"a"},"spec":{"a":"x"}}`
		if e, err := why.Explain(d, []byte(source), "spec.a", why.Options{}); !errors.Is(err, schema.ErrRules) || e != nil {
			t.Errorf("%s: %v, %v", stored, e, err)
		}
	}
}
