package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
	"espalier.dev/server/etcd/etcdtest"
)

// TestPruningPlaces puts unknown fields in one place after the other, and only there.
// TestMutations checks what webhooks see, and TestPolicyNormalizes what becomes of the results of
// policies.
func TestPruningPlaces(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		p := newPlaces(t, sem)
		t.Run("P-15-body "+sem.String(), func(t *testing.T) { p.in(t).body() })
		t.Run("P-15-etcd "+sem.String(), func(t *testing.T) { p.in(t).etcd() })
		t.Run("P-15-conversion "+sem.String(), func(t *testing.T) { p.in(t).conversion() })
		t.Run("P-15-mutation "+sem.String(), func(t *testing.T) { p.in(t).mutation() })
	}
}

// places is a server with its etcd. A webhook converts gadgets, and adds a field to those whose
// names begin with converted. Widgets are converted without a webhook.
type places struct {
	*env
	sem schema.Semantics
	db  *clientv3.Client
}

func newPlaces(t *testing.T, sem schema.Semantics) places {
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
	s := espaliertest.Start(t, espaliertest.WithSemantics(sem), espaliertest.WithFlags("--etcd-servers", db.Endpoints()[0]),
		espaliertest.WithCRDs([]byte(widgets), []byte(strings.NewReplacer("widgets", "gadgets", "Widget", "Gadget", "globals", "others", "Global", "Other",
			"scope: Namespaced\n", "scope: Namespaced\n  conversion: "+conversion+"\n").Replace(widgets))))
	e := &env{T: t, url: s.URL(), client: httpClient(t, s), namespace: "default"}
	e.must("PATCH", "/api/v1/namespaces/default", "{metadata: {labels: {test: default}}}")
	return places{e, sem, db}
}

// in returns the places for a subtest.
func (p places) in(t *testing.T) places {
	e := *p.env
	e.T = t
	p.env = &e
	return p
}

func (p places) gadgets(version string) string {
	return strings.ReplaceAll(p.widgets(version), "widgets", "gadgets")
}

func gadget(version, name, spec string) string {
	return strings.ReplaceAll(widget(version, name, spec), "Widget", "Gadget")
}

// stored returns an object as it is in etcd.
func (p places) stored(resource, name string) string {
	p.Helper()
	got, err := p.db.Get(p.Context(), "/registry/tests.example.com/"+resource+"/default/"+name)
	if err != nil || len(got.Kvs) != 1 {
		p.Fatal(err, got)
	}
	return string(got.Kvs[0].Value)
}

// clean checks that neither a response nor what is stored has the unknown field.
func (p places) clean(a answer, resource, name string) {
	p.Helper()
	if value := p.stored(resource, name); a.at("spec.size") == nil || a.at("spec.unknown") != nil || strings.Contains(value, "unknown") {
		p.Error(a, value)
	}
}

func (p places) body() {
	for _, version := range []string{"v1", "v2"} {
		name, path := "body-"+version, p.widgets(version)+"/body-"+version
		p.clean(p.must("POST", p.widgets(version), widget(version, name, "{size: 1, unknown: x}")), "widgets", name)
		p.clean(p.must("PUT", path, widget(version, name, "{size: 2, unknown: x}")), "widgets", name)
		p.clean(p.must("PATCH", path, "{spec: {size: 3, unknown: x}}"), "widgets", name)
		p.clean(p.must("PATCH", path, `[{op: add, path: /spec/size, value: 4}, {op: add, path: /spec/unknown, value: x}]`), "widgets", name)
		if a := p.must("GET", path, ""); a.at("spec.size") != 4.0 {
			p.Error(a)
		}
		// Server-side apply rejects what the schema does not have, so nothing of it is stored.
		code := http.StatusInternalServerError
		if p.sem.RefusesContradictions() {
			code = http.StatusBadRequest
		}
		for _, name := range []string{name, "applied-" + version} {
			if a := p.do("APPLY", p.widgets(version)+"/"+name, widget(version, name, "{size: 5, unknown: x}")); a.code != code || !strings.Contains(a.message(), "unknown") {
				p.Error(a)
			}
		}
		if a := p.must("GET", path, ""); a.at("spec.size") != 4.0 {
			p.Error(a)
		}
		p.must("PATCH", path+"/status", "{status: {phase: x, unknown: x}}")
		if value := p.stored("widgets", name); !strings.Contains(value, `"phase":"x"`) || strings.Contains(value, "unknown") {
			p.Error(value)
		}
	}
}

