package schema

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// TestCanonicalTimes compares the shortcut for times with a parser, on all limits of the fields of
// a time.
func TestCanonicalTimes(t *testing.T) {
	for _, year := range []int{0, 1, 2, 999, 1900, 2000, 2023, 2024, 9999} {
		for month := range 14 {
			for day := range 33 {
				for _, clock := range []string{"00:00:00", "23:59:59", "24:00:00", "00:60:00", "00:00:60"} {
					s := fmt.Sprintf("%04d-%02d-%02dT%sZ", year, month, day, clock)
					_, err := time.Parse(time.RFC3339, s)
					// The first years are left to the parser, because of the zero time.
					if got, want := isCanonicalTime(s), err == nil && year > 1; got != want {
						t.Fatalf("%s: got %v, want %v", s, got, want)
					}
				}
			}
		}
	}
	const fine = "2024-02-03T04:05:06Z"
	for i := range len(fine) {
		for _, c := range []byte{'/', ':', 'x', ' '} {
			s := fine[:i] + string(c) + fine[i+1:]
			if got := isCanonicalTime(s); got != (s == fine) {
				t.Errorf("%s: got %v", s, got)
			}
		}
	}
	for _, s := range []string{"", fine + "Z", fine[1:], "2024-02-03T04:05:06+00:00"} {
		if isCanonicalTime(s) {
			t.Errorf("%q is canonical", s)
		}
	}
}

// TestPlainNames compares the shortcuts for names and labels with Kubernetes' validation: they
// accept nothing that it rejects, and the common names.
func TestPlainNames(t *testing.T) {
	var names []string
	for c := range 256 {
		for _, form := range []string{"%s", "%sa", "a%s", "a%sa", "a%s%[1]sa"} {
			names = append(names, fmt.Sprintf(form, string([]byte{byte(c)})))
		}
	}
	for _, n := range []int{0, 1, 62, 63, 64, 65} {
		names = append(names, strings.Repeat("a", n))
	}
	for _, s := range names {
		isLabel := len(utilvalidation.IsValidLabelValue(s)) == 0
		if got := isPlainLabel(s); got != isLabel {
			t.Errorf("label %q: got %v, want %v", s, got, isLabel)
		}
		lower := strings.ToLower(s)
		// A plain name may begin with a letter alone, so that it is a name of every kind.
		want := len(utilvalidation.IsDNS1035Label(lower)) == 0 && s[len(s)-1] > '9' && len(lower) == len(s)
		if got := isPlainName(s); got != want {
			t.Errorf("name %q: got %v, want %v", s, got, want)
		}
		if provesMetadata(map[string]any{"name": s}) && len(utilvalidation.IsDNS1123Subdomain(s)) > 0 {
			t.Errorf("name %q is proved, and not valid", s)
		}
		if provesMetadata(map[string]any{"namespace": s}) && len(utilvalidation.IsDNS1123Label(s)) > 0 {
			t.Errorf("namespace %q is proved, and not valid", s)
		}
	}
}

