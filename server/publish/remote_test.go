package publish

import (
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestRemoteSwagger has a server that takes over a version of a CRD: the OpenAPI v2 document has only the
// other version, and both again afterwards.
func TestRemoteSwagger(t *testing.T) {
	src := &source{}
	src.set(define(t, "crontabs.example.com", addVersion("v2", true)))
	var remote atomic.Pointer[Remote]
	srv := httptest.NewServer(New(Config{
		Codecs: scheme.Codecs, Source: src, Version: "test", Remote: remote.Load,
		Priority:  func(schema.GroupVersion) (group, version int32) { return 1000, 100 },
		Addresses: discovery.DefaultAddresses{DefaultAddress: "server:6443"},
	}))
	t.Cleanup(srv.Close)
	tags := map[string]bool{}
	check := func(v1, v2 bool, versions ...string) {
		t.Helper()
		if versions != nil {
			next := &Remote{}
			for _, v := range versions {
				next.Versions = append(next.Versions, RemoteVersion{GroupVersion: schema.GroupVersion{Group: "example.com", Version: v}})
			}
			remote.Store(next)
		}
		resp, text := get(t, srv, "/openapi/v2")
		tags[resp.Header.Get("Etag")] = true
		for version, want := range map[string]bool{"v1": v1, "v2": v2} {
			for _, member := range []string{`"/apis/example.com/` + version + `/crontabs"`, `"com.example.` + version + `.Crontab"`} {
				if got := strings.Contains(string(text), member); got != want {
					t.Errorf("without %s: %s: %v", versions, member, got)
				}
			}
		}
	}
	check(true, true)
	check(false, true, "v1")
	check(false, false, "v2", "v1")
	if len(tags) != 3 {
		t.Errorf("the hashes %v", tags)
	}
	remote.Store(nil)
	check(true, true)
}
