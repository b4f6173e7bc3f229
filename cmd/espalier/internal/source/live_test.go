package source

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestLive watches and lists objects of servers that answer in different ways.
func TestLive(t *testing.T) {
	t.Parallel()
	status := func(code int) string {
		return fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "message": "the reason"}`, code)
	}
	const row = `{"type": "ADDED", "object": {"kind": "Table", "rows": [{"cells": ["a"], "object": {"metadata": {"name": "a"}}}]}}`
	things := Collection{GroupVersionResource: runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}}
	open := func(t *testing.T, code int, body string) *Live {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if code == 0 {
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintln(w, body)
		}))
		t.Cleanup(server.Close)
		live, err := NewLive(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if live.patience != watchPatience {
			t.Errorf("the patience is %v", live.patience)
		}
		return live
	}
	for name, c := range map[string]struct {
		code    int
		body    string
		want    string
		calls   string
		expired bool
	}{
		"an event":                               {200, row, "", "started ADDED ", false},
		"a forgotten version":                    {410, status(410), ErrExpired.Error(), "", true},
		"an event that the version is forgotten": {200, row + errorEvent(status(410)), ErrExpired.Error(), "started ADDED ", true},
		"an event of another error":              {200, errorEvent(status(500)), "the reason", "started ", false},
		"an error that is no status":             {200, errorEvent(`"x"`), "is not a status", "started ", false},
		"forbidden":                              {403, status(403), "the reason", "", false},
		"no answer":                              {0, "", "no answer within 100ms", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := open(t, c.code, c.body)
			if c.code == 0 {
				live.patience = 100 * time.Millisecond
			}
			calls := ""
			err := live.Watch(t.Context(), things, "5", func() error { calls += "started "; return nil },
				func(e Event) error { calls += e.Type + " "; return nil })
			if calls != c.calls || errors.Is(err, ErrExpired) != c.expired || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v", calls, err)
			}
		})
	}
	t.Run("a forgotten page", func(t *testing.T) {
		t.Parallel()
		live := open(t, 410, status(410))
		if _, err := live.Page(t.Context(), things, 1, "token"); !errors.Is(err, ErrExpired) {
			t.Error(err)
		}
		if _, err := live.Page(t.Context(), things, 1, ""); err == nil || errors.Is(err, ErrExpired) {
			t.Errorf("the first page: %v", err)
		}
	})
}

// errorEvent returns the event with a status.
func errorEvent(status string) string { return `{"type": "ERROR", "object": ` + status + `}` }
