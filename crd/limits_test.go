package crd_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestReplicas checks the numbers of replicas that an object with a scale subresource may have.
func TestReplicas(t *testing.T) {
	d := compile(t, definition(t, `{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`,
		func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{
				Status: &api.CustomResourceSubresourceStatus{},
				Scale:  &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
			}
		}), schema.Kubernetes)
	for _, tt := range []struct {
		replicas any
		want     string
	}{
		{int64(0), ""}, {int64(math.MaxInt32), ""},
		{int64(-1), "should be a non-negative integer"},
		{int64(math.MaxInt32) + 1, "should be less than or equal to 2147483647"},
		{"1", "is of the type string, expected int64"},
	} {
		for _, place := range []string{"spec", "status"} {
			obj := schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "b"},
				place: map[string]any{"replicas": tt.replicas}}
			got, err := d.Versions()[0].Validate(context.Background(), obj, nil)
			if err != nil {
				t.Fatal(err)
			}
			if text := got.FieldErrors().ToAggregate(); (text == nil) != (tt.want == "") || text != nil && !strings.Contains(text.Error(), "."+place+".replicas: Invalid value: ") || text != nil && !strings.Contains(text.Error(), tt.want) {
				t.Errorf("%s.replicas %v: got %v, want %q", place, tt.replicas, text, tt.want)
			}
			status, err := d.Versions()[0].ValidateStatus(context.Background(), obj, nil)
			if err != nil || len(status) > 0 != (place == "status" && tt.want != "") {
				t.Errorf("%s.replicas %v of a write of the status: got %v, %v", place, tt.replicas, status, err)
			}
		}
	}
}

// TestForgiven checks that an update may leave what a stored CRD has, and may not add it.
func TestForgiven(t *testing.T) {
	protected := func(annotation string) func(*api.CustomResourceDefinition) {
		return func(c *api.CustomResourceDefinition) {
			c.Spec.Group, c.Name = "x.k8s.io", "things.x.k8s.io"
			if annotation != "" {
				c.Annotations = map[string]string{api.KubeAPIApprovedAnnotation: annotation}
			}
		}
	}
	missing, invalid, fine := definition(t, plain, protected("")), definition(t, plain, protected("yes")), definition(t, plain, protected("unapproved, a test"))
	noSchema := definition(t, "", preservingV1)
	strange := definition(t, `{type: object, properties: {a: {type: strange}}}`)
	structural := definition(t, plain)
	for _, sem := range both {
		for name, tt := range map[string]struct {
			stored, now *api.CustomResourceDefinition
			want        string
		}{
			"no approval, as before":        {missing, missing, ""},
			"an approval that is no URL":    {invalid, invalid, ""},
			"an approval that is gone":      {fine, missing, "metadata.annotations[api-approved.kubernetes.io]: Required value"},
			"an approval that gets invalid": {fine, invalid, `metadata.annotations[api-approved.kubernetes.io]: Invalid value: "yes"`},
			"no schema, as before":          {noSchema, noSchema, ""},
			"a type, as before":             {strange, strange, ""},
			"a type that is new":            {structural, strange, `properties[a].type: Unsupported value: "strange"`},
		} {
			errs := update(tt.now.DeepCopy(), tt.stored, sem).Errors
			if tt.want == "" && len(errs) > 0 || tt.want != "" && !containsError(errs, tt.want) {
				t.Errorf("%v: %s: got %v, want %q", sem, name, errs, tt.want)
			}
		}
	}
}

// TestForgivenByBeta checks that v1beta1 does not require what v1 requires, even if the stored CRD
// has it.
func TestForgivenByBeta(t *testing.T) {
	old := stored(t, betaDefinition(t, plain, preserving(true)))
	for _, sem := range both {
		expect(t, updateBeta(betaDefinition(t, "", preserving(true)), old, sem).Errors)
		expect(t, updateBeta(betaDefinition(t, `{properties: {a: {type: strange}}}`, preserving(true)), old, sem).Errors)
	}
}

