package crd_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// converted returns an edit that sets a conversion webhook.
func converted(client *api.WebhookClientConfig, reviews ...string) func(*api.CustomResourceDefinition) {
	if len(reviews) == 0 {
		reviews = []string{"v1"}
	}
	return func(c *api.CustomResourceDefinition) {
		c.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.WebhookConverter,
			Webhook: &api.WebhookConversion{ClientConfig: client.DeepCopy(), ConversionReviewVersions: reviews}}
	}
}

// TestWebhookServices checks where a conversion webhook may be.
func TestWebhookServices(t *testing.T) {
	const at = "spec.conversion.webhookClientConfig.service."
	path := func(text string) *api.ServiceReference {
		return &api.ServiceReference{Namespace: "ns", Name: "svc", Path: &text}
	}
	port := func(n int32) *api.ServiceReference {
		return &api.ServiceReference{Namespace: "ns", Name: "svc", Port: &n}
	}
	for name, tt := range map[string]struct {
		service *api.ServiceReference
		want    []string
	}{
		"no port and path":    {&api.ServiceReference{Namespace: "ns", Name: "svc"}, nil},
		"no namespace":        {&api.ServiceReference{Name: "svc"}, []string{at + "name: Required value"}},
		"no name":             {&api.ServiceReference{Namespace: "ns"}, []string{at + "namespace: Required value"}},
		"lowest port":         {port(1), nil},
		"highest port":        {port(65535), nil},
		"port 0":              {port(0), []string{at + "port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"}},
		"port 65536":          {port(65536), []string{at + "port: Invalid value: 65536: port is not valid"}},
		"empty path":          {path(""), nil},
		"root":                {path("/"), nil},
		"path":                {path("/a/b-c/d.e"), nil},
		"slash at the end":    {path("/a/"), nil},
		"two slashes":         {path("//"), []string{at + `path: Invalid value: "//": segment[0] may not be empty`}},
		"relative path":       {path("ab/c"), []string{at + `path: Invalid value: "ab/c": must start with a '/'`}},
		"empty segment":       {path("/a//b"), []string{at + `path: Invalid value: "/a//b": segment[1] may not be empty`}},
		"two at the end":      {path("/a//"), []string{at + `path: Invalid value: "/a//": segment[1] may not be empty`}},
		"upper-case segment":  {path("/a/B"), []string{at + `path: Invalid value: "/a/B": segment[1]: a lowercase RFC 1123 subdomain`}},
		"two empty segments":  {path("/a///b"), []string{"segment[1] may not be empty", "segment[2] may not be empty"}},
		"namespace and name":  {&api.ServiceReference{}, []string{at + "name: Required value", at + "namespace: Required value"}},
		"path without a name": {&api.ServiceReference{Namespace: "ns", Path: new("//")}, []string{at + "namespace: Required value", "segment[0] may not be empty"}},
	} {
		errs := create(definition(t, plain, converted(&api.WebhookClientConfig{Service: tt.service})), schema.Kubernetes).Errors
		t.Run(name, func(t *testing.T) { expect(t, errs, tt.want...) })
	}
	url := "https://example.com/convert"
	one := "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"
	expect(t, create(definition(t, plain, converted(&api.WebhookClientConfig{URL: &url})), schema.Kubernetes).Errors)
	expect(t, create(definition(t, plain, converted(&api.WebhookClientConfig{})), schema.Kubernetes).Errors, one)
	expect(t, create(definition(t, plain, converted(&api.WebhookClientConfig{URL: &url, Service: path("/")})), schema.Kubernetes).Errors, one)
	noHost, noURL := "https:///x", "https://a b"
	expect(t, create(definition(t, plain, converted(&api.WebhookClientConfig{URL: &noHost})), schema.Kubernetes).Errors, `url: Invalid value: "": host must be specified; desired format: https://host[/path]`)
	expect(t, create(definition(t, plain, converted(&api.WebhookClientConfig{URL: &noURL})), schema.Kubernetes).Errors, "url: Required value: url must be a valid URL: ")
	expect(t, create(definition(t, plain, converted(&api.WebhookClientConfig{URL: &url}, "V1", "v1beta1")), schema.Kubernetes).Errors,
		`spec.conversion.conversionReviewVersions[0]: Invalid value: "V1": a DNS-1035 label must consist of`)
}

