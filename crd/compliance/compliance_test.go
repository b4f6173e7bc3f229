package compliance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
)

func definition(t *testing.T, sem schema.Semantics, versions ...string) *crd.Definition {
	t.Helper()
	src := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
		"names":{"kind":"Job","listKind":"JobList","plural":"jobs","singular":"job"},"scope":"Cluster","versions":[` + strings.Join(versions, ",") + `]}}`
	decoded, err := codec.DecodeLenient([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	api.SetDefaults(decoded)
	d, err := crd.New(decoded, crd.Options{Semantics: sem, Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func version(name string, storage bool, properties string) string {
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}}}`, name, storage, properties)
}

func TestInspect(t *testing.T) {
	t.Parallel()
	one := []string{version("v1", true, `"n":{"type":"integer","maximum":5},"s":{"type":"string","x-kubernetes-validations":[{"rule":"self != 'bad'","message":"must not be bad"}]},"d":{"type":"string","default":"x"}`)}
	two := []string{version("v1", false, `"n":{"type":"integer"},"old":{"type":"string"}`), version("v2", true, `"n":{"type":"integer"}`)}
	for _, tc := range []struct {
		name, stored string
		versions     []string
		want         string
	}{
		{"complies", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","generation":1},"spec":{"n":1,"d":"x"}}`, one, ""},
		{"a missing default is no problem", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"n":1}}`, one, ""},
		{"unspecified", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"n":1,"privileged":true},"x":1}`, one,
			"unspecified spec.privileged: version v1 does not specify this field\nunspecified x: version v1 does not specify this field"},
		{"contradiction", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"n":"1"}}`, one,
			`contradiction spec.n: Invalid value: "string": `},
		{"invalid", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"n":7}}`, one,
			`invalid spec.n: Invalid value: 7: `},
		{"rule", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"s":"bad"}}`, one,
			`invalid spec.s: Invalid value: "bad": must not be bad`},
		{"malformed", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","labels":5},"spec":{"n":1,"n":2}}`, one,
			"malformed metadata.labels: this part of the metadata is malformed\nmalformed spec.n: this field is stored more than once; the last one is used"},
		{"repeated", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"n":1,"n":2}}`, one,
			"malformed spec.n: this field is stored more than once; the last one is used"},
		{"repeated in an object that is normal otherwise", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","generation":1},"spec":{"d":"x","n":1,"n":2}}`, one,
			"malformed spec.n: this field is stored more than once; the last one is used"},
		{"unreadable", `{"apiVersion":"example.com/v1"`, one, "unreadable : "},
		{"no object", `[]`, one, "unreadable : "},
		{"other version", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"n":1}}`, two,
			"otherVersion : stored in version v1; the storage version is v2"},
		{"dropped by the conversion", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"n":1,"old":"x"}}`, two,
			"unspecified spec.old: version v2 does not specify this field\notherVersion : stored in version v1; the storage version is v2"},
		{"removed version", `{"apiVersion":"example.com/v0","kind":"Job","metadata":{"name":"a"},"spec":{"n":1}}`, two,
			"otherVersion : stored in version v0, which the CRD does not have; it is read as version v2"},
	} {
		t.Run("V-15 "+tc.name, func(t *testing.T) {
			t.Parallel()
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				r, err := compliance.New(definition(t, sem, tc.versions...)).Inspect(t.Context(), []byte(tc.stored))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, p := range r.Problems {
					got = append(got, fmt.Sprintf("%v %v: %s", p.Kind, p.Path, p.Message))
					if !r.Has(p.Kind) {
						t.Errorf("Has(%v) is false", p.Kind)
					}
				}
				want := strings.Split(tc.want, "\n")
				if tc.want == "" {
					want = nil
				}
				if len(got) != len(want) {
					t.Fatalf("%v: got %q, want %q", sem, got, want)
				}
				for i := range want {
					if !strings.HasPrefix(got[i], want[i]) {
						t.Errorf("%v: got %q, want %q", sem, got[i], want[i])
					}
				}
			}
		})
	}
}

func TestInspectEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := definition(t, schema.KEP, version("v1", true, `"n":{"type":"integer"}`))
	if _, err := compliance.New(d).Inspect(ctx, []byte(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"}}`)); err == nil {
		t.Error("no error")
	}
}

