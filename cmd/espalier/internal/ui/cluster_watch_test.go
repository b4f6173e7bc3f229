package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
)

// TestWatched shows what the page gets: it is live when the server has accepted the watch, not before.
func TestWatched(t *testing.T) {
	t.Parallel()
	const gone = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "message": "too old"}`
	for name, c := range map[string]struct {
		code int
		body string
		want []string
	}{
		"accepted":  {200, `{"type": "ERROR", "object": ` + gone + `}`, []string{"started", "expired"}},
		"expired":   {410, gone, []string{"expired"}},
		"forbidden": {403, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden"}`, []string{"rejected"}},
		"no watch":  {405, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 405, "reason": "MethodNotAllowed"}`, []string{"rejected"}},
		"failing":   {500, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "reason": "InternalError"}`, []string{"failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				fmt.Fprintln(w, c.body)
			}))
			t.Cleanup(server.Close)
			live, err := source.NewLive(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			things := source.Collection{GroupVersionResource: runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}}
			w := &watched{live: live, collection: things, version: "5", send: func(c change) error {
				got = append(got, c.Type)
				return nil
			}}
			if w.run(t.Context()); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if _, err := live.Page(t.Context(), things, 1, "token"); c.code == 410 && asError(t.Context(), err).Code != expired {
				t.Error(err)
			}
		})
	}
}

// TestUnchecked shows that objects whose CRD cannot be read are marked as not checked, and that the CRD is
// read again.
func TestUnchecked(t *testing.T) {
	t.Parallel()
	var sent []change
	var reads int
	made := newDefinition(nil, definedThings(t))
	w := &watched{
		define: func(context.Context) (*definition, error) {
			if reads++; reads == 1 {
				return nil, errors.New("no connection")
			}
			return made, nil
		},
		send: func(c change) error { sent = append(sent, c); return nil },
	}
	event := &source.Event{Type: "MODIFIED"}
	event.Rows = make([]source.Row, 1)
	event.Rows[0].JSON = []byte(`{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": "x"}}`)
	for range 2 {
		if err := w.event(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	if reads != 1 || sent[1].Row.Unchecked != "no connection" || sent[1].Row.Findings != nil {
		t.Errorf("%d reads, row %+v", reads, sent[1].Row)
	}
	w.retry = time.Time{}
	if err := w.event(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if row := sent[2].Row; row.Unchecked != "" || len(row.Findings) != 1 {
		t.Errorf("row %+v", row)
	}
}

func definedThings(t *testing.T) *crd.Definition {
	t.Helper()
	var things api.CustomResourceDefinition
	if err := json.Unmarshal([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
		"spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"}, "versions": [{"name": "v1", "served": true, "storage": true,
		"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}}`), &things); err != nil {
		t.Fatal(err)
	}
	made, err := crd.New(&things, crd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
