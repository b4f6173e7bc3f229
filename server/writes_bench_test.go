package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"espalier.dev/internal/testcase"
	"espalier.dev/server/servertest"
)

// BenchmarkWrites sends writes of a custom resource to a server, one after the other. Most of
// the time is spent in etcd and in the client, which run in the same process: a CPU profile of
// custom.(*Handler).ServeHTTP shows the server's own part.
func BenchmarkWrites(b *testing.B) {
	s := servertest.Start(b, servertest.Options(b))
	c := servertest.Client(b, s, nil)
	send := func(b *testing.B, method, path, mediaType string, body []byte, want int) []byte {
		b.Helper()
		req, err := http.NewRequestWithContext(b.Context(), method, s.URL()+path, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", mediaType)
		resp, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			b.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, got, err)
		}
		return got
	}
	medium := testcase.Medium()
	crd := fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]}}`, medium.Schema)
	send(b, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", crd, http.StatusCreated)

	const collection = "/apis/example.com/v1/namespaces/default/widgets"
	var object map[string]any
	if err := json.Unmarshal(medium.Object, &object); err != nil {
		b.Fatal(err)
	}
	widget := func(name, rv string, change int) []byte {
		object["apiVersion"], object["kind"] = "example.com/v1", "Widget"
		meta := map[string]any{"name": name, "labels": map[string]any{"change": fmt.Sprint(change)}}
		if rv != "" {
			meta["resourceVersion"] = rv
		}
		object["metadata"] = meta
		data, err := json.Marshal(object)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	version := func(b *testing.B, body []byte) string {
		var o struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(body, &o); err != nil {
			b.Fatal(err)
		}
		return o.Metadata.ResourceVersion
	}
	// An apply with fields that the schema does not specify would be rejected.
	pruned := send(b, http.MethodPost, collection, "application/json", widget("w-0", "", 0), http.StatusCreated)
	object = nil
	if err := json.Unmarshal(pruned, &object); err != nil {
		b.Fatal(err)
	}
	created := 0
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			created++
			send(b, http.MethodPost, collection, "application/json", widget(fmt.Sprint("w-", created), "", 0), http.StatusCreated)
		}
	})
	b.Run("put", func(b *testing.B) {
		created++
		name := fmt.Sprint("w-", created)
		rv := version(b, send(b, http.MethodPost, collection, "application/json", widget(name, "", 0), http.StatusCreated))
		for i := 1; b.Loop(); i++ {
			rv = version(b, send(b, http.MethodPut, collection+"/"+name, "application/json", widget(name, rv, i), http.StatusOK))
		}
	})
	for _, unchanged := range []bool{false, true} {
		row := map[bool]string{false: "apply", true: "apply-unchanged"}[unchanged]
		b.Run(row, func(b *testing.B) {
			created++
			name := fmt.Sprint("w-", created)
			path := collection + "/" + name + "?fieldManager=bench&force=true"
			send(b, http.MethodPatch, path, "application/apply-patch+yaml", widget(name, "", 0), http.StatusCreated)
			for i := 1; b.Loop(); i++ {
				if unchanged {
					i = 0
				}
				send(b, http.MethodPatch, path, "application/apply-patch+yaml", widget(name, "", i), http.StatusOK)
			}
		})
	}
	b.Run("merge-patch", func(b *testing.B) {
		created++
		name := fmt.Sprint("w-", created)
		send(b, http.MethodPost, collection, "application/json", widget(name, "", 0), http.StatusCreated)
		for i := 1; b.Loop(); i++ {
			send(b, http.MethodPatch, collection+"/"+name, "application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, i), http.StatusOK)
		}
	})
	b.Run("delete", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			created++
			name := fmt.Sprint("w-", created)
			send(b, http.MethodPost, collection, "application/json", widget(name, "", 0), http.StatusCreated)
			b.StartTimer()
			send(b, http.MethodDelete, collection+"/"+name, "application/json", nil, http.StatusOK)
		}
	})
}