// certificate returns a certificate authority as PEM.
func certificate(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestCABundles checks that a served resource cannot get a CA bundle that is invalid, unless it
// has one, and that a resource is not served with one.
func TestCABundles(t *testing.T) {
	url := "https://example.com"
	client := func(bundle []byte) func(*api.CustomResourceDefinition) {
		return converted(&api.WebhookClientConfig{URL: &url, CABundle: bundle})
	}
	good := certificate(t)
	old := served(t, definition(t, plain, client(good)), nil).CRD()
	if c := condition(t, old.Status, api.Established); c.Status != api.ConditionTrue {
		t.Fatalf("with a certificate: got %+v", c)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	headers := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: []byte("x")})
	const unable = "spec.conversion.webhookClientConfig.caBundle: Invalid value: "
	for name, tt := range map[string]struct {
		bundle []byte
		want   string
	}{
		"none":              {nil, ""},
		"a certificate":     {good, ""},
		"a key before it":   {slices.Concat(key, good), ""},
		"no PEM":            {[]byte("none"), "unable to load root certificates: unable to parse bytes as PEM block"},
		"a key":             {key, "unable to load root certificates: no valid certificate authority data seen"},
		"a header":          {headers, "unable to load root certificates: no valid certificate authority data seen"},
		"a broken one":      {broken, "unable to load root certificates: failed to parse certificate: "},
		"a key, then a one": {slices.Concat(key, broken), "unable to load root certificates: failed to parse certificate: "},
	} {
		t.Run(name, func(t *testing.T) {
			c := old.DeepCopy()
			client(tt.bundle)(c)
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			errs := update(c, old, schema.Kubernetes).Errors
			expect(t, errs, want...)
			if tt.want != "" && !containsError(errs, unable) {
				t.Errorf("got %v, want %s", errs, unable)
			}
			// It is accepted where the resource is not served, which it prevents.
			fresh := definition(t, plain, client(tt.bundle))
			expect(t, create(fresh, schema.Kubernetes).Errors)
			if got := condition(t, served(t, fresh, nil).CRD().Status, api.Established); (got.Status == api.ConditionTrue) != (tt.want == "") {
				t.Errorf("got %+v", got)
			}
			expect(t, update(c.DeepCopy(), fresh, schema.Kubernetes).Errors)
			// Once stored, it stays, and another that is invalid may replace it.
			was := c.DeepCopy()
			was.Status = old.Status
			next := was.DeepCopy()
			client([]byte("other"))(next)
			if errs := update(next, was, schema.Kubernetes).Errors; (len(errs) == 0) != (tt.want != "") {
				t.Errorf("an update of %s: got %v", name, errs)
			}
		})
	}
}

// selecting returns an edit that makes fields selectable.
func selecting(paths ...string) func(*api.CustomResourceDefinition) {
	return func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].SelectableFields = nil
		for _, p := range paths {
			c.Spec.Versions[0].SelectableFields = append(c.Spec.Versions[0].SelectableFields, api.SelectableField{JSONPath: p})
		}
	}
}

