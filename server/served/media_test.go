package served

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestMedia checks the media types of requests for the server's own resources.
func TestMedia(t *testing.T) {
	routes := Routes{Namespaced: true, Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}, Media: OwnMedia,
		Subresource: func(name string) []string {
			return map[string][]string{"status": {"get", "patch"}, "log": {"get"}, "exec": {"get", "create"}, "proxy": {"get"}}[name]
		}}
	const (
		objects = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
		lists   = objects + ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
		logs    = "406: Not Acceptable\n\nAvailable representations: text/plain, application/json, application/yaml, application/vnd.kubernetes.protobuf"
		patches = "415: Unsupported Media Type"
	)
	const all, namespaced = "/apis/example.com/v1/things", "/apis/example.com/v1/namespaces/x/things"
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, c := range []struct{ method, path, sent, accept, want string }{
		{"GET", namespaced + "/a", "", "", ""},
		{"GET", namespaced + "/a", "", "*/*", ""},
		{"GET", namespaced + "/a", "", "text/html, */*;q=0.1", ""},
		{"GET", namespaced + "/a", "", "application/json;as=Table;v=v1;g=meta.k8s.io", ""},
		{"GET", namespaced + "/a", "", "application/vnd.kubernetes.protobuf", ""},
		{"GET", namespaced + "/a", "", "text/html , application/yaml", ""},
		{"GET", namespaced + "/a", "", "application/*", objects},
		{"GET", namespaced + "/a", "", "application/cbor", objects},
		{"GET", namespaced + "/a", "", ";;", objects},
		{"GET", namespaced + "/a/status", "", "text/html", objects},
		{"GET", all, "", "text/html", lists},
		{"GET", namespaced, "", "text/html", lists},
		{"GET", namespaced + "?watch=1", "", "text/html", lists},
		{"GET", "/apis/example.com/v1/watch/namespaces/x/things/a", "", "text/html", lists},
		{"GET", namespaced + "?fieldSelector=metadata.name%3Da", "", "text/html", lists},
		{"POST", namespaced, "text/html", "text/html", objects},
		{"POST", namespaced, "text/html", "", ""}, // the handler rejects the body
		{"DELETE", namespaced, "", "text/html", objects},
		{"PATCH", namespaced + "/a", "application/merge-patch+json; charset=utf-8", "", ""},
		{"PATCH", namespaced + "/a", "application/apply-patch+yaml", "text/html", objects},
		{"PATCH", namespaced + "/a", "application/json", "text/html", patches},
		{"PATCH", namespaced + "/a/status", "", "", patches},
		{"GET", namespaced + "/a/log", "", "text/plain", ""},
		{"GET", namespaced + "/a/log", "", "text/html", logs},
		{"POST", namespaced + "/a/exec", "", "text/html", ""},
		{"PATCH", namespaced + "/a/proxy", "text/html", "text/html", ""},
	} {
		req, err := http.NewRequest(c.method, "https://server"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", c.sent)
		req.Header.Set("Accept", c.accept)
		info, err := resolver.NewRequestInfo(req)
		if err != nil {
			t.Fatal(err)
		}
		message := ""
		if err := routes.Check(req, info); err != nil {
			message = err.(apierrors.APIStatus).Status().Message
		}
		if message != c.want {
			t.Errorf("%s %s with %q, accepting %q: have %q, want %q", c.method, c.path, c.sent, c.accept, message, c.want)
		}
	}
	routes.Media = nil
	req, err := http.NewRequest("GET", "https://server"+all, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	info, err := resolver.NewRequestInfo(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := routes.Check(req, info); err != nil {
		t.Errorf("without media types: %v", err)
	}
}
