package api_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
)

const (
	v1Head      = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},`
	v1beta1Head = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},`
	names       = `"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"}`
)

func decode(t *testing.T, text string) *api.CustomResourceDefinition {
	t.Helper()
	crd, err := codec.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestVersions(t *testing.T) {
	t.Run("V-01", func(t *testing.T) {
		for name, tt := range map[string]struct {
			in   string
			want []string // the type in the schema of each version, "-" for no schema
		}{
			"v1, per version": {
				v1Head + `"spec":{` + names + `,"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"array"}}}]}}`,
				[]string{"object", "array"},
			},
			"v1, none": {
				v1Head + `"spec":{` + names + `,"versions":[{"name":"v1","served":true,"storage":true}]}}`,
				[]string{"-"},
			},
			"v1 does not know the top level": {
				v1Head + `"spec":{` + names + `,"validation":{"openAPIV3Schema":{"type":"object"}},"versions":[{"name":"v1","served":true,"storage":true}]}}`,
				[]string{"-"},
			},
			"v1beta1, top level, version": {
				v1beta1Head + `"spec":{` + names + `,"version":"v1","validation":{"openAPIV3Schema":{"type":"object"}}}}`,
				[]string{"object"},
			},
			"v1beta1, top level, versions": {
				v1beta1Head + `"spec":{` + names + `,"validation":{"openAPIV3Schema":{"type":"object"}},"versions":[{"name":"v1","served":true,"storage":true},{"name":"v2","served":true,"storage":false}]}}`,
				[]string{"object", "object"},
			},
			"v1beta1, per version": {
				v1beta1Head + `"spec":{` + names + `,"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":true,"storage":false}]}}`,
				[]string{"object", "-"},
			},
			"v1beta1, none": {v1beta1Head + `"spec":{` + names + `,"version":"v1"}}`, []string{"-"}},
		} {
			crd := decode(t, tt.in)
			var got []string
			for _, v := range crd.Spec.Versions {
				if v.Schema == nil {
					got = append(got, "-")
					continue
				}
				got = append(got, v.Schema.OpenAPIV3Schema.Type.Single())
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: got %v, want %v", name, got, tt.want)
			}
		}
		both := v1beta1Head + `"spec":{` + names + `,"validation":{"openAPIV3Schema":{"type":"object"}},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"array"}}},{"name":"v2","served":true,"storage":false}]}}`
		_, err := codec.Decode([]byte(both))
		if want := "spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive"; err == nil || err.Error() != want {
			t.Errorf("both: got %v, want %s", err, want)
		}
		crd, err := codec.DecodeLenient([]byte(both))
		if err != nil {
			t.Fatal(err)
		}
		if got := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Type.Single(); got != "object" {
			t.Errorf("both, leniently: got %s, want that of the top level", got)
		}
	})

	t.Run("V-02", func(t *testing.T) {
		const schema = `{"$schema":"http://json-schema.org/draft-04/schema#","type":["object","null"],"required":["alpha"],
			"properties":{"alpha":{"type":"string","default":"foo_123","pattern":"<&>"},"epsilon":{"allOf":[{"$ref":"#/definitions/zeta"}]}},
			"patternProperties":{"^x":{"type":"integer"}},"dependencies":{"alpha":["epsilon"],"epsilon":{"required":["alpha"]}},
			"items":[{"type":"string"},{"type":"integer"}],"additionalItems":false,"additionalProperties":false,
			"definitions":{"zeta":{"type":"object","default":{"n":12345678901234567890}}}}`
		for name, spec := range map[string]string{
			"alone":                 `"version":"v1","validation":{"jsonSchema":` + schema + `}`,
			"empty":                 `"version":"v1","validation":{"jsonSchema":{}}`,
			"beside a schema":       `"version":"v1","validation":{"jsonSchema":` + schema + `,"openAPIV3Schema":{"type":"object"}}`,
			"beside an empty one":   `"version":"v1","validation":{"jsonSchema":` + schema + `,"openAPIV3Schema":{}}`,
			"with several versions": `"validation":{"jsonSchema":` + schema + `},"versions":[{"name":"v1","served":true,"storage":true},{"name":"v2","served":false,"storage":false}]`,
			"beside some of theirs": `"validation":{"jsonSchema":` + schema + `},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":false,"storage":false}]`,
		} {
			for _, head := range []string{v1beta1Head, strings.Replace(v1beta1Head, `"metadata":{`, `"metadata":{"annotations":{"a":"b"},`, 1)} {
				text := head + `"spec":{` + names + `,` + spec + `}}`
				hub := decode(t, text)
				if s, err := api.LegacySchema(hub); err != nil || s == nil {
					t.Fatalf("%s: the hub has no schema of 2017: %v, %v", name, s, err)
				}

				// A client reads it as v1 with types that know nothing of ours, changes
				// something else and writes it back.
				data, err := codec.Encode(hub, api.APIVersion)
				if err != nil {
					t.Fatal(err)
				}
				foreign := generic(t, data).(map[string]any)
				for key := range foreign["spec"].(map[string]any) {
					switch key {
					case "group", "names", "scope", "versions", "conversion", "preserveUnknownFields":
					default:
						t.Errorf("%s: v1 of Kubernetes has no spec.%s", name, key)
					}
				}
				foreign["metadata"].(map[string]any)["labels"] = map[string]any{"changed": "yes"}
				data, err = json.Marshal(foreign)
				if err != nil {
					t.Fatal(err)
				}
				back, err := codec.Encode(decode(t, string(data)), v1beta1.APIVersion)
				if err != nil {
					t.Fatal(err)
				}

				var want v1beta1.CustomResourceDefinition
				if err := api.Unmarshal([]byte(text), &want); err != nil {
					t.Fatal(err)
				}
				v1beta1.SetDefaults(&want)
				want.Labels = map[string]string{"changed": "yes"}
				wantData, err := json.Marshal(&want)
				if err != nil {
					t.Fatal(err)
				}
				if diff := differences(generic(t, back), generic(t, wantData), ""); diff != nil {
					t.Errorf("%s: %s", name, strings.Join(diff, "\n"))
				}
			}
		}

		// Taken out of v1beta1, it is gone from v1.
		hub := decode(t, v1beta1Head+`"spec":{`+names+`,"version":"v1","validation":{"jsonSchema":{}}}}`)
		b := v1beta1.FromV1(hub)
		b.Spec.Validation = nil
		hub, err := v1beta1.ToV1(b)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := api.LegacySchema(hub); s != nil || err != nil {
			t.Errorf("still there: %v, %v", s, err)
		}
	})
}

// A value of the annotation that is no schema stays where it is in both versions.
func TestBrokenLegacySchema(t *testing.T) {
	for value, want := range map[string]string{
		`null`:                   "metadata.annotations[espalier.dev/json-schema]: not a JSON schema: must be a JSON object",
		`{`:                      "metadata.annotations[espalier.dev/json-schema]: not a JSON schema: invalid JSON at line 1, column 2: unexpected end of JSON input",
		`{"items":[{"type":5}]}`: "metadata.annotations[espalier.dev/json-schema]: not a JSON schema: items[0].type: expected a string or a list of strings, got 5",
	} {
		hub := decode(t, v1Head+`"spec":{`+names+`,"versions":[{"name":"v1","served":true,"storage":true}]}}`)
		hub.Annotations = map[string]string{api.JSONSchemaAnnotation: value}
		if _, err := api.LegacySchema(hub); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", value, err, want)
		}
		b := v1beta1.FromV1(hub)
		if b.Annotations[api.JSONSchemaAnnotation] != value || b.Spec.Validation != nil {
			t.Errorf("%s: v1beta1 has annotations %v and validation %v", value, b.Annotations, b.Spec.Validation)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	versions := func(schema string) string {
		return v1Head + `"spec":{` + names + `,"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` + schema + `}}]}}`
	}
	const at = "spec.versions[0].schema.openAPIV3Schema"
	for in, want := range map[string]string{
		``:                  "invalid JSON at line 1, column 1: unexpected end of JSON input",
		"{\n  \"kind\": x}": "invalid JSON at line 2, column 12: invalid character 'x' looking for beginning of value",
		`[]`:                "expected an object, got a list",
		`{"kind":5}`:        "kind: expected a string, got 5",
		`{"kind":"Foo"}`:    `kind: expected CustomResourceDefinition, got "Foo"`,
		`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v2"}`:                   `apiVersion: expected apiextensions.k8s.io/v1 or apiextensions.k8s.io/v1beta1, got "apiextensions.k8s.io/v2"`,
		v1Head + `"spec":{"versions":[{"served":"yes"}]}}`:                                             "spec.versions[0].served: expected a boolean, got a string",
		v1Head + `"spec":{"versions":{}}}`:                                                             "spec.versions: expected a list, got an object",
		v1Head + `"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"*"}}}}}`:                "spec.conversion.webhook.clientConfig.caBundle: expected a string in base64: illegal base64 data at input byte 0",
		v1Head + `"spec":{"conversion":{"webhook":{"clientConfig":{"service":{"port":4294967296}}}}}}`: "spec.conversion.webhook.clientConfig.service.port: expected an integer of 32 bits, got 4294967296",
		v1beta1Head + `"spec":{"preserveUnknownFields":"false"}}`:                                      "spec.preserveUnknownFields: expected a boolean, got a string",
		v1beta1Head + `"spec":{"validation":{"jsonSchema":{"type":{}}}}}`:                              "spec.validation.jsonSchema.type: expected a string or a list of strings, got an object",
		versions(`true`): at + ": expected an object, got true",
		versions(`{"properties":{"a b":{"items":{"maxLength":1.5}}}}`):        at + ".properties[a b].items.maxLength: expected an integer of 64 bits, got 1.5",
		versions(`{"additionalProperties":{"additionalProperties":"false"}}`): at + ".additionalProperties.additionalProperties: expected a boolean or a schema, got a string",
		versions(`{"items":[{},{"minimum":1e999}]}`):                          at + ".items[1].minimum: expected a number of 64 bits, got 1e999",
		versions(`{"dependencies":{"a":["b",1]}}`):                            at + ".dependencies[a][1]: expected a string, got 1",
		versions(`{"dependencies":{"a":{"not":[]}}}`):                         at + ".dependencies[a].not: expected an object, got a list",
		versions(`{"type":["string",1]}`):                                     at + ".type[1]: expected a string, got 1",
	} {
		if _, err := codec.Decode([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
}

// TestMisfitPath shows that the path of a value that does not fit is data: its names
// need not be told apart from what is around them in the text.
func TestMisfitPath(t *testing.T) {
	_, err := codec.Decode([]byte(v1Head + `"spec":{` + names + `,"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a.b: [0]":{"type":5}}}}}]}}`))
	misfit, ok := errors.AsType[*api.MisfitError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	want := []api.Step{
		{Name: "spec"}, {Name: "versions"}, {Kind: api.ItemStep, Index: 0}, {Name: "schema"}, {Name: "openAPIV3Schema"},
		{Name: "properties"}, {Kind: api.KeyStep, Name: "a.b: [0]"}, {Name: "type"},
	}
	if !slices.Equal(misfit.Path, want) {
		t.Errorf("got %v", misfit.Path)
	}
}

func TestEncodeVersion(t *testing.T) {
	hub := decode(t, v1Head+`"spec":{`+names+`,"versions":[{"name":"v1","served":true,"storage":true}]}}`)
	if _, err := codec.Encode(hub, "v1"); err == nil || !strings.HasPrefix(err.Error(), "apiVersion: expected apiextensions.k8s.io/v1 or") {
		t.Errorf("got %v", err)
	}
}
