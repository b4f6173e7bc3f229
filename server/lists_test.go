package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/kinds"
	"espalier.dev/server"
	"espalier.dev/server/backend"
	"espalier.dev/server/servertest"
)

// unlimited is a budget without a limit.
type unlimited struct{}

func (unlimited) Spend(int) (bool, error) { return true, nil }
func (unlimited) SpendCopy(int) error     { return nil }
func (unlimited) Leave(int) (back func()) { return func() {} }

// lister sends requests to the handler of a server, each with the lists of a context.
type lister struct {
	*testing.T
	server *server.Server
}

func (l *lister) get(ctx context.Context, path, accept string) string {
	l.Helper()
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, l.server.URL()+path, nil)
	req.Header.Set("Accept", accept)
	// The limiter does not count requests of the server itself.
	req.Header.Set("Authorization", "Bearer "+l.server.Loopback().BearerToken)
	w := httptest.NewRecorder()
	l.server.Handler().ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		l.Errorf("%s as %s: %d %s", path, accept, w.Code, w.Body)
	}
	return w.Body.String()
}

// create creates an object of a seed.
func (l *lister) create(c *http.Client, path, seed string) {
	l.Helper()
	if resp := send(l.T, c, http.MethodPost, l.server.URL()+path, strings.NewReader(seed)); resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusConflict {
		l.Errorf("%s: %d: %s", path, resp.StatusCode, seed)
	}
}

// listForms returns the media types of lists, with parameters.
func listForms() (forms [][2]string) {
	for _, query := range []string{"", "?resourceVersion=0", "?pretty=true", "?limit=1", "?limit=1&pretty=true"} {
		for _, accept := range []string{
			"application/json", "application/yaml", "application/vnd.kubernetes.protobuf,application/json",
			"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
			"application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		} {
			forms = append(forms, [2]string{query, accept})
		}
	}
	for _, include := range []string{"None", "Metadata", "Object"} {
		for _, accept := range []string{"application/json", "application/yaml"} {
			forms = append(forms, [2]string{"?includeObject=" + include, accept + ";as=Table;v=v1;g=meta.k8s.io"})
		}
	}
	return forms
}