func (p places) etcd() {
	// v1 has a field old, but v2, in which the object is stored, does not.
	value := `{"apiVersion":"tests.example.com/v2","kind":"Widget","metadata":{"name":"etcd","namespace":"default","uid":"x","creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"size":1,"unknown":"x","old":"x","new":"y"}}`
	if _, err := p.db.Put(p.Context(), "/registry/tests.example.com/widgets/default/etcd", value); err != nil {
		p.Fatal(err)
	}
	for _, version := range []string{"v1", "v2"} {
		a := p.must("GET", p.widgets(version)+"/etcd", "")
		if a.at("spec.size") != 1.0 || a.at("spec.unknown") != nil || a.at("spec.old") != nil || (a.at("spec.new") == "y") != (version == "v2") {
			p.Error(a)
		}
		for _, query := range []string{"", "?resourceVersion=0", "?limit=500"} {
			list := p.must("GET", p.widgets(version)+query, "")
			if text := mustJSON(p.T, list.object); !strings.Contains(text, `"etcd"`) || strings.Contains(text, "unknown") {
				p.Error(text)
			}
		}
	}
	// A write does not store it again.
	p.clean(p.must("PATCH", p.widgets("v1")+"/etcd", "{metadata: {labels: {a: b}}}"), "widgets", "etcd")
}

func (p places) conversion() {
	// Reading v2 converts, and so does storing it.
	p.must("POST", p.gadgets("v1"), gadget("v1", "converted", "{size: 1}"))
	if a := p.must("GET", p.gadgets("v2")+"/converted", ""); a.at("spec.size") != 1.0 || a.at("spec.unknown") != nil {
		p.Error(a)
	}
	if text := mustJSON(p.T, p.must("GET", p.gadgets("v2"), "").object); !strings.Contains(text, `"converted"`) || strings.Contains(text, "unknown") {
		p.Error(text)
	}
	const name = "converted-2"
	p.clean(p.must("POST", p.gadgets("v2"), gadget("v2", name, "{size: 1}")), "gadgets", name)
	p.clean(p.must("PUT", p.gadgets("v2")+"/"+name, gadget("v2", name, "{size: 2}")), "gadgets", name)
	p.clean(p.must("PATCH", p.gadgets("v2")+"/"+name, "{spec: {size: 3}}"), "gadgets", name)
	p.clean(p.must("APPLY", p.gadgets("v2")+"/"+name, gadget("v2", name, "{size: 4}")), "gadgets", name)
	if value := p.stored("gadgets", name); !strings.Contains(value, `"tests.example.com/v1"`) || !strings.Contains(value, `"size":4`) {
		p.Error(value)
	}
}

// mutation checks that a webhook cannot store unknown fields. kube-apiserver prunes the result of
// a webhook only if it converts it to store it.
func (p places) mutation() {
	for _, name := range []string{"mutated-v1", "mutated-v2"} {
		p.must("POST", p.widgets("v1"), widget("v1", name, "{size: 1}"))
	}
	p.configure("Mutating", "a", newHook(p.T, patching(`[{"op": "add", "path": "/spec/unknown", "value": "x"}]`)), "")
	for _, version := range []string{"v1", "v2"} {
		check := func(a answer, name string) {
			p.Helper()
			if p.sem.NormalizesMutations() || version == "v2" {
				p.clean(a, "widgets", name)
				return
			}
			if value := p.stored("widgets", name); a.at("spec.unknown") != nil || !strings.Contains(value, `"unknown":"x"`) {
				p.Error(a, value)
			}
			if a := p.must("GET", p.widgets(version)+"/"+name, ""); a.at("spec.size") == nil || a.at("spec.unknown") != nil {
				p.Error(a)
			}
		}
		created := "created-" + version
		check(p.must("POST", p.widgets(version), widget(version, created, "{size: 1}")), created)
		name := "mutated-" + version
		path := p.widgets(version) + "/" + name
		check(p.must("PUT", path, widget(version, name, "{size: 2}")), name)
		check(p.must("PATCH", path, "{spec: {size: 3}}"), name)
		check(p.must("APPLY", path, widget(version, name, "{size: 4}")), name)
		if a := p.must("GET", path, ""); a.at("spec.size") != 4.0 {
			p.Error(a)
		}
	}
}
