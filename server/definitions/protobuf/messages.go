package protobuf

import (
	"maps"

	"google.golang.org/protobuf/encoding/protowire"
)

// field describes a field of a message.
type field struct {
	name string // in JSON
	kind kind
	// of is the name of the message, for fields of messageKind.
	of string
	// many marks lists, keyed marks maps from strings.
	many, keyed bool
	// optional marks fields whose zero is a value. Other fields with a zero are absent
	// from JSON.
	optional bool
}

type kind int

const (
	stringKind kind = iota
	bytesKind
	integerKind
	doubleKind
	boolKind
	messageKind
)

// fields are the fields of a message by their numbers.
type fields = map[protowire.Number]field

// v1 and v1beta1 are the messages of the two versions by their names.
var (
	v1      = v1Messages()
	v1beta1 = v1beta1Messages(v1)
)

func str(name string) field    { return field{name: name, kind: stringKind} }
func strs(name string) field   { return field{name: name, kind: stringKind, many: true} }
func num(name string) field    { return field{name: name, kind: integerKind} }
func flag(name string) field   { return field{name: name, kind: boolKind} }
func double(name string) field { return field{name: name, kind: doubleKind, optional: true} }

func message(name, of string) field {
	return field{name: name, kind: messageKind, of: of, optional: true}
}

func messages(name, of string) field {
	return field{name: name, kind: messageKind, of: of, many: true}
}

func dictionary(name, of string) field {
	return field{name: name, kind: messageKind, of: of, keyed: true}
}

// maybe makes the zero of a field a value.
func maybe(f field) field {
	f.optional = true
	return f
}

// v1Messages returns the messages of apiextensions.k8s.io/v1.
func v1Messages() map[string]fields {
	return map[string]fields{
		"CustomResourceDefinitionList": {1: message("metadata", "ListMeta"), 2: messages("items", "CustomResourceDefinition")},
		"CustomResourceDefinition": {
			1: message("metadata", "ObjectMeta"), 2: message("spec", "CustomResourceDefinitionSpec"),
			3: message("status", "CustomResourceDefinitionStatus"),
		},
		"CustomResourceDefinitionSpec": {
			1: str("group"), 3: message("names", "CustomResourceDefinitionNames"), 4: str("scope"),
			7: messages("versions", "CustomResourceDefinitionVersion"),
			9: message("conversion", "CustomResourceConversion"), 10: flag("preserveUnknownFields"),
		},
		"CustomResourceDefinitionNames": {
			1: str("plural"), 2: str("singular"), 3: strs("shortNames"), 4: str("kind"), 5: str("listKind"), 6: strs("categories"),
		},
		"CustomResourceDefinitionVersion": {
			1: str("name"), 2: maybe(flag("served")), 3: maybe(flag("storage")), 4: message("schema", "CustomResourceValidation"),
			5: message("subresources", "CustomResourceSubresources"),
			6: messages("additionalPrinterColumns", "CustomResourceColumnDefinition"),
			7: flag("deprecated"), 8: maybe(str("deprecationWarning")), 9: messages("selectableFields", "SelectableField"),
		},
		"CustomResourceDefinitionStatus": {
			1: messages("conditions", "CustomResourceDefinitionCondition"), 2: message("acceptedNames", "CustomResourceDefinitionNames"),
			3: strs("storedVersions"), 4: num("observedGeneration"),
		},
		"CustomResourceDefinitionCondition": {
			1: str("type"), 2: str("status"), 3: {name: "lastTransitionTime", kind: messageKind, of: "Time"},
			4: str("reason"), 5: str("message"), 6: num("observedGeneration"),
		},
		"CustomResourceColumnDefinition": {
			1: str("name"), 2: str("type"), 3: str("format"), 4: str("description"), 5: num("priority"), 6: str("jsonPath"),
		},
		"CustomResourceConversion": {1: str("strategy"), 2: message("webhook", "WebhookConversion")},
		"WebhookConversion":        {2: message("clientConfig", "WebhookClientConfig"), 3: strs("conversionReviewVersions")},
		"WebhookClientConfig": {1: message("service", "ServiceReference"),
			2: {name: "caBundle", kind: bytesKind}, 3: maybe(str("url"))},
		"ServiceReference": {1: str("namespace"), 2: str("name"), 3: maybe(str("path")), 4: maybe(num("port"))},
		"CustomResourceSubresources": {1: message("status", "CustomResourceSubresourceStatus"),
			2: message("scale", "CustomResourceSubresourceScale")},
		"CustomResourceSubresourceStatus": {},
		"CustomResourceSubresourceScale":  {1: str("specReplicasPath"), 2: str("statusReplicasPath"), 3: maybe(str("labelSelectorPath"))},
		"CustomResourceValidation":        {1: message("openAPIV3Schema", "JSONSchemaProps")},
		"SelectableField":                 {1: str("jsonPath")},
		"ExternalDocumentation":           {1: str("description"), 2: str("url")},
		"JSON":                            {1: {name: "raw", kind: bytesKind}},
		"JSONSchemaPropsOrArray":          {1: message("schema", "JSONSchemaProps"), 2: messages("jSONSchemas", "JSONSchemaProps")},
		"JSONSchemaPropsOrBool":           {1: maybe(flag("allows")), 2: message("schema", "JSONSchemaProps")},
		"JSONSchemaPropsOrStringArray":    {1: message("schema", "JSONSchemaProps"), 2: strs("property")},
		"ValidationRule": {
			1: str("rule"), 2: str("message"), 3: str("messageExpression"), 4: maybe(str("reason")),
			5: str("fieldPath"), 6: maybe(flag("optionalOldSelf")),
		},
		"JSONSchemaProps": schemaFields(),
	}
}

