package fields

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/yaml"

	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/openapi"
	"espalier.dev/schema"
)

// corpusObjects calls f for objects of the corpus with their CRDs.
func corpusObjects(t *testing.T, f func(t *testing.T, d *crd.Definition, obj *unstructured.Unstructured)) {
	root := testcase.Corpus(t)
	index, err := os.ReadFile(filepath.Join(root, "CR_INDEX.tsv"))
	if err != nil {
		t.Skipf("no corpus here (%v); ESPALIER_CORPUS says where it is", err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		data, err = yaml.YAMLToJSON(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return data
	}
	definitions := map[string]*crd.Definition{}
	for _, line := range testcase.Part(strings.Split(strings.TrimSpace(string(index)), "\n")[1:]) {
		columns := strings.Split(line, "\t")
		d, ok := definitions[columns[1]]
		if !ok {
			c, err := codec.DecodeLenient(read(columns[1]))
			if err != nil {
				t.Fatalf("%s: %v", columns[1], err)
			}
			c.Status.AcceptedNames = c.Spec.Names
			if d, err = crd.New(c, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true}); err != nil {
				t.Fatalf("%s: %v", columns[1], err)
			}
			definitions[columns[1]] = d
		}
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal(read(columns[0]), obj); err != nil {
			continue // not an object at all
		}
		f(t, d, obj)
	}
}

// TestTypesOfApply checks that the types that server-side apply derives from a schema equal
// those of the published OpenAPI documents.
func TestTypesOfApply(t *testing.T) {
	if testing.Short() {
		t.Skip("reads objects of the corpus")
	}
	builder := openapi.New(openapi.Options{Scheme: clientscheme.Scheme})
	type converters struct{ ours, published managedfields.TypeConverter }
	known := map[*crd.Definition]converters{}
	compared, refused := 0, 0
	corpusObjects(t, func(t *testing.T, d *crd.Definition, obj *unstructured.Unstructured) {
		v := d.Version(obj.GroupVersionKind().Version)
		if v == nil || v.Structural() == nil || len(schema.Check(v.Structural(), schema.Kubernetes)) > 0 {
			return
		}
		c, ok := known[d]
		if !ok {
			c.ours = NewTypes(d)
			doc := openapi.MergeV3(func() (docs []*spec3.OpenAPI) {
				for _, v := range d.Versions() {
					if doc, err := builder.V3(v); err == nil {
						docs = append(docs, doc)
					}
				}
				return docs
			}()...)
			var err error
			if c.published, err = managedfields.NewTypeConverter(doc.Components.Schemas, d.PreservesUnknownFields()); err != nil {
				t.Fatal(d.Name(), err)
			}
			known[d] = c
		}
		p, err := v.Program()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Normalize(obj.Object, schema.DecodeOptions{FromStorage: true}); err != nil {
			return
		}
		want, wantErr := c.published.ObjectToTyped(obj)
		got, gotErr := c.ours.ObjectToTyped(obj)
		if (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s %s: published: %v, ours: %v", d.Name(), obj.GetName(), wantErr, gotErr)
			return
		}
		if wantErr != nil {
			refused++
			return
		}
		a, err := want.ToFieldSet()
		if err != nil {
			t.Fatal(err)
		}
		b, err := got.ToFieldSet()
		if err != nil {
			t.Fatal(err)
		}
		if !a.Equals(b) {
			t.Errorf("%s %s: the published types own %s, ours %s", d.Name(), obj.GetName(), a.Difference(b), b.Difference(a))
		}
		compared++
	})
	t.Logf("%d objects, %d not of their type", compared, refused)
}
