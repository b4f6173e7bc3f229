package proto_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	genproto "espalier.dev/analysis/generate/proto"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// TestMapping has the properties of a spec for each row of the mapping in testdata/mapping.txt, each after a line
// "=== NAME", and the messages that they give, after a line >>>.
func TestMapping(t *testing.T) {
	t.Parallel()
	const golden = "testdata/mapping.txt"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for block := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(string(text)), "=== "), "\n\n=== ") {
		input, want, _ := strings.Cut(block, "\n>>>\n")
		name, properties, _ := strings.Cut(input, "\n")
		t.Run("S-16 "+name, func(t *testing.T) {
			f := file(one(t, crdOf("Test", "{type: object, properties: "+properties+"}")))
			if _, err := f.Descriptor("types.proto"); err != nil {
				t.Error(err)
			}
			got := ownMessages(string(f.Text()))
			if fmt.Fprintf(&all, "\n=== %s\n>>>\n%s\n", input, got); got != want && !*update {
				t.Errorf("%s\nwant:\n%s", got, want)
			}
		})
	}
	if *update {
		testcase.Golden(t, golden, strings.TrimPrefix(all.String(), "\n"), true)
	}
}

// ownMessages returns the messages of a file, except those of the kind and of metadata.
func ownMessages(text string) string {
	var out []string
	for _, part := range strings.Split(text, "\n\n") {
		at := strings.Index(part, "message ")
		switch {
		case at < 0 || strings.HasPrefix(part[at:], "message ObjectMeta") || strings.HasPrefix(part[at:], "message Test {"):
		default:
			if !strings.HasPrefix(part[at:], "message TestSpec") {
				part = part[at:] // shared messages have a comment
			}
			out = append(out, strings.TrimSuffix(part, "\n"))
		}
	}
	return strings.Join(out, "\n")
}

// TestPackageName checks names that Protobuf does not allow as they are.
func TestPackageName(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]string{
		"stable.example.com": "com.example.stable.v1", "3scale.net": "net._3scale.v1", "my-group.example.com": "com.example.my_group.v1",
	} {
		if got := genproto.PackageName(group, "v1"); got != want {
			t.Errorf("%s: %s, want %s", group, got, want)
		}
	}
}

const everything = `{type: object, properties: {
  s: {type: string}, i: {type: integer}, i32: {type: integer, format: int32}, num: {type: number}, b: {type: boolean},
  ios: {x-kubernetes-int-or-string: true},
  ns: {type: string, nullable: true}, nl: {type: array, nullable: true, items: {type: string, nullable: true}},
  l: {type: array, items: {type: string}}, ll: {type: array, items: {type: array, items: {type: integer}}},
  m: {type: object, additionalProperties: {type: string}}, mm: {type: object, additionalProperties: {type: object, additionalProperties: {type: string}}},
  o: {type: object, properties: {x: {type: string}}}, e: {type: object},
  j: {x-kubernetes-preserve-unknown-fields: true}, jo: {type: object, x-kubernetes-preserve-unknown-fields: true},
  open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {x: {type: string}, in: {type: object}}},
  r: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true},
  rr: {type: object, x-kubernetes-embedded-resource: true, properties: {data: {type: array, items: {type: string}}}}}}`