// TestProvenMetadata checks which metadata the shortcut accepts: that of most objects.
func TestProvenMetadata(t *testing.T) {
	many := func(n int) map[string]any {
		m := map[string]any{}
		for i := range n {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	prefixed := func(n int) map[string]any { return map[string]any{strings.Repeat("a.", n)[:n-1] + "a/x": "v"} }
	for name, tt := range map[string]struct {
		meta map[string]any
		want bool
	}{
		"empty":                     {map[string]any{}, true},
		"name":                      {map[string]any{"name": "web", "namespace": "default"}, true},
		"name with digits":          {map[string]any{"name": "1-web-0", "namespace": "0"}, true},
		"name with dots":            {map[string]any{"name": "web.example.com"}, true},
		"namespace with dots":       {map[string]any{"namespace": "web.example.com"}, false},
		"name of 200":               {map[string]any{"name": strings.Repeat("a.", 100)[:199] + "a"}, true},
		"name of 202":               {map[string]any{"name": strings.Repeat("a.", 101)[:201] + "a"}, false},
		"upper-case name":           {map[string]any{"name": "Web"}, false},
		"upper-case namespace":      {map[string]any{"namespace": "Web"}, false},
		"no string":                 {map[string]any{"name": int64(1)}, false},
		"generation 0":              {map[string]any{"generation": int64(0)}, true},
		"generation 1":              {map[string]any{"generation": int64(1)}, true},
		"negative generation":       {map[string]any{"generation": int64(-1)}, false},
		"generation is a float":     {map[string]any{"generation": 1.0}, false},
		"uid":                       {map[string]any{"uid": "x"}, false},
		"label":                     {map[string]any{"labels": map[string]any{"a": "b", "example.com/c": ""}}, true},
		"label is no string":        {map[string]any{"labels": map[string]any{"a": int64(1)}}, false},
		"labels are no map":         {map[string]any{"labels": "a"}, false},
		"label with a space":        {map[string]any{"labels": map[string]any{"a": "b c"}}, false},
		"32 labels":                 {map[string]any{"labels": many(32)}, true},
		"33 labels":                 {map[string]any{"labels": many(33)}, false},
		"prefix of 200":             {map[string]any{"labels": prefixed(200)}, true},
		"prefix of 201":             {map[string]any{"labels": prefixed(201)}, false},
		"upper-case prefix":         {map[string]any{"labels": map[string]any{"Example.com/x": "v"}}, false},
		"invalid prefix":            {map[string]any{"labels": map[string]any{"-a.com/x": "v"}}, false},
		"empty key":                 {map[string]any{"labels": map[string]any{"": "v"}}, false},
		"empty name after a prefix": {map[string]any{"labels": map[string]any{"a.com/": "v"}}, false},
		"annotation":                {map[string]any{"annotations": map[string]any{"a": "any text: {}"}}, true},
		"annotation of 4095":        {map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 4095)}}, true},
		"annotation of 4096":        {map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 4096)}}, false},
		"annotation with a bad key": {map[string]any{"annotations": map[string]any{"a b": "x"}}, false},
	} {
		if got := provesMetadata(tt.meta); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		obj  map[string]any
		want bool
	}{
		"core":                 {map[string]any{"apiVersion": "v1", "kind": "Pod"}, true},
		"group":                {map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a"}}, true},
		"no kind":              {map[string]any{"apiVersion": "v1"}, false},
		"kind with a slash":    {map[string]any{"apiVersion": "v1", "kind": "a/b"}, false},
		"no apiVersion":        {map[string]any{"kind": "Pod"}, false},
		"slash":                {map[string]any{"apiVersion": "/", "kind": "Pod"}, false},
		"two slashes":          {map[string]any{"apiVersion": "a/b/c", "kind": "Pod"}, false},
		"metadata is no map":   {map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": "x"}, false},
		"metadata is null":     {map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": nil}, false},
		"metadata has no name": {map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "A B"}}, false},
	} {
		if got := provesEmbedded(tt.obj); got != tt.want {
			t.Errorf("embedded, %s: got %v, want %v", name, got, tt.want)
		}
	}
	object := func(apiVersion, kind string, meta any) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	}
	both, cluster := map[string]any{"name": "a", "namespace": "b"}, map[string]any{"name": "a"}
	for name, tt := range map[string]struct {
		obj              map[string]any
		namespaced, want bool
	}{
		"namespaced":                {object("g/v1", "Thing", both), true, true},
		"cluster":                   {object("g/v1", "Thing", cluster), false, true},
		"no namespace":              {object("g/v1", "Thing", cluster), true, false},
		"namespace":                 {object("g/v1", "Thing", both), false, false},
		"no name":                   {object("g/v1", "Thing", map[string]any{"namespace": "b"}), true, false},
		"other kind":                {object("g/v1", "Other", both), true, false},
		"other version":             {object("g/v2", "Thing", both), true, false},
		"no metadata":               {map[string]any{"apiVersion": "g/v1", "kind": "Thing"}, false, false},
		"metadata that is not easy": {object("g/v1", "Thing", map[string]any{"name": "a", "uid": "x"}), false, false},
	} {
		if got := provesIdentity(&Identity{APIVersion: "g/v1", Kind: "Thing", Namespaced: tt.namespaced}, tt.obj); got != tt.want {
			t.Errorf("object, %s: got %v, want %v", name, got, tt.want)
		}
	}
}