func schemaFields() fields {
	return fields{
		1: str("id"), 2: str("$schema"), 3: maybe(str("$ref")), 4: str("description"), 5: str("type"), 6: str("format"), 7: str("title"),
		8: message("default", "JSON"), 9: double("maximum"), 10: flag("exclusiveMaximum"),
		11: double("minimum"), 12: flag("exclusiveMinimum"),
		13: maybe(num("maxLength")), 14: maybe(num("minLength")), 15: str("pattern"),
		16: maybe(num("maxItems")), 17: maybe(num("minItems")),
		18: flag("uniqueItems"), 19: double("multipleOf"), 20: messages("enum", "JSON"),
		21: maybe(num("maxProperties")), 22: maybe(num("minProperties")),
		23: strs("required"), 24: message("items", "JSONSchemaPropsOrArray"),
		25: messages("allOf", "JSONSchemaProps"), 26: messages("oneOf", "JSONSchemaProps"),
		27: messages("anyOf", "JSONSchemaProps"), 28: message("not", "JSONSchemaProps"), 29: dictionary("properties", "JSONSchemaProps"),
		30: message("additionalProperties", "JSONSchemaPropsOrBool"), 31: dictionary("patternProperties", "JSONSchemaProps"),
		32: dictionary("dependencies", "JSONSchemaPropsOrStringArray"), 33: message("additionalItems", "JSONSchemaPropsOrBool"),
		34: dictionary("definitions", "JSONSchemaProps"), 35: message("externalDocs",
			"ExternalDocumentation"), 36: message("example", "JSON"),
		37: flag("nullable"), 38: maybe(flag("x-kubernetes-preserve-unknown-fields")), 39: flag("x-kubernetes-embedded-resource"),
		40: flag("x-kubernetes-int-or-string"), 41: strs("x-kubernetes-list-map-keys"), 42: maybe(str("x-kubernetes-list-type")),
		43: maybe(str("x-kubernetes-map-type")), 44: messages("x-kubernetes-validations", "ValidationRule"),
	}
}

// v1beta1Messages returns the messages of v1 with the differences of v1beta1.
func v1beta1Messages(v1 map[string]fields) map[string]fields {
	m := maps.Clone(v1)
	m["CustomResourceDefinitionSpec"] = fields{
		1: str("group"), 2: str("version"), 3: message("names", "CustomResourceDefinitionNames"),
		4: str("scope"), 5: message("validation", "CustomResourceValidation"),
		6: message("subresources", "CustomResourceSubresources"), 7: messages("versions", "CustomResourceDefinitionVersion"),
		8: messages("additionalPrinterColumns", "CustomResourceColumnDefinition"), 9: message("conversion", "CustomResourceConversion"),
		10: maybe(flag("preserveUnknownFields")), 11: messages("selectableFields", "SelectableField"),
	}
	m["CustomResourceColumnDefinition"] = fields{
		1: str("name"), 2: str("type"), 3: str("format"), 4: str("description"), 5: num("priority"), 6: str("JSONPath"),
	}
	m["CustomResourceConversion"] = fields{
		1: str("strategy"), 2: message("webhookClientConfig", "WebhookClientConfig"), 3: strs("conversionReviewVersions"),
	}
	return m
}