func everythingCodec(t testing.TB) *genproto.Codec {
	t.Helper()
	c, err := genproto.NewCodec(message(t, file(one(t, crdOf("Test", everything))), "Test"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestValues converts values that Protobuf does not distinguish by itself.
func TestValues(t *testing.T) {
	t.Parallel()
	c := everythingCodec(t)
	for _, spec := range []string{
		`{}`,
		`{"s":"","i":0,"i32":0,"num":0,"b":false,"l":[],"m":{},"ll":[],"mm":{},"o":{},"e":{},"jo":{},"open":{}}`,
		`{"s":"\u0000é😀","i":-9223372036854775808,"i32":-2147483648,"num":1.5e-300,"b":true}`,
		`{"i":9223372036854775807,"i32":2147483647,"num":9007199254740992}`, `{"num":9007199254740991}`, `{"num":-9007199254740991}`, `{"num":-9223372036854775808}`,
		`{"ios":0}`, `{"ios":""}`, `{"ios":"50%"}`, `{"ios":-1}`,
		`{"ns":null,"nl":null}`, `{"ns":"","nl":[]}`, `{"ns":"x","nl":[null,"",null]}`,
		`{"ll":[[],[1],[]],"mm":{"":{},"a":{"b":""}},"l":["",""],"m":{"":""}}`,
		`{"j":null}`, `{"j":[{"a":null},1.5,9007199254740993]}`, `{"j":""}`, `{"jo":{"a":null,"b":{}}}`,
		`{"open":{"x":"","y":null,"in":{"a":1}}}`,
		`{"r":{"apiVersion":"v1","kind":"X","metadata":{"name":"n","odd":1},"data":{}}}`,
		`{"rr":{"apiVersion":"v1","kind":"X","metadata":{"name":"n","labels":{},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]},"data":[]}}`,
	} {
		roundTrip(t, spec, c, []byte(`{"apiVersion":"example.com/v1","kind":"Test","metadata":{"name":"n","managedFields":[{"fieldsV1":{"f:spec":{}}}]},"spec":`+spec+`}`))
	}
}

// TestNullMetadata checks that null in metadata is absent.
func TestNullMetadata(t *testing.T) {
	t.Parallel()
	c := everythingCodec(t)
	m := dynamicpb.NewMessage(c.Descriptor())
	if err := c.Unmarshal([]byte(`{"metadata":{"creationTimestamp":null}}`), m); err != nil {
		t.Error(err)
	} else if got, err := c.Marshal(m); err != nil || string(got) != `{"metadata":{}}` {
		t.Errorf("%s, %v", got, err)
	}
}

// TestBrokenMessages has messages that no object gives.
func TestBrokenMessages(t *testing.T) {
	t.Parallel()
	c := everythingCodec(t)
	set := func(path string, v protoreflect.Value) proto.Message {
		m := dynamicpb.NewMessage(c.Descriptor())
		var at protoreflect.Message = m
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			at = at.Mutable(at.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
		}
		if f := at.Descriptor().Fields().ByName(protoreflect.Name(names[len(names)-1])); v.IsValid() {
			at.Set(f, v)
		} else {
			at.Mutable(f)
		}
		return m
	}
	for _, tc := range []struct {
		m    proto.Message
		want genproto.ConversionProblem
	}{
		{set("spec.ios", protoreflect.Value{}), genproto.MissingValue},
		{set("spec.ns", protoreflect.Value{}), genproto.MissingValue},
		{set("spec.r", protoreflect.Value{}), genproto.InvalidJSON},
		{set("spec.r.raw", protoreflect.ValueOfBytes([]byte("1"))), genproto.WrongType},
		{set("spec.j", protoreflect.ValueOfBytes([]byte("{"))), genproto.InvalidJSON},
		{set("spec.open.unknown_fields", protoreflect.ValueOfBytes([]byte("[]"))), genproto.WrongType},
		{dynamicpb.NewMessage(c.Descriptor().Fields().ByName("spec").Message()), genproto.WrongMessage},
		{set("spec.num", protoreflect.ValueOfFloat64(math.NaN())), genproto.OutOfRange},
		{set("spec.num", protoreflect.ValueOfFloat64(math.Inf(1))), genproto.OutOfRange},
		{set("spec.num", protoreflect.ValueOfFloat64(math.Inf(-1))), genproto.OutOfRange},
	} {
		_, err := c.Marshal(tc.m)
		var problem *genproto.ConversionError
		if !errors.As(err, &problem) || problem.Problem != tc.want {
			t.Errorf("%v: %v, want %q", tc.m, err, tc.want)
		}
	}
	spec := dynamicpb.NewMessage(c.Descriptor().Fields().ByName("spec").Message())
	if err := c.Unmarshal([]byte(`{}`), spec); err == nil || !strings.Contains(err.Error(), string(genproto.WrongMessage)) {
		t.Errorf("another message: %v", err)
	}
}

// TestNumbersBelow checks that wrong numbers in lists and maps are located.
func TestNumbersBelow(t *testing.T) {
	t.Parallel()
	c, err := genproto.NewCodec(message(t, file(one(t, crdOf("Test", `{type: object, properties: {
		l: {type: array, items: {type: number}}, m: {type: object, additionalProperties: {type: number}}, i: {type: integer}}}`))), "Test"))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{"l": "spec.l[1]", "m": "spec.m.x"} {
		m := dynamicpb.NewMessage(c.Descriptor())
		spec := m.Mutable(m.Descriptor().Fields().ByName("spec")).Message()
		switch v := spec.Mutable(spec.Descriptor().Fields().ByName(protoreflect.Name(field))); field {
		case "l":
			v.List().Append(protoreflect.ValueOfFloat64(1))
			v.List().Append(protoreflect.ValueOfFloat64(math.NaN()))
		case "m":
			v.Map().Set(protoreflect.ValueOfString("x").MapKey(), protoreflect.ValueOfFloat64(math.NaN()))
		}
		if _, err := c.Marshal(m); err == nil || !strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	// An integer may have an exponent, and only empty lists and maps are marked as empty.
	m := dynamicpb.NewMessage(c.Descriptor())
	if err := c.Unmarshal([]byte(`{"spec":{"l":[1],"m":{},"i":1e3}}`), m); err != nil {
		t.Fatal(err)
	}
	spec := m.Get(m.Descriptor().Fields().ByName("spec")).Message()
	fields := spec.Descriptor().Fields()
	if empty := spec.Get(fields.ByName("empty_fields")).List(); empty.Len() != 1 || empty.Get(0).Uint() != uint64(fields.ByName("m").Number()) {
		t.Errorf("empty are %v", empty)
	}
	if got := spec.Get(fields.ByName("i")).Int(); got != 1000 {
		t.Errorf("1e3 is %d", got)
	}
}

// TestEntryNames checks the names of the messages that compilers declare for maps.
func TestEntryNames(t *testing.T) {
	t.Parallel()
	m := message(t, file(one(t, crdOf("Test", `{type: object, properties: {
		fooBar: {type: object, additionalProperties: {type: string}}, a2b: {type: object, additionalProperties: {type: string}}, "x-1y": {type: object, additionalProperties: {type: string}}}}`))), "Test")
	nested := m.Fields().ByName("spec").Message().Messages()
	var got []string
	for i := range nested.Len() {
		got = append(got, string(nested.Get(i).Name()))
	}
	if want := []string{"A2bEntry", "FooBarEntry", "X1yEntry"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if f := file(one(t, crdOf("3d", `{type: object}`))); f.MessageName("3d") != "Kind3d" {
		t.Errorf("the message of the kind 3d is %s", f.MessageName("3d"))
	}
}

// TestOtherDescriptors uses messages that were not generated.
func TestOtherDescriptors(t *testing.T) {
	t.Parallel()
	c := everythingCodec(t)
	var problem *genproto.DescriptorError
	if _, err := genproto.Schema(c.Descriptor().Fields().ByName("spec").Message()); !errors.As(err, &problem) {
		t.Errorf("a message without metadata: %v", err)
	}
	for _, m := range otherMessages() {
		if _, err := genproto.NewCodec(m); !errors.As(err, &problem) {
			t.Errorf("%s: %v", m.FullName(), err)
		}
	}
}

// TestLargeSchema generates messages from a schema with 14,000 nodes, and from a deep one: the
// memory is bounded by a multiple of the size.
func TestLargeSchema(t *testing.T) {
	wide := map[string]*schema.Structural{}
	for i := range 140 {
		inner := map[string]*schema.Structural{}
		for j := range 100 {
			inner[fmt.Sprint("field", j)] = &schema.Structural{Generic: schema.Generic{Type: "string"}}
		}
		wide[fmt.Sprint("part", i)] = &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: inner}
	}
	deep := &schema.Structural{Generic: schema.Generic{Type: "object"}}
	for range 3000 {
		deep = &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]*schema.Structural{"furtherDown": deep}}
	}
	for name, root := range map[string]*schema.Structural{
		"wide": {Generic: schema.Generic{Type: "object"}, Properties: wide},
		"deep": deep,
	} {
		p := one(t, crdOf("Test", "{type: object}"))
		p.Kinds[0].Type.Schema = root
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f := file(p)
		text, lock := f.Text(), f.Lock().Bytes()
		m := message(t, f, "Test")
		runtime.ReadMemStats(&after)
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 400 || len(text)+len(lock) > 8<<20 {
			t.Errorf("%s: %d MB allocated for %d and %d bytes", name, mb, len(text), len(lock))
		}
		if got, err := genproto.Schema(m); err != nil || !reflect.DeepEqual(got, genproto.Skeleton(root, schema.KEP)) {
			t.Errorf("%s: the schema differs: %v", name, err)
		}
		parsed, err := genproto.ParseLock(lock, pkg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if again := genproto.NewFile(p, parsed); string(again.Text()) != string(text) {
			t.Errorf("%s: the second run differs", name)
		}
	}
}