// TestListLengths checks lists around the lengths at which the way of comparing items changes.
func TestListLengths(t *testing.T) {
	for _, n := range []int{0, 1, 2, pairwiseMax, pairwiseMax + 1, pairwiseMax + 2, scratchMax, scratchMax + 1} {
		scalars, objects, pairs := make([]any, n), make([]any, n), make([]any, n)
		for i := range n {
			scalars[i] = int64(i)
			objects[i] = map[string]any{"k": fmt.Sprint(i)}
			pairs[i] = map[string]any{"a": int64(i / 2), "b": i%2 == 0, "c": "c"}
		}
		lists := map[string]struct {
			check *listCheck
			items []any
		}{
			"set":     {&listCheck{}, scalars},
			"map":     {&listCheck{isMap: true, keys: []string{"k"}}, objects},
			"pairs":   {&listCheck{isMap: true, keys: []string{"a", "b"}}, pairs},
			"triples": {&listCheck{isMap: true, keys: []string{"a", "b", "c"}}, pairs},
		}
		for name, l := range lists {
			s := &scratch{}
			for range 2 {
				if !l.check.proves(l.items, s) {
					t.Errorf("%s of %d: the shortcut does not accept it", name, n)
				}
				// A table that is used again is empty, and a large one is dropped.
				if len(s.scalars) > 0 || len(s.hashes) > 0 {
					t.Errorf("%s of %d: a table is not empty", name, n)
				}
				if n > scratchMax && (s.scalars != nil || s.hashes != nil) {
					t.Errorf("%s of %d: a large table is kept", name, n)
				}
				if kept := s.scalars != nil || s.hashes != nil; !kept && n > pairwiseMax && n <= scratchMax {
					t.Errorf("%s of %d: a small table is dropped", name, n)
				}
			}
			if i, _, bad := l.check.duplicates(l.items); len(i) > 0 || bad >= 0 {
				t.Errorf("%s of %d: got duplicates %v, %d", name, n, i, bad)
			}
			if hasDuplicates(l.items) {
				t.Errorf("%s of %d: uniqueItems is violated", name, n)
			}
			if n == 0 {
				continue
			}
			// The first item again, at the end.
			again := append(slices.Clone(l.items), l.items[0])
			if l.check.proves(again, s) {
				t.Errorf("%s of %d: the shortcut accepts a duplicate", name, n)
			}
			if i, values, bad := l.check.duplicates(again); !slices.Equal(i, []int{n}) || len(values) != 1 || bad >= 0 {
				t.Errorf("%s of %d: got duplicates %v %v, %d, want the last", name, n, i, values, bad)
			}
			if !hasDuplicates(again) {
				t.Errorf("%s of %d: uniqueItems does not find a duplicate", name, n)
			}
			// It is reported once, however often it occurs.
			if i, _, _ := l.check.duplicates(append(slices.Clone(again), l.items[0])); !slices.Equal(i, []int{n}) {
				t.Errorf("%s of %d: got duplicates %v", name, n, i)
			}
			if l.check.isMap {
				mixed := append(slices.Clone(l.items), "no object")
				if _, _, bad := l.check.duplicates(mixed); bad != n || l.check.proves(mixed, s) {
					t.Errorf("%s of %d: got %d for an item that is no object", name, n, bad)
				}
			} else if l.check.proves(append(slices.Clone(l.items), map[string]any{}), s) {
				t.Errorf("%s of %d: the shortcut accepts an object", name, n)
			}
		}
	}
	// Keys that are missing are equal, and differ from all others.
	for _, tt := range []struct {
		keys  []string
		items []any
		want  string
	}{
		{[]string{"k"}, []any{map[string]any{}, map[string]any{"k": "x"}, map[string]any{}}, "[2] [map[]]"},
		{[]string{"k"}, []any{map[string]any{"k": "x"}, map[string]any{"k": "y"}, map[string]any{"k": "x"}}, "[2] [map[k:x]]"},
		{[]string{"k"}, []any{nil, map[string]any{"k": "x"}}, "[] []"},
		{[]string{"a", "b"}, []any{map[string]any{"a": "x"}, map[string]any{"a": "x", "b": nil}, map[string]any{"a": "x", "c": "y"}}, "[2] [map[a:x]]"},
		{[]string{"a", "b"}, []any{map[string]any{"a": 1.5, "b": true}, map[string]any{"a": 1.5, "b": false}, map[string]any{"a": 1.5, "b": true}}, "[2] [map[a:1.5 b:true]]"},
		{[]string{"k"}, []any{map[string]any{"k": []any{"x"}}, map[string]any{"k": []any{"x"}}}, "[1] [map[k:[x]]]"},
	} {
		l := &listCheck{isMap: true, keys: tt.keys}
		indices, values, bad := l.duplicates(tt.items)
		if got := fmt.Sprint(indices, " ", values); got != tt.want || bad != -1 {
			t.Errorf("%v: got %s, %d, want %s", tt.items, got, bad, tt.want)
		}
		if l.proves(tt.items, &scratch{}) && tt.want != "[] []" {
			t.Errorf("%v: the shortcut accepts it", tt.items)
		}
	}
	if (&listCheck{isMap: true}).proves([]any{"x"}, &scratch{}) {
		t.Error("the shortcut accepts an item that is no object in a list without keys")
	}
	// One and 1.0 are equal for uniqueItems; "1" is another value.
	for _, n := range []int{0, pairwiseMax} {
		filler := make([]any, n)
		for i := range n {
			filler[i] = fmt.Sprint("x", i)
		}
		if hasDuplicates(append(slices.Clone(filler), int64(1), "1", []any{int64(1)}, map[string]any{"a": int64(1)}, nil, false)) {
			t.Errorf("%d items before: a value equals another", n)
		}
		if !hasDuplicates(append(slices.Clone(filler), map[string]any{"a": []any{"b"}}, map[string]any{"a": []any{"b"}})) {
			t.Errorf("%d items before: equal objects are not found", n)
		}
		// JSON has no text for these.
		if !hasDuplicates(append(slices.Clone(filler), math.Inf(-1), math.Inf(1), math.Inf(-1))) || hasDuplicates(append(slices.Clone(filler), math.Inf(-1), math.Inf(1))) {
			t.Errorf("%d items before: infinite numbers are compared wrongly", n)
		}
	}
}

