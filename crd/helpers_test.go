package crd_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// both are the two semantics.
var both = []schema.Semantics{schema.KEP, schema.Kubernetes}

// definition returns a v1 definition with its defaults. edit may change it before.
func definition(t testing.TB, schemaYAML string, edit ...func(*api.CustomResourceDefinition)) *api.CustomResourceDefinition {
	t.Helper()
	c := &api.CustomResourceDefinition{}
	c.Name = "things.example.com"
	c.ResourceVersion = "1"
	c.Spec = api.CustomResourceDefinitionSpec{
		Group:    "example.com",
		Scope:    api.NamespaceScoped,
		Names:    api.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
		Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
	}
	if schemaYAML != "" {
		c.Spec.Versions[0].Schema = &api.CustomResourceValidation{OpenAPIV3Schema: props(t, schemaYAML)}
	}
	for _, e := range edit {
		e(c)
	}
	api.SetDefaults(c)
	return c
}

// betaDefinition returns a v1beta1 definition with its defaults.
func betaDefinition(t testing.TB, schemaYAML string, edit ...func(*v1beta1.CustomResourceDefinition)) *v1beta1.CustomResourceDefinition {
	t.Helper()
	c := &v1beta1.CustomResourceDefinition{}
	c.Name = "things.example.com"
	c.ResourceVersion = "1"
	c.Spec = v1beta1.CustomResourceDefinitionSpec{
		Group:   "example.com",
		Version: "v1",
		Names:   api.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
	}
	if schemaYAML != "" {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{OpenAPIV3Schema: props(t, schemaYAML)}
	}
	for _, e := range edit {
		e(c)
	}
	v1beta1.SetDefaults(c)
	return c
}

// stored is a v1beta1 definition as it is stored.
func stored(t testing.TB, c *v1beta1.CustomResourceDefinition) *api.CustomResourceDefinition {
	t.Helper()
	out, err := v1beta1.ToV1(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func props(t testing.TB, text string) *api.JSONSchemaProps {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &api.JSONSchemaProps{}
	if err := api.Unmarshal(data, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func options(sem schema.Semantics) crd.Options { return crd.Options{Semantics: sem} }

func create(c *api.CustomResourceDefinition, sem schema.Semantics) crd.Result {
	return crd.ValidateCreate(context.Background(), c, options(sem))
}

func update(c, old *api.CustomResourceDefinition, sem schema.Semantics) crd.Result {
	return crd.ValidateUpdate(context.Background(), c, old, options(sem))
}

func createBeta(c *v1beta1.CustomResourceDefinition, sem schema.Semantics) crd.Result {
	return crd.ValidateCreateV1beta1(context.Background(), c, options(sem))
}

func updateBeta(c *v1beta1.CustomResourceDefinition, old *api.CustomResourceDefinition, sem schema.Semantics) crd.Result {
	return crd.ValidateUpdateV1beta1(context.Background(), c, old, options(sem))
}

// expect checks that the errors are those wanted: each a text that is part of one
// error, and no error without one.
func expect(t testing.TB, errs field.ErrorList, want ...string) {
	t.Helper()
	var rest []string
	for _, e := range errs {
		rest = append(rest, e.Error())
	}
	for _, w := range want {
		i := slices.IndexFunc(rest, func(text string) bool { return strings.Contains(text, w) })
		if i < 0 {
			t.Errorf("missing: %s", w)
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	for _, text := range rest {
		t.Errorf("unexpected: %s", text)
	}
}

// expectWarning checks that one of the warnings has a text.
func expectWarning(t testing.TB, r crd.Result, want string) {
	t.Helper()
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
		t.Errorf("no warning has %q: %q", want, r.Warnings)
	}
}

// compile makes a Definition.
func compile(t testing.TB, c *api.CustomResourceDefinition, sem schema.Semantics) *crd.Definition {
	t.Helper()
	d, err := crd.New(c, options(sem))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// program is that of the only version.
func program(t testing.TB, d *crd.Definition) *schema.Program {
	t.Helper()
	p, err := d.Versions()[0].Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
