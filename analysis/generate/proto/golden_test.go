package proto_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/generatetest"
	genproto "espalier.dev/analysis/generate/proto"
	"espalier.dev/internal/testcase"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden compares the files of the CRDs that the packages below generate share with those in
// testdata: a schema of each kind, names that collide, and CRDs with problems.
func TestGolden(t *testing.T) {
	t.Parallel()
	packages, _ := generate.Build(generatetest.Inputs(t, "../testdata/crds.yaml"))
	files, err := genproto.Generate(packages, nil, genproto.Options{GoPackage: "example.com/x"})
	if err != nil {
		t.Fatal(err)
	}
	testcase.Golden(t, "testdata/golden.txtar", generatetest.Archive(files), *update)
}

// TestErrorTexts compares the errors about objects that a message cannot hold, and the schema that the
// message gives, with those in testdata.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	c := everythingCodec(t)
	var b strings.Builder
	for _, object := range []string{
		`{`, `[]`, `{"spec":null}`, `{"other":1}`, `{"metadata":{"other":1}}`, `{"spec":{"s":1}}`, `{"spec":{"s":[]}}`, `{"spec":{"b":"true"}}`, `{"spec":{"i":1.5}}`,
		`{"spec":{"i":true}}`, `{"spec":{"i":1e30}}`, `{"spec":{"i":9223372036854775808}}`, `{"spec":{"i":-9223372036854775809}}`, `{"spec":{"i32":2147483648}}`, `{"spec":{"i32":-2147483649}}`,
		`{"spec":{"num":9007199254740993}}`, `{"spec":{"num":{}}}`, `{"spec":{"ios":1.5}}`, `{"spec":{"ios":null}}`, `{"spec":{"l":{}}}`, `{"spec":{"l":["a",1]}}`, `{"spec":{"ll":[[1],[""]]}}`, `{"spec":{"m":[]}}`,
		`{"spec":{"m":{"a/b":1}}}`, `{"spec":{"mm":{"a":{"b":1}}}}`, `{"spec":{"o":{"y":1}}}`, `{"spec":{"r":1}}`, `{"spec":{"rr":{"metadata":{"labels":[]}}}}`, `{"spec":{"nl":["a",2]}}`, `{"spec":{"ns":2}}`,
	} {
		fmt.Fprintf(&b, "%s: %v\n", object, c.Unmarshal([]byte(object), dynamicpb.NewMessage(c.Descriptor())))
	}
	s, err := genproto.Schema(c.Descriptor())
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(s.ToJSONSchemaProps())
	if err != nil {
		t.Fatal(err)
	}
	b.Write(text)
	testcase.Golden(t, "testdata/texts.txt", b.String(), *update)
}

// TestReserved compares the messages of a schema that loses fields.
func TestReserved(t *testing.T) {
	t.Parallel()
	var lock []byte
	var b strings.Builder
	for _, properties := range []string{
		`{a: {type: string}, b: {type: string}, c: {type: object, properties: {podCIDRSpec: {type: string}, aURLs: {type: string}}}}`,
		`{a: {type: integer}, b: {type: string}}`, `{b: {type: string}}`, `{}`,
	} {
		f, now := next(t, crdOf("Test", "{type: object, properties: "+properties+"}"), lock)
		lock = now
		_, spec, _ := strings.Cut(string(f.Text()), "message TestSpec")
		fmt.Fprintf(&b, "message TestSpec%s%s\n", spec, lock)
	}
	testcase.Golden(t, "testdata/reserved.txt", b.String(), *update)
}

