package compliance_test

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
)

// stored returns an object that is stored in a version.
func stored(version, spec string) []byte {
	return []byte(`{"apiVersion":"example.com/` + version + `","kind":"Job","metadata":{"name":"a","generation":1},"spec":` + spec + `}`)
}

// TestBrokenDefinitions checks that a CRD that cannot be used is an error, and no problem of an
// object.
func TestBrokenDefinitions(t *testing.T) {
	t.Parallel()
	const fine, broken = `"n":{"type":"integer"}`, `"n":{"type":"integer"},"s":{"type":"string","x-kubernetes-validations":[{"rule":"self != 'x'"}]}`
	two := func(v1, v2 string) []string { return []string{version("v1", false, v1), version("v2", true, v2)} }
	for _, tt := range []struct {
		name     string
		versions []string
		// inspects and reveals report whether an object of v1 can be read, and compared.
		inspects, reveals bool
	}{
		{"fine", two(fine, fine), true, true},
		{"the version of the object", two(broken, fine), false, false},
		{"the storage version", two(fine, broken), false, false},
		{"another version", append(two(fine, fine), version("v3", false, broken)), true, false},
		{"no storage version", []string{version("v1", false, fine)}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A schema with rules cannot be compiled without a RuleChecker.
			d, err := crd.New(definition(t, schema.Kubernetes, tt.versions...).CRD(), crd.Options{Semantics: schema.Kubernetes})
			if err != nil {
				t.Fatal(err)
			}
			plain := compliance.New(definition(t, schema.Kubernetes, two(fine, fine)...))
			r, err := compliance.New(d).Inspect(t.Context(), stored("v1", `{"n":"x"}`))
			if (err == nil) != tt.inspects || r.Has(compliance.Contradiction) != tt.inspects {
				t.Errorf("inspected: %v, %v", r.Problems, err)
			}
			hidden := stored("v1", `{"other":"x"}`)
			_, before := compliance.New(d).Revealed(plain, hidden)
			_, after := plain.Revealed(compliance.New(d), hidden)
			// Nothing of an object without hidden fields can be revealed, whatever comes next.
			if paths, err := plain.Revealed(compliance.New(d), stored("v1", `{"n":1}`)); paths != nil || err != nil {
				t.Errorf("without hidden fields: %v, %v", paths, err)
			}
			if (before == nil) != tt.reveals || (after == nil) != tt.reveals {
				t.Errorf("before: %v, after: %v", before, after)
			}
		})
	}
}

// TestWebhookConversion checks that an object that a webhook converts is inspected in its own
// version, and that a report is about what is known without the webhook.
func TestWebhookConversion(t *testing.T) {
	t.Parallel()
	with := func(strategy api.ConversionStrategyType, versions ...string) *compliance.Inspector {
		hub := definition(t, schema.Kubernetes, versions...).CRD().DeepCopy()
		hub.Spec.Conversion = &api.CustomResourceConversion{Strategy: strategy}
		d, err := crd.New(hub, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
		if err != nil {
			t.Fatal(err)
		}
		return compliance.New(d)
	}
	v1 := version("v1", false, `"old":{"type":"integer","maximum":1}`)
	v2, revealing := version("v2", true, `"new":{"type":"integer"}`), version("v2", true, `"new":{"type":"integer"},"hidden":{"type":"integer"}`)
	for strategy, want := range map[api.ConversionStrategyType]string{
		api.WebhookConverter: "[unspecified v1 spec.hidden invalid v1 spec.old otherVersion v2 ] example.com/v1 map[old:2]",
		api.NoneConverter:    "[unspecified v1 spec.hidden unspecified v2 spec.old otherVersion v2 ] example.com/v2 map[]",
	} {
		i := with(strategy, v1, v2)
		r, err := i.Inspect(t.Context(), stored("v1", `{"old":2,"hidden":1}`))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range r.Problems {
			got = append(got, fmt.Sprintf("%v %s %v", p.Kind, p.Version.Name(), p.Path))
		}
		if got := fmt.Sprintf("%v %v %v", got, r.Object["apiVersion"], r.Object["spec"]); got != want {
			t.Errorf("%s: got %s, want %s", strategy, got, want)
		}
		// The version of the object prunes the field, with or without a webhook.
		paths, err := i.Revealed(with(strategy, v1, revealing), stored("v1", `{"hidden":1}`))
		if err != nil || len(paths) != 0 {
			t.Errorf("%s: revealed %v, %v", strategy, paths, err)
		}
		served := strings.Replace(v1, `"old"`, `"hidden":{"type":"integer"},"old"`, 1)
		paths, err = i.Revealed(with(strategy, served, v2), stored("v1", `{"hidden":1}`))
		if err != nil || fmt.Sprint(paths) != "[spec.hidden]" {
			t.Errorf("%s: revealed %v in its version, %v", strategy, paths, err)
		}
	}
}

// TestOddObjects inspects objects that no server of this CRD would store.
func TestOddObjects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ stored, want string }{
		"another group":           {`{"apiVersion":"other.com/v1","kind":"Job","metadata":{"name":"a"}}`, "otherVersion : the stored apiVersion is not of this CRD; objects are stored in version v2"},
		"no apiVersion":           {`{"kind":"Job","metadata":{"name":"a"}}`, "otherVersion : the stored apiVersion is not of this CRD; objects are stored in version v2"},
		"a malformed apiVersion":  {`{"apiVersion":"a/b/c","kind":"Job","metadata":{"name":"a"}}`, "otherVersion : the stored apiVersion is not of this CRD; objects are stored in version v2"},
		"null":                    {string(stored("v2", `{"n":null}`)), "malformed spec.n: version v2 does not allow null here"},
		"null in another version": {string(stored("v1", `{"n":null}`)), "malformed spec.n: version v2 does not allow null here\notherVersion : stored in version v1; the storage version is v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				d := definition(t, sem, version("v1", false, `"n":{"type":"integer","nullable":true}`), version("v2", true, `"n":{"type":"integer"}`))
				r, err := compliance.New(d).Inspect(t.Context(), []byte(tt.stored))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, p := range r.Problems {
					got = append(got, fmt.Sprintf("%v %v: %s", p.Kind, p.Path, p.Message))
				}
				if got := strings.Join(got, "\n"); got != tt.want {
					t.Errorf("%v: got\n%s\nwant\n%s", sem, got, tt.want)
				}
			}
		})
	}
}
