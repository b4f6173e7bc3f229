package custom

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

const widgetPath = "/apis/example.com/v1/namespaces/n/widgets"

// TestRoutes checks which paths and methods exist, and who answers for those that do not.
func TestRoutes(t *testing.T) {
	t.Parallel()
	clustered := strings.NewReplacer("Namespaced", "Cluster", "widget", "gadget", "Widget", "Gadget").Replace(widgetCRD)
	hidden := strings.NewReplacer(`"v2","served":true`, `"v2","served":false`, `"v1","served":true`, `"v1","served":true,"deprecated":true`,
		"widget", "hidden", "Widget", "Hidden").Replace(widgetCRD)
	source := fixedSource{crd.NewCatalog(newWidgets(t, widgetCRD, schema.KEP), newWidgets(t, clustered, schema.KEP), newWidgets(t, hidden, schema.KEP))}
	fixed := newWidgets(t, strings.ReplaceAll(widgetCRD, "example.com", "fixed.example.com"), schema.KEP)
	s := newMemoryServer(t, source, func(c *Config) {
		c.Serves = func(group string) bool { return group == "" || group == "apps" }
		c.Fixed = []*Fixed{{Definition: fixed}}
	})
	bare := newMemoryServer(t, source, nil)
	const create, object = "application/json", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{}}`
	for _, test := range []struct {
		method, path, contentType, body string
		code                            int
		status                          bool // whether the answer is a Status or an object
	}{
		{http.MethodPost, widgetPath, create, object, http.StatusCreated, true},
		{http.MethodPost, widgetPath + "/a", create, object, http.StatusMethodNotAllowed, true},
		{http.MethodPost, widgetPath, "application/vnd.kubernetes.protobuf", "k8s\x00", http.StatusUnsupportedMediaType, true},
		{http.MethodPut, widgetPath + "/a", "application/vnd.kubernetes.protobuf", "k8s\x00", http.StatusUnsupportedMediaType, true},
		{http.MethodGet, widgetPath + "/a", "application/vnd.kubernetes.protobuf", "", http.StatusOK, true},
		{http.MethodPut, widgetPath, create, object, http.StatusBadRequest, true},
		{http.MethodPatch, widgetPath, "application/merge-patch+json", "{}", http.StatusBadRequest, true},
		{http.MethodGet, widgetPath + "/a/status", "", "", http.StatusOK, true},
		{http.MethodDelete, widgetPath + "/a/status", "", "", http.StatusMethodNotAllowed, true},
		{http.MethodGet, widgetPath + "/a/other", "", "", http.StatusNotFound, true},
		{http.MethodGet, widgetPath + "/a/scale", "", "", http.StatusNotFound, true},
		{http.MethodGet, widgetPath + "/a/status/x", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/example.com/v1/widgets/a", "", "", http.StatusNotFound, true},
		{http.MethodDelete, "/apis/example.com/v1/widgets", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/example.com/v1/widgets", "", "", http.StatusOK, true},
		{http.MethodGet, "/apis/example.com/v1/gadgets", "", "", http.StatusOK, true},
		{http.MethodGet, "/apis/example.com/v1/gadgets?fieldSelector=metadata.name%3Da", "", "", http.StatusOK, true},
		{http.MethodGet, "/apis/example.com/v1/gadgets?fieldSelector=metadata.namespace%3Da", "", "", http.StatusBadRequest, true},
		{http.MethodGet, "/apis/example.com/v1/widgets?fieldSelector=metadata.namespace%3Da", "", "", http.StatusOK, true},
		{http.MethodGet, "/apis/example.com/v1/widgets?fieldSelector=spec.size%3D1", "", "", http.StatusBadRequest, true},
		{http.MethodGet, "/apis/example.com/v1/namespaces/n/gadgets", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/example.com/v1/namespaces/n/hiddens", "", "", http.StatusOK, true},
		{http.MethodGet, "/apis/example.com/v2/namespaces/n/hiddens", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/example.com/v1/others", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/example.com/v9/others", "", "", http.StatusNotFound, false},
		{http.MethodGet, "/apis/apps/v1/others", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/apps", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/fixed.example.com/v9/others", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/apis/unknown.example.com/v1/others", "", "", http.StatusNotFound, false},
		{http.MethodGet, "/apis", "", "", http.StatusNotFound, false},
		{http.MethodGet, "/apis/example.com", "", "", http.StatusNotFound, false},
		{http.MethodGet, "/api/v1/others", "", "", http.StatusNotFound, true},
		{http.MethodGet, "/other/example.com/v1", "", "", http.StatusNotFound, false},
	} {
		w := sendTo(s, test.method, test.path, test.contentType, test.body)
		if w.Code != test.code || strings.Contains(w.Body.String(), `"kind":`) != test.status {
			t.Errorf("%s %s: %d %s", test.method, test.path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/api/v1/others", "/apis/apps/v1/others", "/apis/fixed.example.com/v9/others"} {
		if w := sendTo(bare, http.MethodGet, path, "", ""); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), `"kind":`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	if s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, widgetPath, nil)); w.Code != http.StatusNotFound {
		t.Errorf("without request info: %d %s", w.Code, w.Body)
	}
	for path, warns := range map[string]bool{"/apis/example.com/v1/hiddens": true, "/apis/example.com/v1/widgets": false} {
		if w := sendTo(s, http.MethodGet, path, "", ""); (w.Header().Get("Warning") != "") != warns {
			t.Errorf("%s: warnings %q", path, w.Header())
		}
	}
	s.handler.Close()
	if w := sendTo(s, http.MethodGet, widgetPath, "", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting down") {
		t.Errorf("after the end: %d %s", w.Code, w.Body)
	}
}

// TestRefreshed checks that a CRD that is not known yet is looked for.
func TestRefreshed(t *testing.T) {
	t.Parallel()
	none, some := crd.NewCatalog(), crd.NewCatalog(newWidgets(t, widgetCRD, schema.KEP))
	for name, test := range map[string]struct {
		source *refreshedSource
		code   int
	}{
		"known":          {&refreshedSource{some, none, errors.New("unexpected")}, http.StatusOK},
		"new":            {&refreshedSource{none, some, nil}, http.StatusOK},
		"does not exist": {&refreshedSource{none, none, nil}, http.StatusNotFound},
		"not readable":   {&refreshedSource{none, none, apierrors.NewServiceUnavailable("x")}, http.StatusServiceUnavailable},
	} {
		if w := sendTo(newMemoryServer(t, test.source, nil), http.MethodGet, widgetPath, "", ""); w.Code != test.code {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// noOptions are storage options that fail.
type noOptions struct{}

func (noOptions) GetRESTOptions(runtimeschema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{}, errors.New("no options")
}

// unreadableSchema returns a CRD whose schemas cannot be read.
func unreadableSchema(d *crd.Definition) *crd.Definition {
	return crd.Lazy(d.CRD(), func() (*api.CustomResourceDefinition, error) { return nil, errConversion }, crd.Options{})
}

// TestUnservable checks the errors of CRDs that cannot be served.
func TestUnservable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		old, new string
		change   func(*Config)
		says     string
	}{
		"schema":       {"", "", nil, "version v1 of widgets.example.com cannot be served"},
		"no storage":   {`"storage":true`, `"storage":false`, nil, "widgets.example.com has no storage version"},
		"no webhook":   {`"scope":"Namespaced"`, `"scope":"Namespaced","conversion":{"strategy":"Webhook"}`, nil, "no webhook is configured"},
		"no options":   {"", "", func(c *Config) { c.Storage = func(*crd.Definition) generic.RESTOptionsGetter { return noOptions{} } }, "storage of widgets.example.com: no options"},
		"bad selector": {`"name":"v1",`, `"name":"v1","selectableFields":[{"jsonPath":".spec["}],`, nil, "selectable field .spec["},
	} {
		d := newWidgets(t, strings.Replace(widgetCRD, test.old, test.new, 1), schema.KEP)
		if name == "schema" {
			d = unreadableSchema(d)
		}
		s := newMemoryServer(t, fixedSource{crd.NewCatalog(d)}, test.change)
		if w := sendTo(s, http.MethodGet, widgetPath, "", ""); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if storage, release, err := s.handler.Storage(d, "v1"); err == nil || storage != nil || release != nil {
			t.Errorf("%s: %v, %v", name, storage, err)
		}
		// What failed is not in use.
		if of := s.handler.servings["widgets.example.com"]; of != nil && !of.requests.CloseIdle() {
			t.Errorf("%s: it is in use", name)
		}
	}
	d := newWidgets(t, widgetCRD, schema.KEP)
	s := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil)
	if _, _, err := s.handler.Storage(d, "v1"); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "has been deleted") {
		t.Error(err)
	}
	s = newMemoryServer(t, fixedSource{crd.NewCatalog(d)}, nil)
	if _, _, err := s.handler.Storage(d, "v9"); err == nil || !strings.Contains(err.Error(), "widgets.example.com has no version v9") {
		t.Error(err)
	}
	storage, scope, release, err := s.handler.Scoped(d, "v1")
	if err != nil || storage == nil || scope == nil {
		t.Fatal(err)
	}
	of := s.handler.servings["widgets.example.com"]
	if of.requests.CloseIdle() {
		t.Error("a storage that is in use is closed")
	}
	release()
	of.destroy()
	if _, err := of.endpoint("v1"); !apierrors.IsServiceUnavailable(err) {
		t.Error(err)
	}
}

// notes returns the definition of a virtual resource.
func notes(t *testing.T, root *api.JSONSchemaProps) *crd.Definition {
	t.Helper()
	d, err := NewVirtualDefinition(VirtualNames{Plural: "notes", Singular: "note", Kind: "Note", Namespaced: true}, root,
		[]api.CustomResourceColumnDefinition{{Name: "Text", Type: "string", JSONPath: ".text"}}, "text", "about.name")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestVirtual reads a virtual resource.
func TestVirtual(t *testing.T) {
	t.Parallel()
	object := &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{
		"text": {Type: api.StringOrArray{"string"}}, "about": {Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{"name": {Type: api.StringOrArray{"string"}}}},
	}}
	d := notes(t, object)
	spec := d.CRD().Spec
	if fields := spec.Versions[0].SelectableFields; spec.Scope != api.NamespaceScoped || spec.Names.ListKind != "NoteList" || len(fields) != 2 || fields[0].JSONPath != ".text" || fields[1].JSONPath != ".about.name" || !d.Established() {
		t.Errorf("got %+v", spec)
	}
	if cluster, err := NewVirtualDefinition(VirtualNames{Plural: "notes", Singular: "note", Kind: "Note"}, object, nil); err != nil || cluster.Namespaced() {
		t.Error(cluster, err)
	}
	denied := apierrors.NewForbidden(d.GroupResource(), "x", errors.New("denied"))
	list := []string{"a", "b"}
	var failure error
	s := newMemoryServer(t, fixedSource{crd.NewCatalog()}, func(c *Config) {
		c.Virtual = []*Virtual{{
			Definition: d,
			Get: func(_ context.Context, name string) (schema.Object, error) {
				if !slices.Contains(list, name) {
					return nil, apierrors.NewNotFound(d.GroupResource(), name)
				}
				return schema.Object{"metadata": map[string]any{"name": name}, "text": "about " + name}, failure
			},
			List: func(_ context.Context, o *metainternalversion.ListOptions) (*unstructured.UnstructuredList, error) {
				out := &unstructured.UnstructuredList{}
				for _, name := range list {
					if o.FieldSelector == nil || o.FieldSelector.Empty() || o.FieldSelector.String() == "text=about "+name {
						out.Items = append(out.Items, unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "text": "about " + name}})
					}
				}
				return out, failure
			},
		}}
	})
	path := "/apis/" + VirtualGroup + "/v1/namespaces/n/notes"
	get := func(path, accept string) (int, map[string]any) {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, path, nil)
		req.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
		return w.Code, body
	}
	if code, got := get(path+"/a", ""); code != http.StatusOK || got["apiVersion"] != VirtualGroup+"/v1" || got["kind"] != "Note" || got["text"] != "about a" {
		t.Errorf("%d %v", code, got)
	}
	if code, got := get(path+"/c", ""); code != http.StatusNotFound {
		t.Errorf("%d %v", code, got)
	}
	code, got := get(path, "")
	items, _ := got["items"].([]any)
	if code != http.StatusOK || got["kind"] != "NoteList" || got["apiVersion"] != VirtualGroup+"/v1" || len(items) != 2 || items[1].(map[string]any)["kind"] != "Note" || items[1].(map[string]any)["apiVersion"] != VirtualGroup+"/v1" {
		t.Errorf("%d %v", code, got)
	}
	if code, got := get(path+"?fieldSelector=text%3Dabout+b", ""); code != http.StatusOK || len(got["items"].([]any)) != 1 {
		t.Errorf("%d %v", code, got)
	}
	code, got = get(path+"?includeObject=None", "application/json;as=Table;v=v1;g=meta.k8s.io")
	rows, _ := got["rows"].([]any)
	if code != http.StatusOK || got["kind"] != "Table" || len(rows) != 2 || !reflect.DeepEqual(rows[0].(map[string]any)["cells"], []any{"a", "about a"}) {
		t.Errorf("%d %v", code, got)
	}
	for path, want := range map[string]int{
		path + "?watch=true":                               http.StatusMethodNotAllowed,
		path + "/a/status":                                 http.StatusNotFound,
		"/apis/" + VirtualGroup + "/v1/notes/a":            http.StatusNotFound,
		"/apis/" + VirtualGroup + "/v2/namespaces/n/notes": http.StatusNotFound,
		"/apis/" + VirtualGroup + "/v1/others":             http.StatusNotFound,
	} {
		if code, got := get(path, ""); code != want || got["kind"] != "Status" {
			t.Errorf("%s: %d %v", path, code, got)
		}
	}
	if w := sendTo(s, http.MethodPost, path, "application/json", `{}`); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	failure = denied
	for _, path := range []string{path, path + "/a"} {
		if code, got := get(path, ""); code != http.StatusForbidden {
			t.Errorf("%s: %d %v", path, code, got)
		}
	}
	v := s.handler.virtuals[d.Name()]
	if v.New().GetObjectKind().GroupVersionKind().Kind != "Note" || v.NewList().GetObjectKind().GroupVersionKind().Kind != "NoteList" {
		t.Errorf("new: %v, %v", v.New(), v.NewList())
	}
	if h, err := New(Config{Scheme: runtime.NewScheme(), Virtual: []*Virtual{{Definition: unreadableSchema(d)}}}); err == nil || h != nil {
		t.Errorf("a virtual resource that cannot be served: %v", h)
	}
}
