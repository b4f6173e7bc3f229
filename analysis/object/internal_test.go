package object

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// TestCauseRule checks the rules of the causes of an API server's errors.
func TestCauseRule(t *testing.T) {
	for _, tt := range []struct {
		cause metav1.CauseType
		field string
		want  string
	}{
		{metav1.CauseTypeFieldValueRequired, "spec.a", "validation/required"},
		{metav1.CauseTypeFieldValueNotSupported, "spec.a", "validation/enum"},
		{metav1.CauseTypeFieldValueDuplicate, "spec.a", "validation/duplicate-item"},
		{metav1.CauseTypeTooLong, "spec.a", "validation/max-length"},
		{metav1.CauseTypeTooMany, "spec.a", "validation/max-items"},
		{metav1.CauseTypeTypeInvalid, "spec.a", "validation/wrong-type"},
		{metav1.CauseTypeForbidden, "spec.a", RuleForbidden},
		{metav1.CauseTypeFieldValueInvalid, "spec.a", RuleInvalid},
		{metav1.CauseTypeFieldValueInvalid, "metadata", "validation/metadata"},
		{metav1.CauseTypeForbidden, "metadata.name", "validation/metadata"},
		{metav1.CauseTypeForbidden, "metadatas", RuleForbidden},
	} {
		if got := CauseRule(metav1.StatusCause{Type: tt.cause, Field: tt.field}); got != tt.want {
			t.Errorf("%s of %s: got %s, want %s", tt.cause, tt.field, got, tt.want)
		}
	}
	if rules := CauseRules(); len(rules) != 2 || rules[0].ID != RuleInvalid || rules[1].ID != RuleForbidden {
		t.Errorf("%v", rules)
	}
}

// TestWarningFinding checks which fields warnings of the API server are about.
func TestWarningFinding(t *testing.T) {
	tree := map[string]any{"spec": map[string]any{"a": map[string]any{"b": int64(1)}}, "data": map[string]any{}}
	for text, want := range map[string][3]string{
		"spec.a.b: is old":         {"spec.a.b", "/spec/a/b", "is old"},
		"spec.a.b is old":          {"spec.a.b", "/spec/a/b", "spec.a.b is old"},
		"spec.a.storageOS: is old": {"spec.a.storageOS", "/spec/a/storageOS", "is old"},
		"spec.a.storageOS is old":  {"", "", "spec.a.storageOS is old"},
		"metadata.x: is old":       {"metadata.x", "/metadata/x", "is old"},
		"data: is old":             {"data", "/data", "is old"},
		"other: is old":            {"", "", "other: is old"},
		"a b":                      {"", "", "a b"},
		": x":                      {"", "", ": x"},
		"word":                     {"", "", "word"},
	} {
		f := warningFinding(text+"\nmore\n", tree)
		if got := [3]string{f.Path, f.Pointer, f.Message}; got != want || len(f.Detail) != 1 || f.Detail[0] != "more" || f.Rule != RuleServerWarning {
			t.Errorf("%s: got %q, want %q: %v", text, got, want, f)
		}
	}
}

// TestRuleSummaries checks that every rule has its own summary.
func TestRuleSummaries(t *testing.T) {
	for last, rules := range map[string][]analysis.Rule{ViolationRule(schema.AdditionalItems): CheckRules(), RuleInvalidDefinition: PruneRules(), RuleForbidden: CauseRules()} {
		if len(rules) == 0 || rules[len(rules)-1].ID != last {
			t.Errorf("the last rule is not %s: %v", last, rules)
		}
		seen := map[string]string{}
		for _, r := range rules {
			if !strings.HasSuffix(r.Summary, ".") || seen[r.Summary] != "" {
				t.Errorf("%s: %q is also that of %q", r.ID, r.Summary, seen[r.Summary])
			}
			seen[r.Summary] = r.ID
			if skipped := r.ID == "validation/rules-skipped"; skipped != (r.Severity == analysis.Info) && strings.HasPrefix(r.ID, "validation/") {
				t.Errorf("%s is of severity %s", r.ID, r.Severity)
			}
		}
	}
}

// TestChangeDifference checks the lines about changes that only one of the semantics makes.
func TestChangeDifference(t *testing.T) {
	at := func(kind schema.ChangeKind, key string) schema.Change {
		return schema.Change{Kind: kind, Path: schema.Path{{Key: key}}}
	}
	got := changeDifference(
		[]schema.Change{at(schema.Pruned, "a"), at(schema.NullDropped, "b"), at(schema.Defaulted, "c")},
		[]schema.Change{at(schema.Pruned, "a"), at(schema.Duplicate, "d"), at(schema.MetadataDropped, "e")}, schema.KEP)
	want := []string{
		"d is a duplicate under kep semantics only",
		"e is dropped from metadata under kep semantics only",
		"b is dropped as null under kubernetes semantics only",
		"c is defaulted under kubernetes semantics only",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

// TestEdits checks the edits that turn one value into another.
func TestEdits(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`{"a":1,"b":2}`, `{"b":3,"c":4}`, `[set /b 3 set /c 4 remove /a <nil>]`},
		{`{"a":{"b":[{"c":1},2]}}`, `{"a":{"b":[{},2]}}`, `[remove /a/b/0/c <nil>]`},
		{`{}`, `{"a":null}`, `[set /a <nil>]`},
		{`{"a":[1,2]}`, `{"a":[1]}`, `[set /a [1]]`},
		{`{"a":[]}`, `{"a":[1]}`, `[set /a [1]]`},
		{`{"a":{}}`, `{"a":[]}`, `[set /a []]`},
		{`{"a":[]}`, `{"a":{}}`, `[set /a map[]]`},
		{`{"a":null,"b":[],"c":{}}`, `{"a":null,"b":[],"c":{}}`, `[]`},
	} {
		from, err := jsonx.Parse([]byte(tt.from))
		to, err2 := jsonx.Parse([]byte(tt.to))
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, e := range edits(nil, "", from, to) {
			got = append(got, fmt.Sprint(e.Op, " ", e.Pointer, " ", e.Value))
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s to %s: %v, want %s", tt.from, tt.to, got, tt.want)
		}
	}
}
