package definitions

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// TestValidateVersions checks that a CRD is validated by the rules of the version in which it is sent,
// and an update by more rules than a create.
func TestValidateVersions(t *testing.T) {
	t.Parallel()
	v1, beta := kindsFor(t, schema.Kubernetes)
	// Only v1beta1 allows a version without a schema, and no version allows another scope.
	noSchema := func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].Schema, c.Spec.PreserveUnknownFields = nil, true
	}
	scope := func(c *api.CustomResourceDefinition) { c.Spec.Scope = api.ClusterScoped }
	established := widgetsWith(func(c *api.CustomResourceDefinition) {
		c.ResourceVersion = "1"
		c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue}}
	})
	for name, test := range map[string]struct {
		change func(*api.CustomResourceDefinition)
		kind   *kind
		update bool
		valid  bool
	}{
		"v1":                                 {nil, v1, false, true},
		"v1beta1":                            {nil, beta, false, true},
		"update of v1":                       {nil, v1, true, true},
		"update of v1beta1":                  {nil, beta, true, true},
		"v1 without a schema":                {noSchema, v1, false, false},
		"v1beta1 without a schema":           {noSchema, beta, false, true},
		"update of v1 without a schema":      {noSchema, v1, true, false},
		"update of v1beta1 without a schema": {noSchema, beta, true, true},
		"v1 with another scope":              {scope, v1, false, true},
		"v1beta1 with another scope":         {scope, beta, false, true},
		"update of the scope of v1":          {scope, v1, true, false},
		"update of the scope of v1beta1":     {scope, beta, true, false},
	} {
		k := *test.kind.kinds
		k.warnings = func(_ context.Context, c *api.CustomResourceDefinition) []string { return []string{"about " + c.Name} }
		k.compliance = initial{}
		one := &kind{kinds: &k, Version: test.kind.Version, raw: test.kind.raw}
		c := widgetsWith(test.change)
		want := []string{"about " + widgets}
		obj := represent(c, one.Name())
		errs, warnings := one.Validate(t.Context(), obj, nil)
		if test.update {
			c.ResourceVersion = "1"
			want = append(want, widgets+" becomes "+widgets)
			errs, warnings = one.Validate(t.Context(), represent(c, one.Name()), represent(established.DeepCopy(), one.Name()))
		}
		if (len(errs) == 0) != test.valid {
			t.Errorf("%s: %v", name, errs)
		}
		if !test.valid {
			want = nil
		}
		// The versions have warnings of their own.
		own := slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return !strings.Contains(w, widgets) })
		if !slices.Equal(own, want) {
			t.Errorf("%s: warnings %q, want %q", name, warnings, want)
		}
	}
	for _, old := range []runtime.Object{nil, established} {
		if errs, warnings := v1.Validate(t.Context(), widgetsWith(func(c *api.CustomResourceDefinition) { c.ResourceVersion = "1" }), old); len(errs)+len(warnings) != 0 {
			t.Errorf("got %v, %q", errs, warnings)
		}
	}
}

// TestSupersededSpelling checks that a CRD with a spelling of an earlier draft is rejected, unless
// kube-apiserver would drop it.
func TestSupersededSpelling(t *testing.T) {
	t.Parallel()
	const text = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.g"},"spec":{"group":"g","prune":true,"names":{"plural":"a","kind":"A"},"scope":"Cluster","versions":[{"name":"v1","served":true,"storage":true}]}}`
	for sem, rejected := range map[schema.Semantics]bool{schema.KEP: true, schema.Kubernetes: false} {
		v1, _ := kindsFor(t, sem)
		for _, report := range []bool{false, true} {
			obj, _, err := v1.Decode([]byte(text), schema.DecodeOptions{Report: report})
			if (err != nil) != rejected || (obj == nil) != rejected || rejected && !strings.Contains(err.Error(), "spec.prune") {
				t.Errorf("%v: got %v, %v", sem, obj, err)
			}
			// Both reject applied fields that do not exist.
			if _, _, err := v1.CheckApplied([]byte(text), report); err == nil {
				t.Errorf("%v, applied: no error", sem)
			}
			if _, err := v1.CheckStrategic([]byte(`{"spec":{"prune":true}}`)); (err != nil) != rejected {
				t.Errorf("%v, patched: %v", sem, err)
			}
		}
	}
}

