package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// guard ends the test run, telling where it is, if a test takes far longer than it
// should. How long it should take is the business of benchmarks.
func guard(t *testing.T) {
	timer := time.AfterFunc(30*time.Second, func() { panic(t.Name() + " takes too long") })
	t.Cleanup(func() { timer.Stop() })
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// deepText is an object with n levels, itself included, of objects or arrays.
func deepText(n int, arrays bool) string {
	open, end := `{"a":`, "}"
	if arrays {
		open, end = "[", "]"
	}
	return `{"a":` + strings.Repeat(open, n-1) + "1" + strings.Repeat(end, n-1) + "}"
}

func TestHostileNesting(t *testing.T) {
	guard(t)
	for _, sem := range both {
		for name, p := range map[string]*schema.Program{
			"pruned": compile(t, `{type: object}`, schema.WithSemantics(sem)),
			"kept":   compile(t, `{type: object, x-kubernetes-preserve-unknown-fields: true}`, schema.WithSemantics(sem)),
			"a set":  compile(t, `{type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true, x-kubernetes-list-type: set}}}`, schema.WithSemantics(sem)),
			"a copy": compile(t, `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {d: {type: string, default: x}}}`, schema.WithSemantics(sem)),
		} {
			for _, arrays := range []bool{false, true} {
				for _, n := range []int{100, 10_000, 10_001, 1_000_000} {
					if n > 100_000 && testing.Short() {
						continue
					}
					src := []byte(deepText(n, arrays))
					for _, report := range []bool{false, true} {
						obj, _, err := p.Decode(src, schema.DecodeOptions{Report: report})
						var syntax *schema.SyntaxError
						switch {
						case n > 10_000:
							if !errors.As(err, &syntax) || !strings.Contains(err.Error(), "exceeded max depth") {
								t.Fatalf("%s: %d levels: got error %v", name, n, err)
							}
						case err != nil:
							t.Fatalf("%s: %d levels: %v", name, n, err)
						default:
							_, found := obj["a"]
							if found != (name != "pruned") {
								t.Errorf("%s: %d levels: found is %t", name, n, found)
							}
							if vs := p.Validate(context.Background(), obj, obj); len(vs) > 0 {
								t.Errorf("%s: %d levels: %d violations", name, n, len(vs))
							}
							if _, err := p.Normalize(obj, schema.DecodeOptions{Report: report}); err != nil {
								t.Errorf("%s: %d levels: %v", name, n, err)
							}
						}
					}
					if p.IsNormal(src) && (n > 10_000 || name == "pruned") {
						t.Errorf("%s: %d levels are normal", name, n)
					}
				}
			}
		}
	}
}

// Garbage costs what it takes to read it, not what it would take to build it.
func TestHostileGarbageIsCheap(t *testing.T) {
	guard(t)
	size := 1 << 20
	if testing.Short() {
		size = 1 << 17
	}
	repeat := func(unit string) string { return strings.TrimSuffix(strings.Repeat(unit, size/len(unit)), ",") }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	p := compile(t, `{type: object, properties: {kept: {type: string}, o: {type: object, properties: {a: {type: string}}}}}`)
	for name, tc := range map[string]struct {
		text   string
		refuse bool
		// times is how many bytes may be allocated for a byte of input, without
		// and with a report.
		times, reported uint64
	}{
		"numbers":           {`{"x":[` + repeat("1,") + `],"kept":"y"}`, false, 4, 100},
		"empty objects":     {`{"x":[` + repeat("{},") + `],"kept":"y"}`, false, 4, 100},
		"nested":            {`{"x":[` + repeat(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+",") + `],"kept":"y"}`, false, 4, 100},
		"many keys":         {`{"x":{` + keys(size/10) + `},"kept":"y"}`, false, 4, 100},
		"many keys to drop": {`{"o":{` + keys(size/10) + `},"kept":"y"}`, false, 4, 100},
		"the same key":      {`{` + repeat(`"x":1,`) + `,"kept":"y"}`, false, 4, 200},
		"a long string":     {`{"x":"` + repeat("a") + `","kept":"y"}`, false, 4, 10},
		"escapes":           {`{"x":"` + repeat(`\u0000`) + `","kept":"y"}`, false, 4, 10},
		"a long number":     {`{"x":0.` + repeat("1") + `,"kept":"y"}`, false, 4, 10},
		"no end":            {`{"x":` + repeat("["), true, 4, 10},
		"no end of objects": {repeat(`{"o":`), true, 4, 10},
		"bad at the end":    {`{"x":[` + repeat("1,") + `]]`, true, 4, 100},
	} {
		t.Run(name, func(t *testing.T) {
			src := []byte(tc.text)
			for _, report := range []bool{false, true} {
				limit := tc.times
				if report {
					limit = tc.reported
				}
				var obj schema.Object
				var err error
				n := allocated(func() { obj, _, err = p.Decode(src, schema.DecodeOptions{Report: report}) })
				if (err != nil) != tc.refuse {
					t.Fatalf("got error %v", err)
				}
				if !tc.refuse && (obj["kept"] != "y" || obj["x"] != nil) {
					t.Errorf("got %d fields", len(obj))
				}
				if max := limit*uint64(len(src)) + 1<<20; n > max {
					t.Errorf("%d bytes of input allocate %d bytes, more than %d", len(src), n, max)
				}
			}
			if n := allocated(func() { p.IsNormal(src) }); n > 4*uint64(len(src))+1<<20 {
				t.Errorf("to look at %d bytes allocates %d bytes", len(src), n)
			}
		})
	}
}

// A text with something to report at each of its levels has paths that together
// are far longer than the text. There is a limit to what is reported.
func TestHostileReport(t *testing.T) {
	guard(t)
	const depth = 9000
	for name, text := range map[string]string{
		"pruned":     `{"m":{"a":` + strings.Repeat(`[{"x":1},`, depth) + "1" + strings.Repeat("]", depth) + "}}",
		"duplicates": strings.Repeat(`{"a":1,"a":`, depth) + "1" + strings.Repeat("}", depth),
	} {
		p := compile(t, `{type: object, properties: {m: {type: object, additionalProperties: true}}}`)
		var report *schema.Report
		var err error
		n := allocated(func() { _, report, err = p.Decode([]byte(text), schema.DecodeOptions{Report: true}) })
		if err != nil {
			t.Fatal(err)
		}
		if !report.Truncated || len(report.Changes) < 100 {
			t.Errorf("%s: %d changes, truncated is %t", name, len(report.Changes), report.Truncated)
		}
		if n > 64<<20 {
			t.Errorf("%s: %d bytes of input allocate %d bytes", name, len(text), n)
		}
		if _, report, err = p.Decode([]byte(`{"a":1,"a":2}`), schema.DecodeOptions{Report: true}); err != nil || report.Truncated {
			t.Errorf("%s: a short report is truncated: %v", name, err)
		}
	}
}

func TestHostileText(t *testing.T) {
	guard(t)
	p := compile(t, `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {i: {type: integer}, f: {type: number}, dropped: {type: object}}}`)
	for name, tc := range map[string]struct {
		text string
		want schema.Object // nil if it is rejected
	}{
		"nothing":             {``, nil},
		"white space":         {" \n\t", nil},
		"null":                {`null`, nil},
		"an array":            {`[]`, nil},
		"a string":            {`"{}"`, nil},
		"a number":            {`1`, nil},
		"two objects":         {`{}{}`, nil},
		"a comma too many":    {`{"a":1,}`, nil},
		"no quotes":           {`{a:1}`, nil},
		"a comment":           {`{}//`, nil},
		"a byte order mark":   {"\ufeff{}", nil},
		"a NUL":               {"{}\x00", nil},
		"a control character": {"{\"a\":\"\n\"}", nil},
		"NaN":                 {`{"a":NaN}`, nil},
		"a leading zero":      {`{"a":01}`, nil},
		"a leading plus":      {`{"a":+1}`, nil},
		"hexadecimal":         {`{"a":0x1}`, nil},
		"a short escape":      {`{"a":"\u12"}`, nil},

		"the last one counts":      {`{"a":1,"b":2,"a":{"x":1},"a":3}`, schema.Object{"a": int64(3), "b": int64(2)}},
		"also below":               {`{"a":{"b":1,"b":{"c":1,"c":2}}}`, schema.Object{"a": map[string]any{"b": map[string]any{"c": int64(2)}}}},
		"spelled in two ways":      {`{"a":1,"\u0061":2}`, schema.Object{"a": int64(2)}},
		"invalid UTF-8":            {"{\"a\":\"x\xff\xfey\"}", schema.Object{"a": "x\ufffd\ufffdy"}},
		"invalid UTF-8 in a key":   {"{\"\xc3\":1}", schema.Object{"\ufffd": int64(1)}},
		"a lone surrogate":         {`{"a":"\ud800x"}`, schema.Object{"a": "\ufffdx"}},
		"surrogates, wrong way":    {`{"a":"\udc00\ud800"}`, schema.Object{"a": "\ufffd\ufffd"}},
		"a pair of surrogates":     {`{"a":"\ud83d\ude00"}`, schema.Object{"a": "😀"}},
		"NUL in a string":          {`{"a":"\u0000"}`, schema.Object{"a": "\x00"}},
		"the largest integer":      {`{"i":9223372036854775807}`, schema.Object{"i": int64(math.MaxInt64)}},
		"the smallest integer":     {`{"i":-9223372036854775808}`, schema.Object{"i": int64(math.MinInt64)}},
		"minus zero":               {`{"i":-0}`, schema.Object{"i": int64(0)}},
		"larger than that":         {`{"f":9223372036854775808}`, schema.Object{"f": float64(1 << 63)}},
		"smaller than that":        {`{"f":-9223372036854775809}`, schema.Object{"f": float64(-1 << 63)}},
		"an integer with exponent": {`{"f":1e2}`, schema.Object{"f": float64(100)}},
		"almost nothing":           {`{"f":1e-999}`, schema.Object{"f": float64(0)}},
		"the smallest float":       {`{"f":5e-324}`, schema.Object{"f": math.SmallestNonzeroFloat64}},
		"the largest float":        {`{"f":1.7976931348623157e308}`, schema.Object{"f": math.MaxFloat64}},
		"too large":                {`{"f":1e999}`, nil},
		"too small":                {`{"f":-1e999}`, nil},
		"too large, unspecified":   {`{"x":1e999}`, nil},
		"many digits":              {`{"f":0.` + strings.Repeat("0", 100_000) + `1}`, schema.Object{"f": float64(0)}},
		"very many digits":         {`{"f":1` + strings.Repeat("0", 100_000) + `}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, report := range []bool{false, true} {
				obj, _, err := p.Decode([]byte(tc.text), schema.DecodeOptions{Report: report})
				if (err != nil) != (tc.want == nil) {
					t.Fatalf("got error %v", err)
				}
				if err == nil && !reflect.DeepEqual(obj, tc.want) {
					t.Errorf("got %#v, want %#v", obj, tc.want)
				}
			}
			if tc.want == nil && p.IsNormal([]byte(tc.text)) {
				t.Error("it is normal")
			}
		})
	}
	// A number that nothing can hold is rejected wherever it is.
	if _, _, err := compile(t, `{type: object}`).Decode([]byte(`{"pruned":[1e999]}`), schema.DecodeOptions{}); err == nil {
		t.Error("1e999 passes where it is pruned")
	}
}

func TestHostilePatterns(t *testing.T) {
	guard(t)
	size := 200_000
	if testing.Short() {
		size = 20_000
	}
	long := strings.Repeat("a", size)
	for pattern, want := range map[string]bool{
		`^(a+)+$`: false, `^(a|aa)+$`: false, `^(a*)*$`: false, `^([a-zA-Z]+)*$`: true, `^(.*a){10}$`: false, `(a+)+b$`: true,
		// What cannot be compiled matches nothing.
		`(a{1000}){1000}`: false, `(?=a)`: false, `(a)\1`: false, strings.Repeat("(", size/2): false,
	} {
		p := compile(t, `{type: object, properties: {s: {type: string, pattern: `+strconv.Quote(pattern)+`}}}`)
		if got := len(p.Validate(context.Background(), schema.Object{"s": long + "b"}, nil)) == 0; got != want {
			t.Errorf("%.20s: matches is %t", pattern, got)
		}
	}
}

func TestHostileSchemas(t *testing.T) {
	guard(t)
	validate := func(t *testing.T, s *api.JSONSchemaProps, text string, want int) {
		t.Helper()
		structural, err := schema.NewStructural(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, sem := range both {
			schema.Check(structural, sem)
			p, err := schema.Compile(structural, schema.WithSemantics(sem))
			if err != nil {
				t.Fatal(err)
			}
			obj, _, err := p.Decode([]byte(text), schema.DecodeOptions{FromStorage: true, Report: true})
			if err != nil {
				t.Fatal(err)
			}
			p.IsNormal([]byte(text))
			if got := p.Validate(context.Background(), obj, nil).FieldErrors(); len(got) != want {
				t.Errorf("%s: got %d errors, want %d", sem, len(got), want)
			}
			p.Validate(context.Background(), obj, obj)
		}
	}
	depth, many := 5000, 10_000
	if testing.Short() {
		depth, many = 1000, 1000
	}
	typed := func(name string) *api.JSONSchemaProps { return &api.JSONSchemaProps{Type: api.StringOrArray{name}} }
	nested := func(wrap func(*api.JSONSchemaProps) *api.JSONSchemaProps) *api.JSONSchemaProps {
		s := typed("string")
		for range depth {
			s = wrap(s)
		}
		return s
	}
	t.Run("properties", func(t *testing.T) {
		s := nested(func(s *api.JSONSchemaProps) *api.JSONSchemaProps {
			return &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{"a": *s}}
		})
		validate(t, s, strings.Repeat(`{"a":`, depth)+`"x"`+strings.Repeat("}", depth), 0)
		validate(t, s, strings.Repeat(`{"a":`, depth)+`1`+strings.Repeat("}", depth), 1)
	})
	t.Run("items", func(t *testing.T) {
		s := nested(func(s *api.JSONSchemaProps) *api.JSONSchemaProps {
			return &api.JSONSchemaProps{Type: api.StringOrArray{"array"}, Items: &api.JSONSchemaPropsOrArray{Schema: s}}
		})
		s = &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{"a": *s}}
		validate(t, s, `{"a":`+strings.Repeat("[", depth)+`"x"`+strings.Repeat("]", depth)+"}", 0)
		validate(t, s, `{"a":`+strings.Repeat("[", depth)+`1,2`+strings.Repeat("]", depth)+"}", 2)
	})
	t.Run("additionalProperties", func(t *testing.T) {
		s := nested(func(s *api.JSONSchemaProps) *api.JSONSchemaProps {
			return &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, AdditionalProperties: &api.JSONSchemaPropsOrBool{Allows: true, Schema: s}}
		})
		validate(t, s, strings.Repeat(`{"a":`, depth)+`1`+strings.Repeat("}", depth), 1)
	})
	t.Run("not", func(t *testing.T) {
		// The innermost schema holds for no object, and an even number of nots
		// changes nothing.
		s := nested(func(s *api.JSONSchemaProps) *api.JSONSchemaProps { return &api.JSONSchemaProps{Not: s} })
		validate(t, s, `{}`, 1)
		validate(t, &api.JSONSchemaProps{Not: s}, `{}`, 0)
	})
	t.Run("anyOf", func(t *testing.T) {
		s := nested(func(s *api.JSONSchemaProps) *api.JSONSchemaProps {
			return &api.JSONSchemaProps{AnyOf: []api.JSONSchemaProps{*s}}
		})
		// What reads the same is reported once.
		validate(t, s, `{}`, 2)
	})
	t.Run("many branches", func(t *testing.T) {
		s := &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{"a": *typed("integer")}}
		var branches []api.JSONSchemaProps
		for i := range many {
			branches = append(branches, api.JSONSchemaProps{Properties: map[string]api.JSONSchemaProps{"a": {Enum: []api.JSON{{Raw: []byte(strconv.Itoa(i))}}}}})
		}
		s.AnyOf = branches
		validate(t, s, fmt.Sprintf(`{"a":%d}`, many-1), 0)
		s.AnyOf, s.OneOf = nil, branches
		validate(t, s, fmt.Sprintf(`{"a":%d}`, many), 2)
	})
	t.Run("a large enum", func(t *testing.T) {
		s := typed("string")
		for i := range 10 * many {
			s.Enum = append(s.Enum, api.JSON{Raw: []byte(strconv.Quote(strconv.Itoa(i)))})
		}
		s = &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{"a": *s}}
		validate(t, s, fmt.Sprintf(`{"a":"%d"}`, 10*many-1), 0)
		validate(t, s, fmt.Sprintf(`{"a":"%d"}`, 10*many), 1)
	})
	t.Run("many properties", func(t *testing.T) {
		s := &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{}}
		for i := range 4 * many {
			s.Properties["f"+strconv.Itoa(i)] = *typed("string")
		}
		validate(t, s, fmt.Sprintf(`{"f0":"x","f%d":1,"f%d":1}`, 4*many-1, 4*many), 1)
	})
}

func TestHostileDefaults(t *testing.T) {
	guard(t)
	const depth = 1000
	for _, sem := range both {
		t.Run("a deep default "+sem.String(), func(t *testing.T) {
			deep := strings.Repeat(`{"a":`, depth) + `1` + strings.Repeat("}", depth)
			p := compile(t, `{type: object, properties: {d: {type: object, x-kubernetes-preserve-unknown-fields: true, default: `+deep+`}}}`, schema.WithSemantics(sem))
			obj, _, err := p.Decode([]byte(`{}`), schema.DecodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, obj, `{"d":`+deep+`}`)
		})
		t.Run("below items of the root "+sem.String(), func(t *testing.T) {
			p := compile(t, `{type: object, items: {type: object, default: {a: 1}, properties: {b: {type: object, default: {c: 1}}}}}`, schema.WithSemantics(sem))
			obj, _, err := p.Decode([]byte(`{}`), schema.DecodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, obj, `{}`)
		})
		t.Run("a chain "+sem.String(), func(t *testing.T) {
			// Each default has nothing but the place for the next one.
			s := &schema.Structural{Generic: schema.Generic{Type: "string", Default: &schema.JSON{Value: "x"}}}
			for range depth {
				s = &schema.Structural{
					Generic:    schema.Generic{Type: "object", Default: &schema.JSON{Value: map[string]any{}}},
					Properties: map[string]*schema.Structural{"a": s},
				}
			}
			p, err := schema.Compile(s, schema.WithSemantics(sem))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Repeat(`{"a":`, depth) + `"x"` + strings.Repeat("}", depth)
			for _, input := range []string{`{}`, `{"a":null}`, `{"a":{"a":{}}}`} {
				obj, _, err := p.Decode([]byte(input), schema.DecodeOptions{})
				if err != nil {
					t.Fatal(err)
				}
				sameJSON(t, obj, want)
			}
			if p.IsNormal([]byte(`{}`)) || !p.IsNormal([]byte(want)) {
				t.Error("IsNormal does not see the defaults")
			}
		})
	}
	// Ten items, each with a list of ten items by default, and so on: a few lines
	// that would fill any memory.
	t.Run("a default that explodes", func(t *testing.T) {
		text := `{type: array, items: {type: integer}, default: [1]}`
		for range 20 {
			text = `{type: array, default: [{},{},{},{},{},{},{},{},{},{}], items: {type: object, properties: {l: ` + text + `}}}`
		}
		s, err := schema.NewStructural(props(t, `{type: object, properties: {l: `+text+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, opts := range [][]schema.Option{nil, {schema.WithPreserveUnknownFields()}} {
			_, err = schema.Compile(s, opts...)
			if err == nil || !strings.Contains(err.Error(), ".properties[l]") {
				t.Errorf("got error %v", err)
			}
		}
	})
	t.Run("a web of defaults that explodes", func(t *testing.T) {
		empty := &api.JSON{Raw: []byte("{}")}
		s := &api.JSONSchemaProps{
			Properties:  map[string]api.JSONSchemaProps{"x": {Ref: new("#/definitions/d0")}},
			Definitions: map[string]api.JSONSchemaProps{"d40": {Default: empty}},
		}
		for i := range 40 {
			next := api.JSONSchemaProps{Ref: new(fmt.Sprintf("#/definitions/d%d", i+1))}
			s.Definitions[fmt.Sprintf("d%d", i)] = api.JSONSchemaProps{Default: empty, Properties: map[string]api.JSONSchemaProps{"a": next, "b": next}}
		}
		if _, err := schema.CompileJSONSchema(s); err == nil {
			t.Error("accepted")
		}
	})
}

func TestHostileLists(t *testing.T) {
	guard(t)
	many, some := 100_000, 10_000
	if testing.Short() {
		many, some = 10_000, 1000
	}
	set := compile(t, `{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {x-kubernetes-preserve-unknown-fields: true}}}}`)
	one := compile(t, `{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`)
	two := compile(t, `{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`)
	for _, tc := range []struct {
		name string
		p    *schema.Program
		n    int
		item func(i int) any
		want int // errors
	}{
		{"a set of different strings", set, many, func(i int) any { return strconv.Itoa(i) }, 0},
		{"a set of different integers", set, many, func(i int) any { return int64(i) }, 0},
		{"a set of different floats", set, some, func(i int) any { return float64(i) + 0.5 }, 0},
		{"a set of different objects", set, some, func(i int) any { return map[string]any{"i": int64(i)} }, 0},
		{"a set of equal strings", set, many, func(i int) any { return "x" }, 1},
		{"a set of equal objects", set, some, func(i int) any { return map[string]any{"i": int64(1)} }, 1},
		{"a set of pairs", set, some, func(i int) any { return int64(i / 2) }, some / 2},
		{"a set of nulls", set, some, func(i int) any { return nil }, 1},
		{"a map with different keys", one, many, func(i int) any { return map[string]any{"a": int64(i)} }, 0},
		{"a map with equal keys", one, many, func(i int) any { return map[string]any{"a": "x", "i": int64(i)} }, 1},
		{"a map without keys", one, some, func(i int) any { return map[string]any{} }, 1},
		{"a map with objects for keys", one, some, func(i int) any { return map[string]any{"a": map[string]any{"i": int64(i)}} }, 0},
		{"a map with different pairs of keys", two, many, func(i int) any { return map[string]any{"a": int64(i / 300), "b": int64(i % 300)} }, 0},
		{"a map with colliding pairs of keys", two, some, func(i int) any { return map[string]any{"a": float64(i), "b": float64(-i)} }, 0},
		{"a map with equal pairs of keys", two, some, func(i int) any { return map[string]any{"a": "x", "b": "y"} }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := make([]any, tc.n)
			for i := range list {
				list[i] = tc.item(i)
			}
			obj, old := schema.Object{"l": list}, schema.Object{"l": slices.Clone(list[:tc.n-1])}
			if got := tc.p.Validate(context.Background(), obj, nil).FieldErrors(); len(got) != tc.want {
				t.Errorf("got %d errors, want %d", len(got), tc.want)
			}
			// What was wrong before is not looked at again.
			if got := tc.p.Validate(context.Background(), obj, old).FieldErrors(); len(got) > 0 {
				t.Errorf("got %d errors on update", len(got))
			}
		})
	}
}

// Objects that were built by a program may hold anything. It is rejected where it
// matters, and nothing worse.
func TestHostileGoValues(t *testing.T) {
	guard(t)
	type odd struct{ S []string }
	values := []any{
		int(1), int32(1), uint8(1), float32(1), json.Number("1"), json.RawMessage("{}"), odd{}, &odd{}, []string{"x"}, [2]int{},
		map[string]string{"a": "b"}, map[any]any{1: 2}, func() {}, make(chan int), math.NaN(), math.Inf(1), time.Time{},
		map[string]any(nil), []any(nil), error(nil), complex(1, 2), []byte("x"),
	}
	for _, text := range []string{
		`{type: object, properties: {v: {type: string, maxLength: 3, format: ipv4}}}`,
		`{type: object, properties: {v: {type: integer, maximum: 3, multipleOf: 2}}}`,
		`{type: object, properties: {v: {type: number, enum: [1, x, [1], {}]}}}`,
		`{type: object, properties: {v: {x-kubernetes-preserve-unknown-fields: true}}}`,
		`{type: object, properties: {v: {x-kubernetes-int-or-string: true, not: {minimum: 1}}}}`,
		`{type: object, properties: {v: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}`,
		`{type: object, properties: {v: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}}}`,
		`{type: object, properties: {v: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}}}}}}`,
		`{type: object, properties: {v: {type: object, x-kubernetes-embedded-resource: true, properties: {k: {type: string, default: x}}}}}`,
		`{type: object, properties: {v: {type: object, additionalProperties: {type: string, nullable: true}, oneOf: [{required: [k]}, {maxProperties: 3}]}}}`,
	} {
		for _, sem := range both {
			if testing.Short() && sem != schema.KEP {
				continue
			}
			for _, p := range []*schema.Program{
				compile(t, text, schema.WithSemantics(sem)),
				compile(t, text, schema.WithSemantics(sem), schema.WithPreserveUnknownFields(), schema.WithIdentity(schema.Identity{APIVersion: "v1", Kind: "K"})),
			} {
				for _, x := range values {
					for _, build := range []func() schema.Object{
						func() schema.Object { return schema.Object{"v": x} },
						func() schema.Object { return schema.Object{"v": []any{x, x}} },
						func() schema.Object {
							return schema.Object{"v": []any{map[string]any{"k": x, "l": x}, map[string]any{"k": x, "l": x}}}
						},
						func() schema.Object {
							return schema.Object{"v": map[string]any{"k": x, "metadata": x, "kind": x, "apiVersion": x}}
						},
						func() schema.Object { return schema.Object{"apiVersion": "v1", "kind": "K", "metadata": x} },
						func() schema.Object {
							return schema.Object{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": x, "labels": x, "x": x}}
						},
						func() schema.Object { return schema.Object{"kind": x} },
						func() schema.Object { return schema.Object{"v": slices.Repeat([]any{x}, 20)} },
					} {
						for _, old := range []schema.Object{nil, build(), {}} {
							p.Validate(context.Background(), build(), old).FieldErrors()
							vs := p.Validate(context.Background(), build(), old)
							vs.Messages()
							for _, o := range []schema.DecodeOptions{{}, {Report: true, Old: old}, {FromStorage: true}} {
								obj := build()
								if _, err := p.Normalize(obj, o); err == nil {
									p.Validate(context.Background(), obj, old).FieldErrors()
								}
							}
						}
					}
				}
			}
		}
	}
	p := compile(t, `{type: object, properties: {v: {type: integer}}}`)
	for _, x := range []any{int(1), json.Number("1"), odd{}} {
		if got, want := errorsOf(p, schema.Object{"v": x}, nil), []string{`v: Invalid value: "unknown": v in body must be of type integer: "unknown"`}; !slices.Equal(got, want) {
			t.Errorf("%T: got %q, want %q", x, got, want)
		}
	}
}

// TestHostileViolations validates objects with very many violations. A request of some megabytes
// must not make a report of gigabytes.
func TestHostileViolations(t *testing.T) {
	guard(t)
	smaller := 1
	if testing.Short() {
		smaller = 10
	}
	list := func(n int, item any) []any {
		a := make([]any, n)
		for i := range a {
			a[i] = item
		}
		return a
	}
	numbers := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(parts, ", ")
	}
	nested := map[string]any{}
	for range 4000 {
		nested = map[string]any{"a": nested}
	}
	for name, c := range map[string]struct {
		schema string
		value  any
	}{
		"length":   {`{type: array, items: {type: string, maxLength: 1}}`, list(300_000/smaller, "zz")},
		"enum":     {`{type: array, items: {type: string, enum: [` + numbers(5000, "v%d") + `]}}`, list(300_000/smaller, "zz")},
		"branches": {`{type: array, items: {type: object, properties: {a: {type: integer}}, oneOf: [` + numbers(1000, "{properties: {a: {minimum: %d}}}") + `]}}`, list(100_000/smaller, map[string]any{"a": int64(1)})},
		"fields":   {`{type: array, items: {type: object, required: [` + numbers(100, "r%d") + `]}}`, list(100_000/smaller, map[string]any{})},
		"unions":   {`{type: array, items: {type: object, properties: {t: {type: string}, a: {type: string}, b: {type: string}}, x-kubernetes-unions: [{discriminator: t, fields: {a: A, b: B}}]}}`, list(300_000/smaller, map[string]any{})},
		"metadata": {`{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}`,
			map[string]any{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"ownerReferences": list(6000, map[string]any{})}}},
		"embedded": {`{type: array, items: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}`, list(300_000/smaller, map[string]any{})},
		"long key": {`{type: object, additionalProperties: {type: array, items: {type: integer, maximum: 1}}}`, map[string]any{strings.Repeat("k", 1<<20): list(10_000, int64(9))}},
		"levels":   {strings.Repeat(`{"type": "object", "minProperties": 2, "required": ["b"], "properties": {"a": `, 4000) + `{}` + strings.Repeat(`}}`, 4000), nested},
	} {
		p := compile(t, `{type: object, properties: {a: `+c.schema+`}}`, schema.WithSemantics(schema.KEP))
		bytes := allocated(func() {
			vs := p.Validate(context.Background(), schema.Object{"a": c.value}, nil)
			if len(vs) == 0 || len(vs) > 2*schema.MaxViolations {
				t.Errorf("%s: %d violations", name, len(vs))
			}
			if errs := vs.FieldErrors(); len(errs) == 0 {
				t.Errorf("%s: no errors", name)
			}
			if !vs.Truncated() {
				t.Errorf("%s: it is not known that %d violations are not all", name, len(vs))
			}
		})
		if bytes > 768<<20 {
			t.Errorf("%s: %d MB are allocated", name, bytes>>20)
		}
	}

	// Violations that do not count in the end do not keep others from being found.
	const many = 3 * schema.MaxViolations
	p := compile(t, `{type: object, properties: {a: {type: array, items: {type: string}, anyOf: [{items: {maxLength: 1}}, {items: {maxLength: 2}}]}, z: {type: integer, maximum: 1}}}`)
	check := func(obj, old schema.Object, want string) {
		t.Helper()
		vs := p.Validate(context.Background(), obj, old)
		if got := fmt.Sprint(vs.Messages()); got != want || vs.Truncated() {
			t.Errorf("got %.300s, truncated: %t, want %s", got, vs.Truncated(), want)
		}
	}
	check(schema.Object{"a": list(many, "zz"), "z": int64(2)}, nil, "[z in body should be less than or equal to 1]")
	p = compile(t, `{type: object, properties: {a: {type: array, items: {type: string}, oneOf: [{items: {maxLength: 1}}, {items: {maxLength: 2}}], not: {items: {maxLength: 1}}}, z: {type: integer, maximum: 1}}}`)
	check(schema.Object{"a": list(many, "zz"), "z": int64(2)}, nil, "[z in body should be less than or equal to 1]")
	p = compile(t, `{type: object, properties: {a: {type: array, items: {type: string, maxLength: 1}}, z: {type: integer, maximum: 1}}}`)
	check(schema.Object{"a": list(many, "zz"), "z": int64(2)}, schema.Object{"a": list(many, "zz"), "z": int64(1)}, "[z in body should be less than or equal to 1]")
}
