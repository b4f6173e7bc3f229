package cel_test

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

func definition(t *testing.T, text string) *api.CustomResourceDefinition {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &api.JSONSchemaProps{}
	if err := api.Unmarshal(data, s); err != nil {
		t.Fatal(err)
	}
	c := &api.CustomResourceDefinition{}
	c.Name, c.ResourceVersion = "things.example.com", "1"
	c.Spec = api.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: api.ClusterScoped, Names: api.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
		Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: s}}},
	}
	api.SetDefaults(c)
	return c
}

func TestChecker(t *testing.T) {
	ctx := context.Background()
	o := crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}
	const at = "spec.validation.openAPIV3Schema.properties[a]"
	costly := `{type: object, properties: {a: {type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(x, self.all(y, x == y))"}]}}}`
	for text, want := range map[string]string{
		`{type: object, properties: {a: {type: integer, default: 2, x-kubernetes-validations: [{rule: self > 1}]}}}`:                   "",
		`{type: object, properties: {a: {type: integer, default: 0, x-kubernetes-validations: [{rule: self > 1, message: too low}]}}}`: at + ".default: Invalid value: 0: too low",
		`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self.b}]}}}`:                                 at + ".x-kubernetes-validations[0].rule: Invalid value",
		`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: ""}]}}}`:                                     at + ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
		costly: at + ".x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x",
	} {
		errs := crd.ValidateCreate(ctx, definition(t, text), o).Errors
		switch {
		case want == "" && len(errs) > 0:
			t.Errorf("%s: %v", text, errs)
		case want != "" && (len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), want)):
			t.Errorf("%s: %v, want %s", text, errs, want)
		}
	}
	// What a rule alone costs is forgiven as long as the schema stays, the total is not.
	errs := crd.ValidateUpdate(ctx, definition(t, costly), definition(t, costly), o).Errors
	for _, e := range errs {
		if strings.Contains(e.Detail, "estimated rule cost exceeds") {
			t.Errorf("not forgiven: %v", e)
		}
	}
	// Objects are put to the rules.
	d, err := crd.New(definition(t, `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: too low}]}}}`), o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Versions()[0].Program()
	if err != nil {
		t.Fatal(err)
	}
	obj := schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x"}, "a": int64(1)}
	if got := p.Validate(ctx, obj, nil).FieldErrors(); len(got) != 1 || got[0].Field != "a" || got[0].Detail != "too low" {
		t.Error(got)
	}
}

// TestEnded checks that a CRD is not validated further, and not accepted, when the context ends.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}
	for _, rule := range []string{"self > 1", "self.b"} {
		c := definition(t, `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: `+rule+`}]}}}`)
		errs := crd.ValidateCreate(ctx, c, o).Errors
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), context.Canceled.Error()) {
			t.Errorf("%s: %v", rule, errs)
		}
	}
}
