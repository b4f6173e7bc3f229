package schema_test

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// defaulting returns a Program for lists of objects with n defaults, and for a map of them.
func defaulting(t *testing.T, n int, o ...schema.Option) *schema.Program {
	t.Helper()
	fields := strings.Builder{}
	for i := range n {
		fmt.Fprintf(&fields, "f%d: {type: boolean, default: false}, ", i)
	}
	return compile(t, `{type: object, properties: {
		spec: {type: object, properties: {
			items: {type: array, items: {type: object, properties: {`+fields.String()+`}}},
			nulls: {type: array, items: {type: string, default: `+strings.Repeat("some text ", 12)+`}},
			map: {type: object, additionalProperties: {type: object, default: {a: {}}, properties: {a: {type: object, properties: {`+fields.String()+`}}}}}}}}}`, o...)
}

// listOf returns an object whose spec has a list with n items.
func listOf(field string, n int, item string) []byte {
	return []byte(`{"spec":{"` + field + `":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}}`)
}

// TestDefaultedSize checks that the defaults of an object are bounded wherever they are filled in.
func TestDefaultedSize(t *testing.T) { //nolint:paralleltest // measures allocations
	smaller := 1
	if testing.Short() {
		smaller = 10
	}
	many := strings.Builder{}
	for i := range 10_000 / smaller {
		fmt.Fprintf(&many, `,"k%d":null`, i)
	}
	for _, tc := range []struct {
		name, says string
		src        []byte
	}{
		{"items", "spec.items[*].f", listOf("items", 100_000/smaller, "{}")},
		{"nulls", "spec.nulls[*]", listOf("nulls", 600_000/smaller, "null")},
		{"map", "spec.map.*", []byte(`{"spec":{"map":{` + many.String()[1:] + `}}}`)},
	} {
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			p := defaulting(t, 400, schema.WithSemantics(sem))
			check := func(way string, f func() error) {
				t.Helper()
				var err error
				bytes := allocated(func() { err = f() })
				large := (*schema.DefaultsError)(nil)
				if !errors.As(err, &large) || !strings.HasPrefix(err.Error(), tc.says) || !strings.Contains(err.Error(), "more than 3145728 bytes") {
					t.Errorf("%s, %s: %v", tc.name, way, err)
				}
				if limit := uint64(len(tc.src)+schema.MaxDefaultBytes) * 100; bytes > limit {
					t.Errorf("%s, %s: %d bytes for an object of %d", tc.name, way, bytes, len(tc.src))
				}
			}
			tree := func() schema.Object {
				v, err := jsonx.Parse(tc.src)
				if err != nil {
					t.Fatal(err)
				}
				return v.(schema.Object)
			}
			for _, o := range []schema.DecodeOptions{{}, {Report: true}} {
				check("Decode", func() error { _, _, err := p.Decode(tc.src, o); return err })
				check("Normalize", func() error { _, err := p.Normalize(tree(), o); return err })
			}
			obj := tree()
			check("Default", func() error { return p.Default(obj) })
			if !schema.Equal(obj, tree()) {
				t.Errorf("%s: the object has changed", tc.name)
			}
			// Reading never fails.
			read, _, err := p.Decode(tc.src, schema.DecodeOptions{FromStorage: true})
			if err != nil {
				t.Fatal(err)
			}
			obj = tree()
			if _, err := p.Normalize(obj, schema.DecodeOptions{FromStorage: true}); err != nil || !schema.Equal(read, obj) || !schema.Equal(read, tree()) {
				t.Errorf("%s: the object that is read is not the stored one: %v", tc.name, err)
			}
		}
	}
}