// compare lists a resource in all forms at once, and compares them. It returns the number of objects,
// and whether the revision was the same before and after.
func (l *lister) compare(held context.Context, path string) (items int, unchanged bool) {
	l.Helper()
	before := l.get(held, path, "application/json") // held until the end
	got := map[[2]string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, form := range listForms() {
		wg.Go(func() {
			ctx, done := backend.WithBudget(l.Context(), unlimited{})
			defer done()
			text := l.get(ctx, path+form[0], form[1])
			mu.Lock()
			defer mu.Unlock()
			got[form] = text
		})
	}
	wg.Wait()
	fresh, again := l.get(l.Context(), path, "application/json"), l.get(held, path, "application/json")
	all, _, first := servertest.Names(l.T, before)
	if _, _, last := servertest.Names(l.T, again); first != last {
		return 0, false
	}
	if again != before || fresh != before {
		l.Errorf("%s: the list was %s, is %s, and its stored objects are %s", path, before, again, fresh)
	}
	for query, want := range map[string]string{"": before, "?resourceVersion=0": before, "?limit=1": got[[2]string{"?limit=1", "application/json"}]} {
		converted, err := yaml.JSONToYAML([]byte(want))
		if err != nil {
			l.Fatal(err)
		}
		if text := got[[2]string{query, "application/yaml"}]; text != string(converted) {
			l.Errorf("%s as YAML: got %s, want %s", path+query, text, converted)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, []byte(strings.TrimSuffix(want, "\n")), "", "  "); err != nil {
			l.Fatal(err)
		}
		formatted := map[string]string{"": "?pretty=true", "?limit=1": "?limit=1&pretty=true"}[query]
		if text := got[[2]string{formatted, "application/json"}]; formatted != "" && text != pretty.String() {
			l.Errorf("%s: got %s, want %s", path+formatted, text, pretty.String())
		}
	}
	return len(all), true
}

// TestSharedLists lists all kinds in all forms, many at once. The lists share their objects, so none
// may change them: then the next list, or the race detector, would notice. YAML and formatted JSON
// are those of the JSON.
func TestSharedLists(t *testing.T) {
	if testing.Short() {
		t.Skip("lists many large objects")
	}
	t.Parallel()
	o := servertest.Options(t)
	o.RuntimeConfig = map[string]string{"api/all": "true"}
	o.Controllers = []string{"clusterrole-aggregation"} // the others change objects
	s := servertest.Start(t, o)
	c, l := servertest.Client(t, s, nil), &lister{T: t, server: s}
	resources, _, err := kinds.Served(o.RuntimeConfig)
	if err != nil {
		t.Fatal(err)
	}
	// First, because the objects of other kinds call webhooks that do not exist.
	l.create(c, servertest.CRDs, storedDefinition)
	servertest.Eventually(t, func() error {
		if code, body := servertest.Get(t, s, c, "/apis/lists.example.com/v2/rows"); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	for _, name := range []string{"a", "b"} {
		l.create(c, "/apis/lists.example.com/v1/namespaces/default/rows", `{"apiVersion":"lists.example.com/v1","kind":"Row","metadata":{"name":"`+name+`"},"spec":{"text":"`+strings.Repeat("long text ", 20)+`\n"}}`)
	}
	objects, paths := servertest.Seeds(t, "../test/oracle/builtin/seeds"), []string{servertest.CRDs, strings.Replace(servertest.CRDs, "/v1/", "/v1beta1/", 1), "/apis/lists.example.com/v1/rows", "/apis/lists.example.com/v2/rows"}
	for _, r := range resources {
		if r.CreateOnly {
			continue
		}
		path := "/apis/" + r.Group + "/" + r.Version
		if r.Group == "" {
			path = "/api/" + r.Version
		}
		all := path + "/" + r.Plural
		if r.Namespaced {
			path += "/namespaces/default"
		}
		paths = append(paths, all)
		if seed := objects[r.GroupVersionKind().GroupVersion().String()+" "+r.Kind]; seed != nil {
			l.create(c, path+"/"+r.Plural, renamed(t, seed, ""))
			if r.Kind != "APIService" { // its name is that of its version
				l.create(c, path+"/"+r.Plural, renamed(t, seed, "2"))
			}
		}
	}
	held, done := backend.WithBudget(t.Context(), unlimited{})
	defer done()
	items := 0
	for _, path := range paths {
		// Repeated if something was written meanwhile: lists have the revision of everything.
		unchanged := false
		for n := 0; n < 10 && !unchanged; n++ {
			var found int
			found, unchanged = l.compare(held, path)
			items += found
		}
		if !unchanged {
			t.Errorf("%s: something is written all the time", path)
		}
	}
	if items < 100 {
		t.Errorf("the lists have %d objects", items)
	}
	_, token, _ := servertest.Names(t, l.get(held, "/api/v1/configmaps?limit=1", "application/json"))
	next := "/api/v1/configmaps?limit=1&continue=" + url.QueryEscape(token)
	converted, err := yaml.JSONToYAML([]byte(l.get(held, next, "application/json")))
	if text := l.get(held, next, "application/yaml"); err != nil || token == "" || text != string(converted) {
		t.Errorf("the next part: got %s, want %s, %v", text, converted, err)
	}
}

// renamed returns a seed with another name.
func renamed(t *testing.T, seed []byte, suffix string) string {
	t.Helper()
	var obj map[string]any
	if err := json.Unmarshal(seed, &obj); err != nil {
		t.Fatal(err)
	}
	if meta, ok := obj["metadata"].(map[string]any); ok {
		delete(meta, "namespace")
		if name, ok := meta["name"].(string); ok {
			meta["name"] = name + suffix
		}
	}
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// storedDefinition is a CRD with two versions.
const storedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"rows.lists.example.com"},
	"spec":{"group":"lists.example.com","scope":"Namespaced","names":{"plural":"rows","kind":"Row","listKind":"RowList","singular":"row"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer","default":1}}}}}}}]}}`
