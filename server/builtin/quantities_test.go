package builtin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"espalier.dev/server/servertest"
)

// TestCostlyQuantities sends quantities that would take very long to parse, or to compare.
func TestCostlyQuantities(t *testing.T) {
	if testing.Short() {
		t.Skip("costly quantities")
	}
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	do := func(method, path, contentType, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, s.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		resp, err := admin.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const quotas = "/api/v1/namespaces/default/resourcequotas"
	quota := func(hard string) string {
		return `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q","labels":{"commit":"83e1029384"}},"spec":{"hard":` + hard + `}}`
	}
	binary := func(hard, label string) string {
		obj := &corev1.ResourceQuota{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: metav1.ObjectMeta{Name: "q", Labels: map[string]string{"commit": label}}}
		if err := json.Unmarshal([]byte(`{"hard":`+hard+`}`), &obj.Spec); err != nil {
			t.Fatal(err)
		}
		text, err := runtime.Encode(protobuf.NewSerializer(runtime.NewScheme(), runtime.NewScheme()), obj)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if code, text := do("POST", quotas, "application/json", quota(`{"pods":"1"}`)); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	const costly, deployments = "1e-99999", "/apis/apps/v1/namespaces/default/deployments"
	if code, text := do("POST", deployments, "application/json", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	for _, c := range []struct {
		name, method, path, contentType, body string
		code                                  int
	}{
		{"JSON", "POST", quotas, "application/json", quota(`{"cpu":"1e-99999"}`), 400},
		{"large", "POST", quotas, "application/json", quota(`{"cpu":"1.5e+9999999"}`), 400},
		{"long", "POST", quotas, "application/json", quota(`{"cpu":"` + strings.Repeat("1", 100_000) + `"}`), 400},
		{"number", "POST", quotas, "application/json", quota(`{"cpu":1e-99999}`), 400},
		{"escaped", "POST", quotas, "application/json", quota(`{"cpu":"1\u0065-99999"}`), 400},
		{"twice", "POST", quotas, "application/json", quota(`{"cpu":"1e-99999","cpu":"1"}`), 400},
		{"twice above", "POST", quotas, "application/json", quota(`{"cpu":"1e-99999"},"hard":{"cpu":"1"}`), 400},
		{"YAML", "POST", quotas, "application/yaml", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: x}\nspec: {hard: {cpu: \"1e-99999\"}}\n", 400},
		{"protobuf", "POST", quotas, "application/vnd.kubernetes.protobuf", strings.ReplaceAll(binary(`{"cpu":"12345678"}`, ""), "12345678", costly), 400},
		{"PUT", "PUT", quotas + "/q", "application/json", quota(`{"cpu":"1e-99999"}`), 400},
		{"merge", "PATCH", quotas + "/q", "application/merge-patch+json", `{"spec":{"hard":{"cpu":"1e-99999"}}}`, 422},
		{"strategic", "PATCH", quotas + "/q", "application/strategic-merge-patch+json", `{"spec":{"hard":{"cpu":"1e-99999"}}}`, 400},
		{"apply", "PATCH", quotas + "/q?fieldManager=m", "application/apply-patch+yaml", "apiVersion: v1\nkind: ResourceQuota\nspec: {hard: {cpu: \"1e-99999\"}}\n", 400},
		{"JSON patch", "PATCH", quotas + "/q", "application/json-patch+json", `[{"op":"add","path":"/spec/hard/cpu","value":"1e-99999"}]`, 422},
		{"copy", "PATCH", quotas + "/q", "application/json-patch+json",
			`[{"op":"add","path":"/metadata/annotations","value":{"x":"1e-99999"}},{"op":"copy","from":"/metadata/annotations/x","path":"/spec/hard/cpu"}]`, 422},
		{"move", "PATCH", quotas + "/q", "application/json-patch+json",
			`[{"op":"add","path":"/metadata/annotations","value":{"x":"1e-99999"}},{"op":"move","from":"/metadata/annotations/x","path":"/spec/hard/cpu"}]`, 422},
		{"without a kind", "PATCH", quotas + "/q", "application/json-patch+json",
			`[{"op":"remove","path":"/kind"},{"op":"remove","path":"/apiVersion"},{"op":"add","path":"/spec/hard/cpu","value":"1e-99999"}]`, 422},
		{"without a content type", "POST", quotas, "", quota(`{"cpu":"1e-99999"}`), 400},
		{"another kind", "POST", "/api/v1/namespaces/default/configmaps", "application/json", strings.Replace(quota(`{"cpu":"1e-99999"}`), "kind", "KIND", 1), 400},
		{"a continued line", "POST", quotas, "application/yaml", "apiVersion: v1\r\nkind: ResourceQuota\r\nmetadata: {name: x}\r\nspec:\r\n  hard:\r\n    cpu: \"1e-9\\\r\n      9999\"\r\n", 400},
		{"long lengths in protobuf", "POST", quotas, "application/vnd.kubernetes.protobuf", protobufQuota("", func(n int) []byte { return []byte{byte(n) | 0x80, 0x80, 0} }, costly), 400},
		{"an unknown field in protobuf", "POST", quotas, "application/vnd.kubernetes.protobuf", protobufQuota("\x12\x01x", func(n int) []byte { return []byte{byte(n)} }, costly), 400},
		{"status", "PATCH", quotas + "/q/status", "application/merge-patch+json", `{"status":{"used":{"cpu":"1e-99999"}}}`, 422},

		{"a quantity in protobuf", "POST", quotas, "application/vnd.kubernetes.protobuf", protobufQuota("\x12\x01x", func(n int) []byte { return []byte{byte(n) | 0x80, 0x80, 0} }, "1e3"), 201},
		{"label in a template", "PATCH", deployments + "/d", "application/json-patch+json", `[{"op":"add","path":"/spec/template/metadata/labels/x","value":"1e23456"}]`, 200},
		{"label", "PUT", quotas + "/q", "application/json", quota(`{"cpu":"1e3"}`), 200},
		{"label by patch", "PATCH", quotas + "/q", "application/json-patch+json", `[{"op":"add","path":"/metadata/labels/x","value":"1e99999"}]`, 200},
		{"label in protobuf", "PUT", quotas + "/q", "application/vnd.kubernetes.protobuf", binary(`{"cpu":"1"}`, "83e1029384"), 200},
		{"config map", "POST", "/api/v1/namespaces/default/configmaps", "application/json", `{"metadata":{"name":"c"},"data":{"a":"1e99999"}}`, 201},
	} {
		if code, text := do(c.method, c.path, c.contentType, c.body); code != c.code {
			t.Errorf("%s: got %d, want %d: %.300s", c.name, code, c.code, text)
		} else if path := "hard[cpu]: invalid value"; code >= http.StatusBadRequest && c.name != "status" && !strings.Contains(text, path) {
			t.Errorf("%s: the error does not name the path %s: %.300s", c.name, path, text)
		}
	}
}

// protobufQuota returns a resource quota whose lengths are encoded by a function. The message of
// its quantity has an unknown field as well.
func protobufQuota(unknown string, length func(int) []byte, quantity string) string {
	field := func(number byte, value string) string {
		return string(append([]byte{number<<3 | 2}, length(len(value))...)) + value
	}
	hard := field(1, field(1, "cpu")+field(2, unknown+field(1, quantity)))
	raw := field(1, field(1, "binary")) + field(2, hard)
	return "k8s\x00" + field(1, field(1, "v1")+field(2, "ResourceQuota")) + field(2, raw)
}