// TestStoredRules checks that a rule of a stored CRD may use what a new rule may not yet.
func TestStoredRules(t *testing.T) {
	o := crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}
	ruled := definition(t, `{type: object, properties: {a: {type: array, maxItems: 5, items: {type: integer}, x-kubernetes-validations: [{rule: "self.includes(1)"}]}}}`)
	if errs := crd.ValidateCreate(t.Context(), ruled, o).Errors; !containsError(errs, "undeclared reference to 'includes'") {
		t.Errorf("create: got %v", errs)
	}
	if errs := crd.ValidateUpdate(t.Context(), ruled.DeepCopy(), definition(t, plain), o).Errors; !containsError(errs, "undeclared reference to 'includes'") {
		t.Errorf("update of a CRD without the rule: got %v", errs)
	}
	changed := ruled.DeepCopy()
	changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "changed"
	expect(t, crd.ValidateUpdate(t.Context(), changed, ruled, o).Errors)
}

// TestUnsupportedKeywords checks the error about the first keyword that a structural schema with
// selectable fields cannot have.
func TestUnsupportedKeywords(t *testing.T) {
	for text, want := range map[string]string{
		`{type: object, properties: {a: {$ref: "#/x"}, b: {definitions: {c: {type: string}}}}}`:         "OpenAPIV3Schema '$ref' is not supported",
		`{type: object, properties: {a: {type: string}, b: {dependencies: {c: [d]}}}}`:                  "OpenAPIV3Schema 'dependencies' is not supported",
		`{type: object, properties: {a: {id: x}}}`:                                                      "OpenAPIV3Schema 'id' is not supported",
		`{type: object, properties: {a: {type: string, $schema: x}}}`:                                   "OpenAPIV3Schema 'schema' is not supported",
		`{type: object, properties: {a: {patternProperties: {a: {type: string}}}}}`:                     "OpenAPIV3Schema 'patternProperties' is not supported",
		`{type: object, properties: {a: {type: array, items: {type: string}, additionalItems: false}}}`: "OpenAPIV3Schema 'additionalItems' is not supported",
		`{type: object, properties: {a: {definitions: {c: {type: string}}}}}`:                           "OpenAPIV3Schema 'definitions' is not supported",
		`{type: object, properties: {a: {$ref: ""}, b: {type: array, items: [{type: string}]}}}`:        "must be a structural schema",
		`{type: object, properties: {b: {type: object, x-kubernetes-preserve-unknown-fields: false}}}`:  "must be a structural schema",
	} {
		c := definition(t, text, func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].SelectableFields = []api.SelectableField{{JSONPath: ".x"}}
		})
		want = `schema.openAPIV3Schema: Invalid value: "": ` + want
		if errs := create(c, schema.Kubernetes).Errors; !containsError(errs, want) {
			t.Errorf("%s: got %v, want %s", text, errs, want)
		}
	}
}

// TestManyUniqueItems checks that the errors of a hostile jsonSchema are bounded.
func TestManyUniqueItems(t *testing.T) {
	const many = 3000
	var b strings.Builder
	for i := range many {
		fmt.Fprintf(&b, "%s%d: {type: array, uniqueItems: true}, ", strings.Repeat("x", 1000), i)
	}
	c := betaDefinition(t, "", preserving(true), func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: props(t, "{properties: {"+b.String()+"}}")}
	})
	if n := len(createBeta(c, schema.KEP).Errors); n == 0 || n > many/2 {
		t.Errorf("got %d errors", n)
	}
}

// TestLargeJSONSchemaDefault checks that a jsonSchema whose defaults cannot be applied is rejected.
func TestLargeJSONSchemaDefault(t *testing.T) {
	text := `{type: string, default: x}`
	for range 6 {
		text = `{type: array, items: {type: object, properties: {a: ` + text + `}}, default: [{},{},{},{},{},{},{},{},{},{}]}`
	}
	expect(t, createBeta(jsonSchemaCRD(t, `{properties: {list: `+text+`}}`, preserving(true)), schema.KEP).Errors,
		`spec.validation.jsonSchema: Invalid value: "": .properties[list].default: must not have more than 65536 values`)
	expect(t, createBeta(jsonSchemaCRD(t, `{properties: {list: {dependencies: {a: {$ref: "#/definitions/none"}}}}}`, preserving(true)), schema.KEP).Errors,
		`spec.validation.jsonSchema.properties[list].dependencies[a].$ref: Invalid value: "": $ref refers to "#/definitions/none", which is not in definitions`)
}