// TestSelectableFields checks which fields, and how many, can be selectable.
func TestSelectableFields(t *testing.T) {
	var b strings.Builder
	var paths []string
	for i := range 10 {
		fmt.Fprintf(&b, "f%d: {type: string}, ", i)
		paths = append(paths, fmt.Sprintf(".spec.f%d", i))
	}
	many := "{type: object, properties: {metadata: {type: object, properties: {name: {type: string}}}, spec: {type: object, properties: {" + b.String() + `
  s: {type: string, enum: [a]}, b: {type: boolean}, i: {type: integer}, num: {type: number}, l: {type: array, items: {type: string}}, m: {type: object, additionalProperties: {type: string}}}}}}`
	const tooMany = "spec.selectableFields: Too many: 9: must have at most 8 items"
	wrongType := func(path string) string {
		return fmt.Sprintf("jsonPath: Invalid value: %q: must point to a field of type string, boolean or integer.", path)
	}
	for _, sem := range both {
		for name, tt := range map[string]struct {
			paths, want []string
		}{
			"types":        {[]string{".spec.s", ".spec.b", ".spec.i"}, nil},
			"number":       {[]string{".spec.num"}, []string{wrongType(".spec.num")}},
			"list":         {[]string{".spec.l"}, []string{wrongType(".spec.l")}},
			"metadata":     {[]string{".metadata.name"}, []string{`jsonPath: Invalid value: ".metadata.name": must not point to fields in metadata`}},
			"map":          {[]string{".spec.m.key"}, nil},
			"end":          {[]string{".spec."}, []string{"is an invalid path: unexpected end of JSON path"}},
			"below":        {[]string{".spec.s.x"}, []string{"is an invalid path: does not refer to a valid field"}},
			"eight":        {paths[:8], nil},
			"nine":         {paths[:9], []string{tooMany}},
			"same, thrice": {[]string{".spec.s", ".spec.s", ".spec.s"}, []string{`selectableFields[1].jsonPath: Duplicate value: ".spec.s"`, `selectableFields[2].jsonPath: Duplicate value`}},
		} {
			t.Run(fmt.Sprint(sem, " ", name), func(t *testing.T) {
				expect(t, create(definition(t, many, selecting(tt.paths...)), sem).Errors, tt.want...)
			})
		}
		// A stored CRD with too many can be updated, but not those fields.
		nine := definition(t, many, selecting(paths[:9]...))
		expect(t, update(nine.DeepCopy(), nine, sem).Errors)
		expect(t, update(definition(t, many, selecting(paths[1:10]...)), nine, sem).Errors, tooMany)
		expect(t, update(nine.DeepCopy(), definition(t, many, selecting(paths[:8]...)), sem).Errors, tooMany)

		// Fields of several versions are validated by themselves.
		two := definition(t, many, selecting(paths[:9]...), func(c *api.CustomResourceDefinition) {
			v := c.DeepCopy().Spec.Versions[0]
			v.Name, v.Storage, v.SelectableFields = "v2", false, []api.SelectableField{{JSONPath: ".spec.s"}}
			v.Schema.OpenAPIV3Schema.Description = "other"
			c.Spec.Versions = append(c.Spec.Versions, v)
		})
		changed := two.DeepCopy()
		changed.Spec.Versions[1].SelectableFields[0].JSONPath = ".spec.num"
		expect(t, update(two.DeepCopy(), two, sem).Errors)
		expect(t, update(changed, two, sem).Errors, `spec.versions[1].selectableFields[0].jsonPath: Invalid value: ".spec.num"`)
		late := two.DeepCopy()
		late.Spec.Versions[1].SelectableFields = definition(t, many, selecting(paths[1:10]...)).Spec.Versions[0].SelectableFields
		expect(t, update(late, two, sem).Errors, "spec.versions[1].selectableFields: Too many: 9: must have at most 8 items")

		expect(t, update(definition(t, "", preservingV1, selecting(".spec.s")), definition(t, "", preservingV1), sem).Errors,
			`spec.selectableFields: Invalid value: "": may only be set when validations.schema is included`)
		// One version with a schema of its own, and one without a schema.
		half := definition(t, "", preservingV1, selecting(".spec.s"), func(c *api.CustomResourceDefinition) {
			c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: "v2", Served: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, many)}})
		})
		expect(t, update(half, definition(t, "", preservingV1), sem).Errors,
			"spec.versions[0].selectableFields: Invalid value: \"\": may only be set when `version.schema.openAPIV3Schema` is not included")
	}
}

