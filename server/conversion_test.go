package server_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/espaliertest"
)

// converter is a conversion webhook: v1 has spec.size, v2 spec.dimension.size. mode selects
// its fault.
func converter(t *testing.T, mode *string) *httptest.Server {
	rename := func(obj map[string]any, to string) {
		spec, _ := obj["spec"].(map[string]any)
		obj["apiVersion"] = to
		if strings.HasSuffix(to, "/v2") {
			obj["spec"] = map[string]any{"dimension": map[string]any{"size": spec["size"]}}
		} else {
			d, _ := spec["dimension"].(map[string]any)
			obj["spec"] = map[string]any{"size": d["size"]}
		}
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			APIVersion string         `json:"apiVersion"`
			Kind       string         `json:"kind"`
			Request    map[string]any `json:"request,omitempty"`
			Response   map[string]any `json:"response"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		to, _ := review.Request["desiredAPIVersion"].(string)
		objects, _ := review.Request["objects"].([]any)
		for _, o := range objects {
			obj := o.(map[string]any)
			rename(obj, to)
			meta := obj["metadata"].(map[string]any)
			switch *mode {
			case "other name":
				meta["name"] = "other"
			case "labels":
				meta["labels"] = map[string]any{"converted": "yes"}
				meta["generation"] = 99
			case "no metadata":
				delete(obj, "metadata")
			case "garbage":
				obj["spec"] = map[string]any{"size": "large", "unknown": true}
			}
		}
		review.Response = map[string]any{"uid": review.Request["uid"], "convertedObjects": objects, "result": map[string]any{"status": "Success"}}
		switch *mode {
		case "rejects":
			review.Response = map[string]any{"uid": review.Request["uid"], "result": map[string]any{"status": "Failure", "message": "I do not feel like it"}}
		case "none":
			review.Response["convertedObjects"] = []any{}
		case "other uid":
			review.Response["uid"] = "x"
		case "no JSON":
			fmt.Fprint(w, "<html>")
			return
		case "redirect":
			http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusTemporaryRedirect)
			return
		case "huge":
			chunk := make([]byte, 1<<20)
			for range 64 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
			return
		case "status":
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestConversionWebhook(t *testing.T) {
	t.Parallel()
	mode := ""
	hook := converter(t, &mode)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	s := newScript(t, espaliertest.Start(t), &txtar.Archive{})
	definition := fmt.Sprintf(`{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "boxes.conversion.example.com"},
	"spec": {"group": "conversion.example.com", "scope": "Namespaced", "names": {"plural": "boxes", "kind": "Box"},
		"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": %q, "caBundle": %q}}},
		"versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "absent": {"type": "string", "default": "x"}}}}}}},
			{"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"dimension": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}}}]}}`,
		hook.URL, base64.StdEncoding.EncodeToString(ca))
	must := func(verb, body string, code int) {
		t.Helper()
		if err := s.write(verb, []byte(body), ""); err != nil {
			t.Fatal(err)
		}
		if s.last.code != code {
			t.Fatalf("%d: %s", s.last.code, s.last.body)
		}
	}
	must("create", definition, http.StatusCreated)
	must("create", `{"apiVersion": "conversion.example.com/v1", "kind": "Box", "metadata": {"name": "a", "labels": {"mine": "yes"}}, "spec": {"size": 3}}`, http.StatusCreated)
	const path = "/apis/conversion.example.com/v2/namespaces/default/boxes"
	get := func() answer { return s.do(http.MethodGet, path+"/a", nil, "") }
	want := func(a answer, at string, value any) {
		t.Helper()
		if got, _ := field(a.object, at); got != value {
			t.Errorf("%s is %v: %s", at, got, a.body)
		}
	}
	want(get(), "spec.dimension.size", float64(3))
	want(s.do(http.MethodGet, path, nil, ""), "items.0.spec.dimension.size", float64(3))
	must("create", `{"apiVersion": "conversion.example.com/v2", "kind": "Box", "metadata": {"name": "b"}, "spec": {"dimension": {"size": 4}}}`, http.StatusCreated)
	want(s.do(http.MethodGet, strings.Replace(path, "v2", "v1", 1)+"/b", nil, ""), "spec.size", float64(4))

	// A webhook may change labels, but not the rest of metadata.
	mode = "labels"
	a := get()
	want(a, "metadata.labels.converted", "yes")
	want(a, "metadata.generation", float64(1))
	// Unknown fields are pruned after conversion too.
	mode = "garbage"
	if _, found := field(get().object, "spec.unknown"); found {
		t.Errorf("not pruned: %s", get().body)
	}
	// The client gets an error for every fault of the webhook, and no data is lost.
	for wrong, text := range map[string]string{
		"other name": "must have the same name", "no metadata": "must have the same name", "rejects": "I do not feel like it",
		"none": "returned 0 objects", "other uid": "response.uid", "no JSON": "invalid character", "status": "unable to handle the request",
		"redirect": "webhooks must not redirect", "huge": "larger than 8 MiB",
	} {
		mode = wrong
		a := get()
		message, _ := a.object["message"].(string)
		if a.code != http.StatusInternalServerError || !strings.Contains(message, text) || !strings.Contains(message, "conversion webhook for conversion.example.com/v1, Kind=Box") {
			t.Errorf("%s: %d %s", wrong, a.code, a.body)
		}
		if strings.Contains(message, "StorageError") || strings.Contains(message, "corrupt") {
			t.Errorf("%s: the object is not corrupt: %s", wrong, message)
		}
	}
	hook.Close()
	if a := get(); a.code != http.StatusInternalServerError || !strings.Contains(string(a.body), "connect") {
		t.Errorf("gone: %d %s", a.code, a.body)
	}
	if a := s.do(http.MethodGet, strings.Replace(path, "v2", "v1", 1)+"/a", nil, ""); a.code != http.StatusOK {
		t.Errorf("the stored version needs no webhook: %d %s", a.code, a.body)
	}
}
