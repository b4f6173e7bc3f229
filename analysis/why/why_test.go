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

// TestExplainBroken checks that a schema that cannot be compiled is an error, whether the object is
// stored or requested in its version, and an object that cannot be read.
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
	for source, want := range map[string]string{`{`: "the stored value is not JSON", `7`: "the stored value is not an object", `[]`: "the stored value is not an object"} {
		if _, err := why.Explain(d, []byte(source), "spec.a", why.Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}
