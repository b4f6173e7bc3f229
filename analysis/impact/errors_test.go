package impact_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// errRules is the error of rulesFail.
var errRules = errors.New("rules are not supported")

// rulesFail compiles no schema with rules of spec.x.
type rulesFail struct{ cel.Checker }

func (rulesFail) Compile(s *schema.Structural) (schema.Rules, error) {
	if len(s.Properties["spec"].Properties["x"].XValidations) > 0 {
		return nil, errRules
	}
	return nil, nil
}

// TestTryFails checks the errors about objects and CRDs that cannot be read.
func TestTryFails(t *testing.T) {
	t.Parallel()
	const plain, ruled = `{type: integer}`, `{type: integer, x-kubernetes-validations: [{rule: self > 0}]}`
	version := func(name, storage, x string) string {
		return `{name: ` + name + `, served: true, storage: ` + storage + `, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {x: ` + x + `}}}}}}`
	}
	two := func(storage1, x1, storage2, x2 string) *api.CustomResourceDefinition {
		return defined(t, "", "{versions: ["+version("v1", storage1, x1)+", "+version("v2", storage2, x2)+"]}")
	}
	const source = `{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1}}`
	for name, tt := range map[string]struct {
		old, new *api.CustomResourceDefinition
		src      string
		want     string
	}{
		"no JSON":                    {defined(t, plain, ""), defined(t, plain, ""), `{`, "JSON"},
		"malformed metadata":         {defined(t, plain, ""), defined(t, plain, ""), strings.Replace(source, `{"name": "a"}`, "7", 1), "metadata"},
		"another version":            {defined(t, plain, ""), defined(t, plain, ""), strings.Replace(source, "/v1", "/v2", 1), `the old CRD has no version "v2"`},
		"another kind":               {defined(t, plain, ""), defined(t, plain, ""), strings.Replace(source, "Thing", "Other", 1), impact.ErrOtherKind.Error()},
		"rules of the old CRD":       {defined(t, ruled, ""), defined(t, plain, ""), source, errRules.Error()},
		"rules of the new CRD":       {defined(t, plain, ""), defined(t, ruled, ""), source, errRules.Error()},
		"rules of a storage version": {two("true", plain, "false", plain), two("false", plain, "true", ruled), source, errRules.Error()},
	} {
		c, err := impact.Compare(t.Context(), tt.old, tt.new, impact.Options{Rules: rulesFail{}})
		if err != nil {
			t.Fatal(err)
		}
		if outcome, err := c.Try(t.Context(), []byte(tt.src)); err == nil || !strings.Contains(err.Error(), tt.want) || outcome != nil {
			t.Errorf("%s: %v, %v", name, outcome, err)
		}
	}
	for _, c := range []*impact.Comparison{impact.Removed(defined(t, plain, ""), impact.Options{}), impact.Added(defined(t, plain, ""), impact.Options{})} {
		if _, err := c.Try(t.Context(), []byte(source)); !errors.Is(err, impact.ErrOtherKind) {
			t.Errorf("one CRD: %v", err)
		}
		if paths, err := c.Revealed([]byte(source)); paths != nil || err != nil || c.Names() != nil || c.OtherSemantics(t.Context()) != nil {
			t.Errorf("one CRD: %v, %v", paths, err)
		}
	}
}

// TestCompareFails compares CRDs that only one of the semantics reads: the other knows the annotation with a
// schema, which is none.
func TestCompareFails(t *testing.T) {
	t.Parallel()
	plain, broken := defined(t, `{type: string}`, ""), defined(t, `{type: string, x-kubernetes-preserve-unknown-fields: true}`, "{metadata: {annotations: {espalier.dev/json-schema: text}}}")
	for prefix, pair := range map[string][2]*api.CustomResourceDefinition{"old CRD: ": {broken, plain}, "new CRD: ": {plain, broken}} {
		if c, err := impact.Compare(t.Context(), pair[0], pair[1], impact.Options{Semantics: schema.KEP, Rules: cel.Checker{}}); err == nil || !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("%s%v, %v", prefix, c, err)
		}
		c, err := impact.Compare(t.Context(), pair[0], pair[1], impact.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
		if err != nil {
			t.Fatal(err)
		}
		if found := c.OtherSemantics(t.Context()); found != nil {
			t.Errorf("%q", findingLines(found...))
		}
	}
}

// TestRejectionsV1beta1 checks that the paths of rejections are those of the version that is used.
func TestRejectionsV1beta1(t *testing.T) {
	t.Parallel()
	old, new := defined(t, `{type: string}`, ""), defined(t, `{type: string, default: 5}`, "")
	for beta, want := range map[bool]string{
		true:  "spec.validation.openAPIV3Schema.properties[spec].properties[x].default",
		false: "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].default",
	} {
		c, err := impact.Compare(t.Context(), old, new, impact.Options{Rules: cel.Checker{}, V1beta1: beta})
		if err != nil {
			t.Fatal(err)
		}
		if found := c.Rejections(); !slices.ContainsFunc(found, func(f impact.Finding) bool { return f.Path == want }) {
			t.Errorf("%t: %q", beta, findingLines(found...))
		}
	}
}

// TestOutcome tries objects on CRDs that were not read from text, and so have no defaults.
func TestOutcome(t *testing.T) {
	t.Parallel()
	old := defined(t, `{type: object, properties: {a: {type: string}, b: {type: string, maxLength: 1}, c: {type: string}}}`, "")
	new := defined(t, `{type: object, properties: {a: {type: string, maxLength: 1}, b: {type: string, maxLength: 1}, d: {type: string, default: x}}}`, "")
	old.Spec.Conversion, new.Spec.Conversion = nil, nil
	c, err := impact.Compare(t.Context(), old, new, impact.Options{Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		x          string
		class      impact.Class
		invalid    int
		wasInvalid bool
	}{
		{"null", impact.Safe, 0, false},
		{"{}", impact.Defaulted, 0, false},
		{"{c: x}", impact.Loses, 0, false},
		{"{a: xx, c: x}", impact.Loses, 1, false},
		{"{b: xx}", impact.Defaulted, 0, true},
		{"{a: xx, b: xx}", impact.Invalid, 1, true},
	} {
		outcome, err := c.Try(t.Context(), object(t, tt.x))
		if err != nil {
			t.Fatal(err)
		}
		if outcome.Class() != tt.class || len(outcome.Of(impact.Invalid)) != tt.invalid || outcome.WasInvalid != tt.wasInvalid {
			t.Errorf("%s: got %v, %+v", tt.x, outcome.Class(), outcome)
		}
	}
}
