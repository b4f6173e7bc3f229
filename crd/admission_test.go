package crd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// scaled returns the version of a CRD with a scale subresource.
func scaled(t *testing.T, selector *string) *crd.Version {
	t.Helper()
	return compile(t, definition(t, `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`,
		func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{
				Scale: &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: selector},
			}
		}), schema.Kubernetes).Versions()[0]
}

// TestScaleFields checks the fields of an object that its scale subresource shows.
func TestScaleFields(t *testing.T) {
	selector := ".status.selector"
	with, without := scaled(t, &selector), scaled(t, nil)
	if with.HasStatus() {
		t.Error("a scale subresource is a status subresource")
	}
	for name, tt := range map[string]struct {
		version *crd.Version
		obj     schema.Object
		want    string
	}{
		"a selector":            {with, schema.Object{"status": map[string]any{"selector": "a=b"}}, ""},
		"no selector":           {with, schema.Object{}, ""},
		"a selector is a list":  {with, schema.Object{"status": map[string]any{"selector": []any{}}}, ".status.selector"},
		"without its path":      {without, schema.Object{"status": map[string]any{"selector": []any{}}}, ""},
		"replicas in an object": {with, schema.Object{"spec": map[string]any{"a": map[string]any{"replicas": int64(-1)}}}, ".spec.a.replicas"},
	} {
		tt.obj["apiVersion"], tt.obj["kind"], tt.obj["metadata"] = "example.com/v1", "Thing", map[string]any{"name": "a", "namespace": "b"}
		vs, err := tt.version.Validate(t.Context(), tt.obj, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range vs {
			got = append(got, v.Cause.Field)
			if "."+v.Path.String() != v.Cause.Field {
				t.Errorf("%s: the path is %s, that of the error %s", name, v.Path, v.Cause.Field)
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: got %s, want %s", name, text, tt.want)
		}
	}
	// Other objects are rejected because of their kind.
	for apiVersion, kind := range map[string]string{"example.com/v1": "Other", "example.com/v2": "Thing"} {
		obj := schema.Object{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "a", "namespace": "b"}, "spec": map[string]any{"a": map[string]any{"replicas": int64(-1)}}}
		vs, err := with.Validate(t.Context(), obj, nil)
		if err != nil || len(vs) != 1 || strings.Contains(vs[0].Path.String(), "replicas") {
			t.Errorf("%s %s: got %v, %v", apiVersion, kind, vs, err)
		}
	}
}

// TestWriteWarnings checks the warnings for a client that writes an object.
func TestWriteWarnings(t *testing.T) {
	c := definition(t, plain, func(c *api.CustomResourceDefinition) {
		for _, name := range []string{"v2", "v3", "v4", "v3beta1"} {
			c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: name, Served: true, Schema: c.Spec.Versions[0].Schema})
		}
		c.Spec.Versions[0].Deprecated = true
		c.Spec.Versions[2].Deprecated = true
		c.Spec.Versions[3].Served = false
	})
	d := compile(t, c, schema.Kubernetes)
	obj := schema.Object{"metadata": map[string]any{"finalizers": []any{"mine"}}}
	for version, want := range map[string]string{
		"v1": "example.com/v1 Thing is deprecated; use example.com/v2 Thing",
		"v2": "",
		// No newer version is served.
		"v3": "example.com/v3 Thing is deprecated",
	} {
		if got := d.Version(version).DeprecationWarning(); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
		var all []string
		if want != "" {
			all = append(all, want)
		}
		all = append(all, crd.FinalizerWarnings(obj, nil)...)
		if got := d.Version(version).Warnings(obj, nil); !slices.Equal(got, all) || len(got) == 0 {
			t.Errorf("%s: got %q, want %q", version, got, all)
		}
		if got := d.Version(version).Warnings(obj, obj); len(got) > 0 != (want != "") {
			t.Errorf("%s, an old finalizer: got %q", version, got)
		}
	}
	// A version of the same name is not newer, and the highest one is named.
	c.Spec.Versions[2].Deprecated, c.Spec.Versions[3].Served = false, true
	if got := compile(t, c, schema.Kubernetes).Version("v1").DeprecationWarning(); got != "example.com/v1 Thing is deprecated; use example.com/v4 Thing" {
		t.Errorf("got %q", got)
	}
}

// TestPreparedMetadata checks that an update adds no metadata that the old object does not have.
func TestPreparedMetadata(t *testing.T) {
	v := compile(t, definition(t, plain), schema.KEP).Versions()[0]
	obj := schema.Object{"metadata": map[string]any{"name": "a"}}
	v.PrepareUpdate(obj, schema.Object{"metadata": map[string]any{"name": "a", "creationTimestamp": nil}})
	if meta := obj["metadata"].(map[string]any); len(meta) != 1 {
		t.Errorf("got %v", meta)
	}
	obj = schema.Object{"metadata": map[string]any{"creationTimestamp": "sent"}}
	v.PrepareUpdate(obj, schema.Object{"metadata": map[string]any{"creationTimestamp": nil}})
	if meta := obj["metadata"].(map[string]any); meta["creationTimestamp"] != "sent" {
		t.Errorf("got %v", meta)
	}
	for name, obj := range map[string]schema.Object{"no map": {"metadata": "x"}, "an empty one": {"metadata": map[string]any(nil)}, "none": {}} {
		v.PrepareCreate(obj)
		if meta, ok := obj["metadata"].(map[string]any); !ok || meta["generation"] != int64(1) {
			t.Errorf("%s: got %v", name, obj)
		}
	}
}

