package crd_test

import (
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/schema"
)

// TestConversionStrategies checks what belongs to a strategy of conversions.
func TestConversionStrategies(t *testing.T) {
	url := "https://example.com"
	client := &api.WebhookClientConfig{URL: &url}
	const notSet = ": Forbidden: should not be set when strategy is not set to Webhook"
	for name, tt := range map[string]struct {
		conversion *v1beta1.CustomResourceConversion
		want       []string
	}{
		"no strategy":         {&v1beta1.CustomResourceConversion{}, []string{"spec.conversion.strategy: Required value"}},
		"none":                {&v1beta1.CustomResourceConversion{Strategy: api.NoneConverter}, nil},
		"none with a client":  {&v1beta1.CustomResourceConversion{Strategy: api.NoneConverter, WebhookClientConfig: client}, []string{"spec.conversion.webhookClientConfig" + notSet}},
		"none with reviews":   {&v1beta1.CustomResourceConversion{Strategy: api.NoneConverter, ConversionReviewVersions: []string{"v1"}}, []string{"spec.conversion.conversionReviewVersions" + notSet}},
		"another strategy":    {&v1beta1.CustomResourceConversion{Strategy: "Other"}, []string{`spec.conversion.strategy: Unsupported value: "Other": supported values: "None", "Webhook"`}},
		"webhook":             {&v1beta1.CustomResourceConversion{Strategy: api.WebhookConverter, WebhookClientConfig: client, ConversionReviewVersions: []string{"v1"}}, nil},
		"webhook, old review": {&v1beta1.CustomResourceConversion{Strategy: api.WebhookConverter, WebhookClientConfig: client, ConversionReviewVersions: []string{"v2", "v1beta1"}}, nil},
		"without a client":    {&v1beta1.CustomResourceConversion{Strategy: api.WebhookConverter, ConversionReviewVersions: []string{"v1"}}, []string{"spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"}},
		"unknown reviews": {&v1beta1.CustomResourceConversion{Strategy: api.WebhookConverter, WebhookClientConfig: client, ConversionReviewVersions: []string{"v2"}},
			[]string{`spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`}},
		"repeated reviews": {&v1beta1.CustomResourceConversion{Strategy: api.WebhookConverter, WebhookClientConfig: client, ConversionReviewVersions: []string{"v1", "v1"}},
			[]string{`spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version`}},
	} {
		for _, sem := range both {
			c := betaDefinition(t, plain, preserving(false), func(c *v1beta1.CustomResourceDefinition) {
				conversion := *tt.conversion
				c.Spec.Conversion = &conversion
			})
			t.Run(sem.String()+" "+name, func(t *testing.T) { expect(t, createBeta(c, sem).Errors, tt.want...) })
		}
	}
	for _, sem := range both {
		c := definition(t, plain)
		c.Spec.Conversion = nil
		expect(t, create(c, sem).Errors)
		expect(t, update(definition(t, plain), c, sem).Errors)
		expect(t, update(c.DeepCopy(), c, sem).Errors)
		strange := definition(t, plain)
		strange.Spec.Conversion = &api.CustomResourceConversion{}
		expect(t, create(strange, sem).Errors, "spec.conversion.strategy: Required value")
	}
}

// TestReviewsStay checks that an update may leave reviews of unknown versions, and may not add
// them.
func TestReviewsStay(t *testing.T) {
	url := "https://example.com"
	with := func(reviews ...string) *api.CustomResourceDefinition {
		return definition(t, plain, converted(&api.WebhookClientConfig{URL: &url}, reviews...))
	}
	none := definition(t, plain, func(c *api.CustomResourceDefinition) {
		c.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.NoneConverter}
	})
	absent := none.DeepCopy()
	absent.Spec.Conversion = nil
	const unknown = "must include at least one of v1, v1beta1"
	for name, tt := range map[string]struct {
		old, now *api.CustomResourceDefinition
		want     []string
	}{
		"as before":         {with("v2"), with("v2"), nil},
		"other unknown one": {with("v2"), with("v3"), nil},
		"new":               {with("v1"), with("v2"), []string{unknown}},
		"new, old review":   {with("v1beta1"), with("v2"), []string{unknown}},
		"known before":      {with("v2", "v1"), with("v2"), []string{unknown}},
		"no webhook before": {none, with("v2"), []string{unknown}},
		"nothing before":    {absent, with("v2"), []string{unknown}},
	} {
		t.Run(name, func(t *testing.T) { expect(t, update(tt.now, tt.old, schema.Kubernetes).Errors, tt.want...) })
	}
}

// TestBundleOfServedResource checks the CA bundle that a resource gets after it is served.
func TestBundleOfServedResource(t *testing.T) {
	url := "https://example.com"
	bad := func() *api.CustomResourceDefinition {
		return definition(t, plain, converted(&api.WebhookClientConfig{URL: &url, CABundle: []byte("x")}))
	}
	const unable = `spec.conversion.webhookClientConfig.caBundle: Invalid value: "eA==": unable to load root certificates: unable to parse bytes as PEM block`
	for name, edit := range map[string]func(*api.CustomResourceDefinition){
		"no conversion": func(c *api.CustomResourceDefinition) { c.Spec.Conversion = nil },
		"none": func(c *api.CustomResourceDefinition) {
			c.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.NoneConverter}
		},
		"no bundle": converted(&api.WebhookClientConfig{URL: &url}),
	} {
		old := served(t, definition(t, plain), nil).CRD().DeepCopy()
		edit(old)
		now := bad()
		now.Status = old.Status
		t.Run(name, func(t *testing.T) { expect(t, update(now, old, schema.Kubernetes).Errors, unable) })
		old.Status.Conditions = nil
		t.Run(name+", not served", func(t *testing.T) { expect(t, update(now, old, schema.Kubernetes).Errors) })
	}
}

