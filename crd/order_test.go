package crd_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// wrongEverywhere breaks every check of a v1 definition that others let be reached.
const wrongEverywhere = `
metadata: {name: wrong, resourceVersion: "1"}
spec:
  group: k8s.io
  scope: Somewhere
  preserveUnknownFields: true
  names: {plural: 1things, singular: 1thing, kind: 1Thing, listKind: 1Thing, shortNames: [1t], categories: [1c]}
  conversion: {strategy: Sometimes, webhook: {conversionReviewVersions: [v1]}}
  versions:
  - name: 1v
    served: true
    deprecationWarning: old
    additionalPrinterColumns: [{name: a, type: text, jsonPath: a}]
    subresources: {scale: {specReplicasPath: x, statusReplicasPath: z}, status: {}}
    selectableFields: [{jsonPath: .spec.none}]
    schema: {openAPIV3Schema: {type: object, nullable: true, uniqueItems: true, enum: [1], properties: {a: {default: 1}}}}
  - {name: 1v, served: true}
status: {storedVersions: [v9], acceptedNames: {plural: 1s}}
`

// betaEverywhere does so for v1beta1.
const betaEverywhere = `
metadata: {name: wrong, resourceVersion: "1"}
spec:
  version: 0v
  scope: Cluster
  names: {plural: things, kind: Thing}
  validation: {openAPIV3Schema: {type: object, nullable: true}}
  subresources: {scale: {specReplicasPath: .spec.a}}
  additionalPrinterColumns: [{name: a, type: string}]
  conversion: {strategy: Webhook}
  versions:
  - {name: v1, served: true, schema: {openAPIV3Schema: {type: object}}, subresources: {status: {}}, additionalPrinterColumns: [{type: string, JSONPath: .a}]}
`

// TestOrder pins the order of errors: that of kube-apiserver.
func TestOrder(t *testing.T) {
	fields := func(r crd.Result) (fields []string) {
		for _, e := range r.Errors {
			fields = append(fields, e.Field)
		}
		return slices.Compact(fields)
	}
	read := func(text string, into any) {
		t.Helper()
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := api.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	v1, beta := &api.CustomResourceDefinition{}, &v1beta1.CustomResourceDefinition{}
	read(wrongEverywhere, v1)
	api.SetDefaults(v1)
	read(betaEverywhere, beta)
	v1beta1.SetDefaults(beta)
	old := definition(t, `{type: object}`, func(c *api.CustomResourceDefinition) {
		c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue}}
		c.Status.StoredVersions = []string{"v1"}
	})
	o := crd.Options{Semantics: schema.Kubernetes}
	for name, tt := range map[string]struct {
		got  crd.Result
		want string
	}{
		"create": {crd.ValidateCreate(context.Background(), v1, o), `
			metadata.name spec.scope spec.versions[1].schema.openAPIV3Schema spec.preserveUnknownFields spec.versions[0].name
			spec.versions[0].deprecationWarning spec.versions[0].schema.openAPIV3Schema
			spec.versions[0].schema.openAPIV3Schema.nullable spec.versions[0].schema.openAPIV3Schema.properties[a].type
			spec.versions[0].schema.openAPIV3Schema.uniqueItems spec.versions[0].subresources.scale.specReplicasPath
			spec.versions[0].subresources.scale.statusReplicasPath spec.versions[0].additionalPrinterColumns[0].type
			spec.versions[0].additionalPrinterColumns[0].JSONPath spec.versions[0].selectableFields[0].jsonPath spec.versions[1].name
			spec.versions spec.version spec.names.plural spec.names.singular spec.names.kind spec.names.listKind
			spec.names.shortNames[0] spec.names.listKind spec.names.categories[0] spec.conversion.strategy
			spec.conversion.conversionReviewVersions status.acceptedNames.plural status.storedVersions[0]
			metadata.annotations[api-approved.kubernetes.io] spec.preserveUnknownFields`},
		"create v1beta1": {crd.ValidateCreateV1beta1(context.Background(), beta, o), `
			metadata.name spec.group spec.versions[0].additionalPrinterColumns[0].name spec.validation spec.subresources
			spec.additionalPrinterColumns spec.versions spec.version spec.validation.openAPIV3Schema
			spec.validation.openAPIV3Schema.nullable spec.subresources.scale.statusReplicasPath
			spec.additionalPrinterColumns[0].JSONPath spec.conversion.strategy spec.conversion.webhookClientConfig
			status.storedVersions`},
		"update": {crd.ValidateUpdate(context.Background(), v1, old, o), `
			metadata.name spec.scope spec.versions[1].schema.openAPIV3Schema spec.preserveUnknownFields spec.versions[0].name
			spec.versions[0].deprecationWarning spec.versions[0].schema.openAPIV3Schema
			spec.versions[0].schema.openAPIV3Schema.nullable spec.versions[0].schema.openAPIV3Schema.properties[a].type
			spec.versions[0].schema.openAPIV3Schema.uniqueItems spec.versions[0].subresources.scale.specReplicasPath
			spec.versions[0].subresources.scale.statusReplicasPath spec.versions[0].additionalPrinterColumns[0].type
			spec.versions[0].additionalPrinterColumns[0].JSONPath spec.versions[0].selectableFields[0].jsonPath spec.versions[1].name
			spec.versions spec.version spec.names.plural spec.names.singular spec.names.kind spec.names.listKind
			spec.names.shortNames[0] spec.names.listKind spec.names.categories[0] spec.conversion.strategy
			spec.conversion.conversionReviewVersions spec.scope spec.names.kind spec.group spec.names.plural
			status.acceptedNames.plural status.storedVersions[0] spec.preserveUnknownFields`},
	} {
		if got := fields(tt.got); !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s: got\n%s", name, strings.Join(got, "\n"))
		}
	}
}
