package publish

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/handler3"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/openapi"
	"espalier.dev/server/served"
)

// source is a catalog that a test changes.
type source struct{ catalog atomic.Pointer[crd.Catalog] }

func (s *source) Catalog() *crd.Catalog { return s.catalog.Load() }

func (s *source) set(definitions ...*crd.Definition) { s.catalog.Store(crd.NewCatalog(definitions...)) }

// define returns the established definition of a resource, such as "crontabs.example.com".
func define(t testing.TB, name string, change ...func(*api.CustomResourceDefinition)) *crd.Definition {
	t.Helper()
	plural, group, _ := strings.Cut(name, ".")
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	c := &api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec: api.CustomResourceDefinitionSpec{
			Group: group,
			Scope: api.NamespaceScoped,
			Names: api.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []api.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{
					Type: api.StringOrArray{"object"},
					Properties: map[string]api.JSONSchemaProps{
						"spec": {Type: api.StringOrArray{"object"}, Description: "What " + plural + " want."},
					},
				}},
			}},
		},
	}
	api.SetDefaults(c)
	c.Status.AcceptedNames = c.Spec.Names
	condition(api.Established, api.ConditionTrue)(c)
	for _, f := range change {
		f(c)
	}
	d, err := crd.New(c, crd.Options{IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func condition(typ api.CustomResourceDefinitionConditionType, status api.ConditionStatus) func(*api.CustomResourceDefinition) {
	return func(c *api.CustomResourceDefinition) {
		c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(c api.CustomResourceDefinitionCondition) bool { return c.Type == typ })
		c.Status.Conditions = append(c.Status.Conditions, api.CustomResourceDefinitionCondition{Type: typ, Status: status})
	}
}

// addVersion adds a version like the first, with all subresources.
func addVersion(name string, served bool) func(*api.CustomResourceDefinition) {
	return func(c *api.CustomResourceDefinition) {
		v := c.DeepCopy().Spec.Versions[0]
		v.Name, v.Served, v.Storage = name, served, false
		v.Subresources = &api.CustomResourceSubresources{
			Status: &api.CustomResourceSubresourceStatus{},
			Scale:  &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a"},
		}
		c.Spec.Versions = append(c.Spec.Versions, v)
	}
}

// definitions returns the definition of the CRD resource itself.
func definitions(t testing.TB) *crd.Definition {
	t.Helper()
	return define(t, definitionsName, func(c *api.CustomResourceDefinition) {
		c.Spec.Scope = api.ClusterScoped
		c.Spec.Names = api.CustomResourceDefinitionNames{
			Plural: "customresourcedefinitions", Singular: "customresourcedefinition", Kind: api.Kind, ListKind: api.ListKind, ShortNames: []string{"crd", "crds"},
		}
		c.Status.AcceptedNames = c.Spec.Names
		addVersion("v1beta1", true)(c)
	})
}

// definitionsName is the name of the definition of CRDs.
const definitionsName = "customresourcedefinitions." + api.GroupName

// describeDefinitions documents CRDs by their Go types.
func describeDefinitions(v *crd.Version) *served.Description {
	d := served.Describe(v)
	d.OpenAPI = served.OpenAPI{
		V2: func(b *openapi.Builder) (*spec.Swagger, error) { return b.DefinitionsV2(v.Name()) },
		V3: func(b *openapi.Builder) (*spec3.OpenAPI, error) { return b.DefinitionsV3(v.Name()) },
	}
	return d
}

// start runs a publisher of the given definitions and the fixed one.
func start(t testing.TB, list ...*crd.Definition) (*source, *httptest.Server) {
	t.Helper()
	src := &source{}
	src.set(list...)
	srv := httptest.NewServer(New(Config{
		Codecs: scheme.Codecs,
		Source: src, Fixed: []Fixed{{Definition: definitions(t), Describe: describeDefinitions}}, Version: "test",
		Addresses: discovery.DefaultAddresses{DefaultAddress: "server:6443"},
	}))
	t.Cleanup(srv.Close)
	return src, srv
}

// get requests a path and returns the response with its body.
func get(t testing.TB, srv *httptest.Server, path string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func decode[T any](t testing.TB, body []byte) (out T) {
	t.Helper()
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return out
}

func client(t testing.TB, srv *httptest.Server) *clientdiscovery.DiscoveryClient {
	t.Helper()
	c, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDiscovery(t *testing.T) {
	_, srv := start(t,
		define(t, "wheels.example.com", addVersion("v1beta1", true), addVersion("v2alpha1", true), addVersion("v2", true), addVersion("v3", false)),
		define(t, "axles.example.com", addVersion("v2", true), func(c *api.CustomResourceDefinition) {
			c.Spec.Scope = api.ClusterScoped
			c.Status.AcceptedNames.ShortNames = []string{"ax"}
			c.Status.AcceptedNames.Categories = []string{"all"}
		}),
		define(t, "things.a.org"),
		define(t, "pending.b.org", condition(api.Established, api.ConditionFalse)),
		define(t, "going.c.org", condition(api.Terminating, api.ConditionTrue)),
		define(t, "hidden.d.org", func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Served = false }),
	)
	t.Run("groups", func(t *testing.T) {
		_, body := get(t, srv, "/apis")
		list := decode[metav1.APIGroupList](t, body)
		if list.Kind != "APIGroupList" || list.APIVersion != "v1" && list.APIVersion != "" {
			t.Errorf("%s %s", list.APIVersion, list.Kind)
		}
		var got []string
		for _, g := range list.Groups {
			var versions []string
			for _, v := range g.Versions {
				versions = append(versions, v.Version)
				if v.GroupVersion != g.Name+"/"+v.Version {
					t.Errorf("%s: %s", g.Name, v.GroupVersion)
				}
			}
			if g.PreferredVersion != g.Versions[0] {
				t.Errorf("%s prefers %s", g.Name, g.PreferredVersion.Version)
			}
			if len(g.ServerAddressByClientCIDRs) != 1 || g.ServerAddressByClientCIDRs[0].ServerAddress != "server:6443" {
				t.Errorf("%s: addresses %v", g.Name, g.ServerAddressByClientCIDRs)
			}
			got = append(got, g.Name+" "+strings.Join(versions, " "))
		}
		want := []string{"apiextensions.k8s.io v1 v1beta1", "a.org v1", "c.org v1", "example.com v2 v1 v1beta1 v2alpha1"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("group", func(t *testing.T) {
		_, body := get(t, srv, "/apis/example.com")
		g := decode[metav1.APIGroup](t, body)
		if g.Kind != "APIGroup" || g.Name != "example.com" || len(g.Versions) != 4 || g.PreferredVersion.Version != "v2" {
			t.Errorf("%s", body)
		}
	})
	t.Run("version", func(t *testing.T) {
		_, body := get(t, srv, "/apis/example.com/v2/")
		verbs := metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
		some := metav1.Verbs{"get", "patch", "update"}
		want := metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "example.com/v2",
			APIResources: []metav1.APIResource{
				{
					Name: "axles", SingularName: "axle", Kind: "Axle", Verbs: verbs, ShortNames: []string{"ax"}, Categories: []string{"all"},
					StorageVersionHash: discovery.StorageVersionHash("example.com", "v1", "Axle"),
				},
				{Name: "axles/status", Kind: "Axle", Verbs: some},
				{Name: "axles/scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: some},
				{
					Name: "wheels", SingularName: "wheel", Namespaced: true, Kind: "Wheel", Verbs: verbs,
					StorageVersionHash: discovery.StorageVersionHash("example.com", "v1", "Wheel"),
				},
				{Name: "wheels/status", Namespaced: true, Kind: "Wheel", Verbs: some},
				{Name: "wheels/scale", Namespaced: true, Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: some},
			},
		}
		if got := decode[metav1.APIResourceList](t, body); !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%v\nwant\n%v", got, want)
		}
	})
	t.Run("terminating", func(t *testing.T) {
		_, body := get(t, srv, "/apis/c.org/v1")
		got := decode[metav1.APIResourceList](t, body)
		if want := (metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}); !reflect.DeepEqual(got.APIResources[0].Verbs, want) {
			t.Errorf("got %v, want %v", got.APIResources[0].Verbs, want)
		}
	})
	t.Run("group without a name", func(t *testing.T) {
		_, body := get(t, srv, "/api")
		if got := decode[metav1.APIVersions](t, body); got.Kind != "APIVersions" || !slices.Equal(got.Versions, []string{"v1"}) {
			t.Errorf("got %v", got)
		}
		_, body = get(t, srv, "/api/v1")
		if got := decode[metav1.APIResourceList](t, body); got.GroupVersion != "v1" || got.APIResources == nil || len(got.APIResources) > 0 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("not here", func(t *testing.T) {
		for _, path := range []string{
			"/", "/apis/b.org", "/apis/b.org/v1", "/apis/d.org", "/apis/example.com/v3", "/apis/nobody.org", "/apis/example.com/v1/wheels",
			"/api/v1/namespaces", "/api/v2", "/apis//v1", "/openapi", "/openapi/v3/apis/example.com", "/openapi/v3/apis/example.com/v3", "/openapi/v3/apis/../../x", "/openapi/v4", "/openapi/v2/x", "/version",
		} {
			if resp, _ := get(t, srv, path); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s", path, resp.Status)
			}
		}
	})
	t.Run("only reading", func(t *testing.T) {
		for _, path := range []string{"/apis", "/apis/example.com", "/openapi/v2", "/openapi/v3"} {
			resp, err := http.Post(srv.URL+path, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" || !strings.Contains(string(body), `"reason":"MethodNotAllowed","details":{},"code":405`) {
				t.Errorf("%s: %s %s %v", path, resp.Status, body, err)
			}
		}
	})
	t.Run("formats", func(t *testing.T) {
		for accept, want := range map[string]string{
			"application/yaml":                    "application/yaml",
			"application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf",
			"*/*":                                 "application/json",
			"text/html, */*;q=0.1":                "application/json",
		} {
			for _, path := range []string{"/apis", "/apis/example.com", "/apis/example.com/v2"} {
				resp, _ := get(t, srv, path, "Accept", accept)
				if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != want {
					t.Errorf("%s as %s: %s %s", path, accept, resp.Status, got)
				}
			}
		}
		if resp, _ := get(t, srv, "/apis", "Accept", "text/html"); resp.StatusCode != http.StatusNotAcceptable {
			t.Errorf("as text/html: %s", resp.Status)
		}
	})
}

const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// TestAggregated compares the resources that client-go reads from the aggregated list with
// those from the old lists, and checks the ETag.
func TestAggregated(t *testing.T) {
	src, srv := start(t, define(t, "wheels.example.com", addVersion("v2", true)), define(t, "things.a.org"))
	c := client(t, srv)
	groups, resources, err := c.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	c.UseLegacyDiscovery = true
	oldGroups, oldResources, err := c.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range oldGroups {
		g.ServerAddressByClientCIDRs = nil // only the old list has them
	}
	if !reflect.DeepEqual(groups, oldGroups) {
		t.Errorf("groups: got %v, want %v", groups, oldGroups)
	}
	if len(resources) != 6 {
		t.Errorf("%d lists of resources", len(resources))
	}
	for _, list := range oldResources {
		gv := strings.Split(list.GroupVersion, "/")
		for i := range list.APIResources {
			r := &list.APIResources[i]
			r.StorageVersionHash = "" // only the old list has them
			if r.Group == "" {
				r.Group, r.Version = gv[0], gv[1] // only the new list repeats them
			}
			if i > 0 {
				r.SingularName = list.APIResources[0].SingularName // client-go's addition
			}
		}
		list.TypeMeta = metav1.TypeMeta{}
	}
	for _, list := range resources {
		list.TypeMeta = metav1.TypeMeta{}
	}
	if got, want := fmt.Sprintf("%+v", deref(resources)), fmt.Sprintf("%+v", deref(oldResources)); got != want {
		t.Errorf("resources: got\n%s\nwant\n%s", got, want)
	}

	resp, body := get(t, srv, "/apis", "Accept", aggregatedJSON)
	if got := resp.Header.Get("Content-Type"); got != aggregatedJSON {
		t.Errorf("content type %q", got)
	}
	if !strings.Contains(string(body), `"kind":"APIGroupDiscoveryList"`) || !strings.Contains(string(body), `"freshness":"Current"`) {
		t.Errorf("%s", body)
	}
	etag := resp.Header.Get("ETag")
	if resp, body := get(t, srv, "/apis", "Accept", aggregatedJSON, "If-None-Match", etag); resp.StatusCode != http.StatusNotModified || len(body) > 0 {
		t.Errorf("asked again: %s, %d bytes", resp.Status, len(body))
	}
	src.set(src.Catalog().All()...) // another catalog with the same content
	if resp, _ := get(t, srv, "/apis", "Accept", aggregatedJSON, "If-None-Match", etag); resp.StatusCode != http.StatusNotModified {
		t.Errorf("another catalog: %s", resp.Status)
	}
	src.set(define(t, "things.a.org"))
	resp, body = get(t, srv, "/apis", "Accept", aggregatedJSON, "If-None-Match", etag)
	if resp.StatusCode != http.StatusOK || strings.Contains(string(body), "wheels") || resp.Header.Get("ETag") == etag {
		t.Errorf("after a definition is gone: %s: %s", resp.Status, body)
	}
}

// deref returns lists in the order of their versions; client-go's is random.
func deref(lists []*metav1.APIResourceList) (out []metav1.APIResourceList) {
	for _, l := range lists {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b metav1.APIResourceList) int { return strings.Compare(a.GroupVersion, b.GroupVersion) })
	return out
}

// TestOpenAPI reads the documents as clients do.
func TestOpenAPI(t *testing.T) {
	_, srv := start(t, define(t, "wheels.example.com", addVersion("v2", true), addVersion("v3", false)), define(t, "axles.example.com"), define(t, "things.a.org"))
	t.Run("v3 client", func(t *testing.T) {
		paths, err := client(t, srv).OpenAPIV3().Paths()
		if err != nil {
			t.Fatal(err)
		}
		if len(paths) != 5 || paths["apis/example.com/v1"] == nil || paths["apis/apiextensions.k8s.io/v1beta1"] == nil {
			t.Errorf("paths: %v", paths)
		}
		for path, want := range map[string][]string{
			"apis/example.com/v1": {"com.example.v1.Axle", "com.example.v1.AxleList", "com.example.v1.Wheel", "com.example.v1.WheelList"},
			"apis/example.com/v2": {"com.example.v2.Wheel", "com.example.v2.WheelList"},
			"apis/apiextensions.k8s.io/v1": {
				"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
				"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
			},
		} {
			text, err := paths[path].Schema("application/json")
			if err != nil {
				t.Fatal(err)
			}
			doc := decode[struct {
				Components struct{ Schemas map[string]any }
				Paths      map[string]any
			}](t, text)
			for _, name := range want {
				if doc.Components.Schemas[name] == nil {
					t.Errorf("%s: no %s", path, name)
				}
			}
			if len(doc.Paths) == 0 {
				t.Errorf("%s: no paths", path)
			}
			if _, err := paths[path].Schema("application/com.github.proto-openapi.spec.v3@v1.0+protobuf"); err != nil {
				t.Errorf("%s as protobuf: %v", path, err)
			}
		}
	})
	t.Run("v3 caching", func(t *testing.T) {
		resp, body := get(t, srv, "/openapi/v3")
		if resp, _ := get(t, srv, "/openapi/v3", "If-None-Match", resp.Header.Get("Etag")); resp.StatusCode != http.StatusNotModified {
			t.Errorf("root asked again: %s", resp.Status)
		}
		url := decode[handler3.OpenAPIV3Discovery](t, body).Paths["apis/example.com/v1"].ServerRelativeURL
		path, hash, _ := strings.Cut(url, "?hash=")
		resp, _ = get(t, srv, url)
		if got := resp.Header.Get("Cache-Control"); resp.StatusCode != http.StatusOK || got != "public, immutable" || resp.Header.Get("Expires") == "" {
			t.Errorf("%s: %s %q", url, resp.Status, got)
		}
		if got := resp.Header.Get("Etag"); got != `"`+hash+`"` {
			t.Errorf("tag %s, hash %s", got, hash)
		}
		if resp, body := get(t, srv, path, "If-None-Match", resp.Header.Get("Etag")); resp.StatusCode != http.StatusNotModified || len(body) > 0 {
			t.Errorf("asked again: %s", resp.Status)
		}
		if resp, _ := get(t, srv, path); resp.Header.Get("Cache-Control") != "" {
			t.Error("the response may be cached without a hash")
		}
		if resp, _ := get(t, srv, path+"?hash=OLD"); resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("Location") != url {
			t.Errorf("an old hash: %s %s", resp.Status, resp.Header.Get("Location"))
		}
		if resp, _ := get(t, srv, path, "Accept", "text/html"); resp.StatusCode != http.StatusNotAcceptable {
			t.Errorf("as text/html: %s", resp.Status)
		}
	})
	t.Run("v2", func(t *testing.T) {
		doc, err := client(t, srv).OpenAPISchema() // asks for protobuf
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, d := range doc.GetDefinitions().GetAdditionalProperties() {
			names = append(names, d.GetName())
		}
		for _, want := range []string{
			"com.example.v1.Axle", "com.example.v1.Wheel", "com.example.v2.Wheel", "org.a.v1.Thing", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
			"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
		} {
			if !slices.Contains(names, want) {
				t.Errorf("no %s among %q", want, names)
			}
		}
		if slices.Contains(names, "com.example.v3.Wheel") {
			t.Error("a version that is not served is published")
		}
		resp, body := get(t, srv, "/openapi/v2", "Accept", "application/json")
		if resp, _ := get(t, srv, "/openapi/v2", "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "gzip" {
			t.Error("it is not compressed")
		}
		if resp, _ := get(t, srv, "/openapi/v2", "Accept", "text/html"); resp.StatusCode != http.StatusNotAcceptable {
			t.Errorf("as text/html: %s", resp.Status)
		}
		if regexp.MustCompile(`"default":[^{]|"default":{}`).Match(body) { // there is a field of that name
			t.Error("there are defaults")
		}
		if resp, _ := get(t, srv, "/openapi/v2", "Accept", "application/json", "If-None-Match", resp.Header.Get("Etag")); resp.StatusCode != http.StatusNotModified {
			t.Errorf("asked again: %s", resp.Status)
		}
	})
}

// TestChange changes CRDs and checks which documents change.
func TestChange(t *testing.T) {
	wheels, things := define(t, "wheels.example.com"), define(t, "things.a.org")
	src, srv := start(t, wheels, things)
	hashes := func() map[string]string {
		_, body := get(t, srv, "/openapi/v3")
		out := map[string]string{}
		for path, v := range decode[handler3.OpenAPIV3Discovery](t, body).Paths {
			out[path] = v.ServerRelativeURL
		}
		return out
	}
	v2 := func() string {
		resp, _ := get(t, srv, "/openapi/v2")
		return resp.Header.Get("Etag")
	}
	const own, other = "apis/example.com/v1", "apis/a.org/v1"
	before, beforeV2 := hashes(), v2()

	src.set(define(t, "wheels.example.com", condition(api.NonStructuralSchema, api.ConditionFalse)), things)
	if got := hashes(); !reflect.DeepEqual(got, before) || v2() != beforeV2 {
		t.Error("a status changed, and documents with it")
	}
	src.set(define(t, "wheels.example.com", func(c *api.CustomResourceDefinition) {
		c.Generation++
		s := c.Spec.Versions[0].Schema.OpenAPIV3Schema
		s.Properties["colour"] = api.JSONSchemaProps{Type: api.StringOrArray{"string"}}
	}), things)
	changed := hashes()
	if changed[own] == before[own] || changed[other] != before[other] || v2() == beforeV2 {
		t.Errorf("after a change of wheels: %v, before: %v", changed, before)
	}
	if _, body := get(t, srv, changed[own]); !strings.Contains(string(body), `"colour"`) {
		t.Error("the new field is not published")
	}
	src.set(things)
	if got := hashes(); got[own] != "" || got[other] != before[other] {
		t.Errorf("after wheels are gone: %v", got)
	}
	if resp, _ := get(t, srv, changed[own]); resp.StatusCode != http.StatusNotFound {
		t.Errorf("wheels are gone, but: %s", resp.Status)
	}
	if _, body := get(t, srv, "/openapi/v2"); strings.Contains(string(body), "Wheel") {
		t.Error("wheels are gone, but still in the document of everything")
	}
	src.set(wheels, things)
	if got := hashes(); !reflect.DeepEqual(got, before) || v2() != beforeV2 {
		t.Error("wheels are back as they were, but the documents are not")
	}
}

// TestBuiltin defines CRDs with the names of fixed resources.
func TestFixed(t *testing.T) {
	_, srv := start(t,
		define(t, definitionsName),
		define(t, "gadgets."+api.GroupName),
	)
	_, body := get(t, srv, "/apis/apiextensions.k8s.io/v1")
	var got []string
	for _, r := range decode[metav1.APIResourceList](t, body).APIResources {
		got = append(got, fmt.Sprint(r.Name, " ", r.Namespaced))
	}
	if want := []string{"customresourcedefinitions false", "gadgets true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, body = get(t, srv, "/openapi/v3/apis/apiextensions.k8s.io/v1"); !strings.Contains(string(body), "JSONSchemaProps") || !strings.Contains(string(body), "gadgets") {
		t.Error("the document lacks one of the two")
	}
}

// TestConcurrent requests everything while the catalog changes.
func TestConcurrent(t *testing.T) {
	src, srv := start(t)
	var all []*crd.Definition
	for i := range 10 {
		all = append(all, define(t, fmt.Sprintf("things%d.g%d.org", i, i%3)))
	}
	stop := make(chan struct{})
	var changes, asks sync.WaitGroup
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				src.set(all[i%len(all):]...)
			}
		}
	})
	for _, path := range []string{"/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/g0.org/v1", "/apis/g1.org/v1"} {
		asks.Go(func() {
			for range 10 {
				resp, err := http.Get(srv.URL + path)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK && (resp.StatusCode != http.StatusNotFound || !strings.Contains(path, "org")) {
					t.Errorf("%s: %s", path, resp.Status)
				}
			}
		})
	}
	asks.Wait()
	close(stop)
	changes.Wait()
}

// TestConcurrentAggregated requests the aggregated document several times at once: the race detector
// sees if the requests share what the encoder changes.
func TestConcurrentAggregated(t *testing.T) {
	_, srv := start(t, define(t, "things.a.org"))
	var asks sync.WaitGroup
	for range 8 {
		asks.Go(func() {
			for range 5 {
				request, err := http.NewRequest(http.MethodGet, srv.URL+"/apis", nil)
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || !strings.Contains(string(body), `"apiVersion":"apidiscovery.k8s.io/v2"`) {
					t.Errorf("%v: %.200s", err, body)
				}
			}
		})
	}
	asks.Wait()
}

// TestWrap checks which requests reach the next handler.
func TestWrap(t *testing.T) {
	src := &source{} // no CRDs yet
	h := New(Config{Source: src, Codecs: scheme.Codecs}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for path, want := range map[string]int{
		"/apis": 200, "/openapi/v3": 200, "/openapi/v2": 200,
		"/apis/example.com/v1": 418, "/apis/example.com/v1/namespaces/a/wheels/b": 418, "/healthz": 418,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
