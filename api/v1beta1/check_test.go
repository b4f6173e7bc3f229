package v1beta1_test

import (
	"reflect"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

func TestCheckForm(t *testing.T) {
	const (
		schemaA = `"schema":{"openAPIV3Schema":{"default":{"a": 1}}}`
		sameAsA = `"schema":{"openAPIV3Schema":{"default":{"a":1}}}`
		schemaB = `"schema":{"openAPIV3Schema":{"default":{"a":1.5}}}`
		column  = `"additionalPrinterColumns":[{"name":"n"}]`
		field   = `"selectableFields":[{"jsonPath":".a"}]`
		status  = `"subresources":{"status":{}}`
	)
	versions := func(a, b string) string {
		return `"versions":[{"name":"a",` + a + `},{"name":"b",` + b + `}]`
	}
	for name, tt := range map[string]struct {
		spec string
		want []string
	}{
		"nothing":      {``, nil},
		"only version": {`"version":"a"`, nil},
		"all at the top": {
			`"version":"a","validation":{"openAPIV3Schema":{}},` + column + `,` + field + `,` + status + `,` + versions(`"served":true`, `"served":false`), nil,
		},
		"all with the versions": {
			versions(schemaA+`,`+column, schemaB+`,`+field+`,`+status), nil,
		},
		"empty lists": {
			`"additionalPrinterColumns":[],"selectableFields":[],` + versions(`"additionalPrinterColumns":[]`, `"selectableFields":[]`), nil,
		},
		"both": {
			`"validation":{"openAPIV3Schema":{}},` + column + `,` + field + `,` + status + `,` + versions(schemaA+`,`+column+`,`+field+`,`+status, `"served":true`),
			[]string{
				"spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive",
				"spec.subresources: Forbidden: top-level and per-version subresources are mutually exclusive",
				"spec.additionalPrinterColumns: Forbidden: top-level and per-version additionalPrinterColumns are mutually exclusive",
				"spec.selectableFields: Forbidden: top-level and per-version selectableFields are mutually exclusive",
			},
		},
		"an empty validation is one": {
			`"validation":{},` + versions(schemaA, `"served":true`),
			[]string{"spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive"},
		},
		"the schema of 2017 is another matter": {`"validation":{"jsonSchema":{}},` + versions(schemaA, schemaB), nil},
		"all the same": {
			versions(schemaA+`,`+column+`,`+field+`,`+status, sameAsA+`,`+column+`,`+field+`,`+status),
			[]string{
				"per-version schemas may not all be set to identical values (top-level validation should be used instead)",
				"per-version subresources may not all be set to identical values (top-level subresources should be used instead)",
				"per-version additionalPrinterColumns may not all be set to identical values (top-level additionalPrinterColumns should be used instead)",
				"per-version selectableFields may not all be set to identical values (top-level selectableFields should be used instead)",
			},
		},
		"another first version": {
			`"version":"b",` + versions(`"served":true`, `"served":true`),
			[]string{`must match the first version in spec.versions`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			crd := &v1beta1.CustomResourceDefinition{}
			if err := api.Unmarshal([]byte(`{"spec":{`+tt.spec+`}}`), crd); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range v1beta1.CheckForm(crd) {
				if err.BadValue != nil && err.BadValue != "" { // too long to show
					got = append(got, err.Detail)
					continue
				}
				got = append(got, err.Error())
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("got %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}

// What ToV1 and FromV1 return can be changed without changing what they were given.
func TestConversionSharesNothing(t *testing.T) {
	in := &v1beta1.CustomResourceDefinition{}
	text := `{"spec":{"validation":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"n"}],"selectableFields":[{"jsonPath":".a"}],"versions":[{"name":"a"},{"name":"b"}]}}`
	if err := api.Unmarshal([]byte(text), in); err != nil {
		t.Fatal(err)
	}
	hub, err := v1beta1.ToV1(in)
	if err != nil {
		t.Fatal(err)
	}
	a, b := &hub.Spec.Versions[0], &hub.Spec.Versions[1]
	a.Schema.OpenAPIV3Schema.Type[0] = "changed"
	a.Subresources.Status = nil
	a.AdditionalPrinterColumns[0].Name = "changed"
	a.SelectableFields[0].JSONPath = "changed"
	for _, got := range []string{
		b.Schema.OpenAPIV3Schema.Type[0], b.AdditionalPrinterColumns[0].Name, b.SelectableFields[0].JSONPath,
		in.Spec.Validation.OpenAPIV3Schema.Type[0], in.Spec.AdditionalPrinterColumns[0].Name, in.Spec.SelectableFields[0].JSONPath,
	} {
		if got == "changed" {
			t.Error("something is shared")
		}
	}
	if b.Subresources.Status == nil || in.Spec.Subresources.Status == nil {
		t.Error("the subresources are shared")
	}
	back := v1beta1.FromV1(hub)
	back.Spec.Versions[1].Schema.OpenAPIV3Schema.Type[0] = "changed"
	if b.Schema.OpenAPIV3Schema.Type[0] == "changed" {
		t.Error("the schema is shared")
	}
}

// FromV1Shared leaves what it was given unchanged.
func TestFromV1Shared(t *testing.T) {
	for _, versions := range []string{
		`[{"name":"a","schema":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}}},{"name":"b","schema":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}}}]`,
		`[{"name":"a"},{"name":"b"}]`,
	} {
		in := &api.CustomResourceDefinition{}
		text := `{"metadata":{"name":"n","annotations":{"` + api.JSONSchemaAnnotation + `":"{\"type\":\"object\"}"}},"spec":{"conversion":{"strategy":"None"},"versions":` + versions + `}}`
		if err := api.Unmarshal([]byte(text), in); err != nil {
			t.Fatal(err)
		}
		before := in.DeepCopy()
		got := v1beta1.FromV1Shared(in)
		if !reflect.DeepEqual(in, before) {
			t.Errorf("changed to %+v", in)
		}
		if !reflect.DeepEqual(got, v1beta1.FromV1(in)) || got.Annotations != nil {
			t.Errorf("%+v differs from the result of FromV1", got)
		}
	}
}
