package schema_test

import (
	"context"
	"encoding/json"
	"testing"

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
