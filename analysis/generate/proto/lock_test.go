package proto_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	genproto "espalier.dev/analysis/generate/proto"
	"espalier.dev/schema"
)

const pkg = "com.example.v1"

// crdOf returns a CRD with a kind whose spec has the given schema as JSON or YAML.
func crdOf(kind, spec string) []byte {
	return fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %ss.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %[1]ss, kind: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: %[3]s
`, strings.ToLower(kind), kind, spec)
}

// one returns the only package of a CRD.
func one(t testing.TB, text []byte) *generate.Package {
	t.Helper()
	all := packages(t, text, schema.KEP)
	if len(all) != 1 {
		t.Fatalf("%d packages of %s", len(all), text)
	}
	return all[0]
}

// next generates messages with the lock file of an earlier run, and returns the new lock file.
func next(t testing.TB, text, lock []byte) (*genproto.File, []byte) {
	t.Helper()
	l := genproto.NewLock(pkg)
	if lock != nil {
		var err error
		if l, err = genproto.ParseLock(lock, pkg); err != nil {
			t.Fatalf("%v: %s", err, lock)
		}
	}
	f := genproto.NewFile(one(t, text), l)
	return f, f.Lock().Bytes()
}

// TestNumbers changes a schema step by step. Each step has the expected fields of the message
// of spec.
func TestNumbers(t *testing.T) {
	t.Parallel()
	t.Run("S-16 numbers are stable", numbersAreStable)
}

func numbersAreStable(t *testing.T) {
	var lock []byte
	for _, step := range []struct{ name, properties, want string }{
		{"first", `{b: {type: string}, a: {type: string}}`, "a=3 b=4"},
		{"a field before others", `{A0: {type: integer}, a: {type: string}, b: {type: string}}`, "a=3 b=4 a0=5"},
		{"removed", `{A0: {type: integer}, b: {type: string}}`, `b=4 a0=5 reserved 3 "a"`},
		{"added again", `{A0: {type: integer}, a: {type: string}, b: {type: string}}`, "a=3 b=4 a0=5"},
		{"another type", `{A0: {type: integer}, a: {type: boolean}, b: {type: string}}`, "b=4 a0=5 a=6 reserved 3"},
		{"its former type", `{A0: {type: integer}, a: {type: string}, b: {type: string}}`, "a=3 b=4 a0=5 reserved 6"},
		{"a wider integer", `{A0: {type: integer, format: int32}, a: {type: string}, b: {type: string}}`, "a=3 b=4 a0=5 reserved 6"},
		{"a list", `{b: {type: array, items: {type: string}}}`, `empty_fields=1 b=7 reserved 3 4 5 6 "a" "a0"`},
		{"nullable", `{b: {type: string, nullable: true}}`, `b=8 reserved 3 4 5 6 7 "a" "a0"`},
		{"nullable of another type", `{b: {type: integer, nullable: true}}`, `b=9 reserved 3 4 5 6 7 8 "a" "a0"`},
		{"an object", `{b: {type: object, properties: {x: {type: string}}}}`, `b=10 reserved 3 4 5 6 7 8 9 "a" "a0"`},
		{"an object with other fields", `{b: {type: object, properties: {z: {type: string}}}}`, `b=10 reserved 3 4 5 6 7 8 9 "a" "a0"`},
	} {
		f, now := next(t, crdOf("Test", "{type: object, properties: "+step.properties+"}"), lock)
		lock = now
		if got := outline(t, f, "TestSpec"); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		if step.name == "an object with other fields" {
			if got, want := outline(t, f, "TestSpecB"), `z=4 reserved 3 "x"`; got != want {
				t.Errorf("%s: %s, want %s", step.name, got, want)
			}
		}
	}
}

// outline returns the fields and the reserved numbers and names of a message.
func outline(t testing.TB, f *genproto.File, name string) string {
	t.Helper()
	d, err := f.Descriptor("types.proto")
	if err != nil {
		t.Fatal(err)
	}
	m := d.Messages().ByName(protoreflect.Name(name))
	if m == nil {
		return "none"
	}
	var parts []string
	for i := range m.Fields().Len() {
		parts = append(parts, fmt.Sprintf("%s=%d", m.Fields().Get(i).Name(), m.Fields().Get(i).Number()))
	}
	if m.ReservedRanges().Len() > 0 {
		parts = append(parts, "reserved")
	}
	for i := range m.ReservedRanges().Len() {
		parts = append(parts, fmt.Sprint(m.ReservedRanges().Get(i)[0]))
	}
	for i := range m.ReservedNames().Len() {
		parts = append(parts, fmt.Sprintf("%q", m.ReservedNames().Get(i)))
	}
	return strings.Join(parts, " ")
}

// TestRandomChanges changes a schema at random, many times. A number of a message must never
// have two meanings, and all numbers that were used are either in use or reserved.
func TestRandomChanges(t *testing.T) {
	t.Parallel()
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		var lock []byte
		meanings := map[string]string{} // of message and number
		root := map[string]any{"type": "object"}
		for range 15 {
			change(r, root, 3)
			spec, err := yaml.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			json, err := yaml.YAMLToJSON(spec)
			if err != nil {
				t.Fatal(err)
			}
			f, now := next(t, crdOf("Test", string(json)), lock)
			again, _ := next(t, crdOf("Test", string(json)), now)
			if !bytes.Equal(f.Text(), again.Text()) || !bytes.Equal(now, again.Lock().Bytes()) {
				t.Fatalf("seed %d: the second run differs", seed)
			}
			lock = now
			checkMeanings(t, f, meanings)
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, f.Text())
			}
		}
	}
}

// checkMeanings records what the numbers of all messages mean, and compares it with before.
func checkMeanings(t *testing.T, f *genproto.File, meanings map[string]string) {
	t.Helper()
	d, err := f.Descriptor("types.proto")
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Messages().Len() {
		m := d.Messages().Get(i)
		for j := range m.Fields().Len() {
			field := m.Fields().Get(j)
			meaning := fmt.Sprintf("%s %s %s", field.JSONName(), field.Cardinality(), typeOf(field))
			key := fmt.Sprintf("%s %d", m.Name(), field.Number())
			if before, ok := meanings[key]; ok && before != meaning {
				t.Errorf("%s: %s, before %s", key, meaning, before)
			}
			meanings[key] = meaning
		}
		for key := range meanings {
			var number protoreflect.FieldNumber
			if _, err := fmt.Sscanf(key, string(m.Name())+" %d", &number); err != nil || number < 3 {
				continue
			}
			if m.Fields().ByNumber(number) == nil && !m.ReservedRanges().Has(number) {
				t.Errorf("%s is neither used nor reserved", key)
			}
		}
	}
}

// typeOf returns the type of a field. int32 and int64 are the same on the wire.
func typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map of " + typeOf(f.MapValue())
	case f.Message() != nil:
		return string(f.Message().Name())
	case f.Kind() == protoreflect.Int32Kind:
		return "int64"
	}
	return f.Kind().String()
}

// change adds, replaces or removes a field somewhere below an object.
func change(r *rand.Rand, object map[string]any, depth int) {
	properties, _ := object["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		object["properties"] = properties
	}
	names := slices.Sorted(maps.Keys(properties))
	if len(names) > 0 && r.IntN(3) == 0 {
		delete(properties, names[r.IntN(len(names))])
		return
	}
	if len(names) > 0 && depth > 0 && r.IntN(2) == 0 {
		if below, ok := properties[names[r.IntN(len(names))]].(map[string]any); ok && below["type"] == "object" && below["additionalProperties"] == nil {
			change(r, below, depth-1)
			return
		}
	}
	all := []string{"a", "b", "fooBar", "foo_bar", "foo-bar", "foobar", "x1", "x_1", "emptyFields", "unknown_fields"}
	properties[all[r.IntN(len(all))]] = value(r, depth)
}

// value returns a random schema.
func value(r *rand.Rand, depth int) map[string]any {
	kinds := 6
	if depth > 0 {
		kinds = 9
	}
	var s map[string]any
	switch r.IntN(kinds) {
	case 0:
		s = map[string]any{"type": "string"}
	case 1:
		s = map[string]any{"type": "integer", "format": []any{"int32", "int64"}[r.IntN(2)]}
	case 2:
		s = map[string]any{"type": "number"}
	case 3:
		s = map[string]any{"type": "boolean"}
	case 4:
		s = map[string]any{"x-kubernetes-int-or-string": true}
	case 5:
		s = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	case 6:
		s = map[string]any{"type": "array", "items": value(r, depth-1)}
	case 7:
		s = map[string]any{"type": "object", "additionalProperties": value(r, depth-1)}
	default:
		s = map[string]any{"type": "object", "properties": map[string]any{"a": value(r, depth-1), "b": value(r, depth-1)}}
	}
	if r.IntN(5) == 0 {
		s["nullable"] = true
	}
	return s
}

// TestBrokenLocks changes a lock file in ways that must be noticed.
func TestBrokenLocks(t *testing.T) {
	t.Parallel()
	_, lock := next(t, crdOf("Test", `{type: object, properties: {a: {type: string}, b: {type: string}}}`), nil)
	replace := func(old, new string) []byte {
		t.Helper()
		if !bytes.Contains(lock, []byte(old)) {
			t.Fatalf("%q is not in %s", old, lock)
		}
		return bytes.Replace(lock, []byte(old), []byte(new), 1)
	}
	a := `{"number":3,"name":"a","json":"a","type":"string"}`
	for _, c := range []struct {
		name string
		lock []byte
		want genproto.LockProblem
	}{
		{"empty", nil, genproto.LockBroken},
		{"cut off", lock[:len(lock)/2], genproto.LockBroken},
		{"merge conflict", replace("\"messages\"", "<<<<<<< HEAD\n\"messages\""), genproto.LockBroken},
		{"an unknown field", replace(`"version"`, `"numbers": 1, "version"`), genproto.LockBroken},
		{"another version", replace(`"version": 1`, `"version": 2`), genproto.LockNewer},
		{"another number", replace(a, strings.Replace(a, "3", "9", 1)), genproto.LockEdited},
		{"another name", replace(a, strings.Replace(a, `"a"`, `"c"`, 1)), genproto.LockEdited},
		{"a removed field", replace(a+",\n", ""), genproto.LockEdited},
		{"white space", append(slices.Clone(lock), ' '), genproto.LockEdited},
		{"the same number twice", replace(a, strings.Replace(a, "3", "4", 1)), genproto.LockInconsistent},
		{"a number below the first", replace(a, strings.Replace(a, "3", "2", 1)), genproto.LockInconsistent},
		{"a number of Protobuf itself", replace(a, strings.Replace(a, "3", "19500", 1)), genproto.LockInconsistent},
		{"a number that is too large", replace(a, strings.Replace(a, "3", "536870912", 1)), genproto.LockInconsistent},
		{"the same name twice", replace(a, strings.Replace(a, `"name":"a"`, `"name":"b"`, 1)), genproto.LockInconsistent},
		{"a name that is none", replace(a, strings.Replace(a, `"name":"a"`, `"name":"a b"`, 1)), genproto.LockInconsistent},
		{"the same field twice", replace(a, a+","+strings.Replace(a, "3", "7", 1)), genproto.LockInconsistent},
		{"a message whose name is none", replace(`"name":"TestSpec"`, `"name":"Test Spec"`), genproto.LockInconsistent},
		{"a message without a name", replace(`"name":"TestSpec"`, `"name":""`), genproto.LockInconsistent},
		{"a field with two names", replace(a, a+","+`{"number":7,"name":"c","json":"a","type":"int64"}`), genproto.LockInconsistent},
		{"the same message twice", replace(`"name":"TestSpec"`, `"name":"Test"`), genproto.LockInconsistent},
	} {
		_, err := genproto.ParseLock(c.lock, pkg)
		var problem *genproto.LockError
		if !errors.As(err, &problem) || problem.Problem != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	var problem *genproto.LockError
	if _, err := genproto.ParseLock(lock, "com.example.v2"); !errors.As(err, &problem) || problem.Problem != genproto.LockForeign {
		t.Errorf("another package: %v", err)
	}
	if _, err := genproto.ParseLock(bytes.ReplaceAll(lock, []byte("\n"), []byte("\r\n")), pkg); err != nil {
		t.Errorf("line breaks of Windows: %v", err)
	}
}

// TestGenerate writes files twice, and without the lock file of the first run.
func TestGenerate(t *testing.T) {
	t.Parallel()
	const name = "example.com/v1/types.proto"
	before := []*generate.Package{one(t, crdOf("Test", `{type: object, properties: {b: {type: string}}}`))}
	after := []*generate.Package{one(t, crdOf("Test", `{type: object, properties: {a: {type: string}, b: {type: string}}}`))}
	first, err := genproto.Generate(before, nil, genproto.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, []string{name, name + ".lock"}) {
		t.Fatalf("files %q", got)
	}
	for file, text := range first {
		if head := text[:min(len(text), 500)]; !bytes.Contains(head, []byte(generate.Marker)) {
			t.Errorf("%s has no marker", file)
		}
	}
	second, err := genproto.Generate(after, first, genproto.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`b = 3 [json_name = "b"]`, `a = 4 [json_name = "a"]`} {
		if !bytes.Contains(second[name], []byte(line)) {
			t.Errorf("no %s in %s", line, second[name])
		}
	}
	again, err := genproto.Generate(after, second, genproto.Options{})
	if err != nil || !bytes.Equal(again[name], second[name]) || !bytes.Equal(again[name+".lock"], second[name+".lock"]) {
		t.Errorf("the third run differs: %v", err)
	}
	second[name+".lock"] = []byte("{")
	var broken *genproto.LockError
	if _, err := genproto.Generate(after, second, genproto.Options{}); !errors.As(err, &broken) || broken.Problem != genproto.LockBroken || !strings.HasPrefix(err.Error(), name+".lock: ") {
		t.Errorf("with a broken lock file: %v", err)
	}
	delete(second, name+".lock")
	var problem *genproto.LockError
	if _, err := genproto.Generate(after, second, genproto.Options{}); !errors.As(err, &problem) || problem.Problem != genproto.LockMissing {
		t.Errorf("without a lock file: %v", err)
	}
}
