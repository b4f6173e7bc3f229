package resources

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestScope checks which paths fit the scope of a resource.
func TestScope(t *testing.T) {
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, c := range []struct {
		path                string
		cluster, namespaced bool
	}{
		{"/api/v1/namespaces", true, true},
		{"/api/v1/namespaces/x", true, true},
		{"/api/v1/namespaces/x/status", true, true},
		{"/api/v1/namespaces/x/pods/a", false, true},
		{"/apis/example.com/v1/things", true, true},
		{"/apis/example.com/v1/things/a", true, false},
		{"/apis/example.com/v1/namespaces/x/things/a", false, true},
		// A group may have its own namespaces resource, unlike the namespaces in paths.
		{"/apis/example.com/v1/namespaces/x/namespaces/x", false, true},
	} {
		req, err := http.NewRequest(http.MethodGet, "https://server"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := resolver.NewRequestInfo(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := inScope(false, info); got != c.cluster {
			t.Errorf("%s of a cluster-scoped resource: %v", c.path, got)
		}
		if got := inScope(true, info); got != c.namespaced {
			t.Errorf("%s of a namespaced resource: %v", c.path, got)
		}
	}
}
