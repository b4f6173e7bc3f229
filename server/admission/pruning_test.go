package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
	"espalier.dev/server/etcd/etcdtest"
)

// TestPruningPlaces puts unknown fields in one place after the other. TestMutations does so in
// the results of admission webhooks, and TestPolicyNormalizes in those of policies.
func TestPruningPlaces(t *testing.T) {
	convert := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID               string           `json:"uid"`
				DesiredAPIVersion string           `json:"desiredAPIVersion"`
				Objects           []map[string]any `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, obj := range review.Request.Objects {
			obj["apiVersion"] = review.Request.DesiredAPIVersion
			if spec, ok := obj["spec"].(map[string]any); ok && strings.HasPrefix(at(obj, "metadata.name").(string), "converted") {
				spec["unknown"] = "from the conversion"
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": map[string]any{
			"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"}}})
	}))
	t.Cleanup(convert.Close)
	db := etcdtest.Start(t)
	conversion := fmt.Sprintf(`{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "%s", caBundle: %s}}}`, convert.URL, (&hook{Server: convert}).caBundle())
	s := espaliertest.Start(t, espaliertest.WithSemantics(schema.KEP), espaliertest.WithFlags("--etcd-servers", db.Endpoints()[0]),
		espaliertest.WithCRDs([]byte(widgets), []byte(strings.NewReplacer("widgets", "gadgets", "Widget", "Gadget", "globals", "others", "Global", "Other",
			"scope: Namespaced\n", "scope: Namespaced\n  conversion: "+conversion+"\n").Replace(widgets))))
	e := &env{T: t, url: s.URL(), client: httpClient(t, s), namespace: "default"}
	gadgets := func(version string) string { return strings.ReplaceAll(e.widgets(version), "widgets", "gadgets") }
	gadget := func(version, name, spec string) string {
		return strings.ReplaceAll(widget(version, name, spec), "Widget", "Gadget")
	}
	stored := func(t *testing.T, resource, name string) string {
		t.Helper()
		got, err := db.Get(t.Context(), "/registry/tests.example.com/"+resource+"/default/"+name)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatal(err, got)
		}
		return string(got.Kvs[0].Value)
	}
	t.Run("P-15-body", func(t *testing.T) {
		a := e.must("POST", e.widgets("v1"), widget("v1", "body", "{size: 1, unknown: x}"))
		if a.at("spec.unknown") != nil || strings.Contains(stored(t, "widgets", "body"), "unknown") {
			t.Error(a, stored(t, "widgets", "body"))
		}
		a = e.must("PATCH", e.widgets("v1")+"/body", "{spec: {size: 2, unknown: x}}")
		if a.at("spec.unknown") != nil || strings.Contains(stored(t, "widgets", "body"), "unknown") {
			t.Error(a, stored(t, "widgets", "body"))
		}
	})
	t.Run("P-15-etcd", func(t *testing.T) {
		// v1 has a field old, but v2, in which the object is stored, does not.
		value := `{"apiVersion":"tests.example.com/v2","kind":"Widget","metadata":{"name":"etcd","namespace":"default","uid":"x","creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"size":1,"unknown":"x","old":"x","new":"y"}}`
		if _, err := db.Put(t.Context(), "/registry/tests.example.com/widgets/default/etcd", value); err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{"v1", "v2"} {
			a := e.must("GET", e.widgets(version)+"/etcd", "")
			if a.at("spec.size") != 1.0 || a.at("spec.unknown") != nil || a.at("spec.old") != nil || (a.at("spec.new") == "y") != (version == "v2") {
				t.Error(a)
			}
			list := e.must("GET", e.widgets(version), "")
			if text := mustJSON(t, list.object); !strings.Contains(text, `"etcd"`) || strings.Contains(text, "unknown") {
				t.Error(text)
			}
		}
	})
	t.Run("P-15-conversion", func(t *testing.T) {
		// Reading v2 converts, and so does storing it.
		e.must("POST", gadgets("v1"), gadget("v1", "converted", "{size: 1}"))
		if a := e.must("GET", gadgets("v2")+"/converted", ""); a.at("spec.size") != 1.0 || a.at("spec.unknown") != nil {
			t.Error(a)
		}
		if text := mustJSON(t, e.must("GET", gadgets("v2"), "").object); !strings.Contains(text, `"converted"`) || strings.Contains(text, "unknown") {
			t.Error(text)
		}
		a := e.must("POST", gadgets("v2"), gadget("v2", "converted-2", "{size: 1}"))
		if value := stored(t, "gadgets", "converted-2"); a.at("spec.unknown") != nil || strings.Contains(value, "unknown") || !strings.Contains(value, `"tests.example.com/v1"`) {
			t.Error(a, value)
		}
	})
}