// TestRevealed replaces CRDs, and expects the paths of the stored fields that are served again.
func TestRevealed(t *testing.T) {
	t.Parallel()
	const (
		n          = `"n":{"type":"integer"}`
		privileged = n + `,"privileged":{"type":"boolean"}`
		list       = n + `,"l":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}`
	)
	unserved := func(version string) string { return strings.Replace(version, `"served":true`, `"served":false`, 1) }
	versions := func(list ...string) []string { return list }
	t.Run("P-26", func(t *testing.T) {
		for _, tt := range []struct {
			name, stored string
			old, new     []string
			want         string
		}{
			{"fields and items", `{"n":1,"privileged":true,"other":1,"l":[{"a":"x"},{"b":"y","c":"z"}]}`, versions(version("v1", true, list)),
				versions(version("v1", true, privileged+`,"d":{"type":"string","default":"x"},"l":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}}`)),
				"[spec.l[1].b spec.privileged]"},
			{"a value of another type", `{"privileged":"yes"}`, versions(version("v1", true, n)), versions(version("v1", true, privileged)), "[spec.privileged]"},
			{"the same CRD", `{"privileged":true}`, versions(version("v1", true, n)), versions(version("v1", true, n)), "[]"},
			{"a served field", `{"privileged":true}`, versions(version("v1", true, privileged)), versions(version("v1", true, privileged)), "[]"},
			// The object is stored in v1, which is not the storage version.
			{"in its version", `{"privileged":true}`, versions(version("v1", false, n), version("v2", true, n)), versions(version("v1", false, privileged), version("v2", true, n)), "[spec.privileged]"},
			{"in its version, which is not served", `{"privileged":true}`, versions(unserved(version("v1", false, n)), version("v2", true, n)), versions(unserved(version("v1", false, privileged)), version("v2", true, n)), "[]"},
			{"its version is served again", `{"privileged":true}`, versions(unserved(version("v1", false, privileged)), version("v2", true, n)), versions(version("v1", false, privileged), version("v2", true, n)), "[spec.privileged]"},
			{"in the storage version alone", `{"privileged":true}`, versions(version("v1", false, n), version("v2", true, n)), versions(version("v1", false, n), version("v2", true, privileged)), "[]"},
			{"in the storage version, from its version", `{"privileged":true}`, versions(version("v1", false, privileged), version("v2", true, n)), versions(version("v1", false, privileged), version("v2", true, privileged)), "[spec.privileged]"},
			{"in a third version", `{"privileged":true}`, versions(unserved(version("v1", false, privileged)), version("v2", true, n), version("v3", false, n)),
				versions(unserved(version("v1", false, privileged)), version("v2", true, n), version("v3", false, privileged)), "[spec.privileged]"},
			{"in a new version", `{"privileged":true}`, versions(unserved(version("v1", false, privileged)), version("v2", true, n)),
				versions(unserved(version("v1", false, privileged)), version("v2", true, n), version("v3", false, privileged)), "[spec.privileged]"},
			// The storage version prunes what the others return, also if it is not served.
			{"in a storage version that is not served, and another", `{"privileged":true}`, versions(unserved(version("v1", true, n)), version("v2", false, n)),
				versions(unserved(version("v1", true, privileged)), version("v2", false, privileged)), "[spec.privileged]"},
			{"beside a storage version that is not served", `{"privileged":true}`, versions(unserved(version("v1", true, n)), version("v2", false, n)),
				versions(unserved(version("v1", true, n)), version("v2", false, privileged)), "[]"},
			// The next version that specifies it returns it, and then it is not new.
			{"in a storage version that is not served", `{"privileged":true}`, versions(unserved(version("v1", true, n)), version("v2", false, n)),
				versions(unserved(version("v1", true, privileged)), version("v2", false, n)), "[spec.privileged]"},
			// It is served in v1 before and after, although the storage version does not have it.
			{"another change", `{"privileged":true}`, versions(version("v1", false, privileged), version("v2", true, n)), versions(version("v1", false, privileged), version("v2", true, n+`,"m":{"type":"integer"}`)), "[]"},
			{"a new version of a served field", `{"privileged":true}`, versions(version("v1", false, privileged), version("v2", true, n)),
				versions(version("v1", false, privileged), version("v2", true, n), version("v3", false, privileged)), "[]"},
			{"a version that is gone", `{"privileged":true}`, versions(version("v2", true, n)), versions(version("v2", true, privileged)), "[spec.privileged]"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				stored := `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":` + tt.stored + `}`
				for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
					before, after := compliance.New(definition(t, sem, tt.old...)), compliance.New(definition(t, sem, tt.new...))
					paths, err := before.Revealed(after, []byte(stored))
					if got := fmt.Sprint(paths); err != nil || got != tt.want {
						t.Errorf("%v: got %s, %v, want %s", sem, got, err, tt.want)
					}
				}
			})
		}
	})
}

