package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/espaliertest"
)

// builtinRequest is a request that writes an object of a built-in kind.
type builtinRequest struct {
	Path        string
	Old, Object json.RawMessage
}

// builtinRequests returns the requests in testdata.
func builtinRequests(t *testing.T) (all []builtinRequest) {
	t.Helper()
	text, err := os.ReadFile("testdata/builtin-requests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(text), "\n---\n")[1:] {
		var r builtinRequest
		if err := yaml.UnmarshalStrict([]byte(document), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// TestBuiltinAsServer compares what validate reports about objects of built-in kinds with the
// answers of a server.
func TestBuiltinAsServer(t *testing.T) {
	t.Parallel()
	server := espaliertest.Start(t)
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, path string, body []byte) (status metav1.Status, warnings []string) {
		t.Helper()
		code, text, header, err := request(t.Context(), client, method, server.URL()+path+"?fieldValidation=Warn", body)
		if err != nil {
			t.Fatal(err)
		}
		if code >= 300 {
			if err := json.Unmarshal(text, &status); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
		for _, value := range header.Values("Warning") {
			_, quoted, _ := strings.Cut(value, `299 - `)
			var text string
			if err := json.Unmarshal([]byte(quoted), &text); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			warnings = append(warnings, text)
		}
		return status, warnings
	}
	causes := 0
	for _, r := range builtinRequests(t) {
		var named metav1.PartialObjectMetadata
		if err := json.Unmarshal(r.Object, &named); err != nil {
			t.Fatal(err)
		}
		method, path := http.MethodPost, r.Path
		if r.Old != nil {
			if status, _ := send(http.MethodPost, r.Path, r.Old); status.Status != "" {
				t.Fatal(status.Message)
			}
			method, path = http.MethodPut, r.Path+"/"+url.PathEscape(named.Name)
		}
		status, warnings := send(method, path, r.Object)
		var want []string
		if status.Details != nil {
			for _, cause := range status.Details.Causes {
				want = append(want, fmt.Sprintf("error %s: %s", cause.Field, cause.Message))
				causes++
			}
		}
		for _, text := range warnings {
			want = append(want, "warning "+text)
		}
		if status.Reason == metav1.StatusReasonBadRequest {
			want = append(want, object.RuleDecode)
		}
		var got []string
		for _, f := range builtinChecker().Check(t.Context(), r.Object, r.Old, object.Warn) {
			message := strings.Join(append([]string{f.Message}, f.Detail...), "\n")
			if f.Path != "" {
				message = f.Path + ": " + message
			}
			if f.Rule == object.RuleUnknownField {
				message = fmt.Sprintf("unknown field %q", f.Path)
			}
			if f.Rule == object.RuleDecode {
				got = append(got, f.Rule)
				continue
			}
			severity := "error"
			if f.Severity == analysis.Warning {
				severity = "warning"
			}
			got = append(got, severity+" "+message)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s %s\n%s\ngot:\n%s\nwant:\n%s\n%s", method, path, r.Object, strings.Join(got, "\n"), strings.Join(want, "\n"), status.Message)
		}
	}
	if causes < 40 {
		t.Errorf("the requests have only %d errors", causes)
	}
}

// TestBuiltinLevel checks that the built-in kinds are those of the Kubernetes version that the
// program names.
func TestBuiltinLevel(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprintf("1.%d", lookup.KubernetesMinor); got != kubernetesLevel {
		t.Errorf("got %s, want %s", got, kubernetesLevel)
	}
}

// TestBuiltinHostile validates objects of built-in kinds that are broken in unusual ways, also as
// updates of themselves. Nothing panics, and what is rejected has a position.
func TestBuiltinHostile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const pod = "apiVersion: v1\nkind: Pod\n"
	deep := func(open, end string) string { return strings.Repeat(open, 5000) + strings.Repeat(end, 5000) }
	for name, c := range map[string]struct {
		text, want string
		code       int
	}{
		"nulls":              {pod + "metadata: null\nspec: null\nstatus: null\n", "metadata.name: Required value", 1},
		"null items":         {pod + "metadata: {name: a, finalizers: [null], ownerReferences: [null]}\nspec: {containers: [null], volumes: [null], tolerations: [null], hostAliases: [null]}\n", "spec.containers[0].name: Required value", 1},
		"null maps":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: null}}\ndata: {a: null}\nbinaryData: {b: null}\nx: null\n", "unknown field", 0},
		"lists for objects":  {pod + "metadata: [[]]\nspec: [{}]\nstatus: [null]\n", "hostile.yaml:4:7: error: spec: must be an object, is a list [decode]", 1},
		"scalars":            {pod + "metadata: 1\nspec: true\nstatus: x\n", "hostile.yaml:4:7: error: spec: must be an object, is true [decode]", 1},
		"deep unknown":       {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"x":` + deep("[", "]") + "}", "hostile.yaml", 1},
		"deep value":         {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":` + deep(`{"a":`, "") + "1" + strings.Repeat("}", 5000) + "}}", "hostile.yaml", 1},
		"deep patch":         {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a"},"revision":1,"data":` + deep("[", "]") + "}", "hostile.yaml", 1},
		"huge numbers":       {pod + "metadata: {name: a, generation: 1e99}\nspec: {activeDeadlineSeconds: 1e400, priority: -99999999999999999999, containers: [{name: a, image: a, ports: [{containerPort: 4294967376}]}]}\n", "hostile.yaml:", 1},
		"huge quantities":    {pod + "metadata: {name: a}\nspec: {containers: [{name: a, image: a, resources: {limits: {cpu: 1e999999999, memory: 99999999999999999999999999999999Ei}, requests: {memory: .1n}}}]}\n", "hostile.yaml:4:", 0},
		"not UTF-8":          {pod + "metadata: {name: \"\xff\xfe\"}\n", "hostile.yaml:", 2},
		"escapes":            {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"\ud800","labels":{"\u0000":"\u0000"}},"spec":{"containers":[{"name":"\u0000","image":"\n"}]}}`, "hostile.yaml:", 1},
		"duplicate keys":     {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"metadata\":{\"name\":\"b\"},\"spec\":{},\"spec\":{\"containers\":[]},\"spec\":{}}", "duplicate field \"spec\"", 1},
		"aliases":            {"a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: *c}\n", "hostile.yaml:", 1},
		"broken YAML":        {pod + "metadata: {name: a\nspec: }\n", "hostile.yaml:", 2},
		"list of itself":     {"apiVersion: v1\nkind: PodList\nitems: {a: b}\n", "hostile.yaml:", 1},
		"review":             {"apiVersion: authorization.k8s.io/v1\nkind: SubjectAccessReview\nspec: []\n", "hostile.yaml:3:7: error: spec: must be an object, is a list", 1},
		"lower-case version": {"apiVersion: V1\nkind: Pod\nmetadata: {name: a}\n", "hostile.yaml:1:13: error:", 1},
		"names":              {"apiVersion: v1\nkind: Pod\nmetadata: {name: " + strings.Repeat("a", 100_000) + "}\nspec: {containers: [{name: a, image: a}]}\n", "must be no more than 253 characters", 1},
	} {
		p.write("hostile.yaml", c.text)
		out, code := p.run("validate", "hostile.yaml")
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exits with %d, want %d and %q:\n%.2000s", name, code, c.code, c.want, out)
		}
		p.run("validate", "--old", "hostile.yaml", "hostile.yaml")
	}
}
