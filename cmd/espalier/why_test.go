package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"espalier.dev/analysis/impact"
	"espalier.dev/schema"
)

// jobsCRD returns a CRD with two versions. fields has the fields of the spec in v1, the storage
// version.
func jobsCRD(fields string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
		"names":{"plural":"jobs","singular":"job","kind":"Job","listKind":"JobList","shortNames":["jb"]},"scope":"Namespaced","versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{` + fields + `}}}}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
			"image":{"type":"string"},"extra":{"type":"object"},"policy":{"type":"string","default":"Forbid"}}}}}}}]}}`
}

const jobFields = `"image":{"type":"string"},"extra":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"old":{"type":"string"},"policy":{"type":"string","default":"Allow"}`

// TestStoredField explains fields of an object on a server, and compares the values with what the
// server serves. Then it applies a change of the CRD to the object.
func TestStoredField(t *testing.T) {
	t.Parallel()
	e := newAuditedServer(t)
	e.InstallCRDs(t, []byte(jobsCRD(jobFields)))
	const stored = `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"attack","namespace":"default","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a.b/c":"x"}},
		"spec":{"image":"i","privileged":true,"old":"o","extra":{"x":{"y":1}},"policy":null}}`
	if _, err := e.etcd.Put(t.Context(), "/registry/example.com/jobs/default/attack", stored); err != nil {
		t.Fatal(err)
	}
	snapshot := e.snapshot(t)
	client := dynamic.NewForConfigOrDie(e.Config())
	served := map[string]any{}
	for _, version := range []string{"v1", "v2"} {
		obj, err := client.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: version, Resource: "jobs"}).Namespace("default").Get(t.Context(), "attack", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		served[version] = obj.Object
	}
	for path, want := range map[string]string{
		"spec.image":              "specified specified",
		"spec.privileged":         "pruned pruned",
		"spec.old":                "specified pruned",
		"spec.extra.x":            "preserved pruned",
		"spec.extra.x.y":          "preserved pruned",
		"spec.policy":             "defaulted defaulted",
		"metadata.name":           "metadata metadata",
		"metadata.labels[a.b/c]":  "metadata metadata",
		"metadata.labels.unknown": "absent absent",
		"spec.other":              "pruned pruned",
	} {
		var steps schema.Path
		for _, key := range strings.Split(strings.NewReplacer("[a.b/c]", ".a!b/c").Replace(path), ".") {
			steps = append(steps, schema.Step{Key: strings.ReplaceAll(key, "!", ".")})
		}
		var first string
		for i, args := range [][]string{{"--snapshot", snapshot}, {"--etcd-servers", e.endpoint}} {
			out, code := runApp(t, append([]string{"why", "jb/attack", path, "-o", "json", "--no-config"}, args...)...)
			var got struct {
				Semantics string
				Stored    *struct{ Found bool }
				Versions  []struct {
					Name     string
					Found    bool
					Value    any
					Decision string
				}
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Stored == nil || got.Semantics != "kubernetes" || len(got.Versions) != 2 {
				t.Fatalf("%s %s: exit code %d: %v: %s", path, args, code, err, out)
			}
			var decisions []string
			for _, v := range got.Versions {
				decisions = append(decisions, v.Decision)
				value, found := steps.Find(served[v.Name])
				if text, _ := json.Marshal(value); found != v.Found || string(text) != jsonText(v.Value) {
					t.Errorf("%s: version %s serves %s, %t, but why says %s", path, v.Name, text, found, out)
				}
			}
			if text := strings.Join(decisions, " "); text != want {
				t.Errorf("%s: got %s, want %s: %s", path, text, want, out)
			}
			if i == 0 {
				first = out
			} else if out != first {
				t.Errorf("%s: the snapshot says %s, etcd %s", path, first, out)
			}
		}
	}
	out, code := runApp(t, "why", "jobs/attack", "spec.privileged", "--kubeconfig", e.Kubeconfig(), "--no-config")
	if code != 0 || !strings.Contains(out, "not known: the API does not show what is stored") || !strings.Contains(out, "if it is stored, it is not served") {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code = runApp(t, "why", "jobs/other", "spec.privileged", "--kubeconfig", e.Kubeconfig(), "--no-config")
	if code != 2 || !strings.Contains(out, "no object jobs.example.com/other found in the cluster") {
		t.Errorf("exit code %d: %s", code, out)
	}

	next := filepath.Join(t.TempDir(), "next.yaml")
	writeFile(t, next, []byte(jobsCRD(strings.Replace(jobFields, `"old":{"type":"string"}`, `"privileged":{"type":"boolean"}`, 1))))
	for _, tc := range []struct {
		args        []string
		has, hasNot []string
	}{
		{[]string{"--snapshot", snapshot}, []string{"(`revealed`)", "spec.privileged is stored", "affects 1 of 1 object", "default/attack (/registry/example.com/jobs/default/attack)", "semantics: kubernetes"}, []string{ruleServed}},
		{[]string{"--etcd-servers", e.endpoint, "-n", "default"}, []string{"(`revealed`)", "affects 1 of 1 object"}, []string{ruleServed}},
		{[]string{"--etcd-servers", e.endpoint, "-n", "other"}, nil, []string{"revealed", "affects"}},
		{[]string{"--kubeconfig", e.Kubeconfig()}, []string{ruleServed, "affects 1 of 1 object", "default/attack (/apis/example.com/v1/namespaces/default/jobs/attack)", "old: /apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobs.example.com"}, []string{"(`revealed`)"}},
	} {
		out, code := runApp(t, append([]string{"diff", next, "-o", "markdown", "--no-config"}, tc.args...)...)
		if code != 1 {
			t.Errorf("%s: exit code %d: %s", tc.args, code, out)
		}
		for _, text := range tc.has {
			if !strings.Contains(out, text) {
				t.Errorf("%s: lacks %q: %s", tc.args, text, out)
			}
		}
		for _, text := range append(tc.hasNot, impact.RuleRefused) {
			if strings.Contains(out, text) {
				t.Errorf("%s: has %q: %s", tc.args, text, out)
			}
		}
	}
	same := filepath.Join(t.TempDir(), "same.yaml")
	writeFile(t, same, []byte(jobsCRD(jobFields)))
	if out, code := runApp(t, "diff", same, "--no-config", "--kubeconfig", e.Kubeconfig()); code != 0 {
		t.Errorf("without a change: exit code %d: %s", code, out)
	}
}

// TestDiffFailingSource compares a CRD with that of a cluster that does not list its objects.
func TestDiffFailingSource(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/customresourcedefinitions") {
			fmt.Fprintf(w, `{"items":[%s]}`, jobsCRD(jobFields))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"a test"}`)
	}))
	defer server.Close()
	kubeconfig := writeKubeconfig(t, server.URL)
	next := filepath.Join(t.TempDir(), "next.yaml")
	writeFile(t, next, []byte(jobsCRD(jobFields)))
	if out, code := runApp(t, "diff", next, "--kubeconfig", kubeconfig, "--no-config"); code != 2 || !strings.Contains(out, "["+ruleForbidden+"]") {
		t.Errorf("diff: exit code %d: %s", code, out)
	}
	if out, code := runApp(t, "why", "jobs/attack", "spec", "--kubeconfig", kubeconfig, "--no-config"); code != 2 || !strings.Contains(out, "a test") {
		t.Errorf("why: exit code %d: %s", code, out)
	}
	server.Close()
	if out, code := runApp(t, "diff", next, "--kubeconfig", kubeconfig, "--no-config"); code != 2 || !strings.Contains(out, "list the CRDs") {
		t.Errorf("diff without a server: exit code %d: %s", code, out)
	}
}

