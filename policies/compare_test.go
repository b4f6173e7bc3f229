package policies_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"espalier.dev/crd"
	"espalier.dev/internal/program"
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

// newComparison starts a server as a process, so that this test does not contain it. It has no plugins that
// change pods: they are not about policies.
func newComparison(t *testing.T, sem schema.Semantics) *comparison {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	var log bytes.Buffer
	cmd := exec.Command(program.Path(t, program.Complete), "serve", "--data-dir", dir, "--secure-port=0", "--kubeconfig-out", kubeconfig, "--storage=memory",
		"--semantics", sem.String(), "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds,Priority,LimitRanger,PodTopologyLabels")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := <-exited; err != nil {
			t.Errorf("%v: %s", err, &log)
		}
	})
	for {
		select {
		case err := <-exited:
			exited <- nil
			t.Fatalf("the server does not start: %v: %s", err, &log)
		case <-time.After(5 * time.Millisecond):
		}
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{T: t, sem: sem, url: config.Host, client: client, crds: definitionsOf(t, sem)}
	for _, o := range objects(t, customResources) {
		c.define(o.JSON)
	}
	return c
}

// define creates a CRD, and waits until it is served.
func (c *comparison) define(text []byte) {
	c.Helper()
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	a := c.do(http.MethodPost, crds, text)
	if a.code != http.StatusCreated {
		c.Fatal(a)
	}
	name := a.object["metadata"].(map[string]any)["name"].(string)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conditions, _ := c.do(http.MethodGet, crds+"/"+name, nil).object["status"].(map[string]any)["conditions"].([]any)
		if slices.ContainsFunc(conditions, func(condition any) bool {
			m := condition.(map[string]any)
			return m["type"] == "Established" && m["status"] == "True"
		}) {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("%s is not established: %v", name, conditions)
		}
	}
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
	if text := c.difference(live, result, false); text != "" {
		t.Error(text)
	}
	message := ""
	if live.code >= 300 {
		message, _ = live.object["message"].(string)
	}
	if !strings.Contains(message, w.denied) || w.denied == "" && message != "" {
		t.Errorf("%q, not %q", message, w.denied)
	}
	if !strings.Contains(strings.Join(live.warnings, "\n"), w.warned) || w.warned == "" && len(live.warnings) > 0 {
		t.Errorf("warnings: %q, not %q", live.warnings, w.warned)
	}
	if live.code >= 300 {
		return
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

// stored returns an object without the fields that its version and the storage version do not have. A
// server drops them after admission.
func (c *comparison) stored(obj schema.Object) schema.Object {
	gvk := (&unstructured.Unstructured{Object: obj}).GroupVersionKind()
	d := c.definition(gvk)
	if d == nil {
		return obj
	}
	for _, v := range []*crd.Version{d.Storage(), d.Version(gvk.Version)} {
		p, err := v.Program()
		if err != nil {
			c.Fatal(err)
		}
		if _, err := p.Normalize(obj, schema.DecodeOptions{FromStorage: true, WithoutDefaults: true}); err != nil {
			c.Fatal(err)
		}
	}
	return obj
}

// difference returns how the answer of the server differs. What generated policies make of an object may be
// invalid, or have fields that the server drops.
func (c *comparison) difference(live answer, result *policies.Result, generated bool) string {
	if text := inconsistent(result); text != "" {
		return text
	}
	message, _ := live.object["message"].(string)
	switch {
	case live.code < 300 && result.Rejected != nil:
		return fmt.Sprintf("the server accepts it, offline: %v", result.Rejected.ErrStatus.Message)
	case live.code < 300:
		if !slices.Equal(live.warnings, result.Warnings) {
			return fmt.Sprintf("warnings of the server: %q\noffline: %q", live.warnings, result.Warnings)
		}
		object := result.Object
		if generated {
			object = c.stored(object)
		}
		if a, b := comparable(live.object), comparable(object); !reflect.DeepEqual(a, b) {
			server, _ := yaml.Marshal(a)
			offline, _ := yaml.Marshal(b)
			return fmt.Sprintf("the objects differ: server:\n%s\noffline:\n%s", server, offline)
		}
	case generated && live.code == http.StatusUnprocessableEntity && len(result.Mutations) > 0 && !strings.Contains(message, "AdmissionPolicy"):
		// A server validates what mutating policies make of an object before validating policies see
		// it. Offline evaluation does not.
	case result.Rejected == nil:
		return fmt.Sprintf("offline accepts it, the server: %v", live)
	case message != result.Rejected.ErrStatus.Message || live.code != int(result.Rejected.ErrStatus.Code) || live.object["reason"] != string(result.Rejected.ErrStatus.Reason):
		return fmt.Sprintf("server:  %d %v %s\noffline: %d %v %s", live.code, live.object["reason"], message,
			result.Rejected.ErrStatus.Code, result.Rejected.ErrStatus.Reason, result.Rejected.ErrStatus.Message)
	}
	return ""
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
		})
	}
}