// TestForeignFields checks that the fields that kube-apiserver does not have are read only in our own
// semantics, whatever form they have.
func TestForeignFields(t *testing.T) {
	t.Parallel()
	const head = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"a.g"},"spec":{"group":"g","names":{"plural":"a","kind":"A"},"scope":"Cluster","version":"v1",`
	for sem, known := range map[schema.Semantics]bool{schema.KEP: true, schema.Kubernetes: false} {
		_, beta := kindsFor(t, sem)
		text := []byte(head + `"validation":{"jsonSchema":{"type":"object"}}}}`)
		c, err := beta.readStored(text)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := api.LegacySchema(c); err != nil || (s != nil) != known {
			t.Errorf("%v: got %v, %v", sem, s, err)
		}
		c, spec, err := beta.readHead(text)
		if err != nil || len(spec) == 0 || c.Name != "a.g" {
			t.Fatal(c, err)
		}
		if s, err := api.LegacySchema(c); err != nil || s != nil && !known {
			t.Errorf("%v, head: got %v, %v", sem, s, err)
		}
		bad := []byte(head + `"validation":{"jsonSchema":5}}}`)
		if _, err := beta.readStored(bad); (err != nil) != known {
			t.Errorf("%v: %v", sem, err)
		}
		if _, err := beta.readStored([]byte(`{`)); err == nil {
			t.Errorf("%v: a text that ends too early is read", sem)
		}
		if _, _, err := beta.readHead([]byte(`{`)); err == nil {
			t.Errorf("%v: a text that ends too early has a head", sem)
		}
		_, complaints, err := beta.CheckApplied(text, true)
		if (err == nil) != known || len(complaints) != 0 { // kube-apiserver does not have the field
			t.Errorf("%v: %v, %v", sem, complaints, err)
		}
		const patch = `{"spec":{"validation":{"jsonSchema":{"type":"object"}}}}`
		if patched, err := beta.CheckStrategic([]byte(patch)); err != nil || bytes.Contains(patched, []byte("jsonSchema")) != known {
			t.Errorf("%v, patched: %s, %v", sem, patched, err)
		}
	}
}

// TestPrepareStatus checks that a write of the status changes nothing else but the managed fields.
func TestPrepareStatus(t *testing.T) {
	t.Parallel()
	v1, beta := kindsFor(t, schema.KEP)
	for _, k := range []*kind{v1, beta} {
		before := definitionOf()
		before.ResourceVersion = "5"
		next := before.DeepCopy()
		next.ResourceVersion, next.Labels, next.Spec.Names.Kind = "6", map[string]string{"a": "b"}, "Gadget"
		next.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		next.Status.StoredVersions = []string{"v1"}
		obj := represent(next, k.Name())
		if err := k.PrepareStatus(t.Context(), obj, represent(before.DeepCopy(), k.Name())); err != nil {
			t.Fatal(err)
		}
		got, err := hub(obj)
		if err != nil || got.ResourceVersion != "6" || got.Labels != nil || got.Spec.Names.Kind != "Widget" || len(got.ManagedFields) != 1 || !slices.Equal(got.Status.StoredVersions, []string{"v1"}) {
			t.Errorf("%s: got %v, %v", k.Name(), got, err)
		}
		if err := k.PrepareStatus(t.Context(), obj, &metav1.Status{}); err == nil {
			t.Error("prepared with a status")
		}
		if err := k.PrepareStatus(t.Context(), &metav1.Status{}, represent(before.DeepCopy(), k.Name())); err == nil {
			t.Error("a status is prepared")
		}
		if err := k.Prepare(t.Context(), obj, &metav1.Status{}); err == nil {
			t.Error("prepared with a status")
		}
		if err := k.Prepare(t.Context(), &metav1.Status{}, nil); err == nil {
			t.Error("a status is prepared")
		}
	}
}
