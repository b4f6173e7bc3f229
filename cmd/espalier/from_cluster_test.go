package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
)

// fakeCluster is an API server with many CRDs, each with one object, that does not always answer.
type fakeCluster struct {
	mu       sync.Mutex
	requests []string
	// disturb reports whether it has answered the request instead.
	disturb func(w http.ResponseWriter, r *http.Request) bool
	// old is set for a server whose discovery document has only groups.
	old bool
}

// fakeCRDs is the number of CRDs.
const fakeCRDs = 120

func fakeCRD(i int) map[string]any {
	group := fmt.Sprintf("g%03d.example.com", i)
	crd := thingsCRD(group).Object
	crd["status"] = map[string]any{"storedVersions": []any{"v1"}}
	return crd
}

func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.URL.Path)
	f.mu.Unlock()
	if f.disturb != nil && f.disturb(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	list := func(kind string, n int, item func(int) map[string]any) {
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		var items []any
		for i := from; i < min(from+limit, n); i++ {
			items = append(items, item(i))
		}
		meta := map[string]any{}
		if next := from + len(items); next < n {
			meta["continue"] = strconv.Itoa(next)
		}
		answer(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": meta, "items": items})
	}
	switch parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); {
	case r.URL.Path == crds:
		list("CustomResourceDefinitionList", fakeCRDs, fakeCRD)
	case strings.HasPrefix(r.URL.Path, crds+"/things.g"):
		i, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, crds+"/things.g")[:3])
		answer(fakeCRD(i))
	case r.URL.Path == "/apis" && f.old:
		answer(map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
	case r.URL.Path == "/apis":
		var groups []any
		for i := range fakeCRDs {
			resource := map[string]any{"resource": "things", "singularResource": "thing", "responseKind": map[string]any{"kind": "Thing"}}
			version := map[string]any{"version": "v1", "resources": []any{resource}}
			groups = append(groups, map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("g%03d.example.com", i)}, "versions": []any{version}})
		}
		answer(map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups})
	case len(parts) == 4:
		list("ThingList", 1, func(int) map[string]any {
			return map[string]any{"apiVersion": parts[1] + "/v1", "kind": "Thing", "metadata": map[string]any{"name": "t"}}
		})
	default:
		w.WriteHeader(http.StatusNotFound)
		answer(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
	}
}

// kubeconfigFor writes a kubeconfig with a token for a server.
func kubeconfigFor(t *testing.T, address string) string {
	t.Helper()
	config := clientapi.NewConfig()
	config.Clusters["c"] = &clientapi.Cluster{Server: address}
	config.AuthInfos["u"] = &clientapi.AuthInfo{Token: "secret"}
	config.Contexts["x"] = &clientapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// clusterCommands returns command lines that read a cluster.
func clusterCommands(t *testing.T) [][]string {
	dir := t.TempDir()
	suite, thing := filepath.Join(dir, "suite.yaml"), filepath.Join(dir, "thing.yaml")
	writeFile(t, suite, []byte("{apiVersion: espalier.dev/v1, kind: TestSuite, base: {apiVersion: g007.example.com/v1, kind: Thing}, valid: [{name: base}]}"))
	writeFile(t, thing, []byte("{apiVersion: g007.example.com/v1, kind: Thing, metadata: {name: t}}"))
	crd := filepath.Join(dir, "crd.yaml")
	text, err := json.Marshal(fakeCRD(7))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, crd, text)
	return [][]string{
		{"diff", crd}, {"upgrade", crd}, {"audit"}, {"why", "things.g007.example.com/t", "spec"},
		{"lint"}, {"lint", "things.g007.example.com"}, {"explain", "things.g007.example.com"}, {"show", "core"}, {"show", "core", "things.g007.example.com"},
		{"generate", "typescript", "-o", filepath.Join(dir, "out")}, {"generate", "typescript", "-o", filepath.Join(dir, "one"), "things.g007.example.com"},
		{"test", suite}, {"validate"}, {"validate", thing}, {"validate", "--old-from-cluster", thing},
	}
}