// TestExtensionsNeedStructure checks that a v1beta1 CRD without pruning need not be structural,
// except with a keyword that only structural schemas have.
func TestExtensionsNeedStructure(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "type: string": false, "nullable: true, type: string": false,
		"type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true": true,
		"type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: string}}":            true,
		"x-kubernetes-preserve-unknown-fields: true":                                                     true,
		"x-kubernetes-int-or-string: true":                                                               true,
		"type: array, items: {type: string}, x-kubernetes-list-type: atomic":                             true,
		"type: string, x-kubernetes-validations: [{rule: \"true\"}]":                                     true,
	} {
		for _, sem := range both {
			c := betaDefinition(t, "{properties: {untyped: {properties: {b: {}}}, a: {"+text+"}}}", preserving(true))
			errs := createBeta(c, sem).Errors
			if got := containsError(errs, "properties[untyped].type: Required value"); got != want || !want && len(errs) > 0 {
				t.Errorf("%v: %q: got %v, want errors %t", sem, text, errs, want)
			}
		}
	}
	// The keys of a list are a keyword by themselves.
	keys := betaDefinition(t, `{properties: {untyped: {properties: {b: {}}}, a: {type: array, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}}}`, preserving(true))
	if errs := createBeta(keys, schema.Kubernetes).Errors; !containsError(errs, "properties[untyped].type: Required value") {
		t.Errorf("keys without a list type: got %v", errs)
	}
}

// TestIncompleteKeysStay checks that an update may leave lists whose items may lack their keys, but
// may not add them.
func TestIncompleteKeysStay(t *testing.T) {
	list := func(keys, item string) *api.CustomResourceDefinition {
		return definition(t, "{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: ["+keys+"], items: {type: object, "+item+"}}}}")
	}
	whole := list("k", "required: [k], properties: {k: {type: string}}")
	const require = "properties[l].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
	for _, sem := range both {
		expect(t, create(whole, sem).Errors)
		expect(t, create(list("k", "properties: {k: {type: string, default: x}}"), sem).Errors)
		for name, tt := range map[string]struct {
			crd  *api.CustomResourceDefinition
			want string
		}{
			"not required": {list("k", "properties: {k: {type: string}}"), require},
			"nullable":     {list("k", "required: [k], properties: {k: {type: string, nullable: true}}"), "properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable"},
			"nullable set": {definition(t, `{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string, nullable: true}}}}`), "properties[l].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"},
			"nullable item": {definition(t, `{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, nullable: true, required: [k], properties: {k: {type: string}}}}}}`),
				"properties[l].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map"},
		} {
			t.Run(fmt.Sprint(sem, " ", name), func(t *testing.T) {
				expect(t, create(tt.crd, sem).Errors, tt.want)
				expect(t, update(tt.crd.DeepCopy(), whole, sem).Errors, tt.want)
				expect(t, update(tt.crd.DeepCopy(), tt.crd, sem).Errors)
			})
		}
		// An atomic list has no keys.
		expect(t, create(definition(t, `{type: object, properties: {l: {type: array, x-kubernetes-list-type: atomic, items: {type: string, nullable: true}}}}`), sem).Errors)
	}
}

// TestServes checks which versions of groups a catalog serves.
func TestServes(t *testing.T) {
	c := crd.NewCatalog(served(t, definition(t, plain, func(c *api.CustomResourceDefinition) {
		c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: "v2", Schema: c.Spec.Versions[0].Schema})
	}), nil), compile(t, definition(t, plain, func(c *api.CustomResourceDefinition) {
		c.Name, c.Spec.Group = "things.waiting.example.com", "waiting.example.com"
	}), schema.KEP))
	for gv, want := range map[string]bool{
		"example.com/v1": true, "example.com/v2": false, "example.com/v3": false, "other.example.com/v1": false, "waiting.example.com/v1": false,
	} {
		parsed, err := runtimeschema.ParseGroupVersion(gv)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Serves(parsed); got != want {
			t.Errorf("%s: got %t, want %t", gv, got, want)
		}
	}
}

