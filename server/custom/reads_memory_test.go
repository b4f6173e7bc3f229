package custom

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// stored returns what is stored of a widget.
func stored(name, more string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"generation":1,"name":"` + name + `","namespace":"n","uid":"u-` + name + `"` + more + `},"spec":{"name":"x","size":1},"status":{"phase":"new"}}`
}

// TestReadsOfBadValues checks the answers to reads if a stored value cannot be decoded, or the store is
// closed.
func TestReadsOfBadValues(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	s.put(t, "a", stored("a", ""))
	for _, query := range []string{"", "?resourceVersion=", "?resourceVersion=0", "?resourceVersion=1", "?resourceVersion=1&other=1", "?pretty=1"} {
		if w := sendTo(s, http.MethodGet, widgetPath+"/a"+query, "", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"uid":`) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	for query, want := range map[string]int{"?resourceVersion=x": http.StatusInternalServerError, "?export=1": http.StatusBadRequest, "?resourceVersion=18446744073709551615": http.StatusGatewayTimeout} {
		if w := sendTo(s, http.MethodGet, widgetPath+"/a"+query, "", ""); w.Code < 400 || want == http.StatusGatewayTimeout && w.Code != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{widgetPath, widgetPath + "/a"} {
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil).WithContext(ended)); w.Code < 400 {
			t.Errorf("%s after the end: %d %s", path, w.Code, w.Body)
		}
	}
	s.put(t, "bad", `{"apiVersion":`)
	for path, code := range map[string]int{
		"/bad": http.StatusInternalServerError, "": http.StatusInternalServerError, "?fieldSelector=metadata.name%3Dbad": http.StatusInternalServerError,
		"?fieldSelector=metadata.name%3Da": http.StatusOK, "/none": http.StatusNotFound, "?fieldSelector=metadata.name%3Dnone": http.StatusOK,
	} {
		if w := sendTo(s, http.MethodGet, widgetPath+path, "", ""); w.Code != code {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	s.store.Close()
	for _, path := range []string{widgetPath, widgetPath + "/a"} {
		if w := sendTo(s, http.MethodGet, path, "", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting down") {
			t.Errorf("%s of a closed store: %d %s", path, w.Code, w.Body)
		}
	}
	if err := unreadable("k", errConversion); !apierrors.IsInternalError(err) {
		t.Error(err)
	}
	hook := &ConversionError{Problem: "failed", Err: errConversion}
	if err := unreadable("k", hook); !IsConversionError(err) || apierrors.IsInternalError(err) || !errors.Is(hook, errConversion) {
		t.Error(err)
	}
}

// watching returns a function that returns the next event of a watch, as its type, name and code, or
// nothing at its end.
func (s *memoryServer) watching(t *testing.T, path string) func() string {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		if !lines.Scan() {
			return ""
		}
		var event struct {
			Type   string
			Object struct {
				Code     int
				Metadata struct{ Name string }
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(fmt.Sprint(event.Type, " ", event.Object.Metadata.Name, map[bool]string{true: fmt.Sprint(event.Object.Code)}[event.Object.Code != 0]))
	}
}

// TestWatchEvents checks the events of watches that select some objects.
func TestWatchEvents(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	const red, blue = `,"labels":{"color":"red"}`, `,"labels":{"color":"blue"}`
	s.put(t, "a", stored("a", red))
	s.put(t, "b", stored("b", blue))
	selected := s.watching(t, widgetPath+"?watch=true&labelSelector=color%3Dred")
	all := s.watching(t, widgetPath+"?watch=true")
	one := s.watching(t, "/apis/example.com/v1/watch/namespaces/n/widgets/b")
	named := s.watching(t, widgetPath+"?watch=true&fieldSelector=metadata.name%3Db")
	expect := func(what string, next func() string, want ...string) {
		t.Helper()
		for _, w := range want {
			if got := next(); got != w {
				t.Fatalf("%s: got %q, want %q", what, got, w)
			}
		}
	}
	expect("selected", selected, "ADDED a")
	expect("all", all, "ADDED a", "ADDED b")
	expect("one", one, "ADDED b")
	expect("named", named, "ADDED b")
	s.put(t, "b", stored("b", red))
	s.put(t, "a", stored("a", blue))
	s.put(t, "b", stored("b", red+`,"annotations":{"x":"y"}`))
	s.put(t, "c", stored("c", blue))
	for _, name := range []string{"a", "b"} {
		if _, err := s.client.Delete(t.Context(), "/registry/example.com/widgets/n/"+name); err != nil {
			t.Fatal(err)
		}
	}
	expect("selected", selected, "ADDED b", "DELETED a", "MODIFIED b", "DELETED b")
	expect("all", all, "MODIFIED b", "MODIFIED a", "MODIFIED b", "ADDED c", "DELETED a", "DELETED b")
	expect("one", one, "MODIFIED b", "MODIFIED b", "DELETED b")
	expect("named", named, "MODIFIED b", "MODIFIED b", "DELETED b")

	// A value that cannot be decoded ends a watch, unless it was there before and is repaired.
	s.put(t, "bad", `{"apiVersion":`)
	expect("all", all, "ERROR 500", "")
	expect("selected", selected, "ERROR 500", "")
	later := s.watching(t, widgetPath+"?watch=true&resourceVersion="+fmt.Sprint(s.store.Revision())+"&labelSelector=color%3Dred")
	initial := s.watching(t, widgetPath+"?watch=true")
	expect("initial", initial, "ERROR 500", "")
	s.put(t, "bad", stored("bad", red))
	expect("later", later, "ADDED bad")

	// A watch ends with its CRD, and with the store.
	gone := s.watching(t, widgetPath+"?watch=true&resourceVersion="+fmt.Sprint(s.store.Revision()))
	s.handler.Changed(crd.NewCatalog(), "widgets.example.com")
	expect("gone", gone, "")
	closed := s.watching(t, widgetPath+"?watch=true&resourceVersion="+fmt.Sprint(s.store.Revision()))
	s.store.Close()
	expect("closed", closed, "")
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	resp, err := server.Client().Get(server.URL + widgetPath + "?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Error(resp.Status)
	}
}

// twice is a storage that begins each update with an object that is no longer stored.
type twice struct{ generic.RESTOptionsGetter }

func (s twice) GetRESTOptions(gr runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := s.RESTOptionsGetter.GetRESTOptions(gr, example)
	inner := o.Decorator
	o.Decorator = func(c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newFunc, newList func() runtime.Object,
		attributes apistorage.AttrFunc, triggers apistorage.IndexerFuncs, indexers *cache.Indexers) (apistorage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := inner(c, prefix, key, newFunc, newList, attributes, triggers, indexers)
		return outdatedUpdates{s}, destroy, err
	}
	return o, err
}

// TestUpdateOfOutdatedObject repeats an update: each attempt begins with the object that was sent.
func TestUpdateOfOutdatedObject(t *testing.T) {
	t.Parallel()
	d := newWidgets(t, widgetCRD, schema.KEP)
	ended, validated := false, 0
	labels := 0
	count := func(u *unstructured.Unstructured) {
		if u.GetLabels()["seen"] != "" {
			labels++ // an attempt begins with the object of another one
		}
		u.SetLabels(map[string]string{"seen": "x"})
	}
	s := newMemoryServer(t, fixedSource{crd.NewCatalog(d)}, func(c *Config) {
		storage := c.Storage(d)
		c.Storage = func(*crd.Definition) generic.RESTOptionsGetter { return twice{storage} }
	}, changing{count, false, nil, &ended, &validated})
	s.put(t, "a", strings.Replace(stored("a", ""), `"size":1`, `"free":{},"size":1`, 1))
	entry := s.store.Get("/registry/example.com/widgets/n/a")
	owner := `{"apiVersion":"v1","kind":"A","name":"a","uid":"7"}`
	body := strings.Replace(stored("a", fmt.Sprintf(`,"resourceVersion":"%d","ownerReferences":[%s,%s]`, entry.Revision, owner, owner)), `"namespace":"n",`, "", 1)
	w := sendTo(s, http.MethodPut, widgetPath+"/a", "application/json", strings.Replace(body, `"size":1`, `"size":2`, 1))
	if w.Code != http.StatusOK || strings.Count(w.Body.String(), `"uid":"7"`) != 1 || !strings.Contains(w.Body.String(), `"size":2`) || !strings.Contains(w.Body.String(), `"namespace":"n"`) || labels != 0 {
		t.Errorf("%d %s, %d attempts with a changed object", w.Code, w.Body, labels)
	}
}

// TestLargeManagedFields checks that managed fields that make an object too large are not stored.
func TestLargeManagedFields(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	free := map[string]any{}
	for i := range 2000 {
		free[fmt.Sprintf("%0400d", i)] = int64(1)
	}
	object := func(name, version string, free map[string]any) string {
		text, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name, "resourceVersion": version}, "spec": map[string]any{"free": free}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	check := func(what string, w *httptest.ResponseRecorder, code int) string {
		t.Helper()
		var got unstructured.Unstructured
		if err := json.Unmarshal(w.Body.Bytes(), &got.Object); err != nil || w.Code != code || len(got.GetManagedFields()) != 0 {
			t.Errorf("%s: %v, %d %.500s", what, err, w.Code, w.Body)
		}
		return got.GetResourceVersion()
	}
	version := check("create", sendTo(s, http.MethodPost, widgetPath, "application/json", object("a", "", free)), http.StatusCreated)
	free["x"] = int64(2)
	version = check("update", sendTo(s, http.MethodPut, widgetPath+"/a", "application/json", object("a", version, free)), http.StatusOK)
	check("patch", sendTo(s, http.MethodPatch, widgetPath+"/a", "application/merge-patch+json", `{"metadata":{"resourceVersion":"`+version+`"},"spec":`+strings.Replace(object("a", "", free), `{"apiVersion"`, `{"free":{"y":3},"a"`, 1)+`}`), http.StatusOK)
	if w := sendTo(s, http.MethodPatch, widgetPath+"/b?fieldManager=m", "application/apply-patch+yaml", strings.Replace(object("b", "", free), `"resourceVersion":""`, `"labels":{}`, 1)); w.Code < 400 {
		t.Errorf("apply without managed fields: %d %.300s", w.Code, w.Body)
	}
}
