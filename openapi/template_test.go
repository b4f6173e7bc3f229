package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/handler"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// everyKeyword has all keywords that CRDs may have, with awkward values.
const everyKeyword = `
type: object
default: {a: 1}
description: "<a> & \"b\" \\ \t\b\f\x01\x7f \u2028 \u2019 é 😀"
title: a title
externalDocs: {url: "https://example.com/?a&b", description: docs}
example: {a: [1, 2.5, null]}
minProperties: 0
maxProperties: 9
required: [a, "b\"<"]
x-kubernetes-validations: [{rule: "self.a < 3 && true", message: "<3"}]
x-kubernetes-map-type: atomic
properties:
  a: {type: integer, default: 2, minimum: -3, maximum: 1e21, exclusiveMinimum: true, exclusiveMaximum: true, multipleOf: 1, format: int64, example: ""}
  "b\"<": {type: string, pattern: "^<[a-z]\\d&>$", minLength: 1, maxLength: 7, enum: ["", a, "<b>", "é"], example: b, nullable: true, format: date-time}
  c: {type: number, default: 1.5, minimum: 1e-7, maximum: 12345678901234567890, enum: [1, 1.5, 1e300, -0.0, 0.1]}
  d: {type: array, items: {type: string}, minItems: 1, maxItems: 3, x-kubernetes-list-type: set, default: [x, "<"]}
  e: {type: object, additionalProperties: {type: boolean, default: false}, readOnly: true, example: {}}
  f: {type: object, additionalProperties: true, externalDocs: {}}
  g: {x-kubernetes-int-or-string: true, enum: [1, "1", null], default: null, nullable: true}
  h: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
  i: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
  j: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}
  k: {type: object, properties: {a: {type: string}}, not: {required: [z]}, allOf: [{properties: {a: {minLength: 1}}}], anyOf: [{required: [a]}, {}], oneOf: [{not: {required: [b]}}]}
  l: {type: object, x-kubernetes-preserve-unknown-fields: true, enum: [{a: "<"}, {}]}
`

// TestMembers compares the members of versions of all shapes, and with names of all kinds, with their documents.
func TestMembers(t *testing.T) {
	b := New(Options{Scheme: scheme.Scheme})
	type names struct{ group, version, kind, listKind, plural string }
	special := 0
	for _, n := range []names{
		{"stable.example.com", "v1", "CronTab", "CronTabList", "crontabs"},
		{"a", "v1alpha1", "Address", "Addresses", "address"},
		{"storage.k8s.io", "v2", "Iris", "IrisList", "iris"},
		{"k8s.io", "v", "Object", "ObjectList", "objects"},
		// Names that are in the texts around them, in each other, and in the names of templates.
		{"apis", "apis", "The", "name", "namespaces"},
		{"kind", "kind", "kind", "kindkind", "kind"},
		{"zgroup.zname", "zkind.zname", "zversion.zname", "zplural.zname", "zobject.zname"},
		{"1-a.b-2", "1v-x", "9.lives-of", "a-.List", "p-q"},
		// The names of types that all CRDs share, of kinds of Kubernetes, and of parameters that all paths share.
		{"meta.apis.pkg.apimachinery.k8s.io", "v1", "ObjectMeta", "ObjectMetaList", "objectmetas"},
		{"meta.apis.pkg.apimachinery.k8s.io", "v1", "Things", "Status", "things"},
		{"apps.api.k8s.io", "v1", "Deployment", "DeploymentList", "deployments"},
		{"apimachinery.k8s.io", "v1", "Other", "OtherList", "others"},
		{"example.com", "v1", "Same", "Same", "sames"},
	} {
		for bits := range 16 {
			v := version(t, []schema.Semantics{schema.Kubernetes, schema.KEP}[bits%2], everyKeyword,
				func(c *api.CustomResourceDefinition) {
					c.Spec.Group = n.group
					c.Spec.Names = api.CustomResourceDefinitionNames{Plural: n.plural, Kind: n.kind, ListKind: n.listKind}
					c.Status.AcceptedNames = c.Spec.Names
					of := &c.Spec.Versions[0]
					of.Name = n.version
					of.Subresources = &api.CustomResourceSubresources{}
					if bits&1 != 0 {
						c.Spec.Scope = api.ClusterScoped
					}
					if bits&2 != 0 {
						of.Subresources.Status = &api.CustomResourceSubresourceStatus{}
					}
					if bits&4 != 0 {
						of.Subresources.Scale = &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a"}
					}
					if bits&8 != 0 {
						of.SelectableFields = []api.SelectableField{{JSONPath: ".spec.a"}}
					}
				})
			if !compareMembers(t, b, v) {
				special++
			}
		}
	}
	if special != 5*16 {
		t.Errorf("%d resources have special names", special)
	}
	if n := len(b.templates.byShape); n != 2*2*2*2*3 {
		t.Errorf("%d shapes", n)
	}
}