// TestBadPatterns checks that a jsonSchema with an invalid regular expression is rejected, wherever
// it is.
func TestBadPatterns(t *testing.T) {
	for text, bad := range map[string]string{
		`{properties: {a: {pattern: "^a+$"}}}`:                                    "",
		`{properties: {a: {pattern: "(a"}}}`:                                      "(a",
		`{patternProperties: {"^a": {type: string}, "[b": {type: string}}}`:       "[b",
		`{definitions: {d: {pattern: "*c"}}, properties: {a: {pattern: "fine"}}}`: "*c",
		// The first of several is reported.
		`{pattern: "(a", patternProperties: {"[b": {type: string}}}`:             "(a",
		`{patternProperties: {"(a": {type: string}, "[b": {type: string}}}`:      "(a",
		`{properties: {a: {patternProperties: {"[b": {}}}, c: {pattern: "(a"}}}`: "[b",
	} {
		var want []string
		if bad != "" {
			want = []string{fmt.Sprintf("spec.validation.jsonSchema: Invalid value: %q: has an invalid pattern: error parsing regexp: ", bad)}
		}
		expect(t, createBeta(jsonSchemaCRD(t, text, preserving(true)), schema.KEP).Errors, want...)
		expect(t, createBeta(jsonSchemaCRD(t, text, preserving(true)), schema.Kubernetes).Errors)
	}
}

// TestDefaultsOfKubernetes checks that kube-apiserver's semantics validates defaults with all
// keywords, also below logical operators.
func TestDefaultsOfKubernetes(t *testing.T) {
	for text, want := range map[string]string{
		"type: string, default: abc, maxLength: 2":                                                                                 "default: Too long: may not be more than 2 bytes",
		"type: string, default: a, minLength: 2":                                                                                   "default: Invalid value: \"a\": ",
		"type: string, default: a, pattern: ^b":                                                                                    "should match '^b'",
		"type: string, default: a, enum: [b, c]":                                                                                   `default: Unsupported value: "a": supported values: "b", "c"`,
		"type: integer, default: 1, enum: [2, 3]":                                                                                  `default: Unsupported value: 1: supported values: "2", "3"`,
		"type: integer, default: 3, maximum: 2":                                                                                    "should be less than or equal to 2",
		"type: integer, default: 2, maximum: 2, exclusiveMaximum: true":                                                            "should be less than 2",
		"type: integer, default: 1, minimum: 2":                                                                                    "should be greater than or equal to 2",
		"type: integer, default: 3, multipleOf: 2":                                                                                 "should be a multiple of 2",
		"type: array, items: {type: string}, default: [a, b], maxItems: 1":                                                         "default: Too many: 2: must have at most 1 item",
		"type: array, items: {type: string}, default: [a], minItems: 2":                                                            "should have at least 2 items",
		"type: array, items: {type: string, maxLength: 1}, default: [a, bb]":                                                       "default.[1]: Too long: may not be more than 1 byte",
		"type: object, properties: {b: {type: string}}, default: {}, required: [b]":                                                "default.b: Required value",
		"type: object, properties: {b: {type: string, maxLength: 1}}, default: {b: cc}":                                            "default.b: Too long",
		"type: object, additionalProperties: {type: string, maxLength: 1}, default: {b: cc}":                                       "default.b: Too long",
		"type: object, additionalProperties: {type: string}, default: {b: c, d: e}, maxProperties: 1":                              "default: Too many: 2: must have at most 1 item",
		"type: object, additionalProperties: {type: string}, default: {}, minProperties: 1":                                        "should have at least 1 properties",
		"type: object, properties: {b: {type: string}}, default: {b: x}, not: {properties: {b: {enum: [x]}}}":                      "must not validate the schema (not)",
		"type: object, properties: {b: {type: string}}, default: {b: x}, not: {required: [b]}":                                     "must not validate the schema (not)",
		"type: object, properties: {b: {type: string}}, default: {b: x}, allOf: [{properties: {b: {maxLength: 0}}}]":               "default.b: Too long",
		"type: array, items: {type: string}, default: [x], allOf: [{items: {maxLength: 0}}]":                                       "default.[0]: Too long",
		"type: string, default: x, anyOf: [{enum: [a]}, {enum: [b]}]":                                                              "must validate at least one schema (anyOf)",
		"type: string, default: x, oneOf: [{enum: [x]}, {maxLength: 1}]":                                                           "must validate one and only one schema (oneOf). Found 2 valid alternatives",
		"x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], default: 1":                                   "",
		"x-kubernetes-int-or-string: true, allOf: [{anyOf: [{type: integer}, {type: string}]}, {maximum: 3}], default: 5":          "should be less than or equal to 3",
		"type: string, nullable: true, default: x":                                                                                 "",
		"type: object, properties: {b: {type: string}}, default: {b: x}, anyOf: [{properties: {b: {enum: [x]}}}, {required: [c]}]": "",
	} {
		c := definition(t, "{type: object, properties: {a: {"+text+"}}}")
		errs := create(c, schema.Kubernetes).Errors
		if want == "" && len(errs) > 0 || want != "" && !containsError(errs, want) {
			t.Errorf("%s: got %v, want %q", text, errs, want)
		}
		// Both semantics agree on whether a default is valid.
		if errs := create(c, schema.KEP).Errors; (len(errs) == 0) != (want == "") {
			t.Errorf("kep: %s: got %v, want %q", text, errs, want)
		}
	}
}