// TestStoredV1beta1 explains a field of an object whose CRD is stored as v1beta1. Pointers refer
// to the CRD as the API serves it.
func TestStoredV1beta1(t *testing.T) {
	t.Parallel()
	e := newAuditedServer(t)
	for key, value := range map[string]string{
		"/registry/apiextensions.k8s.io/customresourcedefinitions/olds.example.com": `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition",
			"metadata":{"name":"olds.example.com","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"group":"example.com","version":"v1","versions":[{"name":"v1","served":true,"storage":true}],
			"names":{"plural":"olds","singular":"old","kind":"Old","listKind":"OldList"},"scope":"Namespaced","preserveUnknownFields":false,
			"validation":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"}}}}}}},
			"status":{"conditions":[],"acceptedNames":{"plural":"olds","kind":"Old"},"storedVersions":["v1"]}}`,
		"/registry/example.com/olds/default/x": `{"apiVersion":"example.com/v1","kind":"Old","metadata":{"name":"x","namespace":"default","uid":"v","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"a":"b"}}`,
	} {
		if _, err := e.etcd.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	out, code := runApp(t, "why", "olds/x", "spec.a", "--snapshot", e.snapshot(t), "--no-config")
	if want := "(/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a)"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestStoredBuiltinField explains fields of an object of a built-in kind in etcd, where it is
// protobuf, and on the server.
func TestStoredBuiltinField(t *testing.T) {
	t.Parallel()
	e := newAuditedServer(t)
	client := dynamic.NewForConfigOrDie(e.Config())
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"maxReplicas": int64(3), "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "targetCPUUtilizationPercentage": int64(80)}}}
	if _, err := client.Resource(runtimeschema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}).Namespace("default").Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	snapshot := e.snapshot(t)
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"snapshot": {[]string{"hpa/web", "spec.targetCPUUtilizationPercentage", "--snapshot", snapshot}, []string{
			"STORED:     nothing (in autoscaling/v2)", "VALUE:      80", "specified: the conversion from version v2 to version v1 sets it"}},
		"cluster": {[]string{"hpa/web", "spec.targetCPUUtilizationPercentage", "--kubeconfig", e.Kubeconfig()}, []string{"STORED:     not known", "VALUE:      80"}},
		"core":    {[]string{"namespaces/default", "spec.finalizers", "--kubeconfig", e.Kubeconfig()}, []string{`VALUE:      ["kubernetes"]`}},
		"stored":  {[]string{"services/kubernetes", "spec.ports[0].port", "--snapshot", snapshot, "-n", "default"}, []string{"VALUE:      443", "specified: a Service has this field"}},
	} {
		out, code := runApp(t, append([]string{"why", "--no-config"}, tc.args...)...)
		for _, want := range tc.want {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d, want %s:\n%s", name, code, want, out)
			}
		}
	}
}