// TestLargestDefaults checks that an object that fits in a request with its defaults is accepted.
func TestLargestDefaults(t *testing.T) {
	t.Parallel()
	p := defaulting(t, 400)
	accepted := func(n int) []byte {
		obj, _, err := p.Decode(listOf("items", n, "{}"), schema.DecodeOptions{})
		if err != nil {
			return nil
		}
		text, err := jsonx.Append(nil, obj)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	n := sort.Search(2000, func(n int) bool { return accepted(n+1) == nil })
	if size := len(accepted(n)); size < schema.MaxDefaultBytes || size > schema.MaxDefaultBytes*11/10 {
		t.Errorf("%d items with %d bytes are accepted", n, size)
	}
	if again, _, err := p.Decode(accepted(n), schema.DecodeOptions{}); err != nil || !schema.Equal(again, object(t, string(accepted(n)))) {
		t.Error("the object with its defaults is rejected", err)
	}
}

// expansion is the place of a schema where a few bytes get the most defaults.
type expansion struct {
	before, item, after string
	isMap               bool
	defaults            int // bytes, for one item
}

// worstExpansion returns the place with the most defaults for each byte of an object, or nil.
func worstExpansion(t *testing.T, s *schema.Structural, p *schema.Program) (worst *expansion) {
	t.Helper()
	added := func(text string) int {
		obj, _, err := p.Decode([]byte(text), schema.DecodeOptions{})
		if err != nil {
			return 0 // such as metadata
		}
		full, err := jsonx.Append(nil, obj)
		if err != nil {
			t.Fatal(err)
		}
		return len(full) - len(text)
	}
	for path := range s.All() {
		if e := place(path); e != nil {
			if e.defaults = added(e.text(2)) - added(e.text(1)); worst == nil || e.defaults > worst.defaults {
				worst = e
			}
		}
	}
	return worst
}

// place returns the objects in a list or map, or nil if the schema is not that of an item of one.
func place(path schema.SchemaPath) *expansion {
	e := &expansion{item: "{}"}
	for i, s := range path {
		last := i == len(path)-1
		switch s.Keyword {
		case "properties":
			if last {
				return nil
			}
			e.before, e.after = e.before+`{"`+s.Name+`":`, "}"+e.after
		case "items":
			e.before, e.after = e.before+"[", "]"+e.after
		default:
			e.isMap = last
			if e.before, e.after = e.before+"{", "}"+e.after; !last {
				e.before += `"k":`
			}
		}
	}
	if len(path) == 0 || path[0].Name == "metadata" {
		return nil // metadata has a structure of its own
	}
	return e
}

func (e *expansion) text(n int) string {
	b := strings.Builder{}
	b.WriteString(e.before)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if e.isMap {
			fmt.Fprintf(&b, `"%d":`, i)
		}
		b.WriteString(e.item)
	}
	b.WriteString(e.after)
	return b.String()
}

// TestCorpusDefaults decodes, for each CRD of the corpus, the objects that need the most memory because of
// their defaults: as large as possible with and without being rejected. docs/explanation/security.md promises
// that a request needs at most 600 times the size of the object with its defaults, in all its steps.
func TestCorpusDefaults(t *testing.T) { //nolint:paralleltest // measures allocations
	if testing.Short() {
		t.Skip("uses the corpus")
	}
	const multiple = 100
	most, where, places := uint64(0), "", 0
	forEachCorpusSchema(t, func(name string, props *api.JSONSchemaProps) {
		s, err := schema.NewStructural(props)
		if err != nil {
			return
		}
		p, err := schema.Compile(s)
		if err != nil {
			return
		}
		e := worstExpansion(t, s, p)
		if e == nil || e.defaults <= 0 {
			return
		}
		places++
		for _, n := range []int{schema.MaxDefaultBytes / (e.defaults + 1), 300_000 / len(e.item)} {
			text := []byte(e.text(n))
			bytes := allocated(func() { _, _, err = p.Decode(text, schema.DecodeOptions{}) })
			large := (*schema.DefaultsError)(nil)
			if tooLarge := n*e.defaults > schema.MaxDefaultBytes*5/4; errors.As(err, &large) != tooLarge && (tooLarge || n*e.defaults < schema.MaxDefaultBytes) {
				t.Errorf("%s: %d items of %s: %v", name, n, e.before, err)
			}
			if times := bytes / uint64(len(text)+min(n*e.defaults, schema.MaxDefaultBytes)); times > most {
				most, where = times, fmt.Sprintf("%s: %d items of %s", name, n, e.before)
			}
		}
	})
	t.Logf("%d places, at most %d times as much: %s", places, most, where)
	if most > multiple || places == 0 {
		t.Errorf("%s: %d times as much memory, in %d places", where, most, places)
	}
}
