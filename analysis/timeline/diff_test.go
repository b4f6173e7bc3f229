package timeline

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/testcase"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// object returns the object of a YAML text, or nil if it is empty.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	source, err := yaml.YAMLToJSON([]byte("apiVersion: example.com/v1\nkind: Widget\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(source); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestDiff compares the differences of the objects in testdata/diffs.txt. A case starts with a line "=== NAME"; between
// the objects there is a line --->, and the difference follows after a line >>>.
func TestDiff(t *testing.T) {
	t.Parallel()
	const file = "testdata/diffs.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for block := range strings.SplitSeq(strings.TrimPrefix(string(text), "=== "), "\n=== ") {
		input, _, _ := strings.Cut(block+"\n", ">>>\n")
		name, objects, _ := strings.Cut(input, "\n")
		before, after, ok := strings.Cut(objects, "--->\n")
		if !ok {
			t.Fatalf("%s has no two objects", name)
		}
		fmt.Fprintf(&got, "=== %s>>>\n%s", input, Diff(object(t, before), object(t, after), DiffOptions{}))
	}
	testcase.Golden(t, file, got.String(), *update)
	before := object(t, `metadata: {name: a, resourceVersion: "1", managedFields: [{manager: x}]}`)
	after := object(t, `metadata: {name: a, resourceVersion: "2"}`)
	const want = "  metadata:\n-   managedFields:\n-   - manager: x\n-   resourceVersion: \"1\"\n+   resourceVersion: \"2\"\n"
	if got := Diff(before, after, DiffOptions{ManagedFields: true}); got != want {
		t.Errorf("got\n%s", got)
	}
	if before.GetResourceVersion() != "1" || len(before.GetManagedFields()) != 1 {
		t.Errorf("the object has changed: %v", before)
	}
}

// secret returns a Secret with a password.
func secret(password string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "login", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"` + password + `"}}`, "a": "b"}},
		"data":     map[string]any{"password": password, "empty": nil},
	}}
}

// TestMasker expects that no data of a Secret is visible, and that changes are.
func TestMasker(t *testing.T) {
	t.Parallel()
	m := NewMasker()
	one, same, other := fmt.Sprint(m.Object(secret("aHVudGVyMg=="))), fmt.Sprint(m.Object(secret("aHVudGVyMg=="))), fmt.Sprint(m.Object(secret("aHVudGVyMw==")))
	if strings.Contains(one, "aHVudGVyMg") || one != same || one == other || !strings.Contains(one, "password:(masked: 7 bytes, digest ") || !strings.Contains(one, "a:b") {
		t.Errorf("%s\n%s\n%s", one, same, other)
	}
	if !regexp.MustCompile(`password:\(masked: 7 bytes, digest [0-9a-f]{8}\)`).MatchString(one) {
		t.Errorf("the digest does not have 8 characters: %s", one)
	}
	if again := fmt.Sprint(NewMasker().Object(m.Object(secret("aHVudGVyMg==")))); again != one {
		t.Errorf("masked twice: %s", again)
	}
	if another := fmt.Sprint(NewMasker().Object(secret("aHVudGVyMg=="))); another == one {
		t.Error("two maskers have the same digests")
	}
	c := &Change{After: secret("aHVudGVyMg==")}
	if got := m.Change(c); got == c || got.Before != nil || c.After.Object["data"].(map[string]any)["password"] != "aHVudGVyMg==" {
		t.Errorf("%v, and the original is %v", got, c)
	}
	odd := secret("aHVudGVyMg==")
	odd.SetAnnotations(map[string]string{"json": ` {"data":{"password":"aHVudGVyMg=="}}`, "long": "x" + strings.Repeat("aHVudGVyMg", 30), "short": "kept"})
	if got := fmt.Sprint(m.Object(odd)); strings.Contains(got, "aHVudGVyMg") || !strings.Contains(got, "short:kept") {
		t.Errorf("annotations: %s", got)
	}
	encrypted := &Change{Encrypted: true, Before: object(t, "metadata: {name: a, annotations: {b: '{password: x1}'}}\nspec: {password: x1}\ntop: x1"), After: secret("aHVudGVyMg==")}
	got := m.Change(encrypted)
	if text := fmt.Sprint(got.Before, got.After); strings.Contains(text, "x1") || strings.Contains(text, "aHVudGVyMg") ||
		!strings.Contains(text, "name:a") || !strings.Contains(text, "kind:Widget") || !strings.Contains(text, "password:(masked") {
		t.Errorf("an encrypted object: %s", text)
	}
	widget := &Change{After: object(t, "data: {password: x}")}
	if m.Change(widget) != widget {
		t.Error("an object that is not a Secret is masked")
	}
	invalid := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": "aHVudGVyMg=="}}
	if got := fmt.Sprint(m.Object(invalid)); strings.Contains(got, "aHVudGVyMg") {
		t.Error(got)
	}
	if diff := Diff(secret("aHVudGVyMg=="), secret("aHVudGVyMw=="), DiffOptions{}); strings.Contains(diff, "aHVu") || !strings.Contains(diff, "-   password: '(masked") {
		t.Errorf("the difference is\n%s", diff)
	}
	if diff := Diff(secret("aHVudGVyMg=="), secret("aHVudGVyMw=="), DiffOptions{Secrets: true}); !strings.Contains(diff, "-   password: aHVudGVyMg==") {
		t.Errorf("the difference is\n%s", diff)
	}
}