// TestForeignDescriptors compares what is wrong with messages that are almost like generated ones with the
// texts in testdata.
func TestForeignDescriptors(t *testing.T) {
	t.Parallel()
	const (
		optional = ` label: LABEL_OPTIONAL proto3_optional: true oneof_index: 0 `
		single   = ` label: LABEL_OPTIONAL `
		repeated = ` label: LABEL_REPEATED `
		choice   = ` label: LABEL_OPTIONAL oneof_index: 0 `
		oneof    = ` oneof_decl {name: "kind"} `
		own      = ` oneof_decl {name: "_a"} `
	)
	field := func(name string, number int, typ, rest string) string {
		return fmt.Sprintf(`field {name: %q number: %d type: TYPE_%s json_name: %q %s}`, name, number, typ, name, rest)
	}
	entry := func(key, value string) string {
		return `nested_type {name: "EntriesEntry" options {map_entry: true} ` + field("key", 1, key, single) + field("value", 2, value, single) + `}`
	}
	var b strings.Builder
	for _, tt := range []struct{ name, text string }{
		{"nullable", field("null", 1, "BOOL", choice) + field("value", 2, "STRING", choice) + oneof},
		{"nullable of an enum", field("null", 1, "BOOL", choice) + field("value", 2, "UINT64", choice) + oneof},
		{"nullable with a string", field("null", 1, "STRING", choice) + field("value", 2, "STRING", choice) + oneof},
		{"nullable with another name", field("nil", 1, "BOOL", choice) + field("value", 2, "STRING", choice) + oneof},
		{"nullable with three fields", field("null", 1, "BOOL", choice) + field("value", 2, "STRING", choice) + field("more", 3, "STRING", choice) + oneof},
		{"nullable with another value", field("null", 1, "BOOL", choice) + field("val", 2, "STRING", choice) + oneof},
		{"not a choice", field("null", 1, "BOOL", single) + field("value", 2, "STRING", single)},
		{"int or string", field("int", 1, "INT64", choice) + field("string", 2, "STRING", choice) + oneof},
		{"int and string", field("int", 1, "INT64", single) + field("string", 2, "STRING", single)},
		{"string only", field("string", 2, "STRING", single)},
		{"int32 or string", field("int", 1, "INT32", choice) + field("string", 2, "STRING", choice) + oneof},
		{"int or bytes", field("int", 1, "INT64", choice) + field("string", 2, "BYTES", choice) + oneof},
		{"resource", field("raw", 1, "BYTES", optional) + own},
		{"resources", field("raw", 1, "BYTES", repeated)},
		{"resource and more", field("raw", 1, "BYTES", optional) + field("a", 3, "STRING", single) + own},
		{"list", field("items", 1, "STRING", repeated)},
		{"list of floats", field("items", 1, "FLOAT", repeated)},
		{"list with another name", field("item", 1, "STRING", repeated)},
		{"no list", field("items", 1, "STRING", optional) + own},
		{"no map", field("entries", 1, "STRING", optional) + own},
		{"map with another name", field("values", 1, "MESSAGE", repeated+` type_name: "ValuesEntry"`) + strings.ReplaceAll(entry("STRING", "INT64"), "EntriesEntry", "ValuesEntry")},
		{"map", field("entries", 1, "MESSAGE", repeated+` type_name: "EntriesEntry"`) + entry("STRING", "INT64")},
		{"map of integers", field("entries", 1, "MESSAGE", repeated+` type_name: "EntriesEntry"`) + entry("INT64", "STRING")},
		{"object", field("a", 3, "STRING", optional) + own},
		{"object without presence", field("a", 3, "STRING", single)},
		{"object with a number", field("a", 2, "STRING", optional) + own},
		{"object with a list", field("a", 3, "STRING", repeated)},
		{"object with lists", field("empty_fields", 1, "UINT32", repeated) + field("a", 3, "STRING", repeated)},
		{"object with one empty field", field("empty_fields", 1, "UINT32", single) + field("a", 3, "STRING", repeated)},
		{"object with empty fields of another type", field("empty_fields", 1, "INT32", repeated) + field("a", 3, "STRING", repeated)},
		{"object with empty fields of another name", field("empties", 1, "UINT32", repeated) + field("a", 3, "STRING", repeated)},
		{"object with empty fields of another number", field("empty_fields", 4, "UINT32", repeated) + field("a", 3, "STRING", repeated)},
		{"object with unknown fields of another number", field("unknown_fields", 1, "BYTES", optional) + own},
		{"object with unknown fields of another name", field("unknowns", 2, "BYTES", optional) + own},
		{"object with unknown fields", field("unknown_fields", 2, "BYTES", optional) + own},
		{"object with unknown text", field("unknown_fields", 2, "STRING", optional) + own},
		{"object with lists of unknown fields", field("unknown_fields", 2, "BYTES", repeated)},
		{"object with a wrong name", strings.Replace(field("a", 3, "STRING", optional), `json_name: "a"`, `json_name: "@=%zz"`, 1) + own},
		{"metadata of another type", field("metadata", 3, "STRING", optional) + own},
	} {
		var file descriptorpb.FileDescriptorProto
		if err := prototext.Unmarshal([]byte(`name: "m.proto" package: "p" syntax: "proto3" message_type {name: "M" `+tt.text+`}`), &file); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		d, err := protodesc.FileOptions{AllowUnresolvable: true}.New(&file, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		m := d.Messages().ByName("M")
		_, err = genproto.NewCodec(m)
		_, schemaErr := genproto.Schema(m)
		fmt.Fprintf(&b, "%s: %v; %v\n", tt.name, err, schemaErr)
	}
	testcase.Golden(t, "testdata/descriptors.txt", b.String(), *update)
}
