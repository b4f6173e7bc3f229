package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/schema"
)

// TestMessageSize checks that messages about large schemas and objects are bounded.
func TestMessageSize(t *testing.T) {
	t.Parallel()
	allowed := make([]string, 30_000)
	for i := range allowed {
		allowed[i] = fmt.Sprintf(`{name: "value %d", other: "%s"}`, i, strings.Repeat("x", 20))
	}
	text := `{type: object, properties: {v: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true, enum: [` + strings.Join(allowed, ", ") + `]}}}}`
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		p := compile(t, text, schema.WithSemantics(sem))
		vs := p.Validate(t.Context(), object(t, `{"v":[`+strings.Repeat(`{"a":1},`, 300)+`{"a":2}]}`), nil)
		size := 0
		for _, err := range vs.FieldErrorsIn(sem) {
			size = max(size, len(err.Error()))
			if !strings.Contains(err.Error(), `"value 0`) && !strings.Contains(err.Error(), `\"value 0`) || !strings.HasSuffix(err.Error(), " more") {
				t.Fatalf("%s: %.100s", sem, err.Error())
			}
		}
		if size == 0 || size > 200_000 {
			t.Errorf("%s: a message of %d bytes", sem, size)
		}
	}
	// The name is in each of the paths.
	name := strings.Repeat("n", 100_000)
	values := strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(&values, `"f%d":1,`, i)
	}
	p := compile(t, `{type: object, properties: {m: {type: object, additionalProperties: {type: object, properties: {list: {type: array, items: {type: string}}}}}}}`, schema.WithSemantics(schema.KEP))
	_, report, err := p.Decode([]byte(`{"m":{"`+name+`":{`+values.String()+`"list":[]}}}`), schema.DecodeOptions{Report: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Join(report.UnknownFields(), "")); n == 0 || n > 10<<20 || !report.Truncated {
		t.Errorf("unknown fields with %d bytes", n)
	}
	_, _, err = p.Decode([]byte(`{"m":{"`+name+`":{"list":[`+strings.Repeat("1,", 10_000)+`1]}}}`), schema.DecodeOptions{})
	if err == nil || len(err.Error()) > 1<<20 || !strings.HasSuffix(err.Error(), " more") {
		t.Errorf("%.100v", err)
	}
}

// TestPatternWork checks that the time of matching is bounded for all texts of an object, also where a text
// that cannot be matched would be accepted.
func TestPatternWork(t *testing.T) {
	t.Parallel()
	const pattern = `pattern: "^(.*a){1000}$"`
	long := `"` + strings.Repeat("a", 40_000) + `"`
	for _, item := range []string{`{type: string, ` + pattern + `}`, `{type: string, not: {` + pattern + `}}`, `{type: string, anyOf: [{` + pattern + `}, {minLength: 1}]}`} {
		p := compile(t, `{type: object, properties: {v: {type: array, items: `+item+`}}}`)
		errs := p.Validate(t.Context(), object(t, `{"v":[`+strings.Repeat(long+",", 20)+`"`+strings.Repeat("a", 1000)+`"]}`), nil).Messages()
		if !strings.Contains(strings.Join(errs, "\n"), "is too long for a regular expression") && !strings.Contains(item, "not") || len(errs) == 0 {
			t.Errorf("%s: %d errors: %.200q", item, len(errs), errs)
		}
	}
}
