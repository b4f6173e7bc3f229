package impact_test

import (
	"errors"
	"slices"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestNullDefault compares CRDs with the default null, which only Go programs can write: text with it has no
// default. It counts as none.
func TestNullDefault(t *testing.T) {
	t.Parallel()
	null := &api.JSON{Raw: []byte("null")}
	crdWith := func(x string, d *api.JSON) *api.CustomResourceDefinition {
		c := defined(t, x, "")
		spec := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		field := spec.Properties["x"]
		if a, ok := field.Properties["a"]; ok {
			a.Default = d
			field.Properties["a"] = a
		} else {
			field.Default = d
			spec.Properties["x"] = field
		}
		return c
	}
	for name, tt := range map[string]struct {
		old, new *api.CustomResourceDefinition
		want     []string
	}{
		"added":   {crdWith(`{type: string, nullable: true}`, nil), crdWith(`{type: string, nullable: true}`, null), nil},
		"removed": {crdWith(`{type: string, nullable: true}`, null), crdWith(`{type: string, nullable: true}`, nil), nil},
		"of an added field": {defined(t, `{type: object, properties: {b: {type: string}}}`, ""),
			crdWith(`{type: object, x-kubernetes-validations: [{rule: "!has(self.a)"}], properties: {b: {type: string}, a: {type: string, nullable: true}}}`, null),
			[]string{"rule-added invalid", "property-added safe"}},
	} {
		c := compare(t, tt.old, tt.new, schema.Kubernetes)
		var got []string
		for i := range c.Changes {
			got = append(got, c.Changes[i].Kind+" "+c.Changes[i].Class().ID())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// defaultsFail compiles no schema of a single default.
type defaultsFail struct{ cel.Checker }

func (defaultsFail) Compile(s *schema.Structural) (schema.Rules, error) {
	if s.Properties["value"] != nil {
		return nil, errors.New("rules are not supported")
	}
	return nil, nil
}

// TestUncheckedDefault adds a default that cannot be checked: it may be invalid.
func TestUncheckedDefault(t *testing.T) {
	t.Parallel()
	const rule = `, x-kubernetes-validations: [{rule: self > 0}]}`
	c, err := impact.Compare(t.Context(), defined(t, `{type: integer`+rule, ""), defined(t, `{type: integer, default: 1`+rule, ""), impact.Options{Rules: defaultsFail{}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Changes) != 1 || c.Changes[0].Class() != impact.Invalid {
		t.Errorf("got %+v", c.Changes)
	}
}
