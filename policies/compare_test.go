package policies_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/crd"
	"espalier.dev/espaliertest"
	"espalier.dev/kinds"
	"espalier.dev/policies"
	"espalier.dev/schema"
)

// comparison runs cases on a server and offline.
type comparison struct {
	*testing.T
	sem    schema.Semantics
	url    string
	client *http.Client
	crds   map[runtimeschema.GroupKind]*crd.Definition
}

// The server has no plugins that change pods: they are not about policies.
func newComparison(t *testing.T, sem schema.Semantics) *comparison {
	t.Helper()
	s := espaliertest.Start(t, espaliertest.WithSemantics(sem), espaliertest.WithCRDs([]byte(customResources)),
		espaliertest.WithFlags("--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds,Priority,LimitRanger,PodTopologyLabels"))
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &comparison{T: t, sem: sem, url: s.URL(), client: client, crds: definitionsOf(t, sem)}
}

func (c *comparison) definition(gvk runtimeschema.GroupVersionKind) *crd.Definition {
	return c.crds[gvk.GroupKind()]
}

// answer is the response to a request.
type answer struct {
	code     int
	object   map[string]any
	warnings []string
}

func (a answer) String() string {
	text, _ := json.Marshal(a.object)
	return fmt.Sprintf("%d %s %q", a.code, text, a.warnings)
}

