package schema

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"testing"

	"espalier.dev/internal/jsonx"
)

// TestProperties checks that properties are found by name, in lists around the lengths at which the
// way of searching changes.
func TestProperties(t *testing.T) {
	for _, n := range []int{0, 1, searchMax, searchMax + 1, 16, 17, 1 << 15, 1<<15 + 1} {
		list := make([]property, n)
		for i := range list {
			list[i] = property{fmt.Sprint("p", n-i), int32(i + 1)}
		}
		p := newProperties(list)
		want := 0
		if n > searchMax && n <= 1<<15 {
			want = 1 << bits.Len(uint(2*n-1)) // half of the table is free
		}
		if len(p.slots) != want {
			t.Errorf("%d properties: got a table of %d, want %d", n, len(p.slots), want)
		}
		for i := range n {
			if got := p.find(fmt.Sprint("p", n-i)); got != int32(i+1) {
				t.Fatalf("%d properties: got %d for p%d, want %d", n, got, n-i, i+1)
			}
		}
		for _, name := range []string{"", "a", "p", "p0", fmt.Sprint("p", n+1), "z"} {
			if got := p.find(name); got != none {
				t.Errorf("%d properties: got %d for %q", n, got, name)
			}
		}
	}
}

// TestCompileRules checks that a schema with rules is not compiled without them by accident, wherever
// they are.
func TestCompileRules(t *testing.T) {
	const rules = `"x-kubernetes-validations":[{"rule":"true"}]`
	failure := errors.New("failure")
	for _, text := range []string{
		`{"type":"object",` + rules + `}`, `{"type":"object",` + rules + `,"properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string",` + rules + `},"b":{"type":"string"}}}`,
		`{"type":"object","allOf":[{` + rules + `}]}`, `{"type":"object","allOf":[{` + rules + `},{"required":["a"]}]}`, `{"type":"object","properties":{"a":{"type":"string",` + rules + `}},"not":{"required":["a"]}}`,
	} {
		s := mustStructural(t, text)
		if p, err := Compile(s); !errors.Is(err, ErrRules) || p != nil {
			t.Errorf("%s: got %v, %v", text, p, err)
		}
		if p, err := Compile(s, WithRules(func(*Structural) (Rules, error) { return nil, failure })); !errors.Is(err, failure) || p != nil {
			t.Errorf("%s: a compiler that fails: got %v, %v", text, p, err)
		}
		if _, err := Compile(s, WithoutRules()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if p, err := Compile(nil); err != nil || len(p.Validate(t.Context(), Object{"a": 1.5}, nil)) > 0 {
		t.Errorf("without a schema: got %v", err)
	}
}

// TestReportLimit checks that a report is truncated above its limit, and not at it.
func TestReportLimit(t *testing.T) {
	parent, rest := Path{{Key: "a"}, {Key: "b"}}, Path{{Key: "c"}}
	r := Report{steps: maxReportSteps - 3}
	if r.add(Change{}, parent, rest); r.Truncated || len(r.Changes) != 1 || r.Changes[0].Path.String() != "a.b.c" {
		t.Errorf("at the limit: got %+v", r)
	}
	if r.add(Change{}, nil, rest); !r.Truncated || len(r.Changes) != 1 {
		t.Errorf("above the limit: got %+v", r)
	}
}

// TestIntegralFloats checks which floats count as integers: up to the largest that is exact.
func TestIntegralFloats(t *testing.T) {
	for f, want := range map[float64]bool{
		0: true, 1: true, 1.5: false, 1 + 1e-10: true, 1 + 1e-8: false, 1e-12: false, -1e-12: false, 499999999.5: false, 500000000.5: true,
		1<<53 - 1: true, 1 - 1<<53: true, 1 << 53: false, -(1 << 53): false,
	} {
		if got := isJSONInteger(f); got != want {
			t.Errorf("%v: got %t", f, got)
		}
	}
	if isJSONInteger(math.NaN()) || isJSONInteger(math.Inf(1)) {
		t.Error("a value that is no number is an integer")
	}
}

// TestNodeRef checks the paths of references to no schema, and to schemas.
func TestNodeRef(t *testing.T) {
	if path := (NodeRef{}).Path(); path != nil {
		t.Errorf("no schema: got %q", path)
	}
	p := compiled(t, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`)
	for id, want := range map[int32]string{none: "", nowhere: "", root: "", p.nodes[p.nodes[root].props.find("a")].items: ".properties[a].items"} {
		if got := p.ref(id).String(); got != want {
			t.Errorf("%d: got %q, want %q", id, got, want)
		}
	}
}

// TestScanDepth checks that lists and objects in metadata are not normal where a text is nested too
// deeply.
func TestScanDepth(t *testing.T) {
	p := compiled(t, `{"type":"object"}`)
	for text, scan := range map[string]func(*scanner) bool{
		`["x"]`:     func(s *scanner) bool { return s.metaValue(objectMetaType().fields["finalizers"]) },
		`{"a":"x"}`: func(s *scanner) bool { return s.metaValue(objectMetaType().fields["labels"]) },
	} {
		for depth, want := range map[int]bool{jsonx.MaxDepth - 1: true, jsonx.MaxDepth: false} {
			s := scanner{p: p, r: p.reader([]byte(strings.Repeat("[", depth) + text))}
			for range depth {
				if err := s.r.EnterArray(); err != nil {
					t.Fatal(err)
				}
			}
			if got := scan(&s); got != want {
				t.Errorf("%s at depth %d: got %t", text, depth, got)
			}
		}
	}
}

// TestLooseTypes checks where values of other types than the schema's contradict nothing.
func TestLooseTypes(t *testing.T) {
	p := compiled(t, `{"type":"object","properties":{"i":{"type":"integer","x-kubernetes-int-or-string":true},"s":{"type":"string"},"l":{"type":"array","items":{"type":"string"}}}}`)
	for text, ok := range map[string]bool{`{"i":"x"}`: true, `{"i":1}`: true, `{"s":1}`: false, `{"l":["a",1]}`: false} {
		if _, _, err := p.Decode([]byte(text), DecodeOptions{}); err == nil != ok {
			t.Errorf("%s: got %v", text, err)
		}
	}
	// A null is replaced by the default; without defaults, it contradicts the type.
	defaulted := compiled(t, `{"type":"object","properties":{"d":{"type":"string","default":"x"}}}`)
	for without, want := range map[bool]string{false: "<nil>", true: `d in body must be of type string: "null"`} {
		if _, _, err := defaulted.Decode([]byte(`{"d":null}`), DecodeOptions{WithoutDefaults: without}); fmt.Sprint(err) != want {
			t.Errorf("without defaults %t: got %v, want %s", without, err, want)
		}
	}
	// An update may keep contradictions, at the same place.
	for old, ok := range map[string]bool{`{"l":["a",1]}`: true, `{"l":[1,1]}`: true, `{"l":[1]}`: false, `{"l":["a",2]}`: false, `{"l":{"1":1}}`: false, `{"s":1}`: false} {
		if _, _, err := p.Decode([]byte(`{"l":["a",1]}`), DecodeOptions{Old: parsed(t, old).(map[string]any)}); err == nil != ok {
			t.Errorf("old %s: got %v", old, err)
		}
	}
	// additionalProperties: false at the root allows apiVersion, kind and metadata in one of the semantics.
	for _, sem := range []Semantics{KEP, Kubernetes} {
		closed := compiled(t, `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"},"o":{"type":"object","additionalProperties":false}}}`, WithSemantics(sem))
		for text, want := range map[string]bool{`{"a":"x"}`: true, `{"kind":"K","metadata":{}}`: sem.ExcusesMetaFields(), `{"b":1}`: false, `{"o":{"kind":"K"}}`: false} {
			if got := closed.holds(parsed(t, text).(map[string]any)); got != want {
				t.Errorf("%v: %s: got %t", sem, text, got)
			}
		}
	}
}
