package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"espalier.dev/cmd/espalier/internal/source"
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