// TestBoundsOutOfRange checks that a bound that the type of a number cannot represent is a failure
// of its own, beside the comparison.
func TestBoundsOutOfRange(t *testing.T) {
	const huge = 1e30
	check := func(set checkSet) *checks {
		return &checks{bounds: bounds{has: set, numberType: "integer", maximum: -huge, minimum: huge, multipleOf: huge}}
	}
	for _, tt := range []struct {
		set  checkSet
		want failures
	}{
		{cMaximum | cMaximumOutOfRange, fMaximumOutOfRange | fMaximum},
		{cMinimum | cMinimumOutOfRange, fMinimumOutOfRange | fMinimum},
		{cMultipleOf | cMultipleOfOutOfRange, fMultipleOfOutOfRange | fMultipleOf},
	} {
		if got := check(tt.set).int(1); got != tt.want {
			t.Errorf("int: got %b, want %b", got, tt.want)
		}
		if got := check(tt.set).float(1); got != tt.want {
			t.Errorf("float: got %b, want %b", got, tt.want)
		}
		if got := check(tt.set).float(1.5); got != tt.want|fRange {
			t.Errorf("fraction: got %b, want %b", got, tt.want|fRange)
		}
	}
	for _, tt := range []struct {
		set  checkSet
		v    float64
		want failures
	}{
		{cMaximum, 3, 0}, {cMaximum, 4, fMaximum}, {cMaximum | cExclusiveMaximum, 3, fMaximum}, {cMaximum | cExclusiveMaximum, 2, 0},
		{cMinimum, 2, 0}, {cMinimum, 1, fMinimum}, {cMinimum | cExclusiveMinimum, 2, fMinimum}, {cMinimum | cExclusiveMinimum, 3, 0},
		{cMultipleOf, 4, 0}, {cMultipleOf, 5, fMultipleOf}, {cMultipleOf, 0, 0}, {0, 9, 0},
	} {
		c := &checks{bounds: bounds{has: tt.set, maximum: 3, minimum: 2, multipleOf: 2}}
		if got := c.int(int64(tt.v)); got != tt.want {
			t.Errorf("%b: int %v: got %b, want %b", tt.set, tt.v, got, tt.want)
		}
		if got := c.float(tt.v); got != tt.want {
			t.Errorf("%b: float %v: got %b, want %b", tt.set, tt.v, got, tt.want)
		}
	}
	for _, factor := range []float64{0, -1} {
		c := &checks{bounds: bounds{has: cMultipleOf, multipleOf: factor}}
		if c.int(2) != fMultipleOfNotPositive || c.float(2) != fMultipleOfNotPositive {
			t.Errorf("a factor of %v: got %b, %b", factor, c.int(2), c.float(2))
		}
	}
	half := &checks{bounds: bounds{has: cMultipleOf, multipleOf: 0.5}}
	if half.float(1.5) != 0 || half.float(1.25) != fMultipleOf {
		t.Errorf("multiples of 0.5: got %b, %b", half.float(1.5), half.float(1.25))
	}
	for _, tt := range []struct {
		v           float64
		typ, format string
		want        bool
	}{
		{1, "integer", "", true}, {1.5, "integer", "", false}, {math.MaxInt32, "integer", "int32", true}, {math.MaxInt32 + 1, "integer", "int32", false},
		{math.MinInt32, "integer", "int32", true}, {math.MinInt32 - 1, "integer", "int32", false},
		{1 << 62, "integer", "int64", true}, {-(1 << 62), "integer", "int64", true}, {math.MinInt64, "integer", "", false}, {math.MaxInt64, "integer", "", false}, {1e30, "integer", "", false}, {-1e30, "integer", "", false},
		{1.5, "number", "", true}, {1e300, "number", "double", true}, {1e300, "number", "float", false}, {-1e300, "number", "float", false}, {1e30, "number", "float", true}, {1.5, "", "", true},
	} {
		if got := fitsNumber(tt.v, tt.typ, tt.format); got != tt.want {
			t.Errorf("%v as %s %s: got %v", tt.v, tt.typ, tt.format, got)
		}
	}
	for v, want := range map[int64]rune{-1: '\uFFFD', 0: 0, 'a': 'a', math.MaxInt32: math.MaxInt32, math.MaxInt32 + 1: '\uFFFD'} {
		if got := runeOf(v); got != want {
			t.Errorf("rune %d: got %d, want %d", v, got, want)
		}
	}
}

