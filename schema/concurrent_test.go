package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"espalier.dev/schema"
)

// One Program serves all requests at once.
func TestConcurrentUse(t *testing.T) {
	guard(t)
	const text = `
type: object
properties:
  set: {type: array, x-kubernetes-list-type: set, items: {type: integer}}
  s: {type: string, pattern: '^x+$', default: xx}
  e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
  any: {type: object, default: {a: {}}, properties: {a: {type: object, properties: {b: {type: array, default: [1], items: {type: integer}}}}}, anyOf: [{required: [a]}, {minProperties: 3}]}
`
	inputs := [][]byte{
		[]byte(`{"metadata":{"name":"n","garbage":1},"set":[1,2,3,4,5,6,7,8,9,10,11,12,13,14],"unknown":1}`),
		[]byte(`{"set":[1,1,2,2,3,3,4,4,5,5,6,6,7,7],"s":"y","any":{}}`),
		[]byte(`{"s":null,"s":"x","e":{"apiVersion":"v1","kind":"K","metadata":{"name":"e","labels":{}}}}`),
		[]byte(`{"e":{},"any":{"a":{"b":[]}},"set":[3]}`),
		[]byte(`{"s":5}`), []byte(`{"s"`), []byte(`[]`),
	}
	for _, sem := range both {
		s, err := schema.NewStructural(props(t, text))
		if err != nil {
			t.Fatal(err)
		}
		// what does all there is to do to an input, and writes it down.
		what := func(p *schema.Program, src []byte) []byte {
			var out bytes.Buffer
			for _, report := range []bool{false, true} {
				obj, r, err := p.Decode(src, schema.DecodeOptions{Report: report})
				written, _ := json.Marshal(obj)
				fmt.Fprintln(&out, string(written), r.UnknownFields(), r.DuplicateFields(), err, p.IsNormal(src))
				if err == nil {
					fmt.Fprintln(&out, errorsOf(p, obj, nil), errorsOf(p, obj, schema.Object{}), errorsOf(p, obj, obj))
				}
			}
			return out.Bytes()
		}
		want := make([][]byte, len(inputs))
		for i, src := range inputs {
			p, err := schema.Compile(s, schema.WithSemantics(sem))
			if err != nil {
				t.Fatal(err)
			}
			want[i] = what(p, src)
		}
		p, err := schema.Compile(s, schema.WithSemantics(sem))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for round := range 20 {
					i := (g + round) % len(inputs)
					if got := what(p, inputs[i]); !bytes.Equal(got, want[i]) {
						t.Errorf("%s: %s:\n got %s\nwant %s", sem, inputs[i], got, want[i])
					}
				}
			})
		}
		wg.Wait()
	}
}