// TestTruncatedChanges checks that an object with very many unspecified fields has a report that says
// that there are more, whichever version does not specify them.
func TestTruncatedChanges(t *testing.T) {
	t.Parallel()
	const depth = 100 // the total length of the paths is limited
	nested := func(inner string) string {
		return `"a":` + strings.Repeat(`{"type":"object","properties":{"a":`, depth) + inner + strings.Repeat(`}}`, depth)
	}
	open, closed := nested(`{"type":"object","additionalProperties":{"type":"integer"}}`), nested(`{"type":"object"}`)
	object := func(fields int) []byte {
		var list []string
		for i := range fields {
			list = append(list, fmt.Sprintf(`"f%d":1`, i))
		}
		return stored("v1", strings.Repeat(`{"a":`, depth+1)+`{`+strings.Join(list, ",")+`}`+strings.Repeat(`}`, depth+1))
	}
	for _, versions := range [][2]string{{closed, closed}, {open, closed}, {closed, open}, {open, open}} {
		i := compliance.New(definition(t, schema.Kubernetes, version("v1", false, versions[0]), version("v2", true, versions[1])))
		for fields, truncated := range map[int]bool{10: false, 3000: versions[0] == closed || versions[1] == closed} {
			if r, err := i.Inspect(t.Context(), object(fields)); err != nil || r.Truncated != truncated {
				t.Errorf("%d fields: truncated: %t, %v", fields, r.Truncated, err)
			}
		}
	}
}

// TestProblem checks what a problem says about a violation, and the list of all kinds.
func TestProblem(t *testing.T) {
	t.Parallel()
	d := definition(t, schema.Kubernetes, version("v1", true, `"n":{"type":"integer","maximum":5},"o":{"type":"object","required":["x"]}`))
	i := compliance.New(d)
	r, err := i.Inspect(t.Context(), stored("v1", `{"n":7,"o":{}}`))
	if err != nil || i.Definition() != d {
		t.Fatal(i.Definition(), err)
	}
	var got []string
	for _, p := range r.Problems {
		got = append(got, fmt.Sprintf("%v %v: %s", p.Violation, p.Path, p.Summary))
	}
	if want := "[maximum spec.n: Invalid value: spec.n in body should be less than or equal to 5 required spec.o.x: Required value]"; fmt.Sprint(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if kinds := fmt.Sprint(compliance.Kinds()); kinds != "[unspecified contradiction invalid malformed otherVersion unreadable]" {
		t.Error(kinds)
	}
	// A CRD without defaults has no conversion.
	hub := d.CRD().DeepCopy()
	hub.Spec.Conversion = nil
	if d, err = crd.New(hub, crd.Options{Semantics: schema.Kubernetes}); err != nil {
		t.Fatal(err)
	}
	if r, err := compliance.New(d).Inspect(t.Context(), stored("v0", `{}`)); err != nil || r.Object["apiVersion"] != "example.com/v1" {
		t.Errorf("%v, %v", r.Object, err)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	i := compliance.New(definition(t, schema.KEP, version("v1", true, `"n":{"type":"integer"}`)))
	var c compliance.Counts
	for _, stored := range []string{
		`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"}}`,
		`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"b"},"x":1,"y":2}`,
		`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"c"},"x":1,"spec":{"n":"1"}}`,
	} {
		r, err := i.Inspect(t.Context(), []byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		c.Add(&r, 1)
	}
	if c.Objects != 3 || c.Failing != 2 || c.Of[compliance.Unspecified] != 2 || c.Of[compliance.Contradiction] != 1 || c.Of[compliance.Invalid] != 0 {
		t.Errorf("%+v", c)
	}
}

// TestManyViolations checks that an object in which every item of a large array is invalid has
// a limited number of problems, and that none of their kinds is lost.
func TestManyViolations(t *testing.T) {
	t.Parallel()
	i := compliance.New(definition(t, schema.KEP, version("v1", true, `"l":{"type":"array","items":{"type":"integer","maximum":0}},"s":{"type":"string"}`)))
	r, err := i.Inspect(t.Context(), []byte(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"l":[1`+strings.Repeat(",1", 20_000)+`],"s":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Problems); n != 10_001 || !r.Truncated || !r.Has(compliance.Invalid) || !r.Has(compliance.Contradiction) {
		t.Errorf("%d problems, truncated: %t, kinds: %b", n, r.Truncated, r.Kinds())
	}
}
