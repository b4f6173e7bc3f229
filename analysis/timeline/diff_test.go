package timeline

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

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

// TestDiff pins how differences look.
func TestDiff(t *testing.T) {
	t.Parallel()
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "  line %d\n", i)
		}
		return b.String()
	}
	for name, test := range map[string]struct{ before, after, want string }{
		"equal":  {"spec: {a: 1}", "spec: {a: 1}", ""},
		"scalar": {"spec: {a: 1, b: 2}", "spec: {a: 3, b: 2}", "  spec:\n-   a: 1\n+   a: 3\n"},
		"added field": {"spec: {a: 1}", "spec: {a: 1, b: {c: [1]}}", `  spec:
+   b:
+     c:
+     - 1
`},
		"removed field": {"spec: {a: 1}\nstatus: {b: x}", "spec: {a: 1}", "- status:\n-   b: x\n"},
		"type":          {"spec: {a: 1}", `spec: {a: "1"}`, "  spec:\n-   a: 1\n+   a: \"1\"\n"},
		"null":          {"spec: {a: null}", "spec: {}", "- spec:\n-   a: null\n+ spec: {}\n"},
		"name to quote": {`spec: {"a: b": {c: 1}}`, `spec: {"a: b": {c: 2}}`, "  spec:\n    'a: b':\n-     c: 1\n+     c: 2\n"},
		"empty map":     {"spec: {a: {}}", "spec: {a: {b: 1}}", "  spec:\n-   a: {}\n+   a:\n+     b: 1\n"},
		"created": {"", "spec: {a: 1}", `+ apiVersion: example.com/v1
+ kind: Widget
+ spec:
+   a: 1
`},
		"deleted": {"spec: {a: 1}", "", `- apiVersion: example.com/v1
- kind: Widget
- spec:
-   a: 1
`},
		"by name": {"spec: {c: [{name: a, image: x}, {name: b, image: u}]}", "spec: {c: [{name: b, image: z}, {name: d, image: w}]}", `  spec:
    c:
-   - image: x
-     name: a
    - name: b
-     image: u
+     image: z
+   - image: w
+     name: d
`},
		"conditions": {"status: {conditions: [{type: Ready, status: \"False\"}]}", "status: {conditions: [{type: Ready, status: \"True\"}, {type: New, status: \"True\"}]}", `  status:
    conditions:
    - type: Ready
-     status: "False"
+     status: "True"
+   - status: "True"
+     type: New
`},
		"names in another order": {"l: [{name: a}, {name: b}]", "l: [{name: b}, {name: a}]", `  l:
  - # element 0
-   name: a
+   name: b
  - # element 1
-   name: b
+   name: a
`},
		"a name twice": {"l: [{name: a, x: 1}, {name: a, x: 2}]", "l: [{name: a, x: 1}, {name: a, x: 3}]", "  l:\n  - # element 1\n-   x: 2\n+   x: 3\n"},
		"inserted":     {"l: [a, b, c]", "l: [a, x, b, c]", "  l:\n+ - x\n"},
		"removed":      {"l: [a, b, b]", "l: [a, b]", "  l:\n- - b\n"},
		"replaced":     {"l: [a, b, c]", "l: [a, x, c]", "  l:\n- - b\n+ - x\n"},
		"nested lists": {"l: [[1, 2]]", "l: [[1, 3]]", "  l:\n- - - 1\n-   - 2\n+ - - 1\n+   - 3\n"},
		"short text":   {"t: |\n  a\n  b\n", "t: |\n  a\n  c\n", "- t: |\n-   a\n-   b\n+ t: |\n+   a\n+   c\n"},
		"long text": {"t: |\n" + lines(0, 40), "t: |\n" + lines(0, 10) + "  new\n" + lines(11, 40) + "  end\n", `  t: |
    line 8
    line 9
-   line 10
+   new
    line 11
    line 12
    …
    line 38
    line 39
+   end
`},
		"filled list":     {"l: []", "l: [a]", "- l: []\n+ l:\n+ - a\n"},
		"emptied list":    {"l: [a]", "l: []", "- l:\n- - a\n+ l: []\n"},
		"list no more":    {"l: [a]", "l: a", "- l:\n- - a\n+ l: a\n"},
		"text of three":   {"t: |\n  a\n  b\n  c\n", "t: |\n  a\n  b\n  d\n", "  t: |\n    a\n    b\n-   c\n+   d\n"},
		"text of two":     {"t: |\n  a\n  b\n  c\n", "t: |\n  a\n  b\n", "- t: |\n-   a\n-   b\n-   c\n+ t: |\n+   a\n+   b\n"},
		"noise":           {"metadata: {name: a, resourceVersion: \"1\", managedFields: [{manager: x}]}", "metadata: {name: a, resourceVersion: \"2\"}", ""},
		"trailing spaces": {`t: "a\n\nb\nc\nd\n"`, `t: "a \n \nb\nc\nd\n"`, "  t: |\n-   a\n-\n+   a \n+    \n    b\n    c\n"},
		"no line break":   {`t: "a\nb\nc\nd\n"`, `t: "a\nb\nc\nd"`, "  t: |\n    b\n    c\n-   d\n+   d\n    \\ no line break at the end\n"},
		"names to quote": {`l: [{name: "true", x: 1}, {name: "a\nb", x: 1}]`, `l: [{name: "true", x: 2}, {name: "a\nb", x: 2}]`, `  l:
  - name: "true"
-   x: 1
+   x: 2
  - name: "a\nb"
-   x: 1
+   x: 2
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Diff(object(t, test.before), object(t, test.after), DiffOptions{}); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
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
