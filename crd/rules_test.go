package crd_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// object returns a schema of an object with properties.
func object(properties map[string]api.JSONSchemaProps) api.JSONSchemaProps {
	return api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: properties}
}

// withSchema returns a CRD with a schema.
func withSchema(t *testing.T, s *api.JSONSchemaProps, edit ...func(*api.CustomResourceDefinition)) *api.CustomResourceDefinition {
	t.Helper()
	edit = append(edit, func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].Schema = &api.CustomResourceValidation{OpenAPIV3Schema: s}
	})
	return definition(t, "", edit...)
}

// TestFieldPaths checks which paths a rule may report its failures at.
func TestFieldPaths(t *testing.T) {
	text := api.JSONSchemaProps{Type: api.StringOrArray{"string"}}
	long, longer := strings.Repeat("n", 5_000), strings.Repeat("n", 70_000)
	any := api.JSONSchemaProps{Type: api.StringOrArray{"object"}, AdditionalProperties: &api.JSONSchemaPropsOrBool{Allows: true}}
	values := object(map[string]api.JSONSchemaProps{"c": text})
	root := object(map[string]api.JSONSchemaProps{
		"a":   object(map[string]api.JSONSchemaProps{"b": text, "x.y": text, "x[y": text, "it's": text, `back\slash`: text, "": text, "\a\b\f\n\r\t\v": text, `end\`: text}),
		"m":   {Type: api.StringOrArray{"object"}, AdditionalProperties: &api.JSONSchemaPropsOrBool{Schema: &values}},
		"any": any, "a]": text, long: text, longer: text,
	})
	for path, want := range map[string]bool{
		".a": true, ".a.b": true, ".a['b']": true, "['a'].b": true, "['a']['b']": true, ".m.k.c": true, ".m['k']['c']": true, ".any.k": true,
		".a['x.y']": true, ".a['x[y']": true, `.a['it\'s']`: true, `.a['back\\slash']`: true, ".a['']": true, `.a['\a\b\f\n\r\t\v']`: true, "." + long: true,
		"." + longer: false, longer: false, // a token is too long for the scanner, as in kube-apiserver
		"a": false, "x.a": false, ".c": false, ".a.c": false, ".": false, ".a.": false, ".a.b.c": false, "..a": false, ".a]": false,
		".any.k.l": false, ".m.k.d": false, ".a['c']": false,
		".a[": false, ".a['": false, ".a[b": false, ".a[b]": false, ".a[b']": false, ".a['b": false, ".a['b]": false, ".a['b'": false, ".a['b'.": false, ".a['b'b": false,
		`.a['\q']`: false, `.a['b\']`: false, ".a[]": false, ".a['b'].c": false, " .a": false,
	} {
		root.XValidations = []api.ValidationRule{{Rule: "true", FieldPath: path}}
		errs := crd.ValidateCreate(t.Context(), withSchema(t, &root), crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true}).Errors
		var wanted []string
		if !want {
			wanted = []string{"spec.validation.openAPIV3Schema.x-kubernetes-validations[0].fieldPath: Invalid value: "}
		}
		name := path[:min(len(path), 20)]
		t.Run(name, func(t *testing.T) { expect(t, errs, wanted...) })
		if !want && len(errs) == 1 && errs[0].Detail != "must be a valid path" {
			t.Errorf("%s: got %s", name, errs[0].Detail)
		}
	}
}

// TestRuleTexts checks what a rule must and must not have, before it is compiled.
func TestRuleTexts(t *testing.T) {
	reason := func(r api.FieldValueErrorReason) *api.FieldValueErrorReason { return &r }
	const at = "properties[a].x-kubernetes-validations[1]."
	for name, tt := range map[string]struct {
		rule api.ValidationRule
		want []string
	}{
		"rule":                            {api.ValidationRule{Rule: "true"}, nil},
		"message":                         {api.ValidationRule{Rule: "true", Message: "why"}, nil},
		"expression":                      {api.ValidationRule{Rule: "true", MessageExpression: "'why'"}, nil},
		"rule of two lines with a reason": {api.ValidationRule{Rule: "true ||\nfalse", Message: "why"}, nil},
		"rule that ends with a line":      {api.ValidationRule{Rule: "true\n"}, nil},
		"no rule":                         {api.ValidationRule{}, []string{at + "rule: Required value: rule is not specified"}},
		"only space":                      {api.ValidationRule{Rule: " \n", Message: " "}, []string{at + "rule: Required value: rule is not specified"}},
		"empty message":                   {api.ValidationRule{Rule: "true", Message: " "}, []string{at + `message: Invalid value: " ": must be non-empty if specified`}},
		"message of two lines":            {api.ValidationRule{Rule: "true", Message: "a\nb"}, []string{at + `message: Invalid value: "a\nb": must not contain line breaks`}},
		"message with a return":           {api.ValidationRule{Rule: "true", Message: "a\rb"}, []string{at + `message: Invalid value: "a\rb": must not contain line breaks`}},
		"rule of two lines":               {api.ValidationRule{Rule: "true ||\nfalse"}, []string{at + "message: Required value: message must be specified if rule contains line breaks"}},
		"empty expression":                {api.ValidationRule{Rule: "true", MessageExpression: " "}, []string{at + "messageExpression: Required value: messageExpression must be non-empty if specified"}},
		"duplicate":                       {api.ValidationRule{Rule: "true", Reason: reason(api.FieldValueDuplicate)}, nil},
		"forbidden":                       {api.ValidationRule{Rule: "true", Reason: reason(api.FieldValueForbidden)}, nil},
		"other reason": {api.ValidationRule{Rule: "true", Reason: reason("Why")},
			[]string{at + `reason: Unsupported value: "Why": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"`}},
		"path":              {api.ValidationRule{Rule: "true", FieldPath: ".b"}, nil},
		"empty path":        {api.ValidationRule{Rule: "true", FieldPath: " "}, []string{at + `fieldPath: Invalid value: " ": must be non-empty if specified`, at + `fieldPath: Invalid value: " ": must be a valid path`}},
		"path of two lines": {api.ValidationRule{Rule: "true", FieldPath: ".b\n"}, []string{at + `fieldPath: Invalid value: ".b\n": must not contain line breaks`, "must be a valid path"}},
	} {
		a := object(map[string]api.JSONSchemaProps{"b": {Type: api.StringOrArray{"string"}}})
		a.XValidations = []api.ValidationRule{{Rule: "true"}, tt.rule}
		root := object(map[string]api.JSONSchemaProps{"a": a})
		for _, sem := range both {
			errs := crd.ValidateCreate(t.Context(), withSchema(t, &root), crd.Options{Semantics: sem, IgnoreRules: true}).Errors
			t.Run(fmt.Sprint(sem, " ", name), func(t *testing.T) { expect(t, errs, tt.want...) })
		}
	}
	// A path is not followed in a schema that is not structural: its errors are better.
	for _, s := range []string{
		`{type: object, x-kubernetes-validations: [{rule: "true", fieldPath: .no}], properties: {a: {KEYWORD}}}`,
		`{type: object, x-kubernetes-validations: [{rule: "true", fieldPath: .no}], properties: {a: {type: array, items: {KEYWORD}}}}`,
		`{type: object, x-kubernetes-validations: [{rule: "true", fieldPath: .no}], properties: {m: {type: object, additionalProperties: {KEYWORD}}}}`,
	} {
		for keyword, want := range map[string]string{
			`type: string`: "must be a valid path", `type: object, x-kubernetes-preserve-unknown-fields: true`: "must be a valid path",
			`type: string, id: x`: "id is not supported", `type: string, $ref: "#/x"`: "$ref is not supported", `type: string, $schema: x`: "",
			`type: object, patternProperties: {a: {type: string}}`: "patternProperties is not supported",
			`type: object, dependencies: {a: [b]}`:                 "dependencies is not supported", `type: object, definitions: {a: {type: string}}`: "definitions is not supported",
			`type: array, items: {type: string}, additionalItems: true`: "additionalItems is not supported", `type: array, items: [{type: string}]`: "items must be a schema object and not an array",
			`type: [string, integer]`: "must be a single type", `type: object, x-kubernetes-preserve-unknown-fields: false`: "must be true or undefined",
		} {
			c := definition(t, strings.Replace(s, "KEYWORD", keyword, 1))
			errs := crd.ValidateCreate(t.Context(), c, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true}).Errors
			if !containsError(errs, want) && want != "" || containsError(errs, "must be a valid path") != (want == "must be a valid path") {
				t.Errorf("%s in %s: got %v, want %q", keyword, s, errs, want)
			}
		}
	}
	// An empty reference is none.
	empty := definition(t, `{type: object, x-kubernetes-validations: [{rule: "true", fieldPath: .no}], properties: {a: {type: string, $ref: ""}}}`)
	expect(t, crd.ValidateCreate(t.Context(), empty, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true}).Errors, "$ref is not supported", "must be a valid path")
}

// TestRulesNeedAChecker checks that rules are neither accepted unchecked nor skipped if checking
// them is cancelled.
func TestRulesNeedAChecker(t *testing.T) {
	ruled := definition(t, `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "self.no"}]}}}`)
	for _, sem := range both {
		expect(t, create(ruled, sem).Errors, "spec.validation.openAPIV3Schema: Internal error: "+schema.ErrRules.Error())
		expect(t, create(definition(t, plain), sem).Errors)
		expect(t, crd.ValidateCreate(t.Context(), ruled, crd.Options{Semantics: sem, IgnoreRules: true}).Errors)
		expect(t, crd.ValidateCreate(t.Context(), ruled, crd.Options{Semantics: sem, Rules: cel.Checker{}}).Errors, "properties[a].x-kubernetes-validations[0].rule: Invalid value")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		expect(t, crd.ValidateCreate(ctx, ruled, crd.Options{Semantics: sem, Rules: cel.Checker{}}).Errors, "spec.validation.openAPIV3Schema: Internal error: context canceled")
		// Errors of the structure come first, and rules would only repeat them.
		broken := definition(t, `{type: object, properties: {b: {}, a: {type: string, x-kubernetes-validations: [{rule: "self.no"}]}}}`)
		expect(t, crd.ValidateCreate(t.Context(), broken, crd.Options{Semantics: sem, Rules: cel.Checker{}}).Errors, "properties[b].type: Required value")
	}
}

// TestCostOfUnchangedRules checks that a rule that costs too much may stay, and may not be added.
func TestCostOfUnchangedRules(t *testing.T) {
	o := crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}
	text := func(description string) string {
		return `{type: object, properties: {a: {type: array, description: "` + description + `", items: {type: string, maxLength: 30000, x-kubernetes-validations: [{rule: "self.contains('xyxyxyxyxy')"}]}}}}`
	}
	versions := func(first, second string) *api.CustomResourceDefinition {
		return definition(t, text(first), func(c *api.CustomResourceDefinition) {
			if second != "" {
				c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: "v2", Served: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, text(second))}})
			}
		})
	}
	const dear, total = "rule: Forbidden: estimated rule cost exceeds budget", "Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget"
	count := func(errs []string, want string) (n int) {
		for _, e := range errs {
			if strings.Contains(e, want) {
				n++
			}
		}
		return n
	}
	for name, tt := range map[string]struct {
		old, now *api.CustomResourceDefinition
		want     int
	}{
		"created":                    {nil, versions("a", ""), 1},
		"unchanged":                  {versions("a", ""), versions("a", ""), 0},
		"changed":                    {versions("a", ""), versions("b", ""), 1},
		"two, unchanged":             {versions("a", "b"), versions("a", "b"), 0},
		"two, one changed":           {versions("a", "b"), versions("a", "c"), 1},
		"two, both changed":          {versions("a", "b"), versions("c", "d"), 2},
		"a new version":              {versions("a", ""), versions("a", "b"), 1},
		"the same in two versions":   {versions("a", "b"), versions("a", "a"), 0},
		"another in both versions":   {versions("a", "b"), versions("b", "b"), 1},
		"a version that is gone":     {versions("a", "b"), versions("a", ""), 0},
		"of a CRD without a version": {definition(t, plain), versions("a", ""), 1},
	} {
		t.Run(name, func(t *testing.T) {
			result := crd.Result{}
			if tt.old == nil {
				result = crd.ValidateCreate(t.Context(), tt.now, o)
			} else {
				result = crd.ValidateUpdate(t.Context(), tt.now, tt.old, o)
			}
			var texts []string
			for _, e := range result.Errors {
				texts = append(texts, e.Error())
			}
			if got := count(texts, dear); got != tt.want {
				t.Errorf("got %d errors, want %d: %q", got, tt.want, texts)
			}
			if count(texts, total) == 0 {
				t.Errorf("the total is not reported: %q", texts)
			}
		})
	}
}

// TestStoredMessages checks that the message expression of a stored CRD may use what a new one may
// not yet.
func TestStoredMessages(t *testing.T) {
	o := crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}
	ruled := func(description, message string) *api.CustomResourceDefinition {
		return definition(t, `{type: object, properties: {a: {type: array, description: "`+description+`", maxItems: 5, items: {type: integer}, x-kubernetes-validations: [{rule: "true", messageExpression: "`+message+`"}]}}}`)
	}
	const message = "string(self.includes(1))"
	if errs := crd.ValidateCreate(t.Context(), ruled("", message), o).Errors; !containsError(errs, "undeclared reference to 'includes'") {
		t.Errorf("create: got %v", errs)
	}
	if errs := crd.ValidateUpdate(t.Context(), ruled("", message), ruled("", "'other'"), o).Errors; !containsError(errs, "undeclared reference to 'includes'") {
		t.Errorf("a new expression: got %v", errs)
	}
	expect(t, crd.ValidateUpdate(t.Context(), ruled("changed", message), ruled("", message), o).Errors)
}