// TestDefaultsInMetadata checks the defaults of the metadata of embedded resources, with their
// rules.
func TestDefaultsInMetadata(t *testing.T) {
	text := func(name string) string {
		return `{type: object, properties: {pod: {type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {type: object, properties: {name: {type: string, ` + name + `}}}}}}}`
	}
	const at = "properties[pod].properties[metadata].properties[name].default: "
	for name, want := range map[string]string{
		"default: fine":              "",
		"default: 7":                 at + "Invalid value: 7: must result in valid metadata",
		`default: a/b`:               at + `Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": may not contain '/'`,
		"default: abc, maxLength: 2": at + "Too long",
		`default: abc, maxLength: 9, x-kubernetes-validations: [{rule: "self == 'abc'"}]`: "",
		`default: abc, maxLength: 9, x-kubernetes-validations: [{rule: "self != 'abc'"}]`: at + `Invalid value: "abc": failed rule: self != 'abc'`,
	} {
		for _, sem := range both {
			errs := crd.ValidateCreate(t.Context(), definition(t, text(name)), crd.Options{Semantics: sem, Rules: cel.Checker{}}).Errors
			if want == "" && len(errs) > 0 || want != "" && !containsError(errs, want) {
				t.Errorf("%v: %s: got %v, want %q", sem, name, errs, want)
			}
		}
	}
}

// TestSkippedRules checks that the rules of a schema with errors are not compiled, and others are.
func TestSkippedRules(t *testing.T) {
	c := definition(t, `{type: object, properties: {
  a: {type: object, properties: {b: {type: array, uniqueItems: true, maxItems: 2, items: {type: string, maxLength: 5}, x-kubernetes-validations: [{rule: "self.skipped"}]}}},
  c: {type: object, properties: {b: {type: array, maxItems: 2, items: {type: string, maxLength: 5}, x-kubernetes-validations: [{rule: "self.reported"}]}}}}}`)
	for _, sem := range both {
		expect(t, crd.ValidateCreate(t.Context(), c, crd.Options{Semantics: sem, Rules: cel.Checker{}}).Errors,
			"properties[a].properties[b].uniqueItems: Forbidden", "properties[c].properties[b].x-kubernetes-validations[0].rule: Invalid value")
	}
}