// TestWeights checks what violations count for the limit on their number: long texts count more.
func TestWeights(t *testing.T) {
	path := func(steps, length int) Path {
		p := make(Path, steps)
		for i := range p {
			p[i].Key = strings.Repeat("k", length)
		}
		return p
	}
	values := func(n int, v any) []any {
		list := make([]any, n)
		for i := range list {
			list[i] = v
		}
		return list
	}
	for name, tt := range map[string]struct {
		v    Violation
		want int
	}{
		"nothing":             {Violation{}, 1},
		"31 steps":            {Violation{Path: path(31, 1)}, 1},
		"32 steps":            {Violation{Path: path(32, 1)}, 2},
		"64 steps":            {Violation{Path: path(64, 1)}, 3},
		"99 values":           {Violation{Want: Operand{Allowed: values(99, int64(1))}}, 1},
		"100 values":          {Violation{Want: Operand{Allowed: values(100, int64(1))}}, 2},
		"pattern of 999":      {Violation{Want: Operand{Pattern: strings.Repeat("p", 999)}}, 1},
		"pattern of 1000":     {Violation{Want: Operand{Pattern: strings.Repeat("p", 1000)}}, 2},
		"key of 1000":         {Violation{Path: path(1, 1000)}, 2},
		"two values of 1000":  {Violation{Want: Operand{Allowed: values(2, strings.Repeat("v", 1000))}}, 3},
		"all of them, and ok": {Violation{Path: path(2, 250), Want: Operand{Pattern: strings.Repeat("p", 250), Allowed: values(1, strings.Repeat("v", 250))}}, 2},
	} {
		if got := tt.v.weight(); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

// TestRuleErrors checks kube-apiserver's errors about rules.
func TestRuleErrors(t *testing.T) {
	yes, root := true, field.NewPath("spec")
	dear := RuleCost{Total: 15, Limit: 10}
	within := &SchemaPath{{Keyword: "items"}}
	cost := func(what, factor string) string {
		return "Forbidden: " + what + " exceeds budget by factor of " + factor + " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
	}
	for name, tt := range map[string]struct {
		schema  SchemaRules
		forgive bool
		want    []string
	}{
		"fine":             {SchemaRules{Rules: []CheckedRule{{Cost: RuleCost{Total: 10, Limit: 10}, MessageCost: RuleCost{Total: 10, Limit: 10}}}}, false, nil},
		"cost":             {SchemaRules{Rules: []CheckedRule{{}, {Index: 1, Cost: dear}}}, false, []string{"spec.x-kubernetes-validations[1].rule: " + cost("estimated rule cost", "1.5x")}},
		"forgiven":         {SchemaRules{Rules: []CheckedRule{{Cost: dear, MessageCost: dear}}}, true, nil},
		"message cost":     {SchemaRules{Rules: []CheckedRule{{MessageCost: dear}}}, false, []string{"spec.x-kubernetes-validations[0].messageExpression: " + cost("estimated messageExpression cost", "1.5x")}},
		"error":            {SchemaRules{Rules: []CheckedRule{{Err: fmt.Errorf("why"), Source: api.ValidationRule{Rule: "r"}}}}, true, []string{`spec.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"r"`}},
		"message error":    {SchemaRules{Rules: []CheckedRule{{MessageErr: fmt.Errorf("why"), MessageCost: dear}}}, false, []string{"spec.x-kubernetes-validations[0].messageExpression: Invalid value: "}},
		"old self":         {SchemaRules{Uncorrelatable: within, Rules: []CheckedRule{{UsesOldSelf: true, Source: api.ValidationRule{Rule: "r"}}}}, false, []string{`spec.x-kubernetes-validations[0].rule: Invalid value: "r": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.items`}},
		"no old self":      {SchemaRules{Uncorrelatable: within, Rules: []CheckedRule{{}}}, false, nil},
		"old self, fine":   {SchemaRules{Rules: []CheckedRule{{UsesOldSelf: true, Source: api.ValidationRule{OptionalOldSelf: &yes}}}}, false, nil},
		"optional old":     {SchemaRules{Rules: []CheckedRule{{Source: api.ValidationRule{OptionalOldSelf: &yes}}}}, false, []string{"spec.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"}},
		"error and a cost": {SchemaRules{Rules: []CheckedRule{{Err: fmt.Errorf("why"), Cost: dear}}}, false, []string{"[0].rule: Forbidden: estimated rule cost", "[0].rule: Invalid value: "}},
	} {
		t.Run(name, func(t *testing.T) {
			report := &RuleReport{Schemas: []SchemaRules{tt.schema}}
			got := report.FieldErrors(root, tt.forgive)
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i].Error(), want) {
					t.Errorf("got %s, want %s", got[i], want)
				}
			}
		})
	}
	for total, want := range map[uint64]string{14: "1.400000x", 15: "1.5x", 20: "2.0x", 1000: "100.0x", 1001: "more than 100x"} {
		if got := overBudget("it", total, 10); !strings.HasPrefix(got, "it exceeds budget by factor of "+want+" (") {
			t.Errorf("%d: got %s, want %s", total, got, want)
		}
	}
	// The total lists the four most expensive expressions that cost one percent, the first first.
	rule := func(i int, rule, message uint64) CheckedRule {
		return CheckedRule{Index: i, Cost: RuleCost{Total: rule}, MessageCost: RuleCost{Total: message}}
	}
	const percent = SchemaCostLimit / 100
	r := &RuleReport{TotalCost: SchemaCostLimit, Schemas: []SchemaRules{
		{Rules: []CheckedRule{rule(0, percent-1, percent), rule(1, 9*percent, 0)}}, {Rules: []CheckedRule{rule(2, 2*percent, 3*percent), rule(3, 4*percent, 0)}}}}
	var got []string
	for _, e := range r.MostExpensive() {
		got = append(got, fmt.Sprint(e.Index, e.Keyword))
	}
	if want := []string{"1rule", "3rule", "2messageExpression", "2rule"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(r.Rules()) != 4 || r.Exceeded() || len(r.TotalErrors(root)) != 0 {
		t.Errorf("at the limit: got %v", r.TotalErrors(root))
	}
	r.TotalCost++
	if got := r.TotalErrors(root); !r.Exceeded() || len(got) != 5 || got[0].Field != "spec.x-kubernetes-validations[1].rule" || got[4].Field != "spec" {
		t.Errorf("above the limit: got %v", got)
	}
	few := &RuleReport{Schemas: []SchemaRules{{Rules: []CheckedRule{rule(0, percent-1, percent)}}}}
	if got := few.MostExpensive(); len(got) != 1 || got[0].Keyword != "messageExpression" {
		t.Errorf("one percent: got %v", got)
	}
}