// TestSubresourcePaths checks the paths of a scale subresource.
func TestSubresourcePaths(t *testing.T) {
	const at = "spec.subresources.scale."
	text := func(s string) *string { return &s }
	for name, tt := range map[string]struct {
		scale api.CustomResourceSubresourceScale
		want  []string
	}{
		"fine":           {api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a"}, nil},
		"selector":       {api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a", LabelSelectorPath: text(".status.b")}, nil},
		"spec selector":  {api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a", LabelSelectorPath: text(".spec.b")}, nil},
		"empty selector": {api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a", LabelSelectorPath: text("")}, nil},
		"nothing":        {api.CustomResourceSubresourceScale{}, []string{at + "specReplicasPath: Required value", at + "statusReplicasPath: Required value"}},
		"elsewhere": {api.CustomResourceSubresourceScale{SpecReplicasPath: ".status.a", StatusReplicasPath: ".spec.a", LabelSelectorPath: text(".metadata.a")}, []string{
			at + `specReplicasPath: Invalid value: ".status.a": should be a json path under .spec`, at + `statusReplicasPath: Invalid value: ".spec.a": should be a json path under .status`,
			at + `labelSelectorPath: Invalid value: ".metadata.a": should be a json path under either .spec or .status`}},
		"no path": {api.CustomResourceSubresourceScale{SpecReplicasPath: "spec.a", StatusReplicasPath: "status.a", LabelSelectorPath: text("x")}, []string{
			at + `specReplicasPath: Invalid value: "spec.a": must be a simple json path starting with .`, at + `statusReplicasPath: Invalid value: "status.a": must be a simple json path starting with .`,
			at + `labelSelectorPath: Invalid value: "x": must be a simple json path starting with .`}},
	} {
		c := definition(t, plain, func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{Scale: &tt.scale}
		})
		t.Run(name, func(t *testing.T) { expect(t, create(c, schema.Kubernetes).Errors, tt.want...) })
	}
	// Without the status, the root of the schema may validate it.
	root := func(s *api.CustomResourceSubresources) *api.CustomResourceDefinition {
		return definition(t, `{type: object, minProperties: 1, properties: {spec: {type: object}}}`, func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Subresources = s })
	}
	scale := &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a"}
	expect(t, create(root(&api.CustomResourceSubresources{Scale: scale}), schema.Kubernetes).Errors)
	expect(t, create(root(&api.CustomResourceSubresources{Scale: scale, Status: &api.CustomResourceSubresourceStatus{}}), schema.Kubernetes).Errors, "fields are allowed at the root of the schema if the status subresource is enabled")
	// Several versions, one of which has a status.
	two := func(first, second *api.CustomResourceSubresources) *api.CustomResourceDefinition {
		c := root(first)
		c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: "v2", Served: true, Subresources: second, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props(t, `{type: object, maxProperties: 9}`)}})
		return c
	}
	status := &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
	const allowed = "schema.openAPIV3Schema: Invalid value: "
	expect(t, create(two(nil, nil), schema.Kubernetes).Errors)
	expect(t, create(two(status, nil), schema.Kubernetes).Errors, "spec.versions[0]."+allowed+`"minProperties"`)
	expect(t, create(two(nil, status), schema.Kubernetes).Errors, "spec.versions[1]."+allowed+`"maxProperties"`)
	expect(t, create(two(status, status), schema.Kubernetes).Errors, "spec.versions[0]."+allowed+`"minProperties"`, "spec.versions[1]."+allowed+`"maxProperties"`)
}

// TestColumns checks the printer columns.
func TestColumns(t *testing.T) {
	const at = "spec.additionalPrinterColumns[0]."
	for name, tt := range map[string]struct {
		column api.CustomResourceColumnDefinition
		want   []string
	}{
		"fine":            {api.CustomResourceColumnDefinition{Name: "A", Type: "string", JSONPath: ".spec.a"}, nil},
		"format":          {api.CustomResourceColumnDefinition{Name: "A", Type: "integer", Format: "int32", JSONPath: ".spec.a"}, nil},
		"another format":  {api.CustomResourceColumnDefinition{Name: "A", Type: "string", Format: "uuid", JSONPath: ".spec.a"}, []string{at + `format: Invalid value: "uuid": must be one of byte,date,date-time,double,float,int32,int64,password`}},
		"no type":         {api.CustomResourceColumnDefinition{Name: "A", JSONPath: ".spec.a"}, []string{at + "type: Required value: must be one of boolean,date,integer,number,string"}},
		"another type":    {api.CustomResourceColumnDefinition{Name: "A", Type: "object", JSONPath: ".spec.a"}, []string{at + `type: Invalid value: "object": must be one of boolean,date,integer,number,string`}},
		"no name or path": {api.CustomResourceColumnDefinition{Type: "string"}, []string{at + "name: Required value", at + "JSONPath: Required value"}},
		"no dot":          {api.CustomResourceColumnDefinition{Name: "A", Type: "string", JSONPath: "spec.a"}, []string{at + `JSONPath: Invalid value: "spec.a": must be a simple json path starting with .`}},
	} {
		c := definition(t, plain, func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].AdditionalPrinterColumns = []api.CustomResourceColumnDefinition{tt.column}
		})
		t.Run(name, func(t *testing.T) { expect(t, create(c, schema.Kubernetes).Errors, tt.want...) })
	}
}
