package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

const limitedCRD = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
	"spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"}, "versions": [{"name": "v1", "served": true, "storage": true,
	"schema": {"openAPIV3Schema": {"type": "object", "properties": {"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	"numbers": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}}}}}}}]}}`

// limitedCluster returns a cluster with one CRD, whose API server answers requests for its objects.
func limitedCluster(t *testing.T, answer http.HandlerFunc) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "/customresourcedefinitions/") {
			fmt.Fprint(w, limitedCRD)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c := NewCluster(ClusterOptions{Define: func(text []byte, sem schema.Semantics) (*crd.Definition, error) {
		var d api.CustomResourceDefinition
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, err
		}
		return crd.New(&d, crd.Options{Semantics: sem})
	}})
	c.open(&rest.Config{Host: server.URL})
	c.update(source.Update{Complete: true, CRDs: []source.Object{{Name: "things.example.com", JSON: []byte(limitedCRD)}}})
	return c
}

// ask returns the answer to a request of the page.
func ask(c *Cluster, name, body string) string {
	r := httptest.NewRequest(http.MethodPost, "/api/cluster/"+name, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.serve(w, r, name)
	return w.Body.String()
}

// TestLargeObjects shows objects that are small, but whose lines or findings are not.
func TestLargeObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("large objects take a while")
	}
	t.Parallel()
	key := strings.Repeat("k", 300_000)
	members := func(n int, value string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"a%d": %s`, i, value)
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"deep":           {`"any": {"a": ` + strings.Repeat(`{"a": `, 1500) + "[" + strings.Repeat("1,", 50_000) + "1]" + strings.Repeat("}", 1500) + "}", "larger than 8 MiB as YAML"},
		"a long key":     {`"any": {"` + key + `": ` + members(3000, "1") + "}", `a2000: 1"`},
		"long findings":  {`"numbers": {"` + key + `": ` + members(60, `"x"`) + "}", `"findings":[{`},
		"many values":    {`"any": {"a": [` + strings.Repeat("1,", 1<<18) + "1]}", `"more":true`},
		"a large object": {`"any": {"a": "` + strings.Repeat("x", 5<<20) + `"}`, "larger than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := `{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, ` + c.content + "}"
			cluster := limitedCluster(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/things") {
					object = `{"kind": "Table", "rows": [{"cells": ["a"], "object": ` + object + "}]}"
				}
				fmt.Fprint(w, object)
			})
			for _, request := range []string{"object", "objects"} {
				answer := ask(cluster, request, `{"crd": "things.example.com", "name": "a"}`)
				if request == "object" && !strings.Contains(answer, c.want) {
					t.Errorf("%.300s", answer)
				}
				if len(answer) > 6<<20 {
					t.Errorf("%s: the answer has %d MiB", request, len(answer)>>20)
				}
			}
		})
	}
}

// TestLargeAnswers shows that an API server cannot fill the memory with answers that are many times as large in memory.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code         int
		answer, want string
	}{
		"rows":      {200, `{"kind": "Table", "rows": [{}` + strings.Repeat(",{}", 1000) + "]}", "there are more than 1000"},
		"cells":     {200, `{"kind": "Table", "rows": [{"cells": [0` + strings.Repeat(",0", 1000) + "]}]}", "there are more than 1000"},
		"columns":   {200, `{"kind": "Table", "columnDefinitions": [{}` + strings.Repeat(",{}", 1000) + "]}", "there are more than 1000"},
		"no list":   {200, `{"kind": "Table", "rows": {}}`, "it is not a list"},
		"a message": {403, `{"kind": "Status", "status": "Failure", "code": 403, "message": "` + strings.Repeat("x", 1<<20) + `"}`, "xxx…"},
		"cell":      {200, `{"kind": "Table", "rows": [{"cells": ["a", null, 1, {"b": "` + strings.Repeat("x", 1000) + `"}]}]}`, `"cells":["a","","1","{\"b\": \"xxx`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := limitedCluster(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				fmt.Fprint(w, c.answer)
			})
			answer := ask(cluster, "objects", `{"crd": "things.example.com"}`)
			if !strings.Contains(answer, c.want) || len(answer) > 10_000 {
				t.Errorf("%d bytes: %.300s", len(answer), answer)
			}
		})
	}
}
