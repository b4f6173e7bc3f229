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
		"deep unknown": {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"x":` + deep("[", "]") + "}", "hostile.yaml", 1},
		"deep value":   {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":` + deep(`{"a":`, "") + "1" + strings.Repeat("}", 5000) + "}}", "hostile.yaml", 1},
		"deep patch":   {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a"},"revision":1,"data":` + deep("[", "]") + "}", "hostile.yaml", 1},
		"not UTF-8":    {pod + "metadata: {name: \"\xff\xfe\"}\n", "hostile.yaml:", 2},
		"names":        {"apiVersion: v1\nkind: Pod\nmetadata: {name: " + strings.Repeat("a", 100_000) + "}\nspec: {containers: [{name: a, image: a}]}\n", "must be no more than 253 characters", 1},
	} {
		p.write("hostile.yaml", c.text)
		out, code := p.run("validate", "hostile.yaml")
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exits with %d, want %d and %q:\n%.2000s", name, code, c.code, c.want, out)
		}
		p.run("validate", "--old", "hostile.yaml", "hostile.yaml")
	}
}
