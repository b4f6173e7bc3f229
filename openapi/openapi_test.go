package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/util/proto"
	"sigs.k8s.io/yaml"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// version makes a definition with a schema for spec and returns its version. The
// schema is YAML.
func version(t testing.TB, sem schema.Semantics, spec string, change ...func(*api.CustomResourceDefinition)) *crd.Version {
	t.Helper()
	s := &api.JSONSchemaProps{}
	if err := yaml.Unmarshal([]byte(spec), s); err != nil {
		t.Fatal(err)
	}
	definition := &api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "crontabs.stable.example.com"},
		Spec: api.CustomResourceDefinitionSpec{
			Group: "stable.example.com",
			Scope: api.NamespaceScoped,
			Names: api.CustomResourceDefinitionNames{Plural: "crontabs", Kind: "CronTab"},
			Versions: []api.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{
					Type:       api.StringOrArray{"object"},
					Properties: map[string]api.JSONSchemaProps{"spec": *s},
				}},
			}},
		},
	}
	api.SetDefaults(definition)
	for _, c := range change {
		c(definition)
	}
	d, err := crd.New(definition, crd.Options{Semantics: sem, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Versions()[0]
}

const object = "com.example.stable.v1.CronTab"

// documents are the two documents of a version, as trees.
func documents(t testing.TB, v *crd.Version) (v3, v2 map[string]any) {
	t.Helper()
	b := New(Options{})
	three, err := b.V3(v)
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.V2(v)
	if err != nil {
		t.Fatal(err)
	}
	return tree(t, three), tree(t, two)
}

func tree(t testing.TB, doc any) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// at follows a path of names.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// publishedSpec returns what is published for spec as v3 and v2.
func publishedSpec(t testing.TB, sem schema.Semantics, spec string) (v3, v2 any) {
	t.Helper()
	three, two := documents(t, version(t, sem, spec))
	return at(three, "components", "schemas", object, "properties", "spec"), at(two, "definitions", object, "properties", "spec")
}

func fromYAML(t testing.TB, text string) (out any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// same compares trees. A text "*" in want stands for anything that is there.
func same(got, want any) error {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		for k := range want {
			if err := same(got[k], want[k]); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
		return nil
	case string:
		if want == "*" && got != nil {
			return nil
		}
	}
	if list, ok := want.([]any); ok {
		if got, ok := got.([]any); ok && len(got) == len(list) {
			for i := range list {
				if err := same(got[i], list[i]); err != nil {
					return fmt.Errorf("[%d]: %w", i, err)
				}
			}
			return nil
		}
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// TestRows proves rows of the ledger on documents.
func TestRows(t *testing.T) {
	type form struct {
		name, spec, v3, v2 string
		semantics          schema.Semantics
	}
	check := func(t *testing.T, forms []form) {
		for _, f := range forms {
			t.Run(f.name, func(t *testing.T) {
				v3, v2 := publishedSpec(t, f.semantics, f.spec)
				if err := same(v3, fromYAML(t, f.v3)); err != nil {
					t.Errorf("v3: %v", err)
				}
				if err := same(v2, fromYAML(t, f.v2)); err != nil {
					t.Errorf("v2: %v", err)
				}
			})
		}
	}
	t.Run("S-09", func(t *testing.T) {
		check(t, []form{{
			name: "int-or-string",
			spec: `{x-kubernetes-int-or-string: true}`,
			v3:   `{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}`,
			v2:   `{x-kubernetes-int-or-string: true}`,
		}, {
			name: "embedded resource",
			spec: `{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: string}}}`,
			v3: `{type: object, x-kubernetes-embedded-resource: true, required: [kind, apiVersion],
				properties: {a: {type: string}, apiVersion: {type: string, pattern: "*"}, kind: {type: string}, metadata: "*"}}`,
			v2: `{type: object, x-kubernetes-embedded-resource: true, required: [kind, apiVersion],
				properties: {a: {type: string}, apiVersion: {type: string}, kind: {type: string}, metadata: "*"}}`,
		}, {
			name:      "embedded resource, as kube-apiserver has it",
			semantics: schema.Kubernetes,
			spec:      `{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: string}}}`,
			v3: `{type: object, x-kubernetes-embedded-resource: true, required: [kind, apiVersion], properties: {
				a: {type: string}, apiVersion: {type: string, description: "*"}, kind: {type: string, description: "*"},
				metadata: {description: "*", allOf: [{$ref: "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]}}}`,
			v2: `{type: object, x-kubernetes-embedded-resource: true, required: [kind, apiVersion], properties: {
				a: {type: string}, apiVersion: {type: string, description: "*"}, kind: {type: string, description: "*"},
				metadata: {description: "*", $ref: "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}}`,
		}, {
			name: "union",
			spec: `{type: object, x-kubernetes-unions: [{discriminator: type, fields: {bar: Bar, foo: Foo}}],
				properties: {type: {type: string}, foo: {type: object}, bar: {type: object}}}`,
			v3: `{type: object, x-kubernetes-unions: [{discriminator: type, fields: {bar: Bar, foo: Foo}}],
				oneOf: [{required: [bar]}, {required: [foo]}], anyOf: "*",
				properties: {type: {type: string, enum: [Bar, Foo]}, foo: {type: object}, bar: {type: object}}}`,
			v2: `{type: object, x-kubernetes-unions: [{discriminator: type, fields: {bar: Bar, foo: Foo}}],
				properties: {type: {type: string, enum: [Bar, Foo]}, foo: {type: object}, bar: {type: object}}}`,
		}, {
			name: "markers stay",
			spec: `{type: object, x-kubernetes-map-type: granular, x-kubernetes-validations: [{rule: "true"}], properties: {
				l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}}}`,
			v3: `{type: object, x-kubernetes-map-type: granular, x-kubernetes-validations: [{rule: "true"}], properties: {
				l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}}}`,
			v2: `{type: object, x-kubernetes-map-type: granular, x-kubernetes-validations: [{rule: "true"}], properties: {
				l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}}}`,
		}})
	})
	t.Run("S-10", func(t *testing.T) {
		everything := `{type: object, required: [s, o], nullable: false, not: {required: [z]}, properties: {
			s: {type: string, pattern: "^a", minLength: 1, default: abc, oneOf: [{maxLength: 3}, {minLength: 7}]},
			o: {type: object, nullable: true, properties: {a: {type: string}}},
			u: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}},
			l: {type: array, nullable: true, items: {type: string}}}}`
		weak := func(pattern string) string {
			return `{type: object, required: [s], properties: {
				s: {type: string, ` + pattern + `minLength: 1, default: abc}, o: {}, u: {x-kubernetes-preserve-unknown-fields: true}, l: {}}}`
		}
		whole := strings.Replace(everything, "nullable: false, ", "", 1)
		check(t, []form{
			{name: "documents", spec: everything, v3: whole, v2: weak("")},
			{name: "kubernetes", semantics: schema.Kubernetes, spec: everything, v3: whole, v2: weak(`pattern: "^a", `)},
		})
	})
	t.Run("S-11", func(t *testing.T) {
		union := `type: object, x-kubernetes-unions: [{discriminator: type, fields: {emptyDir: EmptyDir, hostPath: HostPath}}], required: [sharedField], properties: {
			type: {type: string, enum: [EmptyDir, HostPath]}, emptyDir: {type: object}, sharedField: {type: string},
			hostPath: {type: object, required: [path], properties: {path: {type: string`
		v4, v6 := `"^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\\.){3}$"`, `"(([0-9a-fA-F]{1,4}:){7,7}[0-9a-fA-F]{1,4})$"`
		check(t, []form{{
			name: "union",
			spec: `{` + union + `, pattern: "/.*"}}}}}`,
			v3:   `{oneOf: [{required: [emptyDir]}, {required: [hostPath]}], anyOf: "*", ` + union + `, pattern: "/.*"}}}}}`,
			v2:   `{` + union + `}}}}}`,
		}, {
			name: "IPv4 or IPv6",
			spec: `{type: string, anyOf: [{pattern: ` + v4 + `}, {pattern: ` + v6 + `}]}`,
			v3:   `{type: string, anyOf: [{pattern: ` + v4 + `}, {pattern: ` + v6 + `}]}`,
			v2:   `{type: string}`,
		}, {
			name: "RawExtension",
			spec: `{type: object, nullable: true, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {apiVersion: {type: string, pattern: v1}}}`,
			v3: `{type: object, nullable: true, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, required: [kind, apiVersion],
				properties: {apiVersion: {type: string, allOf: [{type: string, pattern: "*"}, {pattern: v1}]}, kind: {type: string}, metadata: "*"}}`,
			v2: `{x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, required: [kind, apiVersion]}`,
		}, {
			name: "JSON",
			spec: `{type: object, properties: {json: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true}}}`,
			v3:   `{type: object, properties: {json: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true}}}`,
			v2:   `{type: object, properties: {json: {x-kubernetes-preserve-unknown-fields: true}}}`,
		}, {
			name: "string map",
			spec: `{type: object, additionalProperties: {type: integer, minimum: 42}}`,
			v3:   `{type: object, additionalProperties: {type: integer, minimum: 42}}`,
			v2:   `{type: object, additionalProperties: {type: integer, minimum: 42}}`,
		}, {
			name: "IntOrString",
			spec: `{x-kubernetes-int-or-string: true, pattern: abc, anyOf: [{minimum: 42, maximum: 50}, {minimum: 52, maximum: 60}]}`,
			v3: `{x-kubernetes-int-or-string: true, allOf: [{anyOf: [{type: integer}, {type: string}]},
				{pattern: abc, anyOf: [{minimum: 42, maximum: 50}, {minimum: 52, maximum: 60}]}]}`,
			v2: `{x-kubernetes-int-or-string: true}`,
		}})
	})
	t.Run("S-17", func(t *testing.T) {
		spec := `{type: object, readOnly: true, properties: {
			a: {type: string, readOnly: true}, o: {type: object, nullable: true, readOnly: true, properties: {b: {type: string}}},
			l: {type: array, items: {type: string, readOnly: true}}, m: {type: object, additionalProperties: {type: integer, readOnly: true}},
			p: {x-kubernetes-int-or-string: true, readOnly: true}, w: {type: string, readOnly: false}}}`
		v3 := `{type: object, readOnly: true, properties: {
			a: {type: string, readOnly: true}, o: {type: object, nullable: true, readOnly: true, properties: {b: {type: string}}},
			l: {type: array, items: {type: string, readOnly: true}}, m: {type: object, additionalProperties: {type: integer, readOnly: true}},
			p: {x-kubernetes-int-or-string: true, readOnly: true, anyOf: [{type: integer}, {type: string}]}, w: {type: string}}}`
		v2 := `{type: object, readOnly: true, properties: {
			a: {type: string, readOnly: true}, o: {readOnly: true},
			l: {type: array, items: {type: string, readOnly: true}}, m: {type: object, additionalProperties: {type: integer, readOnly: true}},
			p: {x-kubernetes-int-or-string: true, readOnly: true}, w: {type: string}}}`
		without := strings.NewReplacer(", readOnly: true", "", "{readOnly: true}", "{}")
		check(t, []form{
			{name: "documents", spec: spec, v3: v3, v2: v2},
			{name: "kubernetes", semantics: schema.Kubernetes, spec: spec, v3: without.Replace(v3), v2: without.Replace(v2)},
		})
	})
	t.Run("S-13", func(t *testing.T) {
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			for name, spec := range map[string]string{
				"not structural":       `{properties: {a: {type: string}}}`,
				"not even convertible": `{type: object, properties: {a: {type: string, $schema: "http://json-schema.org/draft-04/schema#"}}}`,
				"unheard-of type":      `{type: object, properties: {a: {type: text}}}`,
			} {
				v3, v2 := documents(t, version(t, sem, spec))
				want := map[string]any{"type": "object", "x-kubernetes-group-version-kind": "*"}
				if err := same(at(v3, "components", "schemas", object), want); err != nil {
					t.Errorf("%s, %s, v3: %v", name, sem, err)
				}
				if err := same(at(v2, "definitions", object), want); err != nil {
					t.Errorf("%s, %s, v2: %v", name, sem, err)
				}
			}
		}
	})
}

// TestPaths looks at what one can do, and whether it follows from the definition.
func TestPaths(t *testing.T) {
	all := func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{
			Status: &api.CustomResourceSubresourceStatus{},
			Scale:  &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a"},
		}
	}
	cluster := func(c *api.CustomResourceDefinition) { c.Spec.Scope = api.ClusterScoped }
	const one = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs"
	for _, tt := range []struct {
		name   string
		change []func(*api.CustomResourceDefinition)
		want   []string
	}{{
		name:   "namespaced with subresources",
		change: []func(*api.CustomResourceDefinition){all},
		want: []string{
			"/apis/stable.example.com/v1/crontabs get listStableExampleComV1CronTabForAllNamespaces list",
			one + " delete deleteStableExampleComV1CollectionNamespacedCronTab deletecollection",
			one + " get listStableExampleComV1NamespacedCronTab list",
			one + " post createStableExampleComV1NamespacedCronTab post",
			one + "/{name} delete deleteStableExampleComV1NamespacedCronTab delete",
			one + "/{name} get readStableExampleComV1NamespacedCronTab get",
			one + "/{name} patch patchStableExampleComV1NamespacedCronTab patch",
			one + "/{name} put replaceStableExampleComV1NamespacedCronTab put",
			one + "/{name}/scale get readStableExampleComV1NamespacedCronTabScale get",
			one + "/{name}/scale patch patchStableExampleComV1NamespacedCronTabScale patch",
			one + "/{name}/scale put replaceStableExampleComV1NamespacedCronTabScale put",
			one + "/{name}/status get readStableExampleComV1NamespacedCronTabStatus get",
			one + "/{name}/status patch patchStableExampleComV1NamespacedCronTabStatus patch",
			one + "/{name}/status put replaceStableExampleComV1NamespacedCronTabStatus put",
		},
	}, {
		name:   "cluster-scoped without",
		change: []func(*api.CustomResourceDefinition){cluster},
		want: []string{
			"/apis/stable.example.com/v1/crontabs delete deleteStableExampleComV1CollectionCronTab deletecollection",
			"/apis/stable.example.com/v1/crontabs get listStableExampleComV1CronTab list",
			"/apis/stable.example.com/v1/crontabs post createStableExampleComV1CronTab post",
			"/apis/stable.example.com/v1/crontabs/{name} delete deleteStableExampleComV1CronTab delete",
			"/apis/stable.example.com/v1/crontabs/{name} get readStableExampleComV1CronTab get",
			"/apis/stable.example.com/v1/crontabs/{name} patch patchStableExampleComV1CronTab patch",
			"/apis/stable.example.com/v1/crontabs/{name} put replaceStableExampleComV1CronTab put",
		},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			v3, v2 := documents(t, version(t, schema.KEP, `{type: object}`, tt.change...))
			for name, doc := range map[string]map[string]any{"v3": v3, "v2": v2} {
				var got []string
				paths, _ := doc["paths"].(map[string]any)
				for path, item := range paths {
					for method, op := range item.(map[string]any) {
						if method != "parameters" {
							got = append(got, fmt.Sprint(path, " ", method, " ", at(op, "operationId"), " ", at(op, "x-kubernetes-action")))
						}
					}
				}
				slices.Sort(got)
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
			}
		})
	}
}

// TestDefinitions reads the description of CustomResourceDefinitions as kubectl does.
func TestDefinitions(t *testing.T) {
	b := New(Options{})
	for _, version := range []string{"v1", "v1beta1"} {
		v2, err := b.DefinitionsV2(version)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v2)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := openapi_v2.ParseDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		models, err := proto.NewOpenAPIData(doc)
		if err != nil {
			t.Fatal(err)
		}
		m := models.LookupModel(definitionsName + version + ".CustomResourceDefinition")
		if m == nil {
			t.Fatalf("%s: no CustomResourceDefinition among %v", version, models.ListModels())
		}
		gvks, _ := m.GetExtensions()["x-kubernetes-group-version-kind"].([]any)
		if len(gvks) != 1 || fmt.Sprint(gvks[0]) != "map[group:apiextensions.k8s.io kind:CustomResourceDefinition version:"+version+"]" {
			t.Errorf("%s is of %v", version, gvks)
		}
		names := m.(*proto.Kind).Fields["spec"].(proto.Reference).SubSchema().(*proto.Kind).Fields["names"]
		if got := names.GetDescription(); got != "names are the names of the resource." {
			t.Errorf("%s: spec.names: %q", version, got)
		}
		v3, err := b.DefinitionsV3(version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := managedfields.NewTypeConverter(v3.Components.Schemas, false); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	if _, err := b.DefinitionsV3("v2"); err == nil || !strings.Contains(err.Error(), `no version "v2"`) {
		t.Errorf("a version that there is not: %v", err)
	}
}

// TestUse hands documents to those who use them: as protobuf to clients, as types to
// server-side apply.
func TestUse(t *testing.T) {
	v := version(t, schema.KEP, `{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}`,
		func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].SelectableFields = []api.SelectableField{{JSONPath: ".spec.color"}}
		})
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Group: "b.example.com", Version: "v1"})
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Group: "a.example.com", Version: "v1"})
	b := New(Options{Scheme: scheme})
	v3, err := b.V3(v)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := b.V2(v)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("protobuf", func(t *testing.T) {
		text, err := json.Marshal(v3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := handler3.ToV3ProtoBinary(text); err != nil {
			t.Errorf("v3: %v", err)
		}
		if text, err = json.Marshal(v2); err != nil {
			t.Fatal(err)
		}
		if _, err := handler.ToProtoBinary(text); err != nil {
			t.Errorf("v2: %v", err)
		}
	})
	t.Run("apply", func(t *testing.T) {
		types, err := managedfields.NewTypeConverter(v3.Components.Schemas, false)
		if err != nil {
			t.Fatal(err)
		}
		typed, err := types.ObjectToTyped(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "stable.example.com/v1", "kind": "CronTab", "spec": map[string]any{"l": []any{"a"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		fields, err := typed.ToFieldSet()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fields.String(), `.spec.l[="a"]`) {
			t.Errorf("the items of a set are not fields of their own: %s", fields)
		}
	})
	t.Run("kinds of shared types", func(t *testing.T) {
		got := v3.Components.Schemas[metav1.DeleteOptions{}.OpenAPIModelName()].Extensions[gvkExtension]
		want := kindList(
			runtimeschema.GroupVersionKind{Group: "a.example.com", Version: "v1", Kind: "DeleteOptions"},
			runtimeschema.GroupVersionKind{Group: "b.example.com", Version: "v1", Kind: "DeleteOptions"})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("selectable fields", func(t *testing.T) {
		for _, name := range []string{object, object + "List"} {
			got := v3.Components.Schemas[name].Extensions["x-kubernetes-selectable-fields"]
			if want := []any{map[string]any{"fieldPath": "spec.color"}}; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	})
}

// TestMerge merges a definition whose name is that of a shared one.
func TestMerge(t *testing.T) {
	evil := version(t, schema.KEP, `{type: object}`, func(c *api.CustomResourceDefinition) {
		c.Spec.Group = "meta.apis.pkg.apimachinery.k8s.io"
		c.Spec.Names.Kind = "ObjectMeta"
	})
	b := New(Options{})
	good := version(t, schema.KEP, `{type: object}`)
	one, err := b.V2(good)
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.V2(evil)
	if err != nil {
		t.Fatal(err)
	}
	before := tree(t, one)
	merged := MergeV2(one, other)
	if _, ok := merged.Definitions[metav1.ObjectMeta{}.OpenAPIModelName()].Properties["managedFields"]; !ok {
		t.Error("somebody else's definition took the place of ObjectMeta")
	}
	if got, want := len(merged.Paths.Paths), len(one.Paths.Paths)+len(other.Paths.Paths); got != want {
		t.Errorf("%d paths, want %d", got, want)
	}
	if !reflect.DeepEqual(tree(t, one), before) {
		t.Error("a document was changed")
	}
	doc, err := b.V3(good)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tree(t, MergeV3(doc, doc)), tree(t, doc)) {
		t.Error("a document merged with itself is another one")
	}
}

// TestHostile describes definitions that nobody would write.
func TestHostile(t *testing.T) {
	deep := &api.JSONSchemaProps{Type: api.StringOrArray{"string"}}
	for range 500 {
		deep = &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{"a": *deep}}
	}
	for name, change := range map[string]func(*api.CustomResourceDefinition){
		"no schema":    func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Schema = nil },
		"empty schema": func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Schema = &api.CustomResourceValidation{} },
		"deep":         func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Schema.OpenAPIV3Schema = deep },
		"no names":     func(c *api.CustomResourceDefinition) { c.Spec.Names = api.CustomResourceDefinitionNames{} },
		"lower case":   func(c *api.CustomResourceDefinition) { c.Spec.Names.Kind = "crontab" },
		"odd group":    func(c *api.CustomResourceDefinition) { c.Spec.Group = "a~b/c d%" },
		"odd kind":     func(c *api.CustomResourceDefinition) { c.Spec.Names.Kind = "Ü%2" },
	} {
		v := version(t, schema.KEP, `{type: object}`, change)
		b := New(Options{})
		_, err3 := b.V3(v)
		_, err2 := b.V2(v)
		for _, err := range []error{err3, err2} {
			if refused := err != nil; refused != strings.HasPrefix(name, "odd") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// BenchmarkBuild makes the documents of a small definition.
func BenchmarkBuild(b *testing.B) {
	v := version(b, schema.KEP, `{type: object, properties: {a: {type: string}, b: {type: array, items: {type: integer}}}}`)
	builder := New(Options{})
	b.Run("v3", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := builder.V3(v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("v2", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := builder.V2(v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
