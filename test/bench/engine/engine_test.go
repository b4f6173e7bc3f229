package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestGeneratedCases checks that the two sides agree on the cases, and that every operation
// can be measured and printed.
func TestGeneratedCases(t *testing.T) {
	cases, err := generatedCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in, err := prepare(c)
			if err != nil {
				t.Fatal(err)
			}
			if len(in.oursTrees) != len(c.objects) {
				t.Errorf("%d of %d objects are valid", len(in.oursTrees), len(c.objects))
			}
			rows := measureCase(meter{rounds: 1, round: time.Microsecond}, in)
			var out bytes.Buffer
			if err := printRows(&out, in, rows); err != nil {
				t.Fatal(err)
			}
			for _, op := range operations() {
				if !strings.Contains(out.String(), op.name) {
					t.Errorf("the table lacks %q:\n%s", op.name, &out)
				}
			}
		})
	}
}

// TestDisagreement checks that a case on which the sides disagree is rejected.
func TestDisagreement(t *testing.T) {
	strict, err := newReference([]byte(`{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer","maximum":1}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, schema, want string
	}{
		{"pruning", `{"type":"object","properties":{"spec":{"type":"object","properties":{"b":{"type":"integer"}}}}}`, "decoded: .spec.a"},
		{"default", `{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer"},"c":{"type":"integer","default":1}}}}}`, "decoded: .spec.c"},
		{"validation", `{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer","maximum":9}}}}}`, "validation errors"},
		{"none", `{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer","maximum":1}}}}}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			other, err := newReference([]byte(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			in := &input{reference: strict, ours: other}
			err = in.add([]byte(`{"apiVersion":"example.com/v1","kind":"A","metadata":{"name":"a"},"spec":{"a":5}}`))
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to contain %q", err, tc.want)
			}
		})
	}
}