// TestDeepMetadataDefaults checks that defaults in metadata are rejected if there are too many, too
// deep, to check all of them.
func TestDeepMetadataDefaults(t *testing.T) {
	var labels strings.Builder
	for i := range 400 {
		fmt.Fprintf(&labels, "l%d: {type: string, default: x}, ", i)
	}
	for levels, ok := range map[int]bool{10: true, 700: false} {
		text := `{type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {type: object, properties: {labels: {type: object, properties: {` + labels.String() + `}}}}}}`
		for range levels {
			text = `{type: object, properties: {a: ` + text + `}}`
		}
		errs := create(definition(t, text), schema.Kubernetes).Errors
		if len(errs) == 0 != ok || !ok && errs[0].Detail != "has defaults nested too deeply in metadata" {
			t.Errorf("%d levels: got %.500v", levels, errs)
		}
	}
}

// TestBetaDefaults checks that kube-apiserver's v1beta1 rejects defaults, unless the stored CRD
// has some.
func TestBetaDefaults(t *testing.T) {
	const with = `{type: object, properties: {a: {type: string, default: x}}}`
	no := preserving(false)
	const text = "must not be set (cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)"
	if errs := createBeta(betaDefinition(t, with, no), schema.Kubernetes).Errors; !containsError(errs, text) {
		t.Errorf("create: got %v", errs)
	}
	if errs := updateBeta(betaDefinition(t, with, no), stored(t, betaDefinition(t, plain, no)), schema.Kubernetes).Errors; !containsError(errs, text) {
		t.Errorf("update of a CRD without defaults: got %v", errs)
	}
	expect(t, updateBeta(betaDefinition(t, with, no), stored(t, betaDefinition(t, with, no)), schema.Kubernetes).Errors)
	expect(t, createBeta(betaDefinition(t, with, no), schema.KEP).Errors)
}

// TestUnreadableJSONSchema checks that only the semantics that knows jsonSchema depends on it.
func TestUnreadableJSONSchema(t *testing.T) {
	c := definition(t, "", preservingV1, func(c *api.CustomResourceDefinition) {
		c.Annotations = map[string]string{api.JSONSchemaAnnotation: "no schema"}
	})
	if _, err := crd.New(c, options(schema.KEP)); err == nil || !strings.Contains(err.Error(), "not a JSON schema") {
		t.Errorf("New: got %v", err)
	}
	d := compile(t, c, schema.Kubernetes)
	if err := d.Load(); err != nil {
		t.Error(err)
	}
	if _, err := d.With(options(schema.Kubernetes)); err != nil {
		t.Error(err)
	}
	if _, err := d.With(options(schema.KEP)); err == nil || !strings.Contains(err.Error(), "not a JSON schema") {
		t.Errorf("With: got %v", err)
	}
	lazily, _ := lazy(t, c, schema.KEP)
	if err := lazily.Load(); err == nil || !strings.Contains(err.Error(), "not a JSON schema") {
		t.Errorf("Load: got %v", err)
	}
	if _, err := lazily.Versions()[0].Schema(); err == nil {
		t.Error("Schema: no error")
	}
}

// TestRootKeywords checks which keywords the root of a schema may have beside a status
// subresource: v1beta1 has no rules.
func TestRootKeywords(t *testing.T) {
	const closed = `{type: object, maxProperties: 3}`
	status := &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
	v1 := create(definition(t, closed, func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Subresources = status }), schema.Kubernetes).Errors
	expect(t, v1, `spec.validation.openAPIV3Schema: Invalid value: "maxProperties": only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed`)
	beta := createBeta(betaDefinition(t, closed, preserving(false), func(c *v1beta1.CustomResourceDefinition) { c.Spec.Subresources = status }), schema.Kubernetes).Errors
	expect(t, beta, "Example XPreserveUnknownFields] fields are allowed")
}