// TestMembersOfCorpus compares those of real CRDs.
func TestMembersOfCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("uses the corpus")
	}
	files, err := filepath.Glob(filepath.Join(testcase.Corpus(t), "v1", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b := New(Options{Scheme: scheme.Scheme})
	compared := 0
	for _, file := range testcase.Part(files) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = yaml.YAMLToJSON(text); err != nil {
			continue
		}
		c, err := codec.Decode(text)
		if err != nil {
			continue
		}
		d, err := crd.New(c, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
		if err != nil {
			continue
		}
		for _, v := range d.Versions() {
			if compareMembers(t, b, v) {
				compared++
			}
		}
	}
	t.Log(compared, "versions")
	if compared < 10 {
		t.Error("almost nothing was compared")
	}
}

// compareMembers compares the members of a version with its documents. It reports whether there are members.
func compareMembers(t *testing.T, b *Builder, v *crd.Version) bool {
	t.Helper()
	m3, err := b.MembersV3(v)
	if err != nil {
		t.Fatal(v.GroupVersionKind(), err)
	}
	m2, err := b.MembersV2(v)
	if err != nil {
		t.Fatal(v.GroupVersionKind(), err)
	}
	if m3 == nil || m2 == nil {
		if m3 != nil || m2 != nil {
			t.Errorf("%v: one of the documents has no members", v.GroupVersionKind())
		}
		return false
	}
	v3, err := b.V3(v)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := b.V2(v)
	if err != nil {
		t.Fatal(err)
	}
	compareSection(t, v, "v3 paths", m3.Paths, v3.Paths.Paths)
	compareSection(t, v, "v3 schemas", withShared(t, m3, m3.Schemas), v3.Components.Schemas)
	compareSection(t, v, "v2 paths", m2.Paths, v2.Paths.Paths)
	compareSection(t, v, "v2 schemas", withShared(t, m2, m2.Schemas), handler.PruneDefaults(v2.Definitions))
	var parameters []Member
	for name, p := range m2.Parameters {
		parameters = append(parameters, encoded(t, name, p))
	}
	compareSection(t, v, "v2 parameters", parameters, v2.Parameters)
	return true
}

// withShared adds the members that others have as well.
func withShared(t *testing.T, m *Members, own []Member) []Member {
	t.Helper()
	for name, s := range m.Shared {
		if m.Parameters != nil {
			s = handler.PruneDefaultsSchema(s)
		}
		own = append(own, encoded(t, name, s))
	}
	return own
}

func encoded(t *testing.T, name string, value json.Marshaler) Member {
	t.Helper()
	text, err := EncodeMember(name, value)
	if err != nil {
		t.Fatal(err)
	}
	return Member{Name: name, Text: text}
}

// compareSection compares members with the JSON of an object.
func compareSection[V any](t *testing.T, v *crd.Version, what string, got []Member, want map[string]V) {
	t.Helper()
	slices.SortFunc(got, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	var text []byte
	for i, m := range got {
		if !bytes.HasPrefix(m.Text, fmt.Appendf(nil, "%q:", m.Name)) {
			t.Errorf("%v: %s: %s has the name %q", v.GroupVersionKind(), what, m.Text, m.Name)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, m.Text...)
	}
	expected, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if text = slices.Concat([]byte("{"), text, []byte("}")); !bytes.Equal(text, expected) {
		t.Errorf("%v: %s: got\n%s\nwant\n%s", v.GroupVersionKind(), what, text, expected)
	}
}

// BenchmarkMembers measures the members of a CRD of usual size.
func BenchmarkMembers(b *testing.B) {
	builder := New(Options{})
	v := version(b, schema.Kubernetes, string(testcase.Medium().Schema))
	for name, of := range map[string]func(*crd.Version) (*Members, error){"v2": builder.MembersV2, "v3": builder.MembersV3} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := of(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
