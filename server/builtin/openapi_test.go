package builtin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/openapi"
	"espalier.dev/server/builtin"
	"espalier.dev/server/publish"
)

// documents returns the OpenAPI documents of all built-in kinds.
func documents(t testing.TB) (*spec3.OpenAPI, *spec.Swagger) {
	t.Helper()
	types := runtime.NewScheme()
	if err := kinds.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	b := openapi.New(openapi.Options{Scheme: types})
	var v3 []*spec3.OpenAPI
	var v2 []*spec.Swagger
	for _, r := range kinds.Resources() {
		k, err := builtin.OpenAPI(r, types)
		if err != nil {
			t.Fatal(err)
		}
		doc3, err := b.KindV3(k)
		if err != nil {
			t.Fatal(err)
		}
		doc2, err := b.KindV2(k)
		if err != nil {
			t.Fatal(err)
		}
		v3, v2 = append(v3, doc3), append(v2, doc2)
	}
	return openapi.MergeV3(v3...), openapi.MergeV2(v2...)
}

// Every reference in a document has a definition, and every operation a name of its own.
func TestOpenAPIReferences(t *testing.T) {
	t.Parallel()
	v3, v2 := documents(t)
	for _, c := range []struct {
		doc    any
		prefix string
		has    func(name string) bool
	}{
		{v3, "#/components/schemas/", func(name string) bool { return v3.Components.Schemas[name] != nil }},
		{v2, "#/definitions/", func(name string) bool { _, ok := v2.Definitions[name]; return ok }},
	} {
		text, err := json.Marshal(c.doc)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), `"$ref":"`)
		for _, part := range parts[1:] {
			ref, _, _ := strings.Cut(part, `"`)
			if name, ok := strings.CutPrefix(ref, c.prefix); ok && !c.has(name) {
				t.Errorf("no definition of %s", ref)
			}
		}
		if len(parts) < 1000 {
			t.Errorf("%d references", len(parts))
		}
		var ids []string
		for _, part := range strings.Split(string(text), `"operationId":"`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			ids = append(ids, id)
		}
		slices.Sort(ids)
		if n := len(ids); n < 300 || len(slices.Compact(ids)) != n {
			t.Errorf("%d operations, some of them with the same name", n)
		}
	}
}

// noCatalog has no CRDs.
type noCatalog struct{}

func (noCatalog) Catalog() *crd.Catalog { return crd.NewCatalog() }

// published returns a function that publishes all built-in resources anew.
func published(t testing.TB) func() *publish.Publisher {
	t.Helper()
	h := builtin.New(builtin.Config{Reader: builtin.NewReader(nil, kinds.Rules(cel.New()), kinds.Resources())})
	definitions, err := builtin.Definitions(kinds.Resources())
	if err != nil {
		t.Fatal(err)
	}
	var all []publish.Fixed
	for _, d := range definitions {
		all = append(all, publish.Fixed{Definition: d, Describe: h.Describe})
	}
	return func() *publish.Publisher {
		return publish.New(publish.Config{Source: noCatalog{}, Fixed: all, Codecs: scheme.Codecs})
	}
}

// The documents have the kinds of all groups, those of the core group too.
func TestOpenAPIPublished(t *testing.T) {
	t.Parallel()
	p := published(t)()
	for path, names := range map[string][]string{
		"/openapi/v3":               {`"api/v1"`, `"apis/apps/v1"`},
		"/openapi/v3/api/v1":        {"io.k8s.api.core.v1.Pod", "/api/v1/namespaces/{namespace}/pods"},
		"/openapi/v3/apis/batch/v1": {"io.k8s.api.batch.v1.Job", "/apis/batch/v1/jobs"},
		"/openapi/v2":               {"io.k8s.api.core.v1.Pod", "io.k8s.api.batch.v1.Job", "/api/v1/namespaces/{namespace}/pods"},
	} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		for _, name := range names {
			if !strings.Contains(w.Body.String(), name) {
				t.Errorf("%s has no %s: %d", path, name, w.Code)
			}
		}
	}
}
