package proto_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/generatetest"
	genproto "espalier.dev/analysis/generate/proto"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// packages returns the packages of a CRD in YAML, which may have none.
func packages(t testing.TB, text []byte, sem schema.Semantics) []*generate.Package {
	t.Helper()
	all, _ := generate.Build([]generate.Input{generatetest.Input(t, string(text), sem)})
	return all
}

// file generates a package without a history.
func file(p *generate.Package) *genproto.File {
	return genproto.NewFile(p, genproto.NewLock(genproto.PackageName(p.Group, p.Version)))
}

// message returns the descriptor of the message of a kind.
func message(t testing.TB, f *genproto.File, kind string) protoreflect.MessageDescriptor {
	t.Helper()
	d, err := f.Descriptor("types.proto")
	if err != nil {
		t.Fatal(err)
	}
	m := d.Messages().ByName(protoreflect.Name(f.MessageName(kind)))
	if m == nil {
		t.Fatalf("no message for %s", kind)
	}
	return m
}

// TestCorpusSchemas generates messages from the CRDs of the corpus, and the schemas from the
// messages again.
func TestCorpusSchemas(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(testcase.Corpus(t), "v1", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	versions := 0
	for i, name := range testcase.Part(files) {
		if testing.Short() && i%4 > 0 {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			for _, p := range packages(t, text, sem) {
				f := file(p)
				for _, k := range p.Kinds {
					versions++
					got, err := genproto.Schema(message(t, f, k.Name))
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					want := genproto.Skeleton(k.Type.Schema, sem)
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s: version %s: the schema is %s, want %s", name, p.Version, marshal(t, got.ToJSONSchemaProps()), marshal(t, want.ToJSONSchemaProps()))
					}
				}
			}
		}
	}
	t.Logf("%d schemas", versions)
}

// TestCorpusObjects converts the objects of the corpus to messages, to bytes, and back.
func TestCorpusObjects(t *testing.T) {
	t.Parallel()
	root := testcase.Corpus(t)
	codecs := map[string]*genproto.Codec{}
	programs := map[string]*schema.Program{}
	objects := 0
	for i, o := range testcase.Part(index(t, root)) {
		if testing.Short() && i%4 > 0 {
			continue
		}
		key := o.crd + " " + o.version
		if _, ok := codecs[key]; !ok {
			codecs[key] = nil
			text, err := os.ReadFile(filepath.Join(root, o.crd))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range packages(t, text, schema.Kubernetes) {
				if p.Version != o.version {
					continue
				}
				if codecs[key], err = genproto.NewCodec(message(t, file(p), p.Kinds[0].Name)); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				if programs[key], err = p.Kinds[0].Version.Program(); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
			}
		}
		if codecs[key] == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, o.file))
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			continue
		}
		object, _, err := programs[key].Decode(data, schema.DecodeOptions{})
		if err != nil || len(programs[key].Validate(t.Context(), object, nil)) > 0 {
			continue
		}
		objects++
		data, err = json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, o.file, codecs[key], data)
	}
	t.Logf("%d objects", objects)
}

type object struct{ file, crd, version string }

// index returns the objects of the corpus.
func index(t *testing.T, root string) (all []object) {
	f, err := os.Open(filepath.Join(root, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		parts := strings.Split(s.Text(), "\t")
		if len(parts) == 4 && strings.HasPrefix(parts[1], "v1/") {
			all = append(all, object{parts[0], parts[1], parts[2][strings.LastIndex(parts[2], "/")+1:]})
		}
	}
	return all
}

// roundTrip converts an object to Protobuf and back, and expects the same object.
func roundTrip(t *testing.T, name string, c *genproto.Codec, data []byte) {
	t.Helper()
	m := dynamicpb.NewMessage(c.Descriptor())
	if err := c.Unmarshal(data, m); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	again := dynamicpb.NewMessage(c.Descriptor())
	if err := proto.Unmarshal(wire, again); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	back, err := c.Marshal(again)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	var got, want any
	if json.Unmarshal(back, &got) != nil || json.Unmarshal(data, &want) != nil {
		t.Errorf("%s: invalid JSON", name)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %s became %s", name, data, back)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
