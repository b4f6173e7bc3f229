package publish

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/client-go/kubernetes/scheme"
)

// serveRemote serves a CRD, and what other servers serve.
func serveRemote(t *testing.T) (*httptest.Server, *atomic.Pointer[Remote]) {
	src := &source{}
	src.set(define(t, "crontabs.example.com", addVersion("v2", true)))
	var remote atomic.Pointer[Remote]
	srv := httptest.NewServer(New(Config{
		Codecs: scheme.Codecs, Source: src, Version: "test", Remote: remote.Load,
		Priority:  func(schema.GroupVersion) (group, version int32) { return 1000, 100 },
		Addresses: discovery.DefaultAddresses{DefaultAddress: "server:6443"},
	}))
	t.Cleanup(srv.Close)
	return srv, &remote
}

// TestRemoteSwagger has a server that takes over a version of a CRD: the OpenAPI v2 document has only the
// other version, and both again afterwards.
func TestRemoteSwagger(t *testing.T) {
	srv, remote := serveRemote(t)
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

// swaggerDocument is an OpenAPI v2 document.
type swaggerDocument struct {
	Paths       map[string]json.RawMessage `json:"paths"`
	Definitions map[string]json.RawMessage `json:"definitions"`
	Parameters  map[string]json.RawMessage `json:"parameters,omitempty"`
}

// TestRemoteSwaggerMerged has versions of two other servers. The document has their paths and definitions, under
// other names if this server has others of the same name, and nothing else that they have sent.
func TestRemoteSwaggerMerged(t *testing.T) {
	const (
		list    = "/apis/widgets.example.com/v1/widgets"
		widget  = "com.example.Widget"
		meta    = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
		options = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
		crontab = "com.example.v1.Crontab"
	)
	srv, remote := serveRemote(t)
	read := func() (doc swaggerDocument) {
		t.Helper()
		_, text := get(t, srv, "/openapi/v2")
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	before := read()
	parameter := slices.Sorted(maps.Keys(before.Parameters))[0]
	// Its options are those of this server, but for their kinds.
	var theirs map[string]any
	if err := json.Unmarshal(before.Definitions[options], &theirs); err != nil {
		t.Fatal(err)
	}
	theirs["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": "widgets.example.com", "version": "v1", "kind": "DeleteOptions"}}
	same, err := json.Marshal(theirs)
	if err != nil {
		t.Fatal(err)
	}
	ref := func(name string) string { return `{"$ref":"#/definitions/` + name + `"}` }
	operation := func(name string) string {
		return `{"get":{"parameters":[{"$ref":"#/parameters/` + parameter + `"}],"responses":{"200":{"description":"OK","schema":` + ref(name) + `}}}}`
	}
	parse := func(group, paths, definitions string) RemoteVersion {
		t.Helper()
		gv := schema.GroupVersion{Group: group, Version: "v1"}
		swagger, err := NewRemoteSwagger(gv, []byte(`{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{`+paths+`},"definitions":{`+definitions+
			`},"parameters":{"`+parameter+`":{"name":"other","in":"query","type":"string"}}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return RemoteVersion{GroupVersion: gv, Swagger: swagger}
	}
	schemas := `"` + widget + `":{"type":"object","properties":{"metadata":` + ref(meta) + `,"options":` + ref(options) + `}},` +
		`"` + meta + `":{"type":"object","description":"Another one."},"` + options + `":` + string(same)
	first := parse("widgets.example.com", `"`+list+`":`+operation(widget)+`,"/apis/example.com/v1/crontabs":`+operation("Evil")+`,"/version":`+operation("Evil"),
		schemas+`,"Evil":{"type":"object","properties":{"a":`+ref(crontab)+`}},"`+crontab+`":{"type":"string"}`)
	second := parse("gadgets.example.com", `"/apis/gadgets.example.com/v1/gadgets":`+operation("com.example.Gadget"),
		`"com.example.Gadget":{"type":"object","properties":{"a":`+ref(widget)+`}},"`+widget+`":{"type":"string","description":"Not the same."}`)
	remote.Store(&Remote{Versions: []RemoteVersion{first, second}})
	after := read()

	for path, text := range before.Paths {
		if string(after.Paths[path]) != string(text) {
			t.Errorf("the path %s is now %s", path, after.Paths[path])
		}
	}
	for name, text := range before.Definitions {
		if name != options && string(after.Definitions[name]) != string(text) {
			t.Errorf("the definition %s is now %s", name, after.Definitions[name])
		}
	}
	var added []string
	for name := range after.Definitions {
		if before.Definitions[name] == nil {
			added = append(added, name)
		}
	}
	slices.Sort(added)
	if want := []string{"com.example.Gadget", widget, widget + "_v2", meta + "_v2"}; !slices.Equal(added, want) {
		t.Errorf("added definitions %v, want %v", added, want)
	}
	if len(after.Paths) != len(before.Paths)+2 || len(after.Parameters) != len(before.Parameters)+1 {
		t.Errorf("%d paths and %d parameters, before %d and %d", len(after.Paths), len(after.Parameters), len(before.Paths), len(before.Parameters))
	}
	for _, tc := range []struct{ where, text, want string }{
		{list, string(after.Paths[list]), `#/definitions/` + widget + `"`},
		{list, string(after.Paths[list]), `#/parameters/` + parameter + `_v2"`},
		{widget, string(after.Definitions[widget]), `#/definitions/` + meta + `_v2"`},
		{widget, string(after.Definitions[widget]), `#/definitions/` + options + `"`},
		{"gadget", string(after.Definitions["com.example.Gadget"]), `#/definitions/` + widget + `_v2"`},
		{options, string(after.Definitions[options]), `{"group":"widgets.example.com","kind":"DeleteOptions","version":"v1"}`},
		{options, string(after.Definitions[options]), `{"group":"apps","kind":"DeleteOptions","version":"v1"}`},
	} {
		if !strings.Contains(tc.text, tc.want) {
			t.Errorf("%s lacks %s: %s", tc.where, tc.want, tc.text)
		}
	}
	remote.Store(nil)
	if again := read(); len(again.Definitions) != len(before.Definitions) || len(again.Paths) != len(before.Paths) {
		t.Error("the document has more than before")
	}
}

// TestRemoteSwaggerBroken has documents of other servers that cannot be used.
func TestRemoteSwaggerBroken(t *testing.T) {
	path := func(item string) string { return `{"paths":{"/apis/a/v1/b":` + item + `}}` }
	with := func(section, members string) string {
		return `{"paths":{"/apis/a/v1/b":{}},"` + section + `":{` + members + `}}`
	}
	for name, document := range map[string]string{
		"empty": "", "an array": "[]", "null": "null", "no paths": `{"swagger":"2.0"}`, "broken": `{"paths":{`,
		"deep": `{"paths":` + strings.Repeat(`{"a":`, 100_000), "paths": path("7"),
		// These have no Protobuf form.
		"no description": path(`{"get":{"responses":{"200":{}}}}`), "control characters": path(`{"get":{"description":"\uffff","responses":{}}}`),
		"parameters":     with("parameters", `"q":{"name":"a","in":"nowhere","type":"x"}`),
		"a long name":    with("definitions", `"`+strings.Repeat("n", 2000)+`":{}`),
		"a renamed name": with("definitions", `"`+strings.Repeat("n", 1020)+`":{}`),
		"escaped":        with("definitions", `"a":{"description":"`+strings.Repeat("<", maxRemote/6)+`"}`),
	} {
		if got, err := NewRemoteSwagger(schema.GroupVersion{Group: "a", Version: "v1"}, []byte(document), nil); err == nil {
			t.Errorf("%s: %.100s", name, got.text)
		}
	}
}

// TestRemoteSwaggerOdd has unusual documents of other servers: in each form, the document of this server still has
// its own definitions.
func TestRemoteSwaggerOdd(t *testing.T) {
	srv, remote := serveRemote(t)
	gv := schema.GroupVersion{Group: "a", Version: "v1"}
	with := func(members string) string { return `{"paths":{"/apis/a/v1/b":{}},"definitions":{` + members + `}}` }
	var known *RemoteSwagger
	for name, document := range map[string]string{
		"names":       with(`"":{},"a\nb":{},"<<":{"x-<<":{"<<":1}},"` + strings.Repeat("n", 900) + `":{}`),
		"null":        `{"paths":{"/apis/a/v1/b":null},"definitions":{"a":null}}`,
		"a namesake":  with(`"com.example.v1.Crontab":{"x-kubernetes-group-version-kind":"x"}`),
		"references":  `{"paths":{"/apis/a/v1/b":{"get":{"responses":{"200":{"description":"x","schema":{"$ref":"#/definitions/none"}}}}}}}`,
		"levels":      with(`"a":` + strings.Repeat(`{"items":`, 9000) + "{}" + strings.Repeat("}", 9000)),
		"a long text": with(`"a":{"description":"` + strings.Repeat("n ", 1<<20) + `"}`),
	} {
		swagger, err := NewRemoteSwagger(gv, []byte(document), known)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, err := NewRemoteSwagger(gv, []byte(document), swagger); again != swagger || swagger == known {
			t.Errorf("%s: the same document is another one: %v", name, err)
		}
		known = swagger
		remote.Store(&Remote{Versions: []RemoteVersion{{GroupVersion: gv, Swagger: swagger}}})
		for _, format := range []string{"application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"} {
			if resp, text := get(t, srv, "/openapi/v2", "Accept", format); resp.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("com.example.v1.Crontab")) {
				t.Errorf("%s as %s: %d %.200s", name, format, resp.StatusCode, text)
			}
		}
	}
}
