package lint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestHostile lints schemas far larger than real ones.
func TestHostile(t *testing.T) {
	depth, width := 3000, 20_000
	if testing.Short() {
		depth, width = 1000, 5000
	}
	deep := strings.Repeat(`{"type":"object","propertis":1,"format":"x","properties":{"a":`, depth) + `{}` + strings.Repeat("}}", depth)
	nested := strings.Repeat(`{"anyOf":[`, depth) + `{"type":"object"}` + strings.Repeat("]}", depth)
	var wide strings.Builder
	wide.WriteString(`{"type":"object","properties":{`)
	for i := range width {
		fmt.Fprintf(&wide, `"p%d":{"type":"object"},`, i)
	}
	wide.WriteString(`"a":{}}}`)
	for name, props := range map[string]string{"deep": deep, "logical operators": nested, "wide": wide.String()} {
		t.Run(name, func(t *testing.T) {
			text := bytes.Replace(analysistest.JSON(t, v1(`"@"`)), []byte(`"@"`), []byte(props), 1)
			if !json.Valid(text) {
				t.Fatal("not JSON")
			}
			found, err := lint.Run(context.Background(), [][]byte{text}, lint.Options{Rules: cel.Checker{}, Configs: []lint.Config{{Enable: []string{lint.All}}}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(found[0], func(f analysis.Finding) bool { return f.Severity == analysis.Error }) {
				t.Error("no error was found")
			}
		})
	}
}

// TestProfile checks that the rules of a profile are off by default and can be enabled and
// disabled together.
func TestProfile(t *testing.T) {
	text := v1(`{type: object, properties: {a: {type: boolean}, B: {type: string}}}`)
	expect(t, lintAll(t, schema.KEP, lint.Config{}, text)[0])
	expect(t, lintAll(t, schema.KEP, lint.Config{Enable: []string{lint.Conventions}}, text)[0], "warning .properties[B]", "warning .properties[a].type")
	expect(t, lintAll(t, schema.KEP, lint.Config{Disable: []string{lint.All}, Enable: []string{lint.Conventions}}, text)[0], "warning .properties[B]", "warning .properties[a].type")
	expect(t, lintAll(t, schema.KEP, lint.Config{Disable: []string{lint.Conventions}, Enable: []string{"convention-name"}}, text)[0], "warning .properties[B]")
	expect(t, lintAll(t, schema.KEP, lint.Config{Enable: []string{lint.Conventions}, Disable: []string{"convention-name"}}, text)[0], "warning .properties[a].type")
	for _, r := range lint.Rules() {
		if strings.HasPrefix(r.ID, "convention-") != (r.Profile == lint.Conventions) || r.Profile != "" && !r.Off {
			t.Errorf("%s: profile %q, off: %t", r.ID, r.Profile, r.Off)
		}
	}
}

// TestRun checks that Run reports its progress, and stops if it is canceled.
func TestRun(t *testing.T) {
	texts := [][]byte{analysistest.JSON(t, v1(`{type: object}`)), analysistest.JSON(t, v1(`{type: object}`)), []byte("{}")}
	var done atomic.Int64
	o := lint.Options{Rules: cel.Checker{}, Done: func() { done.Add(1) }}
	if _, err := lint.Run(t.Context(), texts, o); err != nil || done.Load() != 3 {
		t.Errorf("%d CRDs, error %v", done.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := lint.Run(ctx, texts, o); !errors.Is(err, context.Canceled) || found != nil {
		t.Errorf("canceled: got %v, error %v", found, err)
	}
	if _, err := lint.Policies(ctx, texts, lint.PolicyOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: error %v", err)
	}
	for id, want := range map[string]string{
		"conventons": `enable: unknown rule "conventons": did you mean conventions?`, "al": `enable: unknown rule "al": did you mean all?`,
		"list-typ": `enable: unknown rule "list-typ": did you mean list-type?`, "zzzzzzzz": `enable: unknown rule "zzzzzzzz"`,
	} {
		bad := []lint.Config{{Enable: []string{id}}}
		_, err := lint.Run(t.Context(), texts, lint.Options{Configs: bad})
		_, policyErr := lint.Policies(t.Context(), texts, lint.PolicyOptions{Configs: bad})
		if fmt.Sprint(err) != want || fmt.Sprint(policyErr) != want {
			t.Errorf("got %v and %v, want %s", err, policyErr, want)
		}
	}
}