// TestLegacyStatus checks that a write of the status is validated by the part of a jsonSchema for
// the status alone.
func TestLegacyStatus(t *testing.T) {
	d := compile(t, stored(t, jsonSchemaCRD(t, `{required: [spec], definitions: {few: {maximum: 3}}, properties: {spec: {type: string}, status: {properties: {size: {$ref: "#/definitions/few"}}}}}`, preserving(true), func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Subresources = &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
	})), schema.KEP)
	object := func(spec any, n int64) schema.Object {
		return schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "b"}, "spec": spec, "status": map[string]any{"size": n}}
	}
	for _, tt := range []struct {
		obj  schema.Object
		want string
	}{{object("x", 3), ""}, {object(int64(1), 3), ""}, {object("x", 4), "status.size"}} {
		got, err := d.Versions()[0].ValidateStatus(t.Context(), tt.obj, nil)
		if err != nil || (len(got) == 0) != (tt.want == "") || len(got) > 0 && got[0].Path.String() != tt.want {
			t.Errorf("%v: got %v, %v, want %q", tt.obj, got, err, tt.want)
		}
	}
	none := compile(t, stored(t, jsonSchemaCRD(t, `{required: [spec]}`, preserving(true))), schema.KEP)
	if got, err := none.Versions()[0].ValidateStatus(t.Context(), object("x", 9), nil); err != nil || len(got) > 0 {
		t.Errorf("without a schema of the status: got %v, %v", got, err)
	}
	// The skeleton is that of the jsonSchema.
	if got, err := d.Versions()[0].Skeleton(); err != nil || got == nil || got.Properties["spec"].Type.Single() != "string" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := compile(t, definition(t, plain), schema.KEP).Versions()[0].Skeleton(); err != nil || got == nil || got.Type.Single() != "object" {
		t.Errorf("of an openAPIV3Schema: got %+v, %v", got, err)
	}
	if v := d.Versions()[0]; !v.Storage() || v.Spec().Name != "v1" {
		t.Errorf("got %+v", v.Spec())
	}
}

// TestLegacyBesideSchema checks that a jsonSchema is ignored beside another schema, and that one
// that cannot be read is an error.
func TestLegacyBesideSchema(t *testing.T) {
	annotated := func(text string, edit ...func(*api.CustomResourceDefinition)) *api.CustomResourceDefinition {
		return definition(t, plain, append(edit, func(c *api.CustomResourceDefinition) {
			c.Annotations = map[string]string{api.JSONSchemaAnnotation: text}
		})...)
	}
	fine := annotated(`{"required":["other"]}`)
	expect(t, create(fine, schema.KEP).Errors)
	if vs := program(t, compile(t, fine, schema.KEP)).Validate(t.Context(), schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "b"}}, nil); len(vs) > 0 {
		t.Errorf("got %v", vs)
	}
	bad := annotated(`["no schema"]`)
	expect(t, create(bad, schema.KEP).Errors, `metadata.annotations[espalier.dev/json-schema]: Invalid value: "[\"no schema\"]": metadata.annotations[espalier.dev/json-schema]: not a JSON schema: `)
	expect(t, create(bad, schema.Kubernetes).Errors)
	// Only kep uses it, so that only there it must not be beside pruning.
	alone := definition(t, "", func(c *api.CustomResourceDefinition) {
		c.Annotations = map[string]string{api.JSONSchemaAnnotation: `{"uniqueItems":true}`}
	})
	if errs := create(alone, schema.KEP).Errors; !containsError(errs, "spec.preserveUnknownFields: Invalid value: false: must be true with a jsonSchema") || !containsError(errs, "metadata.annotations[espalier.dev/json-schema].uniqueItems: Forbidden") {
		t.Errorf("got %v", errs)
	}
	if errs := create(alone, schema.Kubernetes).Errors; containsError(errs, "jsonSchema") || containsError(errs, "uniqueItems") {
		t.Errorf("kubernetes: got %v", errs)
	}
}

// TestUnknownTypesStay checks that lists of types, and types that OpenAPI does not have, may stay.
func TestUnknownTypesStay(t *testing.T) {
	typed, untyped := definition(t, `{type: object, properties: {a: {type: strange}}}`), definition(t, `{type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true}}}`)
	expect(t, update(typed.DeepCopy(), untyped, schema.Kubernetes).Errors, `properties[a].type: Unsupported value: "strange"`)
	expect(t, update(typed.DeepCopy(), typed, schema.Kubernetes).Errors)
	// The type at the root, if there is a status.
	status := func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
	}
	const only = `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`
	for text, want := range map[string]bool{`{type: object}`: false, `{}`: false, `{type: string}`: true, `{type: [object, string]}`: true} {
		c := definition(t, text, status)
		if errs := create(c, schema.Kubernetes).Errors; containsError(errs, only) != want {
			t.Errorf("%s: got %v", text, errs)
		}
	}
	list := definition(t, `{type: [object, string]}`, status)
	if errs := create(list, schema.Kubernetes).Errors; !containsError(errs, `type: Invalid value: "[object string]": only "object"`) {
		t.Errorf("got %v", errs)
	}
}