func (c *comparison) do(method, path string, body []byte) answer {
	c.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	a := answer{code: resp.StatusCode}
	if err := json.Unmarshal(data, &a.object); err != nil {
		c.Fatal(err, string(data))
	}
	for _, w := range resp.Header.Values("Warning") {
		_, text, _ := strings.Cut(w, `"`)
		a.warnings = append(a.warnings, strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\"`, `"`))
	}
	return a
}

// path returns the path of the objects of a kind, and the name of an object.
func (c *comparison) path(object []byte, namespace string) (collection, name string) {
	c.Helper()
	var head struct {
		metav1.TypeMeta
		Metadata struct{ Name string }
	}
	if err := json.Unmarshal(object, &head); err != nil {
		c.Fatal(err)
	}
	gvk := runtimeschema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	resource, namespaced := "", false
	if d := c.definition(gvk); d != nil {
		resource, namespaced = d.Names().Plural, d.Namespaced()
	} else if r := kinds.ByKind(gvk); r != nil {
		resource, namespaced = r.Plural, r.Namespaced
	} else {
		c.Fatal("unknown kind", gvk)
	}
	collection = "/apis/" + head.APIVersion
	if gvk.Group == "" {
		collection = "/api/v1"
	}
	if namespaced {
		collection += "/namespaces/" + namespace
	}
	return collection + "/" + resource, head.Metadata.Name
}

// create creates an object, and deletes it at the end of a case.
func (c *comparison) create(t *testing.T, object []byte, namespace string) {
	t.Helper()
	collection, name := c.path(object, namespace)
	if a := c.do(http.MethodPost, collection, object); a.code >= 300 {
		t.Fatal(a)
	}
	t.Cleanup(func() { c.do(http.MethodDelete, collection+"/"+name, nil) })
}

// example is a case of the comparison. NS in its texts is the namespace of the case, whose labels are
// in the object with this name, and which is created if there is none.
type example struct {
	name string
	// setup has policies, bindings, parameters and namespaces.
	setup string
	// writes are sent one after the other.
	writes []write
}

// write is an object that is created or, if old is set, replaces old.
type write struct {
	old, object string
	// denied is a part of the message if the request is denied, and warned of a warning.
	denied, warned string
	// has are parts of the object after mutation, in JSON, and not what it must not have.
	has, not []string
}

// run runs a case on the server and offline, and compares.
func (c *comparison) run(t *testing.T, x example, number int) {
	namespace := fmt.Sprintf("case-%d-%s", number, c.sem)
	text := func(s string) string { return strings.ReplaceAll(s, "NS", namespace) }
	setup := objects(t, text(x.setup))
	if !slices.ContainsFunc(setup, func(o policies.Object) bool {
		return bytes.Contains(o.JSON, []byte(`"kind":"Namespace"`)) && bytes.Contains(o.JSON, []byte(`"name":"`+namespace+`"`))
	}) {
		setup = append(setup, policies.Object{JSON: toJSON(t, text("{apiVersion: v1, kind: Namespace, metadata: {name: NS}}"))})
	}
	isPolicy := func(o policies.Object) bool { return bytes.Contains(o.JSON, []byte("admissionregistration.k8s.io")) }
	isNamespace := func(o policies.Object) bool { return bytes.Contains(o.JSON, []byte(`"kind":"Namespace"`)) }
	for i, o := range setup {
		if isNamespace(o) {
			c.create(t, o.JSON, "")
		} else if !isPolicy(o) {
			setup[i].Namespace = namespace
		}
	}
	// What is replaced exists before the policies.
	olds := map[int][]byte{}
	for i, w := range x.writes {
		if w.old == "" {
			continue
		}
		old := toJSON(t, text(w.old))
		c.create(t, old, namespace)
		collection, name := c.path(old, namespace)
		olds[i], _ = json.Marshal(c.do(http.MethodGet, collection+"/"+name, nil).object)
	}
	for _, after := range []bool{false, true} {
		for _, o := range setup {
			if !isNamespace(o) && isPolicy(o) == after {
				ns := namespace
				if at := parsed(o.JSON)["metadata"].(map[string]any)["namespace"]; at != nil {
					ns = at.(string)
				}
				c.create(t, o.JSON, ns)
			}
		}
	}
	e, problems, err := policies.New(t.Context(), policies.Config{Objects: setup, Definition: c.definition})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Log("problem:", p.Message)
	}
	for i, w := range x.writes {
		c.compare(t, e, w, toJSON(t, text(w.object)), olds[i], namespace)
	}
}

// compare sends a request and evaluates it offline.
func (c *comparison) compare(t *testing.T, e *policies.Evaluator, w write, object, old []byte, namespace string) {
	t.Helper()
	collection, name := c.path(object, namespace)
	var live answer
	if old == nil {
		live = c.do(http.MethodPost, collection, object)
		defer c.do(http.MethodDelete, collection+"/"+name, nil)
	} else {
		body := parsed(object)
		body["metadata"].(map[string]any)["resourceVersion"] = parsed(old)["metadata"].(map[string]any)["resourceVersion"]
		object, _ = json.Marshal(body)
		live = c.do(http.MethodPut, collection+"/"+name, object)
	}
	result, err := e.Evaluate(t.Context(), policies.Request{Object: object, Old: old, Namespace: namespace})
	if err != nil {
		t.Errorf("%v (%v)", err, live)
		return
	}
	if text := inconsistent(result); text != "" {
		t.Error(text)
	}
	message, _ := live.object["message"].(string)
	if live.code < 300 {
		message = ""
	}
	offline := ""
	if result.Rejected != nil {
		offline = result.Rejected.ErrStatus.Message
		if int(result.Rejected.ErrStatus.Code) != live.code || string(result.Rejected.ErrStatus.Reason) != live.object["reason"] {
			t.Errorf("offline %d %s, server %v", result.Rejected.ErrStatus.Code, result.Rejected.ErrStatus.Reason, live)
		}
	}
	if message != offline {
		t.Errorf("the messages differ:\nserver:  %s\noffline: %s", message, offline)
	}
	if !strings.Contains(message, w.denied) || w.denied == "" && message != "" {
		t.Errorf("%q, not %q", message, w.denied)
	}
	if !slices.Equal(live.warnings, result.Warnings) || !strings.Contains(strings.Join(live.warnings, "\n"), w.warned) || w.warned == "" && len(live.warnings) > 0 {
		t.Errorf("warnings of the server: %q, offline: %q, not %q", live.warnings, result.Warnings, w.warned)
	}
	if live.code >= 300 {
		return
	}
	fromServer, fromFiles := comparable(live.object), comparable(result.Object)
	if !reflect.DeepEqual(fromServer, fromFiles) {
		a, _ := yaml.Marshal(fromServer)
		b, _ := yaml.Marshal(fromFiles)
		t.Errorf("the objects differ:\nserver:\n%s\noffline:\n%s", a, b)
	}
	got, _ := json.Marshal(live.object)
	for _, part := range w.has {
		if !bytes.Contains(got, []byte(part)) {
			t.Errorf("%s has no %s", got, part)
		}
	}
	for _, part := range w.not {
		if bytes.Contains(got, []byte(part)) {
			t.Errorf("%s has %s", got, part)
		}
	}
}

func parsed(text []byte) (obj map[string]any) {
	_ = json.Unmarshal(text, &obj)
	return obj
}

// comparable returns an object without what only a server knows.
func comparable(obj map[string]any) map[string]any {
	text, _ := json.Marshal(obj)
	out := parsed(text)
	meta := out["metadata"].(map[string]any)
	for _, key := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "generation"} {
		delete(meta, key)
	}
	delete(out, "status")
	return trimmed(out).(map[string]any)
}

// trimmed removes what Go types write for structs without a value.
func trimmed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			v[key] = trimmed(x)
		}
		maps.DeleteFunc(v, func(_ string, x any) bool {
			m, ok := x.(map[string]any)
			return x == nil || ok && len(m) == 0
		})
	case []any:
		for i := range v {
			v[i] = trimmed(v[i])
		}
	}
	return v
}

// TestSameAsServer sends the requests of all examples to a server and evaluates them offline:
// verdict, status, message, warnings and mutated object are equal.
func TestSameAsServer(t *testing.T) {
	all := slices.Concat(documented(), mutations(), edges())
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			t.Parallel()
			c := newComparison(t, sem)
			for i, x := range all {
				t.Run(x.name, func(t *testing.T) { c.run(t, x, i) })
			}
			t.Run("webhooks", c.webhooks)
		})
	}
}

// webhooks compares which webhooks are called.
func (c *comparison) webhooks(t *testing.T) {
	var mu sync.Mutex
	var called []string
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		mu.Lock()
		called = append(called, strings.TrimPrefix(r.URL.Path, "/"))
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": map[string]any{"uid": review.Request.UID, "allowed": true}})
	}))
	defer hook.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	const gardens = `rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [gardens]}]`
	namespace := "hooks-" + c.sem.String()
	for name, hooks := range map[string][]string{
		"rules":      {gardens, `rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [gardens]}]`, `rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [UPDATE], resources: ["*"]}]`},
		"conditions": {gardens + `, matchConditions: [{name: a, expression: "object.spec.beds > 1"}]`, gardens + `, matchConditions: [{name: a, expression: "object.spec.beds > 2"}]`, gardens + `, matchConditions: [{name: a, expression: "request.userInfo.username == 'espalier-admin'"}, {name: b, expression: "object.spec.beds == 2"}]`},
		"failures":   {gardens, gardens + `, matchConditions: [{name: a, expression: "object.spec.owner == 'ann'"}]`},
		"ignored":    {gardens, gardens + `, failurePolicy: Ignore, matchConditions: [{name: a, expression: "object.spec.owner == 'ann'"}]`},
		"decided":    {gardens + `, matchConditions: [{name: a, expression: "object.spec.owner == 'ann'"}, {name: b, expression: "false"}]`},
		"selectors":  {gardens + `, objectSelector: {matchLabels: {a: b}}`, gardens + `, namespaceSelector: {matchLabels: {stage: test}}`, gardens + `, namespaceSelector: {matchLabels: {stage: prod}}`},
		"versions":   {`matchPolicy: Exact, rules: [{apiGroups: [example.com], apiVersions: [v2], operations: [CREATE], resources: [gardens]}]`, `rules: [{apiGroups: [example.com], apiVersions: [v2], operations: [CREATE], resources: [gardens]}]`},
	} {
		for _, kind := range []string{"Mutating", "Validating"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				var list []string
				for i, h := range hooks {
					list = append(list, fmt.Sprintf(`{name: hook-%[1]d.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "%[2]s/hook-%[1]d.example.com", caBundle: %[3]s}, %[4]s}`, i, hook.URL, ca, h))
				}
				setup := objects(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {stage: test}}}\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: %sWebhookConfiguration, metadata: {name: hooks}, webhooks: [%s]}",
					namespace, kind, strings.Join(list, ", ")))
				c.do(http.MethodPost, "/api/v1/namespaces", setup[0].JSON)
				c.create(t, setup[1].JSON, "")
				e, problems, err := policies.New(t.Context(), policies.Config{Objects: setup, Definition: c.definition})
				if err != nil || len(problems) > 0 {
					t.Fatal(err, problems)
				}
				called = nil
				object := toJSON(t, garden("v1", "{beds: 2}"))
				c.compare(t, e, write{denied: map[bool]string{true: "resulted in error: no such key: owner"}[name == "failures"]}, object, nil, namespace)
				result, err := e.Evaluate(t.Context(), policies.Request{Object: object, Namespace: namespace})
				if err != nil {
					t.Fatal(err)
				}
				var expected []string
				for _, w := range result.Webhooks {
					if w.Err == nil {
						expected = append(expected, w.Name)
					}
				}
				slices.Sort(called)
				if !slices.Equal(called, expected) {
					t.Errorf("the server calls %q, offline %q", called, expected)
				}
			})
		}
	}
}
