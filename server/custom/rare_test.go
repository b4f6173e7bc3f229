package custom

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/schema"
)

// TestUpdatesWithLargeManagedFields checks that the managed fields of an object that becomes too large
// are removed.
func TestUpdatesWithLargeManagedFields(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	var free strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&free, `,"%0400d":1`, i)
	}
	const object = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"%s"%s},"spec":{"free":{"a":1%s}}}`
	for name, change := range map[string]func(name, version string) *httptest.ResponseRecorder{
		"update": func(name, version string) *httptest.ResponseRecorder {
			return sendTo(s, http.MethodPut, widgetPath+"/"+name, "application/json", fmt.Sprintf(object, name, `,"resourceVersion":"`+version+`"`, free.String()))
		},
		"patch": func(name, _ string) *httptest.ResponseRecorder {
			return sendTo(s, http.MethodPatch, widgetPath+"/"+name, "application/merge-patch+json", `{"spec":{"free":{"a":2`+free.String()+`}}}`)
		},
	} {
		if w := sendTo(s, http.MethodPost, widgetPath, "application/json", fmt.Sprintf(object, name, "", "")); w.Code != http.StatusCreated || !strings.Contains(w.Body.String(), "managedFields") {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		if _, err := s.store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := change(name, fmt.Sprint(s.store.Get(widgetKeys+"n/"+name).Revision))
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "managedFields") || w.Body.Len() < free.Len() {
			t.Errorf("%s: %d %.500s", name, w.Code, w.Body)
		}
	}
}

// TestRestoredManagedFields checks what becomes of managed fields that admission has changed.
func TestRestoredManagedFields(t *testing.T) {
	t.Parallel()
	entry := func(operation string) []any {
		return []any{map[string]any{"manager": "m", "operation": operation, "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}
	}
	for name, test := range map[string]struct {
		before, after, want any
		warned              bool
	}{
		"the same":         {entry("Odd"), entry("Odd"), entry("Odd"), false},
		"valid":            {entry("Update"), entry("Apply"), entry("Apply"), false},
		"invalid":          {entry("Update"), entry("Odd"), entry("Update"), true},
		"invalid and new":  {nil, entry("Odd"), nil, true},
		"removed":          {entry("Update"), nil, nil, false},
		"none before, new": {nil, entry("Update"), entry("Update"), false},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
		putManagedFields(obj, test.after)
		var warned warnings
		restoreManagedFields(warning.WithWarningRecorder(t.Context(), &warned), obj, test.before)
		if got := managedFields(obj); !reflect.DeepEqual(got, test.want) || (len(warned) > 0) != test.warned {
			t.Errorf("%s: got %v, %q", name, got, warned)
		}
	}
}

// TestRareRequests checks writes whose bodies cannot be read, and answers that k8s.io/apiserver writes.
func TestRareRequests(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	s.put(t, "a", stored("a", ""))
	for method, contentType := range map[string]string{http.MethodPost: "application/json", http.MethodPut: "application/json", http.MethodPatch: "application/merge-patch+json"} {
		path := widgetPath + "/a"
		if method == http.MethodPost {
			path = widgetPath
		}
		req := httptest.NewRequest(method, path, iotest.ErrReader(errConversion))
		req.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, req); w.Code < 400 || !strings.Contains(w.Body.String(), errConversion.Error()) {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	for _, query := range []string{"", "?export=true", "?export=true&pretty=1"} {
		for _, accept := range []string{"application/json", "application/yaml", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
			req := httptest.NewRequest(http.MethodPost, widgetPath+query, strings.NewReader(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"generateName":"g-"}}`))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			if s.ServeHTTP(w, req); w.Code != http.StatusCreated || !strings.Contains(w.Body.String(), "g-") {
				t.Errorf("%s %s: %d %s", query, accept, w.Code, w.Body)
			}
		}
	}
}
