package schema_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// bench is a case with its Program, for benchmarks.
type bench struct {
	testcase.Case
	props   api.JSONSchemaProps
	program *schema.Program
	// tree is the object once decoded, normal the same as bytes.
	tree   schema.Object
	normal []byte
}

func newBench(tb testing.TB, c testcase.Case) *bench {
	tb.Helper()
	b := &bench{Case: c}
	if err := json.Unmarshal(c.Schema, &b.props); err != nil {
		tb.Fatal(err)
	}
	var err error
	if b.program, err = b.compile(); err != nil {
		tb.Fatal(err)
	}
	if b.tree, _, err = b.program.Decode(c.Object, schema.DecodeOptions{}); err != nil {
		tb.Fatal(err)
	}
	if v := b.program.Validate(context.Background(), b.tree, nil); len(v) > 0 {
		tb.Fatalf("%s is not valid: %v", c.Name, v.Messages())
	}
	if b.normal, err = json.Marshal(b.tree); err != nil {
		tb.Fatal(err)
	}
	return b
}

func (b *bench) compile() (*schema.Program, error) {
	s, err := schema.NewStructural(&b.props)
	if err != nil {
		return nil, err
	}
	return schema.Compile(s, schema.WithSemantics(schema.Kubernetes))
}

// benchEach runs f on the medium and on the big case.
func benchEach(b *testing.B, f func(b *testing.B, c *bench)) {
	for _, c := range []testcase.Case{testcase.Medium(), testcase.Big()} {
		b.Run(c.Name, func(b *testing.B) {
			made := newBench(b, c)
			b.ReportAllocs()
			f(b, made)
		})
	}
}

func BenchmarkChain(b *testing.B) {
	benchEach(b, func(b *testing.B, c *bench) {
		b.SetBytes(int64(len(c.Object)))
		for b.Loop() {
			obj, _, err := c.program.Decode(c.Object, schema.DecodeOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if v := c.program.Validate(context.Background(), obj, nil); len(v) > 0 {
				b.Fatal(v.Messages())
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, o := range []struct {
		name    string
		options schema.DecodeOptions
	}{
		{"silent", schema.DecodeOptions{}},
		{"report", schema.DecodeOptions{Report: true}},
	} {
		b.Run(o.name, func(b *testing.B) {
			benchEach(b, func(b *testing.B, c *bench) {
				b.SetBytes(int64(len(c.Object)))
				for b.Loop() {
					if _, _, err := c.program.Decode(c.Object, o.options); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	benchEach(b, func(b *testing.B, c *bench) {
		for b.Loop() {
			if v := c.program.Validate(context.Background(), c.tree, nil); len(v) > 0 {
				b.Fatal(v.Messages())
			}
		}
	})
}

func BenchmarkNormalizeClean(b *testing.B) {
	benchEach(b, func(b *testing.B, c *bench) {
		for b.Loop() {
			if _, err := c.program.Normalize(c.tree, schema.DecodeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkIsNormal(b *testing.B) {
	benchEach(b, func(b *testing.B, c *bench) {
		b.SetBytes(int64(len(c.normal)))
		for b.Loop() {
			if !c.program.IsNormal(c.normal) {
				b.Fatal("not normal")
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	benchEach(b, func(b *testing.B, c *bench) {
		for b.Loop() {
			if _, err := c.compile(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestGrowth is the benchmark's growth table as a test: 32 times the size may
// cost 32 times as much. It allows for four times that, because it measures
// time; a quadratic cost would be 32 times that.
func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	const factor, slack = 32, 4
	t.Run("V-09", func(t *testing.T) {
		for _, tc := range []struct {
			name string
			make func(k int) testcase.Case
		}{
			{name: "object", make: func(k int) testcase.Case { return testcase.Junctors(4, 32*k) }},
			{name: "branches", make: func(k int) testcase.Case { return testcase.Junctors(4*k, 32) }},
			{name: "schema and object", make: func(k int) testcase.Case { return testcase.Sections(2*k, 4) }},
		} {
			t.Run(tc.name, func(t *testing.T) {
				small, large := newBench(t, tc.make(1)), newBench(t, tc.make(factor))
				for name, op := range map[string]func(b *bench){
					"decode":   func(b *bench) { b.program.Decode(b.Object, schema.DecodeOptions{}) },
					"validate": func(b *bench) { b.program.Validate(context.Background(), b.tree, nil) },
					"compile":  func(b *bench) { b.compile() },
				} {
					base, grown := fastest(func() { op(small) }), fastest(func() { op(large) })
					if grown > slack*factor*base {
						t.Errorf("%s: %v grows to %v with %d times the size", name, base, grown, factor)
					}
				}
			})
		}
	})
}

// fastest is the time of a call when nothing disturbs it.
func fastest(f func()) time.Duration {
	best := time.Duration(math.MaxInt64)
	for range 20 {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}