// TestPreparedUpdates checks what an update of an object keeps of the old one.
func TestPreparedUpdates(t *testing.T) {
	with := func(subresources *api.CustomResourceSubresources) *crd.Version {
		return compile(t, definition(t, plain, func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Subresources = subresources }), schema.KEP).Versions()[0]
	}
	status := with(&api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}})
	object := func(a string, status any, meta map[string]any) schema.Object {
		obj := schema.Object{"metadata": meta, "spec": map[string]any{"a": a}}
		if status != nil {
			obj["status"] = status
		}
		return obj
	}
	stored := map[string]any{"name": "x", "uid": "1", "generation": int64(4), "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2021-01-01T00:00:00Z", "deletionGracePeriodSeconds": int64(3)}
	for name, tt := range map[string]struct {
		version    *crd.Version
		obj, old   schema.Object
		generation any
		status     any
	}{
		"unchanged":            {status, object("1", nil, map[string]any{}), object("1", nil, stored), int64(4), nil},
		"changed":              {status, object("2", nil, map[string]any{}), object("1", nil, stored), int64(5), nil},
		"status is kept":       {status, object("1", "new", map[string]any{}), object("1", "old", stored), int64(4), "old"},
		"status is not added":  {status, object("1", "new", map[string]any{}), object("1", nil, stored), int64(4), nil},
		"status without /":     {with(nil), object("1", "new", map[string]any{}), object("1", "old", stored), int64(5), "new"},
		"only metadata":        {status, object("1", nil, map[string]any{"labels": map[string]any{"a": "b"}}), object("1", nil, stored), int64(4), nil},
		"no old generation":    {status, object("1", nil, map[string]any{"generation": int64(9)}), object("1", nil, map[string]any{}), nil, nil},
		"without any metadata": {status, schema.Object{"spec": map[string]any{"a": "1"}}, object("1", nil, stored), int64(4), nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.version.PrepareUpdate(tt.obj, tt.old)
			meta := tt.obj["metadata"].(map[string]any)
			if meta["generation"] != tt.generation || tt.obj["status"] != tt.status {
				t.Errorf("got %v, want generation %v, status %v", tt.obj, tt.generation, tt.status)
			}
			if _, found := tt.obj["status"]; found != (tt.status != nil) {
				t.Errorf("got %v", tt.obj)
			}
			old := tt.old["metadata"].(map[string]any)
			for _, k := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
				if meta[k] != old[k] {
					t.Errorf("%s: got %v, want %v", k, meta[k], old[k])
				}
			}
		})
	}
	// Only the API server sets the timestamps; a client may send another uid, which is a conflict.
	obj := object("1", nil, map[string]any{"uid": "2", "creationTimestamp": "x", "deletionTimestamp": "x", "deletionGracePeriodSeconds": int64(9)})
	status.PrepareUpdate(obj, object("1", nil, stored))
	if meta := obj["metadata"].(map[string]any); meta["uid"] != "2" || meta["creationTimestamp"] != stored["creationTimestamp"] || meta["deletionTimestamp"] != stored["deletionTimestamp"] || meta["deletionGracePeriodSeconds"] != int64(9) {
		t.Errorf("got %v", meta)
	}
	fresh := object("1", "sent", map[string]any{"uid": "2", "creationTimestamp": "x", "deletionTimestamp": "x", "deletionGracePeriodSeconds": int64(9), "selfLink": "x", "generation": int64(7), "name": "kept"})
	status.PrepareCreate(fresh)
	if meta := fresh["metadata"].(map[string]any); len(meta) != 2 || meta["generation"] != int64(1) || meta["name"] != "kept" || fresh["status"] != nil {
		t.Errorf("create: got %v", fresh)
	}
	plainly := object("1", "sent", map[string]any{})
	with(nil).PrepareCreate(plainly)
	if plainly["status"] != "sent" {
		t.Errorf("create without a status subresource: got %v", plainly)
	}
	// A write of the status changes it and the managed fields, nothing else.
	for _, tt := range []struct{ sent, want any }{{"new", "new"}, {nil, nil}} {
		obj := object("2", tt.sent, map[string]any{"labels": "no", "managedFields": "sent"})
		status.PrepareStatusUpdate(obj, object("1", "old", map[string]any{"name": "x", "managedFields": "stored"}))
		if meta := obj["metadata"].(map[string]any); obj["status"] != tt.want || obj["spec"].(map[string]any)["a"] != "1" || len(meta) != 2 || meta["name"] != "x" || meta["managedFields"] != "sent" {
			t.Errorf("status %v: got %v", tt.sent, obj)
		}
	}
}

// TestFinalizerWarnings checks which finalizers get a warning.
func TestFinalizerWarnings(t *testing.T) {
	object := func(names ...any) schema.Object {
		return schema.Object{"metadata": map[string]any{"finalizers": names}}
	}
	for name, want := range map[string]string{
		"example.com/x": "", "orphan": "", "foregroundDeletion": "", "kubernetes": "",
		"example.com": "prefer a domain-qualified finalizer name including a path (/)",
		"mine":        "prefer a domain-qualified finalizer name to avoid",
	} {
		got := crd.FinalizerWarnings(object(name), nil)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf("metadata.finalizers: %q: %s", name, want))) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := crd.FinalizerWarnings(object("b", "a", "b"), object("a")); len(got) != 1 || !strings.Contains(got[0], `"b"`) {
		t.Errorf("only new ones, once: got %q", got)
	}
}

