package custom

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/registry/generic"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// outdatedStorage begins each update with an object that is no longer stored.
type outdatedStorage struct{ plainStorage }

func (s outdatedStorage) GetRESTOptions(gr runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := s.plainStorage.GetRESTOptions(gr, example)
	o.Decorator = func(c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newFunc, newList func() runtime.Object,
		attributes apistorage.AttrFunc, triggers apistorage.IndexerFuncs, indexers *cache.Indexers) (apistorage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := generic.UndecoratedStorage(c, prefix, key, newFunc, newList, attributes, triggers, indexers)
		return outdatedUpdates{s}, destroy, err
	}
	return o, err
}

type outdatedUpdates struct{ apistorage.Interface }

func (s outdatedUpdates) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *apistorage.Preconditions, update apistorage.UpdateFunc, suggestion runtime.Object) error {
	first := true
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, func(obj runtime.Object, m apistorage.ResponseMeta) (runtime.Object, *uint64, error) {
		if first {
			first = false
			old := obj.DeepCopyObject().(*unstructured.Unstructured)
			if err := unstructured.SetNestedField(old.Object, "text", "spec", "free", "x"); err != nil {
				return nil, nil, err
			}
			_, _, _ = update(old, m) // another writer was faster, whatever the result
		}
		return update(obj, m)
	}, suggestion)
}

func sendTo(h http.Handler, method, path, contentType, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req.WithContext(audit.WithAuditContext(req.Context())))
	return w
}

// TestPatchOfOutdatedObject repeats a patch whose first attempt contradicts the schema's types.
// The response is that of the last attempt.
func TestPatchOfOutdatedObject(t *testing.T) {
	const path = "/apis/example.com/v1/namespaces/n/widgets"
	own := newWriteHandler(t, fixedSource{crd.NewCatalog(newWidgets(t, widgetCRD, schema.KEP))}, nil, outdatedStorage{newPlainStorage(t)})
	for name, h := range map[string]http.Handler{"own": asTester(own), "stock": asTester(stockHandler(own))} {
		w := sendTo(h, http.MethodPost, path, "application/json", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"`+name+`"},"spec":{"size":1,"free":{"x":-1}}}`)
		if w.Code != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		w = sendTo(h, http.MethodPatch, path+"/"+name, "application/json-patch+json", `[{"op":"copy","from":"/spec/free/x","path":"/spec/size"}]`)
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "spec.size") {
			t.Errorf("%s: %d %s, want an error about the minimum", name, w.Code, w.Body)
		}
		w = sendTo(h, http.MethodPatch, path+"/"+name, "application/json-patch+json", `[{"op":"add","path":"/spec/size","value":"x"}]`)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want an error about the type", name, w.Code, w.Body)
		}
	}
}

// changingSource has another catalog from the second call on.
type changingSource struct {
	before, after *crd.Catalog
	called        bool
}

func (s *changingSource) Catalog() *crd.Catalog {
	if s.called {
		return s.after
	}
	s.called = true
	return s.before
}

func (*changingSource) Refresh(context.Context, string) error { return nil }

// TestChangeDuringRequest changes a CRD after a request has found it.
func TestChangeDuringRequest(t *testing.T) {
	at := strings.Index(widgetCRD, `,
	{"name":"v2"`)
	end := strings.Index(widgetCRD, `]},
	"status":{"acceptedNames"`)
	for name, after := range map[string]string{
		"removed":     widgetCRD[:at] + widgetCRD[end:],
		"not served":  strings.Replace(widgetCRD, `"v2","served":true`, `"v2","served":false`, 1),
		"other scope": strings.Replace(widgetCRD, "Namespaced", "Cluster", 1),
	} {
		t.Run(name, func(t *testing.T) {
			source := &changingSource{before: crd.NewCatalog(newWidgets(t, widgetCRD, schema.KEP)), after: crd.NewCatalog(newWidgets(t, after, schema.KEP))}
			h := asTester(newWriteHandler(t, source, nil, plainStorage{"http://127.0.0.1:1"}))
			w := sendTo(h, http.MethodGet, "/apis/example.com/v2/namespaces/n/widgets/a", "", "")
			if w.Code != http.StatusNotFound || !source.called || strings.Contains(w.Body.String(), "Status") != (name == "other scope") {
				t.Errorf("%d %s, want the response of a path that does not exist", w.Code, w.Body)
			}
		})
	}
}