// TestFromClusterPages reads the CRDs of a server with several pages, or the one that is needed.
func TestFromClusterPages(t *testing.T) {
	t.Parallel()
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for i, args := range append(clusterCommands(t), clusterCommands(t)...) {
		if slices.Contains([]string{"diff", "upgrade", "audit", "why"}, args[0]) {
			continue // they read objects
		}
		f := &fakeCluster{old: i >= len(clusterCommands(t))}
		server := httptest.NewServer(f)
		code, stdout, stderr := runWith(t.Context(), append(args, "--kubeconfig", kubeconfigFor(t, server.URL))...)
		server.Close()
		if code != 0 || args[0] == "explain" && !strings.Contains(stdout, "g007.example.com") {
			t.Errorf("%q exits with %d\n%s%s", args, code, stdout, stderr)
		}
		lists, objects, crd := 0, 0, 0
		for _, path := range f.requests {
			if strings.HasPrefix(path, crds+"/") {
				crd++
			}
			if path == crds {
				lists++
			}
			if strings.HasPrefix(path, "/apis/g") && strings.Count(path, "/") > 3 {
				objects++
			}
		}
		named := slices.Contains(args, "things.g007.example.com")
		discovers := args[0] == "explain" || args[0] == "test" || args[0] == "show" && named
		if all := !named && args[0] != "test" || discovers && f.old; (lists > 1) != all {
			t.Errorf("%q lists the CRDs in %d pages", args, lists)
		}
		if crd > 1 {
			t.Errorf("%q reads %d CRDs by name, want 1 at most", args, crd)
		}
		if wantObjects := map[bool]int{true: fakeCRDs}[len(args) == 1 && args[0] == "validate"]; objects != wantObjects && !slices.Contains(args, "--old-from-cluster") {
			t.Errorf("%q reads %d objects, want %d", args, objects, wantObjects)
		}
	}
}

// TestFromClusterBroken reads from servers that do not answer as an API server does. Commands must
// end with an error that says why.
func TestFromClusterBroken(t *testing.T) {
	t.Parallel()
	status := func(code int, reason string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"a test"}`, code, reason)
			return true
		}
	}
	leaked := make(chan string, 100)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked <- r.Header.Get("Authorization") }))
	defer thief.Close()
	for _, tc := range []struct {
		name    string
		disturb func(http.ResponseWriter, *http.Request) bool
		message string
	}{
		{"hangs", func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, "no answer in time (--request-timeout)"},
		{"redirects", func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, thief.URL+"/login", http.StatusFound)
			return true
		}, "which is not followed: set the address of the API server in the kubeconfig"},
		{"forbids", status(403, "Forbidden"), "a test"},
		{"knows nobody", status(401, "Unauthorized"), "a test"},
		{"is no API server", func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, "<html>")
			return true
		}, "the answer is not "},
		{"answers with another object", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"hello":"world"}`)
			return true
		}, "the answer is "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&fakeCluster{disturb: tc.disturb})
			defer server.Close()
			kubeconfig := kubeconfigFor(t, server.URL)
			for _, args := range clusterCommands(t) {
				code, stdout, stderr := runWith(t.Context(), append(args, "--kubeconfig", kubeconfig, "--request-timeout", "200ms")...)
				if code != 2 || !strings.Contains(stdout+stderr, tc.message) {
					t.Errorf("%q exits with %d\n%s%s", args, code, stdout, stderr)
				}
			}
		})
	}
	t.Run("accepts no connections", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		kubeconfig := kubeconfigFor(t, "http://"+l.Addr().String())
		l.Close()
		var wait sync.WaitGroup
		for _, args := range clusterCommands(t) {
			wait.Go(func() {
				code, stdout, stderr := runWith(t.Context(), append(args, "--kubeconfig", kubeconfig)...)
				if code != 2 || !strings.Contains(stdout+stderr, "connection refused") {
					t.Errorf("%q exits with %d\n%s%s", args, code, stdout, stderr)
				}
			})
		}
		wait.Wait()
	})
	t.Cleanup(func() {
		close(leaked)
		for header := range leaked {
			t.Errorf("the server was redirected to got %q", header)
		}
	})
}

// TestFromClusterPartly reads from a server that forbids some kinds: the others are validated.
func TestFromClusterPartly(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&fakeCluster{disturb: func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/apis/g01") || !strings.HasSuffix(r.URL.Path, "/things") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(403)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"not yours"}`)
		return true
	}})
	defer server.Close()
	code, stdout, _ := runWith(t.Context(), "validate", "--kubeconfig", kubeconfigFor(t, server.URL))
	if code != 2 || strings.Count(stdout, "not yours [forbidden]") != 10 || !strings.Contains(stdout, fmt.Sprintf("in %d objects", fakeCRDs-10)) {
		t.Errorf("exits with %d\n%s", code, stdout)
	}
}