// TestSkeletonTypes checks that the skeleton has a type where all schemas have the same types, in
// any order.
func TestSkeletonTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"type": "string"}`: "string",
		`{"type": "string", "anyOf": [{"type": "string"}]}`:                                "string",
		`{"type": "string", "anyOf": [{"type": "integer"}]}`:                               "",
		`{"type": ["string", "integer"], "allOf": [{"type": ["integer", "string"]}]}`:      "string integer",
		`{"type": ["string", "integer"], "allOf": [{"type": ["string", "string"]}]}`:       "",
		`{"type": ["string", "null"], "allOf": [{"type": ["string", "integer"]}]}`:         "",
		`{"type": ["string", "string"], "allOf": [{"type": "string"}]}`:                    "string string",
		`{"type": ["string", "integer"], "allOf": [{"type": "string"}, {"type": "null"}]}`: "",
	} {
		if got := strings.Join(Skeleton(readSchema(t, text)).Type, " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestUnionEnums checks the enum of a discriminator that has an enum of its own.
func TestUnionEnums(t *testing.T) {
	enum := func(values ...any) (list []JSON) {
		for _, v := range values {
			list = append(list, JSON{Value: v})
		}
		return list
	}
	for name, tt := range map[string]struct {
		own, values, want []JSON
		all               int
	}{
		"none":          {nil, enum("a", "b"), enum("a", "b"), 0},
		"the same":      {enum("a", "b"), enum("b", "a"), enum("a", "b"), 0},
		"some":          {enum("a", "x"), enum("a", "b"), enum("a"), 0},
		"none of these": {enum("x"), enum("a", "b"), enum("x"), 1},
	} {
		v := &ValueValidation{Enum: tt.own}
		for range 2 {
			andEnum(v, tt.values)
			if !slices.Equal(v.Enum, tt.want) || len(v.AllOf) != tt.all || tt.all > 0 && !slices.Equal(v.AllOf[0].Enum, tt.values) {
				t.Errorf("%s: got %v, %v", name, v.Enum, v.AllOf)
			}
		}
	}
}

// TestPresence checks that fields are counted once.
func TestPresence(t *testing.T) {
	var p presence
	for _, i := range []int32{0, 1, 63, 64, 65, 0, 63, 64, 200, 200} {
		p.add(i)
	}
	if p.count != 6 {
		t.Errorf("got %d, want 6", p.count)
	}
}

// TestAnyAgain checks that a removed member that occurs again is found.
func TestAnyAgain(t *testing.T) {
	for _, tt := range []struct {
		removed []string
		obj     map[string]any
		want    bool
	}{
		{nil, map[string]any{"a": 1}, false}, {[]string{"b", "c"}, map[string]any{"a": 1}, false},
		{[]string{"b", "a"}, map[string]any{"a": 1}, true}, {[]string{"b", "c", "b"}, nil, true},
	} {
		if got := anyAgain(tt.removed, tt.obj); got != tt.want {
			t.Errorf("%q: got %v", tt.removed, got)
		}
	}
}

// TestIsNormalSyntax checks that malformed JSON is not normal, wherever it is.
func TestIsNormalSyntax(t *testing.T) {
	s := &Structural{Generic: Generic{Type: "object"}, Properties: map[string]*Structural{
		"any":  {Generic: Generic{Type: "object"}, Extensions: Extensions{XPreserveUnknownFields: true}},
		"list": {Generic: Generic{Type: "array"}, Items: &Structural{Generic: Generic{Type: "string"}}},
		"null": {Generic: Generic{Type: "string", Nullable: true}},
	}}
	p := mustCompile(t, s)
	if p.Semantics() != KEP || mustCompile(t, s, WithSemantics(Kubernetes)).Semantics() != Kubernetes {
		t.Error("a program has other semantics")
	}
	const head = `{"apiVersion":"v1","kind":"Thing",`
	for text, want := range map[string]bool{
		`"any":{"a":{"b":[1,2]}}}`: true, `"any":{"a":{"b":[1,2}}}`: false, `"any":{"a":tru}}`: false, `"any":{"a":1}`: false,
		`"list":["a","b"]}`: true, `"list":["a",}`: false, `"list":["a" "b"]}`: false, `"list":["a"]`: false,
		`"null":null}`: true, `"null":nul}`: false, `"unknown":1}`: false,
		`"metadata":{"name":"a","managedFields":[{"fieldsV1":{"f:a":{}}}]}}`: true, `"metadata":{"name":"a","managedFields":[{"fieldsV1":{"f:a":{]}]}}`: false,
		`"metadata":{"generation":1}}`: true, `"metadata":{"generation":"1"}}`: false, `"metadata":{"generation":[1]}}`: false, `"metadata":{"generation":{}}}`: false,
		`"metadata":{"labels":{}}}`: false, `"metadata":{"finalizers":[]}}`: false, `"metadata":{"finalizers":["a",1]}}`: false, `"metadata":{"name":1}}`: false, `"metadata":[]}`: false,
	} {
		if got := p.IsNormal([]byte(head + text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
