package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/server/builtin"
	"espalier.dev/server/publish"
)

// notServed are the resources of Kubernetes that need not be served, because they are not data
// or have no Go types in k8s.io/api, by group version.
var notServed = map[string][]string{
	"v1": {"componentstatuses"},
}

// storedInBeta are resources that Kubernetes 1.36 stores in version v1beta1, so that 1.35 can read
// them.
var storedInBeta = []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}

// emptyCatalog has no CRDs.
type emptyCatalog struct{ catalog *crd.Catalog }

func (c emptyCatalog) Catalog() *crd.Catalog { return c.catalog }

// TestDiscoveryOfBuiltins compares the lists of resources with those of Kubernetes 1.36.
func TestDiscoveryOfBuiltins(t *testing.T) {
	dir := filepath.Join(moduleDir(t, "k8s.io/kubernetes", "v1.36.3"), "api", "discovery")
	h := builtin.New(builtin.Config{Reader: builtin.NewReader(nil, kinds.Rules(cel.New()), kinds.Resources())})
	definitions, err := builtin.Definitions(kinds.Resources())
	if err != nil {
		t.Fatal(err)
	}
	config := publish.Config{Source: emptyCatalog{crd.NewCatalog()}, Codecs: scheme.Codecs}
	for _, d := range definitions {
		config.Fixed = append(config.Fixed, publish.Fixed{Definition: d, Describe: h.Describe})
	}
	p := publish.New(config)
	lists, err := filepath.Glob(filepath.Join(dir, "api*__v?.json"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range lists {
		var want, got metav1.APIResourceList
		readJSON(t, file, &want)
		path := "/" + strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".json"), "__", "/")
		if strings.HasPrefix(path, "/apis/apiextensions.k8s.io/") {
			continue // CRDs have tests of their own
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
		}
		ours, theirs := byName(got.APIResources), byName(want.APIResources)
		for _, name := range notServed[want.GroupVersion] {
			if ours[name] == "" {
				delete(theirs, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(ours)) {
			compared++
			if ours[name] != theirs[name] {
				t.Errorf("%s:\ngot  %s\nwant %s", path, ours[name], theirs[name])
			}
			delete(theirs, name)
		}
		for _, resource := range theirs {
			t.Errorf("%s: missing %s", path, resource)
		}
	}
	if compared < 100 {
		t.Errorf("compared %d resources", compared)
	}
}

// byName returns the texts of resources by their names. The order of verbs has no meaning.
func byName(resources []metav1.APIResource) map[string]string {
	out := map[string]string{}
	for _, r := range resources {
		slices.Sort(r.Verbs)
		if slices.Contains(storedInBeta, r.Name) {
			r.StorageVersionHash = ""
		}
		text, err := json.Marshal(r)
		if err != nil {
			text = fmt.Append(nil, err)
		}
		out[r.Name] = string(text)
	}
	return out
}
