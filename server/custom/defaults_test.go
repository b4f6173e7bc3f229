package custom

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/schema"
)

// TestDefaultsTooLarge checks that writes are rejected if the defaults of the object are too large, and that
// stored objects can be read and deleted all the same.
func TestDefaultsTooLarge(t *testing.T) {
	t.Parallel()
	definition := strings.Replace(widgetCRD, `"free":{`, `"many":{"type":"array","items":{"type":"object","properties":{
		"text":{"type":"string","default":"`+strings.Repeat("x", 40_000)+`"}}}},"free":{`, 1)
	many := strings.TrimSuffix(strings.Repeat("{},", 100), ",")
	object := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"n","uid":"u","generation":1},"spec":{"many":[` + many + `]}}`
	const own = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"},"spec":`
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		s := newWidgetServer(t, definition, sem)
		rejected := func(h http.Handler, method, path, contentType, body string) {
			t.Helper()
			w := sendTo(h, method, path, contentType, body)
			if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "spec.many[*].text: the defaults of the object have more than 3145728 bytes") {
				t.Errorf("%s: %s %s: %d %.300s", sem, method, contentType, w.Code, w.Body)
			}
		}
		rejected(s, http.MethodPost, widgetPath, "application/json", own+`{"many":[`+many+`]}}`)
		rejected(s, http.MethodPost, widgetPath, "application/yaml", own+`{"many":[`+many+`]}}`)
		rejected(s, http.MethodPatch, widgetPath+"/b?fieldManager=m", "application/apply-patch+yaml", own+`{"many":[`+many+`]}}`)
		if w := sendTo(s, http.MethodPost, widgetPath, "application/json", own+`{"many":[{}]}}`); w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		rejected(s, http.MethodPut, widgetPath+"/b", "application/json", own+`{"many":[`+many+`]}}`)
		rejected(s, http.MethodPatch, widgetPath+"/b", "application/merge-patch+json", `{"spec":{"many":[`+many+`]}}`)
		rejected(s, http.MethodPatch, widgetPath+"/b", "application/json-patch+json", `[{"op":"add","path":"/spec/many","value":[`+many+`]}]`)
		rejected(s, http.MethodPatch, widgetPath+"/b?fieldManager=m&force=true", "application/apply-patch+yaml", own+`{"many":[`+many+`]}}`)

		s.put(t, "a", object)
		for _, path := range []string{widgetPath + "/a", widgetPath} {
			if w := sendTo(s, http.MethodGet, path, "", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"many":[{},{},`) {
				t.Errorf("%s: %s: %d %.300s", sem, path, w.Code, w.Body)
			}
		}
		rejected(s, http.MethodPatch, widgetPath+"/a", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`)
		if w := sendTo(s, http.MethodPatch, widgetPath+"/a", "application/merge-patch+json", `{"spec":{"many":[{}]}}`); w.Code != http.StatusOK {
			t.Errorf("%s: %d %.300s", sem, w.Code, w.Body)
		}
		s.put(t, "a", object)
		if w := sendTo(s, http.MethodDelete, widgetPath+"/a", "", ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d %.300s", sem, w.Code, w.Body)
		}

		ended, validated := false, 0
		extend := func(u *unstructured.Unstructured) {
			items := make([]any, 100)
			for i := range items {
				items[i] = map[string]any{}
			}
			u.Object["spec"].(map[string]any)["many"] = items
		}
		rejected(newWidgetServer(t, definition, sem, changing{extend, true, nil, &ended, &validated}), http.MethodPost, widgetPath, "application/json", own+`{}}`)
		if !ended || validated > 0 {
			t.Errorf("%s: admission goes on", sem)
		}
	}
}
