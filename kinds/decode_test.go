package kinds_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"

	"espalier.dev/internal/jsonx/typed"
	"espalier.dev/kinds"
)

// TestTypedDecode reads objects of all kinds, and many changed ones of each, as sigs.k8s.io/json reads them.
func TestTypedDecode(t *testing.T) {
	t.Parallel()
	scheme, err := kinds.NewScheme(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []runtimeschema.GroupVersionKind
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			all = append(all, gvk)
		}
	}
	slices.SortFunc(all, func(a, b runtimeschema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	if len(all) < 200 {
		t.Fatalf("only %d kinds", len(all))
	}
	for i, gvk := range all {
		t.Run(gvk.String(), func(t *testing.T) {
			t.Parallel()
			obj, err := scheme.New(gvk)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, uint64(i)))
			fill := randfill.NewWithSeed(int64(i)).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(fuzzers...)
			taken := 0
			for range 6 {
				empty := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
				fill.Fill(empty)
				text, err := json.Marshal(empty)
				if err != nil {
					continue // a value that cannot be written, such as a wrong time
				}
				if compareTyped(t, obj, text) {
					taken++
				}
				for range 16 {
					compareTyped(t, obj, change(random, text))
				}
			}
			if taken == 0 {
				t.Errorf("no object was decoded")
			}
		})
	}
}

// compareTyped reports whether typed.Decode takes a text, and fails if sigs.k8s.io/json reads another value.
func compareTyped(t *testing.T, like any, text []byte) bool {
	t.Helper()
	have := reflect.New(reflect.TypeOf(like).Elem()).Interface()
	if !typed.Decode(text, have) {
		return false
	}
	want := reflect.New(reflect.TypeOf(like).Elem()).Interface()
	strict, err := kjson.UnmarshalStrict(text, want)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%s\nis accepted; sigs.k8s.io/json: %v %v", text, err, strict)
	}
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("%s\nis read as\n%#v\ninstead of\n%#v", text, have, want)
	}
	return true
}

// change returns a text with another value in place of one, with a member twice, or with a wrong character.
func change(random *rand.Rand, text []byte) []byte {
	var values, objects []int
	for i, c := range text {
		switch c {
		case ':', '[':
			values = append(values, i+1)
		case '{':
			objects = append(objects, i+1)
		}
	}
	pick := func(from []int) int { return from[random.IntN(len(from))] }
	switch n := random.IntN(10); {
	case n == 0:
		at := random.IntN(len(text))
		return fmt.Appendf(nil, "%s%c%s", text[:at], `{}[]",:x\\0`[random.IntN(10)], text[at:])
	case n < 3:
		at, name := pick(objects), names.FindAll(text, -1)
		return fmt.Appendf(nil, "%s%s%s,%s", text[:at], name[random.IntN(len(name))], others[random.IntN(len(others))], text[at:])
	case len(values) > 0:
		at := pick(values)
		var old json.RawMessage
		if err := json.NewDecoder(bytes.NewReader(text[at:])).Decode(&old); err != nil {
			return text[:at] // a bracket in a string, or an empty array
		}
		return fmt.Appendf(nil, "%s%s%s", text[:at], others[random.IntN(len(others))], text[at+len(old):])
	}
	return text
}

var (
	names  = regexp.MustCompile(`"[a-zA-Z]+":`)
	others = []string{`null`, `"a"`, `""`, `1`, `-3`, `1.5`, `1.0`, `1e400`, `99999999999999999999`, `3000000000`, `{}`, `[]`, `[null]`, `{"a":null}`, `{"a":1,"a":2}`, `{"a":"b","a":"c"}`,
		`true`, `"\ud800"`, "\"\xff\"", `"\u0041"`, `"YQ=="`, `"Y"`, `[1]`, `["a"]`, `[{}]`, `"2020-01-01T00:00:00Z"`, `"1Gi"`, ` null `, ` {  } `, `[[1]]`, `{"a":{}}`}
	fuzzers = []any{
		func(to *metav1.Time, c randfill.Continue) { to.Time = time.Unix(int64(c.Uint32()), 0) },
		func(to *metav1.MicroTime, c randfill.Continue) { to.Time = time.Unix(int64(c.Uint32()), 1000) },
		func(to *runtime.RawExtension, _ randfill.Continue) { to.Raw = []byte(`{"a":[1,1.50,"x"]}`) },
		func(to *metav1.FieldsV1, _ randfill.Continue) { to.SetRawString(`{"f:a":{}}`) },
		func(to *resource.Quantity, c randfill.Continue) {
			*to = *resource.NewQuantity(int64(c.Int31()), resource.BinarySI)
		},
	}
)
