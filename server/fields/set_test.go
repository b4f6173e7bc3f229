package fields

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// randomSet returns a random set in both forms.
func randomSet(t *testing.T, r *rand.Rand) (set, *fieldpath.Set) {
	t.Helper()
	s := fieldpath.NewSet()
	for range r.IntN(6) {
		path := fieldpath.Path{}
		for range 1 + r.IntN(3) {
			name := string(rune('a' + r.IntN(3)))
			path = append(path, fieldpath.PathElement{FieldName: &name})
		}
		s.Insert(path)
	}
	return toTree(t, s), s
}

func toTree(t *testing.T, s *fieldpath.Set) set {
	t.Helper()
	text, err := s.ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	tree := set{}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestSets compares the operations on trees with those of fieldpath.Set.
func TestSets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	rounds := 20000
	if testing.Short() {
		rounds = 4000
	}
	for range rounds {
		a, as := randomSet(t, r)
		b, bs := randomSet(t, r)
		before := []set{toTree(t, as), toTree(t, bs)}
		if got, want := minus(a, b), toTree(t, as.Difference(bs)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v minus %v: got %v, want %v", a, b, got, want)
		}
		if got, want := union(a, b), toTree(t, as.Union(bs)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v union %v: got %v, want %v", a, b, got, want)
		}
		if got, want := intersects(a, b), !as.Intersection(bs).Empty(); got != want {
			t.Fatalf("%v intersects %v: got %v", a, b, got)
		}
		if got, want := contains(a, b), bs.Difference(as).Empty(); got != want {
			t.Fatalf("%v contains %v: got %v", a, b, got)
		}
		if !reflect.DeepEqual(before, []set{a, b}) {
			t.Fatalf("an operation has changed its operands: %v, were %v", []set{a, b}, before)
		}
	}
}

// TestSimpleKeys checks which serialized path elements are known to be in their only form.
func TestSimpleKeys(t *testing.T) {
	for key, simple := range map[string]bool{
		`v:"a"`: true, `v:1`: true, `v:-7`: true, `v:true`: true, `k:{"a":"b"}`: true, `k:{"a":1,"b":false}`: true,
		`v:`: false, `v:"a`: false, `v:"`: false, `v:1.0`: false, `v:01`: false, `v:-`: false, `v:-0`: false, `v: 1`: false, `v:1 `: false, `v:null`: false,
		`v:"é"`: false, `v:"<"`: false, `v:"\u0061"`: false, `v:9007199254740993`: false, `v:truex`: false,
		`k:{}`: false, `k:{"b":1,"a":1}`: false, `k:{"a":1,"a":1}`: false, `k:{"a": 1}`: false, `k:{"a":1,}`: false, `k:{"a":1`: false, `k:{"a"}`: false, `k:{1:1}`: false, `k:{"a":{}}`: false,
		`i:1`: false, `x:1`: false, ``: false,
	} {
		if simpleKey(key) != simple {
			t.Errorf("%s: got %v", key, !simple)
		}
		if !simple {
			continue
		}
		pe, err := fieldpath.DeserializePathElement(key)
		if err != nil {
			t.Fatal(key, err)
		}
		if again, err := fieldpath.SerializePathElement(pe); err != nil || again != key {
			t.Errorf("%s is written again as %s: %v", key, again, err)
		}
	}
}

// TestSimpleText checks which characters need no escapes, as those of a list item that stays the
// same in managedFields.
func TestSimpleText(t *testing.T) {
	t.Parallel()
	for c := range rune(0x100) {
		v := value.NewValueInterface(string(c))
		text, err := fieldpath.SerializePathElement(fieldpath.PathElement{Value: &v})
		if err != nil {
			t.Fatal(err)
		}
		escaped, err := json.Marshal(string(c))
		if err != nil {
			t.Fatal(err)
		}
		plain := `"` + string(c) + `"`
		if simple := c >= ' ' && c <= '~' && string(escaped) == plain; simpleText(string(c)) != simple || simple && text != "v:"+plain {
			t.Errorf("%q, which is written as %s: got %v", c, text, simpleText(string(c)))
		}
	}
}
