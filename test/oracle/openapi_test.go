package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/openapi"
	"espalier.dev/schema"
)

// TestOpenAPI compares the published documents of CRDs of the corpus. Many schemas of v1beta1 CRDs are
// not published because they are not structural, or preserve unknown fields.
func TestOpenAPI(t *testing.T) {
	c := readCorpus(t)
	judge, ours := NewCRDComparer(), openapi.New(openapi.Options{Scheme: scheme.Scheme})
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			definitions, documents := 0, 0
			for _, name := range testcase.Part(c.files(t, version)) {
				tree := c.read(t, name)
				if version == "v1beta1" {
					if tree = asV1(t, tree); tree == nil {
						continue
					}
				} else if v := judge.Reference(CRDCase{New: tree}); v.Undecodable != nil || len(v.Errors) > 0 {
					continue
				}
				differences, n, err := compareOpenAPI(ours, tree)
				if err != nil && version == "v1beta1" {
					t.Logf("%s: %v", name, err) // both sides reject the CRD
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				definitions++
				documents += n
				if len(differences) > 0 {
					t.Errorf("%s: %d differences, such as %s", name, len(differences), differences[:min(len(differences), 5)])
				}
			}
			t.Logf("%d CRDs, %d documents", definitions, documents)
			if documents == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

// asV1 returns a v1beta1 CRD in version v1, or nil if it cannot be read.
func asV1(t *testing.T, tree map[string]any) map[string]any {
	t.Helper()
	definition, err := codec.Decode(mustJSON(tree))
	if err != nil {
		return nil
	}
	text, err := codec.Encode(definition, api.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	return parse(text)
}

// TestOpenAPIGenerated compares the published documents of generated schemas, structural ones
// and ones that are not published.
func TestOpenAPIGenerated(t *testing.T) {
	b := openapi.New(openapi.Options{Scheme: scheme.Scheme})
	var documents int
	for n := range setting(t, "ORACLE_OPENAPI", 100) {
		generated := Generator{}.batch(n).rootSchema()
		tree := map[string]any{
			"metadata": map[string]any{"name": "things.example.com"},
			"spec": map[string]any{
				"group": "example.com",
				"scope": []any{"Cluster", "Namespaced"}[n%2],
				"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true,
					"schema":           map[string]any{"openAPIV3Schema": generated},
					"selectableFields": []any{map[string]any{"jsonPath": ".spec.color"}},
					"subresources":     map[string]any{"status": map[string]any{}, "scale": map[string]any{"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}},
				}},
				"preserveUnknownFields": n%7 == 0,
			},
		}
		differences, compared, err := compareOpenAPI(b, tree)
		if err != nil {
			t.Logf("%d: %v", n, err)
			continue
		}
		documents += compared
		if len(differences) > 0 {
			t.Fatalf("%d: %s\nschema: %s", n, differences, mustJSON(generated))
		}
	}
	t.Logf("%d documents", documents)
	if documents == 0 {
		t.Error("nothing was compared")
	}
}

// compareOpenAPI compares the documents of all versions of a CRD and returns the differences
// and the number of documents.
func compareOpenAPI(b *openapi.Builder, tree map[string]any) (differences []string, documents int, err error) {
	theirs := &apiextensionsv1.CustomResourceDefinition{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(mustJSON(tree), theirs); err != nil {
		return nil, 0, err
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(theirs)
	decoded, err := decodeOurs(tree)
	if err != nil {
		return nil, 0, err
	}
	ours, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
	if err != nil {
		return nil, 0, err
	}
	for _, v := range ours.Versions() {
		for _, version := range []struct {
			name         string
			ours, theirs func() (any, error)
		}{{
			"v3",
			func() (any, error) { return b.V3(v) },
			func() (any, error) {
				return builder.BuildOpenAPIV3(theirs, v.Name(), builder.Options{IncludeSelectableFields: true})
			},
		}, {
			"v2",
			func() (any, error) { return b.V2(v) },
			func() (any, error) {
				return builder.BuildOpenAPIV2(theirs, v.Name(), builder.Options{V2: true, IncludeSelectableFields: true})
			},
		}} {
			got, err := asTree(version.ours())
			if err != nil {
				return differences, documents, err
			}
			want, err := asTree(version.theirs())
			if err != nil {
				return differences, documents, err
			}
			documents++
			compareTrees(v.Name()+" "+version.name, got, want, func(d string) { differences = append(differences, d) })
		}
	}
	return differences, documents, nil
}

func asTree(doc any, err error) (tree any, _ error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return tree, json.Unmarshal(text, &tree)
}

// compareTrees reports where two JSON values differ, as precisely as possible.
func compareTrees(path string, got, want any, report func(string)) {
	g, ok1 := got.(map[string]any)
	w, ok2 := want.(map[string]any)
	if !ok1 || !ok2 {
		if !reflect.DeepEqual(got, want) {
			report(fmt.Sprintf("%s: got %.300v, want %.300v", path, short(got), short(want)))
		}
		return
	}
	for _, k := range slices.Sorted(maps.Keys(g)) {
		if v, ok := w[k]; ok {
			compareTrees(path+"/"+k, g[k], v, report)
		} else {
			report(fmt.Sprintf("%s/%s: got %.300v, want nothing", path, k, short(g[k])))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(w)) {
		if _, ok := g[k]; !ok {
			report(fmt.Sprintf("%s/%s: got nothing, want %.300v", path, k, short(w[k])))
		}
	}
}

func short(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// TestOpenAPIOfDefinitions compares the schemas of the CRD resource itself. Descriptions
// differ, and a few keywords exist only on our side.
func TestOpenAPIOfDefinitions(t *testing.T) {
	theirs := generatedopenapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) })
	// only on our side, by version
	added := map[string][]string{
		"v1": {
			"JSONSchemaProps/properties/readOnly", "JSONSchemaProps/properties/x-kubernetes-unions", "Union",
		},
		"v1beta1": {
			"JSONSchemaProps/properties/readOnly", "JSONSchemaProps/properties/x-kubernetes-unions", "Union",
			// Lists of types belong to the 2017 dialect.
			"JSONSchemaProps/properties/type/type", "CustomResourceValidation/properties/jsonSchema",
			// One type of the reference corresponds to two of ours.
			"CustomResourceVersionSchema", "CustomResourceDefinitionVersion/properties/schema/$ref",
		},
	}
	for version, added := range added {
		doc, err := openapi.New(openapi.Options{}).DefinitionsV2(version)
		if err != nil {
			t.Fatal(err)
		}
		prefix := "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions." + version + "."
		compared := 0
		for name, s := range doc.Definitions {
			name, ok := strings.CutPrefix(name, prefix)
			if !ok || slices.Contains(added, name) {
				continue
			}
			compared++
			got, err := asTree(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := asTree(theirs[prefix+name].Schema, nil)
			if err != nil {
				t.Fatal(err)
			}
			delete(got.(map[string]any), "x-kubernetes-group-version-kind")
			dropDescriptions(got)
			dropDescriptions(want)
			compareTrees(name, got, want, func(d string) {
				if at, _, _ := strings.Cut(d, ": "); !slices.Contains(added, at) {
					t.Errorf("%s: %s", version, d)
				}
			})
		}
		if compared < 20 {
			t.Errorf("%s: only %d types", version, compared)
		}
	}
}

// dropDescriptions removes the descriptions from a schema.
func dropDescriptions(v any) {
	m, _ := v.(map[string]any)
	if _, ok := m["description"].(string); ok {
		delete(m, "description")
	}
	for _, child := range m {
		dropDescriptions(child)
	}
}
