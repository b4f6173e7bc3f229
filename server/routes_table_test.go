package server_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/schema"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestRouteTable sends all methods to the paths in testdata/routes.txt, and compares the answers
// with those of kube-apiserver.
func TestRouteTable(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			t.Parallel()
			o := servertest.Options(t)
			o.Semantics = sem
			o.DisableAdmissionPlugins = []string{"ServiceAccount"}
			s := servertest.Start(t, o)
			routeObjects(t, s)
			file, err := os.Open("testdata/routes.txt")
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			admin := servertest.Client(t, s, nil)
			var methods []string
			for lines := bufio.NewScanner(file); lines.Scan(); {
				fields := strings.Fields(lines.Text())
				switch {
				case len(fields) == 0 || fields[0] == "#":
				case methods == nil:
					methods = fields[1:]
				case len(fields) != len(methods)+1:
					t.Fatalf("a line of %d fields: %s", len(fields), lines.Text())
				default:
					for i, want := range fields[1:] {
						if got, text := routeAnswer(t, s, admin, methods[i], fields[0]); got != want {
							t.Errorf("%s %s: got %s, want %s: %s", methods[i], fields[0], got, want, text)
						}
					}
				}
			}
		})
	}
}

// routeObjects creates the objects of the paths in the table: all of them have the name x, but for
// those whose names have rules.
func routeObjects(t *testing.T, s *server.Server) {
	t.Helper()
	admin := servertest.Client(t, s, nil)
	const subresources = `,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}}`
	for _, c := range [][2]string{
		{"/api/v1/namespaces", `{"metadata":{"name":"a"}}`},
		{"/api/v1/namespaces/a/serviceaccounts", `{"metadata":{"name":"x"}}`},
		{"/api/v1/namespaces/a/configmaps", `{"metadata":{"name":"x"}}`},
		{"/api/v1/namespaces/a/pods", strings.Replace(routeBody("/pods"), "evil", "x", 1)},
		{"/api/v1/nodes", `{"metadata":{"name":"x"}}`},
		{"/apis/apps/v1/namespaces/a/deployments", strings.Replace(routeBody("/deployments"), "evil", "x", 1)},
		{"/apis/apiregistration.k8s.io/v1/apiservices", strings.ReplaceAll(routeBody("/apiservices"), "evil", "x")},
		{servertest.CRDs, routedCRD("foos", "Foo", "Namespaced", subresources)},
		{servertest.CRDs, routedCRD("bars", "Bar", "Cluster", "")},
		{"/apis/routes.example.com/v1/namespaces/a/foos", `{"apiVersion":"routes.example.com/v1","kind":"Foo","metadata":{"name":"x"},"spec":{"replicas":1}}`},
		{"/apis/routes.example.com/v1/bars", `{"apiVersion":"routes.example.com/v1","kind":"Bar","metadata":{"name":"x"}}`},
	} {
		if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+c[0], c[1]); code != http.StatusCreated {
			t.Fatalf("POST %s: %d %s", c[0], code, text)
		}
	}
}

// routeBody returns the object of a POST or PUT to a path: its name is not that of the path.
func routeBody(path string) string {
	for _, c := range []struct{ part, body string }{
		{"/customresourcedefinitions", routedCRD("evils", "Evil", "Cluster", "")},
		{"/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"evil"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"/deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"evil"},"spec":{"selector":{"matchLabels":{"a":"b"}},` +
			`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		{"/apiservices", `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.evil.example.com"},"spec":{"group":"evil.example.com",` +
			`"version":"v1","groupPriorityMinimum":1,"versionPriority":1,"service":{"name":"s","namespace":"a"},"insecureSkipTLSVerify":true}}`},
		{"/foos", `{"apiVersion":"routes.example.com/v1","kind":"Foo","metadata":{"name":"evil"}}`},
		{"/bars", `{"apiVersion":"routes.example.com/v1","kind":"Bar","metadata":{"name":"evil"}}`},
		{"/bindings", `{"metadata":{"name":"x"},"target":{"kind":"Node","name":"x"}}`},
		{"/token", `{"spec":{}}`},
		{"reviews", `{"spec":{}}`},
	} {
		if strings.Contains(path, c.part) {
			return c.body
		}
	}
	return `{"metadata":{"name":"evil"}}`
}

// routeAnswer sends a request, and returns its answer as the table has it.
func routeAnswer(t *testing.T, s *server.Server, c *http.Client, method, path string) (answer, text string) {
	t.Helper()
	url, body := s.URL()+path, ""
	if method == http.MethodPost || method == http.MethodPut {
		body = routeBody(path)
	}
	if method == http.MethodPatch {
		body = "{}"
	}
	if method != http.MethodGet && method != http.MethodHead && !strings.Contains(path, "review") && !strings.HasSuffix(path, "/token") {
		url += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "dryRun=All"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body = nil
	}
	req.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == http.MethodPatch])
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	answer = fmt.Sprint(resp.StatusCode)
	if resp.StatusCode < 400 || method == http.MethodHead {
		return answer, string(raw)
	}
	var status metav1.Status
	if err := json.Unmarshal(raw, &status); err != nil || status.Kind != "Status" {
		return answer + "p", string(raw)
	}
	generic := map[int]string{404: "the server could not find the requested resource", 405: "the server does not allow this method on the requested resource"}
	if status.Message != generic[resp.StatusCode] || !strings.Contains(string(raw), `"details":{}`) {
		answer += "o"
	}
	return answer, string(raw)
}