// TestBoundErrors checks that a list of errors is cut where it is too long, and says so.
func TestBoundErrors(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, crd.MaxErrors: crd.MaxErrors, crd.MaxErrors + 1: crd.MaxErrors + 1, 3 * crd.MaxErrors: crd.MaxErrors + 1} {
		var errs field.ErrorList
		for i := range n {
			errs = append(errs, field.Invalid(field.NewPath(fmt.Sprint("f", i)), i, "why"))
		}
		got := crd.BoundErrors(errs)
		if len(got) != want {
			t.Fatalf("%d errors: got %d, want %d", n, len(got), want)
		}
		for i := range min(n, crd.MaxErrors) {
			if got[i] != errs[i] {
				t.Fatalf("%d errors: the error %d is %v", n, i, got[i])
			}
		}
		if n > crd.MaxErrors {
			if last := got[crd.MaxErrors].Error(); last != "f200: Too many: only the first 200 errors are reported: fix them to see the others" {
				t.Errorf("got %s", last)
			}
			if errs[crd.MaxErrors].Detail != "why" {
				t.Error("the list of the caller has changed")
			}
		}
	}
}

// TestBoundErrorBytes checks that errors that quote large values are cut.
func TestBoundErrorBytes(t *testing.T) {
	list := make([]any, 30_000)
	for i := range list {
		list[i] = map[string]any{"some": "text"}
	}
	var errs field.ErrorList
	for range 50 {
		errs = append(errs, field.Invalid(field.NewPath("f"), list, "why"))
	}
	got := crd.BoundErrors(errs)
	if text := got.ToAggregate().Error(); len(text) > 10<<20 || len(got) < 2 || len(got) > 5 || !strings.Contains(text, "errors are reported: fix them to see the others") {
		t.Errorf("%d errors with %d bytes", len(got), len(text))
	}
	if got := crd.BoundErrors(errs[:1]); len(got) != 1 {
		t.Error("a single error is reported, however long it is")
	}
}

// TestStatusValidation checks that a write of the status is validated by the schema of the status and
// by all rules, which see the whole object.
func TestStatusValidation(t *testing.T) {
	const text = `{type: object, required: [spec], x-kubernetes-validations: [{rule: "!has(self.spec) || self.status.size <= self.spec.max"}], properties: {
  spec: {type: object, required: [other], properties: {max: {type: integer, maximum: 3}}}, none: {type: object, additionalProperties: false},
  status: {type: object, properties: {size: {type: integer, maximum: 5}, name: {type: string, pattern: "^a"}}}}}`
	d, err := crd.New(definition(t, text), crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}, Patterns: &schema.Patterns{}})
	if err != nil {
		t.Fatal(err)
	}
	object := func(spec map[string]any, size int64, name string) schema.Object {
		obj := schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "b"},
			"none": map[string]any{"unknown": "x"}, "status": map[string]any{"size": size, "name": name}}
		if spec != nil {
			obj["spec"] = spec
		}
		return obj
	}
	for name, tt := range map[string]struct {
		obj  schema.Object
		want []string
	}{
		"fine":         {object(map[string]any{"max": int64(4)}, 4, "a"), nil},
		"no spec":      {object(nil, 5, "a"), nil},
		"above a rule": {object(map[string]any{"max": int64(4)}, 5, "a"), []string{"<nil>: Invalid value: failed rule"}},
		"above":        {object(map[string]any{"max": int64(9)}, 6, "a"), []string{"status.size: Invalid value: 6: size in body should be less than or equal to 5"}},
		"a pattern":    {object(map[string]any{"max": int64(4)}, 4, "b"), []string{`status.name: Invalid value: "b": name in body should match '^a'`}},
	} {
		vs, err := d.Versions()[0].ValidateStatus(t.Context(), tt.obj, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { expect(t, vs.FieldErrors(), tt.want...) })
	}
	// Embedded resources in the status are not validated, and no rules if they are ignored.
	ignoring, err := crd.New(definition(t, `{type: object, x-kubernetes-validations: [{rule: "false"}], properties: {status: {type: object, properties: {r: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}}`),
		crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	odd := object(nil, 1, "b")
	odd["status"] = map[string]any{"r": map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a/b"}}}
	if vs, err := ignoring.Versions()[0].ValidateStatus(t.Context(), odd, nil); err != nil || len(vs) > 0 {
		t.Errorf("an embedded resource: got %v, %v", vs, err)
	}
	if vs, err := ignoring.Versions()[0].Validate(t.Context(), odd, nil); err != nil || len(vs) != 1 || vs[0].Path.String() != "status.r.metadata.name" {
		t.Errorf("an embedded resource, as a whole: got %v, %v", vs, err)
	}
	// A schema that has $schema, as v1beta1 allows, is used without it.
	old := compile(t, stored(t, betaDefinition(t, `{type: object, $schema: x, properties: {a: {type: string}}}`, preserving(true))), schema.Kubernetes).Versions()[0]
	if vs, err := old.Validate(t.Context(), schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "b"}, "a": int64(1)}, nil); err != nil || len(vs) != 1 {
		t.Errorf("with $schema: got %v, %v", vs, err)
	}
	// Without a schema, there is nothing to validate.
	bare := compile(t, definition(t, ""), schema.Kubernetes).Versions()[0]
	if vs, err := bare.ValidateStatus(t.Context(), object(nil, 9, "b"), nil); err != nil || len(vs) > 0 {
		t.Errorf("without a schema: got %v, %v", vs, err)
	}
}
