package source_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"espalier.dev/api/codec"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// lister is an API server that lists 200 jobs. Before each answer, disturb can answer instead.
type lister struct {
	requests atomic.Int32
	// disturb reports whether it has answered the request with this number.
	disturb func(n int, w http.ResponseWriter, r *http.Request) bool
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.disturb(int(l.requests.Add(1)), w, r) {
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	list := map[string]any{"apiVersion": "example.com/v1", "kind": "JobList"}
	var items []any
	for i := from; i < min(from+min(limit, 50), 200); i++ {
		items = append(items, map[string]any{"apiVersion": "example.com/v1", "kind": "Job", "metadata": map[string]any{"namespace": fmt.Sprintf("ns%d", i/100), "name": fmt.Sprintf("j%03d", i)}})
	}
	list["items"] = items
	if next := from + len(items); next < 200 {
		list["metadata"] = map[string]any{"continue": strconv.Itoa(next)}
	}
	_ = json.NewEncoder(w).Encode(list)
}

func answer(w http.ResponseWriter, code int, reason, token string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"a test","metadata":{"continue":%q}}`, code, reason, token)
	return true
}

// TestClusterProblems reads from an API server that does not always answer with a list.
func TestClusterProblems(t *testing.T) {
	t.Parallel()
	all := []*crd.Definition{definition(t, crdJSON("others", "Other", "Namespaced")), definition(t, crdJSON("jobs", "Job", "Namespaced"))}
	others := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/others") }
	for _, tc := range []struct {
		name    string
		disturb func(n int, w http.ResponseWriter, r *http.Request) bool
		// reasons are those of the failures.
		reasons []source.Reason
		fails   bool
	}{
		{"expired", func(n int, w http.ResponseWriter, r *http.Request) bool {
			return n == 3 && answer(w, 410, "Expired", "")
		}, nil, false},
		{"expired with a token", func(n int, w http.ResponseWriter, r *http.Request) bool {
			return n == 3 && answer(w, 410, "Expired", "50")
		}, nil, false},
		{"always expired at the start", func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return answer(w, 410, "Expired", "")
		}, []source.Reason{source.Failing, source.Failing}, false},
		{"too many requests", func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n%4 != 0 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			return answer(w, 429, "TooManyRequests", "")
		}, nil, false},
		{"unavailable", func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n != 2 {
				return false
			}
			w.Header().Set("Retry-After", "1")
			return answer(w, 503, "ServiceUnavailable", "")
		}, nil, false},
		{"forbidden", func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return others(r) && answer(w, 403, "Forbidden", "")
		}, []source.Reason{source.Forbidden}, false},
		{"vanished", func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return others(r) && answer(w, 404, "NotFound", "")
		}, []source.Reason{source.Vanished}, false},
		{"conversion fails", func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return others(r) && answer(w, 500, "InternalError", "")
		}, []source.Reason{source.Failing}, false},
		{"connection lost once", func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 3 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, nil, false},
		{"not sorted", func(n int, w http.ResponseWriter, r *http.Request) bool {
			if !others(r) {
				return false
			}
			fmt.Fprint(w, `{"items":[{"metadata":{"name":"b"}},{"metadata":{"name":"a"}}]}`)
			return true
		}, nil, false},
		{"unauthorized", func(n int, w http.ResponseWriter, r *http.Request) bool {
			return n == 3 && answer(w, 401, "Unauthorized", "")
		}, nil, true},
		{"not a list", func(n int, w http.ResponseWriter, r *http.Request) bool {
			_, _ = w.Write([]byte("<html>"))
			return true
		}, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&lister{disturb: func(n int, w http.ResponseWriter, r *http.Request) bool {
				if tc.disturb(n, w, r) {
					return true
				}
				if others(r) {
					_, _ = w.Write([]byte(`{"items":[]}`))
					return true
				}
				return false
			}})
			defer server.Close()
			s, err := source.NewCluster(&rest.Config{Host: server.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			var reasons []source.Reason
			seen := map[string]bool{}
			var fatal error
			for o, err := range s.Objects(t.Context(), source.Selection{Definitions: all}) {
				var failure *source.Failure
				switch {
				case errors.As(err, &failure):
					reasons = append(reasons, failure.Reason)
				case fatal != nil:
					t.Errorf("after %v: %v", fatal, err)
				case err != nil:
					fatal = err
				case seen[o.FullName()]:
					t.Errorf("%s is returned twice", o.FullName())
				default:
					seen[o.FullName()] = true
				}
			}
			if tc.name == "not sorted" && (!seen["a"] || !seen["b"]) {
				t.Error("objects are left out")
			}
			delete(seen, "a")
			delete(seen, "b")
			if want := !tc.fails && len(tc.reasons) < 2; (len(seen) == 200) != want || (fatal != nil) != tc.fails || !slices.Equal(reasons, tc.reasons) {
				t.Errorf("%d objects, failures %v, error %v", len(seen), reasons, fatal)
			}
		})
	}
}

// TestClusterDies stops the API server between two pages.
func TestClusterDies(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	server := httptest.NewServer(&lister{disturb: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		if dead.Load() {
			panic(http.ErrAbortHandler)
		}
		return false
	}})
	defer server.Close()
	s, err := source.NewCluster(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var failed error
	for _, err := range s.Objects(t.Context(), source.Selection{Definitions: []*crd.Definition{definition(t, crdJSON("jobs", "Job", "Namespaced"))}}) {
		if failed = err; err == nil {
			n++
		}
		if n == 10 && !dead.Swap(true) {
			server.Listener.Close()
			server.CloseClientConnections()
		}
	}
	if failed == nil || n != 50 {
		t.Errorf("%d objects, then %v", n, failed)
	}
}

// TestClusterEndless reads from a server whose answer does not end: it is not read into memory.
func TestClusterEndless(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 256 MiB")
	}
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for part := []byte(strings.Repeat(" ", 1<<20)); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	s, err := source.NewCluster(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Definitions(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "the answer is larger than 256 MiB") {
			t.Errorf("got %v", err)
		}
	}
}

func crdJSON(plural, kind, scope string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},"spec":{"group":"example.com",
		"names":{"plural":%[1]q,"singular":%[3]q,"kind":%[2]q,"listKind":"%[2]sList"},"scope":%[4]q,"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}}}}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		plural, kind, strings.ToLower(kind), scope)
}

func definition(t testing.TB, src string) *crd.Definition {
	t.Helper()
	hub, err := codec.DecodeLenient([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(hub, crd.Options{Semantics: schema.KEP})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
