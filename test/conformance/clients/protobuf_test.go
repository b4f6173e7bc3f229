package clients

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
)

// answers records the content types of responses.
type answers struct {
	mu   sync.Mutex
	seen []string
}

// client returns a clientset that sends and accepts one media type only.
func (a *answers) client(t *testing.T, config *rest.Config, mediaType string) *clientset.Clientset {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = mediaType, mediaType
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.seen = append(a.seen, resp.Header.Get("Content-Type"))
			}
			return resp, err
		})
	})
	return must(clientset.NewForConfig(config))(t)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// definitions is a typed client for CRDs of one version.
type definitions[T, L any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// TestProtobuf compares what typed clients see of CRDs as protobuf and as JSON.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	config := espaliertest.Start(t).Config()
	var protobuf, text answers
	binary := protobuf.client(t, config, runtime.ContentTypeProtobuf)
	plain := text.client(t, config, runtime.ContentTypeJSON)
	t.Run("v1", func(t *testing.T) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(`
metadata: {name: things.v1.example.com, labels: {tier: gold}}
spec:
  group: v1.example.com
  scope: Namespaced
  names: {plural: things, kind: Thing, shortNames: [th], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}}
    additionalPrinterColumns: [{name: Count, type: integer, jsonPath: .spec.count, priority: 1}]
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: "!has(self.count) || self.count != 13", message: bad luck}]
            properties:
              count: {type: integer, minimum: 0, maximum: 100, default: 7}
              ratio: {type: number, maximum: 1.5, multipleOf: 0.25}
              color: {type: string, enum: [red, "", null], nullable: true}
              labels: {type: object, additionalProperties: {type: string, minLength: 0}, default: {a: "<b>"}}
              list: {type: array, items: {type: string}, x-kubernetes-list-type: set}
              any: {x-kubernetes-preserve-unknown-fields: true}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
          status: {type: object, properties: {count: {type: integer}}}
`), crd); err != nil {
			t.Fatal(err)
		}
		compare(t, binary.ApiextensionsV1().CustomResourceDefinitions(), plain.ApiextensionsV1().CustomResourceDefinitions(), crd)
	})
	t.Run("v1beta1", func(t *testing.T) {
		crd := &apiextensionsv1beta1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(`
metadata: {name: things.v1beta1.example.com, labels: {tier: gold}}
spec:
  group: v1beta1.example.com
  version: v1
  scope: Cluster
  names: {plural: things, kind: Thing}
  preserveUnknownFields: false
  additionalPrinterColumns: [{name: Count, type: integer, JSONPath: .spec.count}]
  validation:
    openAPIV3Schema:
      type: object
      properties:
        spec: {type: object, properties: {count: {type: integer}}}
`), crd); err != nil {
			t.Fatal(err)
		}
		compare(t, binary.ApiextensionsV1beta1().CustomResourceDefinitions(), plain.ApiextensionsV1beta1().CustomResourceDefinitions(), crd)
	})
	if i := slices.IndexFunc(protobuf.seen, func(s string) bool { return !strings.HasPrefix(s, runtime.ContentTypeProtobuf) }); i >= 0 {
		t.Errorf("got an answer as %q", protobuf.seen[i])
	}
	if i := slices.IndexFunc(text.seen, func(s string) bool { return s != runtime.ContentTypeJSON }); i >= 0 {
		t.Errorf("got an answer as %q", text.seen[i])
	}
}

// compare writes a CRD as protobuf and compares all answers with what JSON says.
func compare[T metav1.Object, L interface {
	metav1.ListInterface
	runtime.Object
}](t *testing.T, binary, plain definitions[T, L], crd T) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	name := crd.GetName()
	since := metav1.ListOptions{ResourceVersion: must(plain.List(ctx, metav1.ListOptions{}))(t).GetResourceVersion()}
	binaryWatch := must(binary.Watch(ctx, since))(t)
	defer binaryWatch.Stop()
	plainWatch := must(plain.Watch(ctx, since))(t)
	defer plainWatch.Stop()

	// The server writes the status of a CRD by itself, so only equal revisions are equal.
	written := map[string]string{}
	note := func(obj T) { written[obj.GetResourceVersion()] = jsonOf(t, obj) }
	note(must(binary.Create(ctx, crd, metav1.CreateOptions{}))(t))
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		got := must(binary.Get(ctx, name, metav1.GetOptions{}))(t)
		note(got)
		got.SetLabels(map[string]string{"tier": "gold", "updated": "true"})
		updated, err := binary.Update(ctx, got, metav1.UpdateOptions{})
		if err == nil {
			note(updated)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	note(must(binary.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"patched":"true"}}}`), metav1.PatchOptions{}))(t))
	for {
		got, want := must(binary.List(ctx, metav1.ListOptions{}))(t), must(plain.List(ctx, metav1.ListOptions{}))(t)
		if got.GetResourceVersion() == want.GetResourceVersion() {
			// In protobuf only the list has apiVersion and kind.
			if err := meta.EachListItem(want, func(item runtime.Object) error {
				item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			equal(t, jsonOf(t, got), jsonOf(t, want))
			break
		}
	}
	_, err := binary.Get(ctx, "none.example.com", metav1.GetOptions{})
	rejected(t, err, metav1.StatusReasonNotFound)
	_, err = binary.Create(ctx, crd, metav1.CreateOptions{})
	rejected(t, err, metav1.StatusReasonAlreadyExists)
	if err := binary.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	compared := 0
	for {
		got, want := <-binaryWatch.ResultChan(), <-plainWatch.ResultChan()
		equal(t, got.Type, want.Type)
		equal(t, jsonOf(t, got.Object), jsonOf(t, want.Object))
		if got.Object == nil || got.Type == watch.Deleted {
			break
		}
		if answer, ok := written[want.Object.(metav1.Object).GetResourceVersion()]; ok {
			equal(t, answer, jsonOf(t, want.Object))
			compared++
		}
	}
	if compared < 3 {
		t.Errorf("only %d of %d answers were compared with the events of the watch", compared, len(written))
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	return string(must(json.Marshal(v))(t))
}
