package custom_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/server/servertest"
)

// TestDeleteWithNewFinalizer adds a finalizer behind the server's back and deletes the object
// before the server may have noticed: the finalizer must count.
func TestDeleteWithNewFinalizer(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	db := servertest.Etcd(t, o)
	c := servertest.Client(t, s, nil)
	send := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(got)
	}
	if code, body := send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`); code != http.StatusCreated {
		t.Fatal(code, body)
	}
	const collection = "/apis/example.com/v1/namespaces/default/widgets"
	for i := range 20 {
		name := fmt.Sprint("w-", i)
		if code, body := send(http.MethodPost, collection, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"`+name+`"}}`); code != http.StatusCreated {
			t.Fatal(code, body)
		}
		key := "/registry/example.com/widgets/default/" + name
		got, err := db.Get(t.Context(), key)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatal(got, err)
		}
		value := bytes.Replace(got.Kvs[0].Value, []byte(`"metadata":{`), []byte(`"metadata":{"finalizers":["example.com/f"],`), 1)
		if i%2 == 0 { // the others are deleted at once
			if _, err := db.Put(t.Context(), key, string(value)); err != nil {
				t.Fatal(err)
			}
		}
		code, body := send(http.MethodDelete, collection+"/"+name, "")
		if code != http.StatusOK || strings.Contains(body, `"deletionTimestamp"`) != (i%2 == 0) || strings.Contains(body, `"status":"Success","details":{"name":"`+name+`","group":"example.com","kind":"widgets","uid":`) != (i%2 == 1) {
			t.Fatalf("DELETE of %s: %d %s", name, code, body)
		}
		want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[i%2 == 0]
		if code, body := send(http.MethodGet, collection+"/"+name, ""); code != want {
			t.Fatalf("GET of %s: %d, want %d: %s", name, code, want, body)
		}
	}
	if code, body := send(http.MethodDelete, collection+"/absent", ""); code != http.StatusNotFound {
		t.Fatal(code, body)
	}
}
