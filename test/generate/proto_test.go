package generate

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"espalier.dev/analysis/generate"
	genproto "espalier.dev/analysis/generate/proto"
	"espalier.dev/schema"
)

// compile compiles a .proto file.
func compile(t testing.TB, text string) (protoreflect.FileDescriptor, error) {
	t.Helper()
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"types.proto": text})}}
	files, err := c.Compile(context.WithoutCancel(t.Context()), "types.proto")
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// checkCompiled compiles the messages of a package. The descriptor must be the one that
// the file claims to have, and the schemas derived from it those of the CRDs.
func checkCompiled(t *testing.T, name string, p *generate.Package) {
	t.Helper()
	f := genproto.NewFile(p, genproto.NewLock(genproto.PackageName(p.Group, p.Version)))
	compiled, err := compile(t, string(f.Text()))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	own, err := f.Descriptor("types.proto")
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if got, want := protodesc.ToFileDescriptorProto(own), protodesc.ToFileDescriptorProto(compiled); !proto.Equal(got, want) {
		t.Errorf("%s: the descriptor is %v, want %v", name, got, want)
	}
	for _, k := range p.Kinds {
		s, err := genproto.Schema(compiled.Messages().ByName(protoreflect.Name(f.MessageName(k.Name))))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(s, genproto.Skeleton(k.Type.Schema, schema.KEP)) {
			t.Errorf("%s: the schema of %s differs", name, k.Name)
		}
	}
}

// TestProtoCorpus compiles the messages of the corpus.
func TestProtoCorpus(t *testing.T) {
	t.Parallel()
	t.Run("S-16 OpenAPI to Protobuf to OpenAPI", protoToOpenAPI)
}

func protoToOpenAPI(t *testing.T) {
	count := 0
	for file, all := range corpus(t) {
		for _, p := range all {
			count++
			checkCompiled(t, file+" "+p.Version, p)
		}
	}
	t.Logf("%d versions compiled", count)
}

// TestProtoNames compiles messages whose fields have names that are keywords, types or not
// identifiers, or that differ too little.
func TestProtoNames(t *testing.T) {
	t.Parallel()
	names := strings.Fields(`syntax import weak public package option inf repeated optional required bool string bytes float double
		int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 group oneof map extensions to max reserved enum
		message extend service rpc stream returns true false nan null edition Object objectMeta ObjectMeta intOrString embeddedResource
		a A _a a_ a__b aB a_b a-b a.b a1 a_1 a1b 1a 0 - $ref x-y @empty @unknown @@empty emptyFields empty_fields unknownFields
		fooEntry foo FooEntry key value items entries kind raw é 名前 ключ []`)
	names = append(names, "", " ", "\n", "\"", `\`, "\x00", "*/", "//", "\u2028")
	for _, field := range []string{
		`{"type": "string"}`,
		`{"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}}`,
		`{"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}`,
		`{"type": "object", "nullable": true, "properties": {"x": {"x-kubernetes-int-or-string": true}}}`,
	} {
		properties := make([]string, len(names))
		for i, name := range names {
			properties[i] = fmt.Sprintf("%s: %s", quoteJSON(t, name), field)
		}
		for _, kind := range []string{"Test", "ObjectMeta", "IntOrString", "Message"} {
			text := fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "tests.my-group.3scale.package"},
				"spec": {"group": "my-group.3scale.package", "scope": "Namespaced", "names": {"plural": "tests", "kind": %q},
				"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties":
				{"spec": {"type": "object", "properties": {%s}}}}}}]}}`, kind, strings.Join(properties, ", "))
			all := packages(t, []byte(text))
			if len(all) != 1 {
				t.Fatalf("%d packages", len(all))
			}
			checkCompiled(t, kind+" with fields "+field, all[0])
			if field == `{"type": "string"}` {
				checkNames(t, all[0], names)
			}
		}
	}
}

// checkNames converts an object whose spec has a string for each name.
func checkNames(t *testing.T, p *generate.Package, names []string) {
	t.Helper()
	f := genproto.NewFile(p, genproto.NewLock(genproto.PackageName(p.Group, p.Version)))
	compiled, err := compile(t, string(f.Text()))
	if err != nil {
		t.Fatal(err)
	}
	c, err := genproto.NewCodec(compiled.Messages().ByName(protoreflect.Name(f.MessageName(p.Kinds[0].Name))))
	if err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{}
	for _, name := range names {
		spec[name] = "value of " + name
	}
	want, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(c.Descriptor())
	if err := c.Unmarshal(want, m); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Marshal(m); err != nil || string(got) != string(want) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
