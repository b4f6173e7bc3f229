package proto_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/types/dynamicpb"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	genproto "espalier.dev/analysis/generate/proto"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// inputs returns the CRDs in a file.
func inputs(t *testing.T, file string) (all []generate.Input) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		source, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		hub, err := codec.DecodeLenient(source)
		if err != nil {
			t.Fatal(err)
		}
		crd.PrepareCreate(hub)
		d, err := crd.New(hub, crd.Options{Semantics: schema.KEP, IgnoreRules: true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, generate.Input{Definition: d, Document: source})
	}
	return all
}

// TestGolden compares the files of the CRDs that the packages below generate share with those in
// testdata: a schema of each kind, names that collide, and CRDs with problems.
func TestGolden(t *testing.T) {
	t.Parallel()
	packages, _ := generate.Build(inputs(t, "../testdata/crds.yaml"))
	files, err := genproto.Generate(packages, nil, genproto.Options{GoPackage: "example.com/x"})
	if err != nil {
		t.Fatal(err)
	}
	var archive txtar.Archive
	for _, name := range slices.Sorted(maps.Keys(files)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: files[name]})
	}
	testcase.Golden(t, "testdata/golden.txtar", string(txtar.Format(&archive)), *update)
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