// TestVersionsOfBeta checks the errors about the versions of v1beta1 CRDs.
func TestVersionsOfBeta(t *testing.T) {
	column := []v1beta1.CustomResourceColumnDefinition{{Name: "A", Type: "string", JSONPath: ".spec.a"}}
	versions := func(edit func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion)) *v1beta1.CustomResourceDefinition {
		return betaDefinition(t, "", preserving(true), func(c *v1beta1.CustomResourceDefinition) {
			c.Spec.Versions = []v1beta1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}, {Name: "v2", Served: true}}
			edit(c, &c.Spec.Versions[0], &c.Spec.Versions[1])
		})
	}
	for name, tt := range map[string]struct {
		crd  *v1beta1.CustomResourceDefinition
		want []string
	}{
		"columns everywhere": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			c.Spec.AdditionalPrinterColumns, v1.AdditionalPrinterColumns = column, column
		}), []string{"spec.additionalPrinterColumns: Forbidden: top-level and per-version additionalPrinterColumns are mutually exclusive"}},
		"the same columns": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			v1.AdditionalPrinterColumns, v2.AdditionalPrinterColumns = column, column
		}), []string{"per-version additionalPrinterColumns may not all be set to identical values (top-level additionalPrinterColumns should be used instead)"}},
		"columns in one": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			v1.AdditionalPrinterColumns = column
		}), nil},
		"another first version": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			c.Spec.Version = "v2"
		}),
			[]string{`spec.version: Invalid value: "v2": must match the first version in spec.versions`}},
		"another version than the only one": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			c.Spec.Version, c.Spec.Versions = "v2", c.Spec.Versions[:1]
		}),
			[]string{`spec.version: Invalid value: "v2": must match the first version in spec.versions`}},
		"the same name": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			v2.Name = "v1"
		}),
			[]string{`spec.versions: Invalid value: "v1, v1": must contain unique version names`}},
		"two storage versions": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			v2.Storage = true
		}),
			[]string{`spec.versions: Invalid value: "v1, v2": must have exactly one version marked as storage version`, "status.storedVersions"}},
		"an invalid name": {versions(func(c *v1beta1.CustomResourceDefinition, v1, v2 *v1beta1.CustomResourceDefinitionVersion) {
			v2.Name = "V2"
		}),
			[]string{`spec.versions[1].name: Invalid value: "V2": a DNS-1035 label must consist of`}},
	} {
		for _, sem := range both {
			t.Run(fmt.Sprint(sem, " ", name), func(t *testing.T) { expect(t, createBeta(tt.crd, sem).Errors, tt.want...) })
		}
	}
}

// TestStoredVersions checks the versions that a status must and must not have.
func TestStoredVersions(t *testing.T) {
	old := served(t, named(t, "things", "Thing"), nil).CRD()
	for stored, want := range map[string]string{
		"v1": "", "": "status.storedVersions: Invalid value: []: must have at least one stored version",
		"v1 v0": `status.storedVersions[1]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage version`,
		"v0 v1": `status.storedVersions[0]: Invalid value: "v0": missing from spec.versions`,
		// A version that is repeated is reported once.
		"v0 v1 v0": `status.storedVersions[2]: Invalid value: "v0": missing from spec.versions`,
	} {
		c := old.DeepCopy()
		c.Status.StoredVersions = strings.Fields(stored)
		var list []string
		if want != "" {
			list = []string{want}
		}
		expect(t, update(c, old, schema.Kubernetes).Errors, list...)
	}
	c := old.DeepCopy()
	c.Status.StoredVersions = []string{"v0"}
	expect(t, update(c, old, schema.Kubernetes).Errors, "status.storedVersions: Invalid value: [\"v0\"]: must have the storage version v1", `status.storedVersions[0]: Invalid value: "v0"`)
	if got := crd.Condition(&old.Status, api.Established); got == nil || got.LastTransitionTime != metav1.Unix(100, 0) {
		t.Errorf("got %+v", got)
	}
}
