package skeletons_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/skeletons"
)

func define(t *testing.T, name, label string) *crd.Definition {
	t.Helper()
	c := &api.CustomResourceDefinition{}
	text := fmt.Sprintf(`{"metadata": {"name": "%s.example.com", "uid": "u-%[1]s", "resourceVersion": "7", "creationTimestamp": "2020-01-01T00:00:00Z", "labels": {"app": %q}},
		"spec": {"group": "example.com", "scope": "Cluster", "preserveUnknownFields": true, "names": {"plural": %[1]q, "kind": "K%[1]s"}, "versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"b": {"type": "integer"}}}]}}},
			{"name": "v2", "served": true}]}}`, name, label)
	if err := api.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	api.SetDefaults(c)
	d, err := crd.New(c, crd.Options{Semantics: schema.KEP, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestVirtual reads the skeletons of CRDs: K-06.
func TestVirtual(t *testing.T) {
	t.Parallel()
	catalog := crd.NewCatalog(define(t, "as", "x"), define(t, "bs", "y"), define(t, "cs", "x"))
	v, err := skeletons.New(func() *crd.Catalog { return catalog })
	if err != nil {
		t.Fatal(err)
	}
	t.Run("K-06-get", func(t *testing.T) {
		t.Parallel()
		obj, err := v.Get(t.Context(), "as.example.com")
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: obj}
		if u.GetName() != "as.example.com" || u.GetUID() != "u-as" || u.GetResourceVersion() != "7" || u.GetLabels()["app"] != "x" || u.GetCreationTimestamp().Year() != 2020 {
			t.Errorf("got %v", obj)
		}
		versions := obj["versions"].([]any)
		first, second := versions[0].(map[string]any), versions[1].(map[string]any)
		properties, _, err := unstructured.NestedMap(first, "schema", "properties")
		if err != nil || len(versions) != 2 || first["name"] != "v1" || properties["a"] == nil || properties["b"] == nil {
			t.Errorf("%v: got %v", err, versions)
		}
		if _, has := second["schema"]; has || second["name"] != "v2" {
			t.Errorf("a version without a schema: got %v", second)
		}
		if _, err := v.Get(t.Context(), "other.example.com"); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	t.Run("K-06-list", func(t *testing.T) {
		t.Parallel()
		names := func(o metainternalversion.ListOptions) (names []string, next string) {
			t.Helper()
			list, err := v.List(t.Context(), &o)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list.Items {
				names = append(names, item.GetName()[:2])
			}
			return names, list.GetContinue()
		}
		for _, test := range []struct {
			o    metainternalversion.ListOptions
			want []string
			next string
		}{
			{metainternalversion.ListOptions{}, []string{"as", "bs", "cs"}, ""},
			{metainternalversion.ListOptions{Limit: 3}, []string{"as", "bs", "cs"}, ""},
			{metainternalversion.ListOptions{Limit: 1}, []string{"as"}, "as.example.com"},
			{metainternalversion.ListOptions{Limit: 2}, []string{"as", "bs"}, "bs.example.com"},
			{metainternalversion.ListOptions{Limit: 2, Continue: "bs.example.com"}, []string{"cs"}, ""},
			{metainternalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "x"})}, []string{"as", "cs"}, ""},
			{metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "bs.example.com")}, []string{"bs"}, ""},
		} {
			if got, next := names(test.o); !slices.Equal(got, test.want) || next != test.next {
				t.Errorf("%+v: got %v, then %q", test.o, got, next)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := v.List(ended, &metainternalversion.ListOptions{})
		if status := apierrors.APIStatus(nil); !apierrors.IsTimeout(err) || !errors.As(err, &status) || status.Status().Details.RetryAfterSeconds != 0 {
			t.Error(err)
		}
	})
}

// TestFaulty checks that a CRD whose schemas cannot be read is an error of its own skeleton, and does
// not keep others from being listed.
func TestFaulty(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	good := define(t, "bs", "x")
	head := define(t, "as", "x").CRD().DeepCopy()
	for i := range head.Spec.Versions {
		head.Spec.Versions[i].Schema = nil
	}
	faulty := crd.Lazy(head, func() (*api.CustomResourceDefinition, error) { return nil, broken }, crd.Options{Semantics: schema.KEP, IgnoreRules: true})
	catalog := crd.NewCatalog(faulty, good)
	v, err := skeletons.New(func() *crd.Catalog { return catalog })
	if err != nil {
		t.Fatal(err)
	}
	if obj, err := v.Get(t.Context(), "as.example.com"); !errors.Is(err, broken) {
		t.Errorf("got %v, %v", obj, err)
	}
	list, err := v.List(t.Context(), &metainternalversion.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "bs.example.com" {
		t.Errorf("got %v, %v", list, err)
	}
}
