package proto_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
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
		`{"spec":{"i":"1"}}`, `{"spec":{"num":9223372036854775807}}`, `{"spec":{"num":"1"}}`,
	} {
		err := c.Unmarshal([]byte(object), dynamicpb.NewMessage(c.Descriptor()))
		var problem *genproto.ConversionError
		if !errors.As(err, &problem) {
			t.Fatalf("%s: %v", object, err)
		}
		fmt.Fprintf(&b, "%s: %v (%s at %q)\n", object, err, problem.Problem, problem.Path)
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

// TestForeignDescriptors compares what is wrong with messages that are almost like generated ones, in
// testdata/messages.txt with their names, with the texts in testdata.
func TestForeignDescriptors(t *testing.T) {
	t.Parallel()
	messages, err := os.ReadFile("testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(messages)) {
		name, text, _ := strings.Cut(line, ": ")
		var file descriptorpb.FileDescriptorProto
		if err := prototext.Unmarshal([]byte(`name: "m.proto" package: "p" syntax: "proto3" message_type {name: "M" `+text+`}`), &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d, err := protodesc.FileOptions{AllowUnresolvable: true}.New(&file, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := d.Messages().ByName("M")
		_, err = genproto.NewCodec(m)
		_, schemaErr := genproto.Schema(m)
		fmt.Fprintf(&b, "%s: %v; %v\n", name, err, schemaErr)
	}
	testcase.Golden(t, "testdata/descriptors.txt", b.String(), *update)
}
