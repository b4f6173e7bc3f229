package served

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestRoutes checks the methods of paths.
func TestRoutes(t *testing.T) {
	all := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	subresources := func(name string) []string {
		return map[string][]string{"status": {"get", "patch", "update"}, "finalize": {"update"}, "binding": {"create"}, "proxy": {"get"}}[name]
	}
	cluster := Routes{Verbs: all, Subresource: subresources}
	namespaced := Routes{Namespaced: true, Verbs: all, Subresource: subresources}
	answered := Routes{Namespaced: true, Verbs: []string{"create"}, Subresource: subresources}
	read := Routes{Verbs: []string{"get", "list"}, Subresource: subresources}
	const collection, object = "GET POST DELETE", "GET PUT PATCH DELETE"
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, c := range []struct {
		routes  Routes
		path    string
		methods string
	}{
		{cluster, "/api/v1/namespaces", collection},
		{cluster, "/api/v1/namespaces/", collection},
		{cluster, "/api/v1/namespaces/x", object},
		{cluster, "/api/v1/namespaces/x/status", "GET PUT PATCH"},
		{cluster, "/api/v1/namespaces/x/finalize", "PUT"},
		{cluster, "/api/v1/namespaces/x/status/y", ""},
		{cluster, "/api/v1/namespaces/x/namespaces/x", ""},
		{cluster, "/api/v1/watch/namespaces/x/namespaces/x", ""},
		{cluster, "/api/v1/watch/namespaces/x", "GET"},
		{cluster, "/api/v1/watch/namespaces", "GET"},
		{cluster, "/apis/example.com/v1/things", collection},
		{cluster, "/apis/example.com/v1/things?fieldSelector=metadata.name%3Da", collection},
		{cluster, "/apis/example.com/v1/things?watch=true", collection},
		{cluster, "/apis/example.com/v1/things/a", object},
		{cluster, "/apis/example.com/v1/things/a/unknown", ""},
		{cluster, "/apis/example.com/v1/things//status", "GET PUT PATCH"},
		{cluster, "/apis/example.com/v1/things/a//status", ""},
		{cluster, "/apis/example.com/v1/things/a/proxy", "GET HEAD POST PUT PATCH DELETE OPTIONS"},
		{cluster, "/apis/example.com/v1/things/a/proxy/b/c", "GET HEAD POST PUT PATCH DELETE OPTIONS"},
		{cluster, "/apis/example.com/v1/proxy/things/a", ""},
		{cluster, "/apis/example.com/v1/namespaces/x/things", ""},
		{cluster, "/apis/example.com/v1/namespaces/x/things/a", ""},
		// Only the core group has namespaces.
		{cluster, "/apis/example.com/v1/namespaces/x", ""},
		{namespaced, "/apis/example.com/v1/things", "GET"},
		{namespaced, "/apis/example.com/v1/things/a", ""},
		{namespaced, "/apis/example.com/v1/things/a/status", ""},
		{namespaced, "/apis/example.com/v1/namespaces/x/things", collection},
		{namespaced, "/apis/example.com/v1/namespaces/x/things/a", object},
		{namespaced, "/apis/example.com/v1/namespaces/x/things/a/binding", "POST"},
		{namespaced, "/apis/example.com/v1/watch/namespaces/x/things/a", "GET"},
		{namespaced, "/apis/example.com/v1/watch/namespaces/x/things/a/status", ""},
		{namespaced, "/apis/example.com/v1/watch/things", "GET"},
		{namespaced, "/apis/example.com/v1/watch/things/a", ""},
		{answered, "/apis/example.com/v1/namespaces/x/things", "POST"},
		{answered, "/apis/example.com/v1/namespaces/x/things/a", ""},
		{answered, "/apis/example.com/v1/watch/namespaces/x/things", ""},
		{answered, "/apis/example.com/v1/things", ""},
		{read, "/apis/example.com/v1/things", "GET"},
		{read, "/apis/example.com/v1/things/a", "GET"},
		{read, "/apis/example.com/v1/watch/things", ""},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"} {
			req, err := http.NewRequest(method, "https://server"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			info, err := resolver.NewRequestInfo(req)
			if err != nil {
				t.Fatal(err)
			}
			switch err := c.routes.Check(req, info); {
			case slices.Contains(strings.Fields(c.methods), method):
				if err != nil {
					t.Errorf("%s %s: %v", method, c.path, err)
				}
			case c.methods == "":
				if !apierrors.IsNotFound(err) {
					t.Errorf("%s %s: %v", method, c.path, err)
				}
			default:
				if !apierrors.IsMethodNotSupported(err) {
					t.Errorf("%s %s: %v", method, c.path, err)
				}
			}
		}
	}
}
