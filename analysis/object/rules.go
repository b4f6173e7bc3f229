package object

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis"
	"espalier.dev/schema"
)

// Rules of findings about objects. Findings about schema violations have the rule
// "validation/" followed by the name of the keyword.
const (
	RuleDecode          = "decode"
	RuleUnknownField    = "unknown-field"
	RuleDuplicateField  = "duplicate-field"
	RuleServerWarning   = "server-warning"
	RuleSemantics       = "semantics"
	RuleNullDropped     = "null-dropped"
	RuleDefaulted       = "defaulted"
	RuleMetadataDropped = "metadata-dropped"
	RuleNormalized      = "normalized"
	RuleStorageVersion  = "storage-version"
	RuleRatcheted       = "ratcheted"
	// These rules are about the CRD of an object.
	RuleNotStructural     = "non-structural"
	RuleInvalidDefinition = "invalid-definition"
	RuleWebhookConversion = "webhook-conversion"
)

// CheckRules returns the rules of the findings of [Checker.Check].
func CheckRules() []analysis.Rule {
	rules := []analysis.Rule{
		{ID: RuleDecode, Severity: analysis.Error, Summary: "The object cannot be decoded as the kind that its CRD defines."},
		{ID: RuleUnknownField, Severity: analysis.Warning, Summary: "The schema does not specify the field: the API server drops it.",
			Help: "Use espalier prune --why to see which schema is responsible."},
		{ID: RuleDuplicateField, Severity: analysis.Warning, Summary: "The field occurs twice: the last one takes effect."},
		{ID: RuleStorageVersion, Severity: analysis.Warning,
			Summary: "The storage version does not specify the field: the API server drops it, without a warning.",
			Help:    "Use espalier prune --why to see which schema is responsible."},
		{ID: RuleServerWarning, Severity: analysis.Warning, Summary: "A warning of the API server."},
		{ID: RuleRatcheted, Severity: analysis.Info,
			Summary: "The value violates the schema: the update is accepted because it does not change the value.",
			Help:    "Correct the value: a new object with it is rejected."},
		{ID: RuleSemantics, Severity: analysis.Info, Summary: "The kep and kubernetes semantics give different results."},
	}
	for kind := schema.WrongType; kind <= schema.AdditionalItems; kind++ {
		severity := analysis.Error
		if kind == schema.RulesSkipped {
			severity = analysis.Info
		}
		rules = append(rules, analysis.Rule{ID: ViolationRule(kind), Severity: severity, Summary: violationSummary(kind)})
	}
	return rules
}

// Rules of findings about objects that have no schema, such as those of Kubernetes' own kinds: the
// API server rejects a field for a reason that has no keyword.
const (
	RuleInvalid   = "validation/invalid"
	RuleForbidden = "validation/forbidden"
)

// CauseRules returns the rules of [CauseRule] that objects with a schema do not have.
func CauseRules() []analysis.Rule {
	return []analysis.Rule{
		{ID: RuleInvalid, Severity: analysis.Error, Summary: "The value of a field of a built-in kind is invalid."},
		{ID: RuleForbidden, Severity: analysis.Error, Summary: "A field of a built-in kind must not be set or changed."},
	}
}

// CauseRule returns the rule of the finding about one cause of an error of the API server.
func CauseRule(cause metav1.StatusCause) string {
	if cause.Field == "metadata" || strings.HasPrefix(cause.Field, "metadata.") {
		return ViolationRule(schema.Metadata)
	}
	switch cause.Type {
	case metav1.CauseTypeFieldValueRequired:
		return ViolationRule(schema.Required)
	case metav1.CauseTypeFieldValueNotSupported:
		return ViolationRule(schema.Enum)
	case metav1.CauseTypeFieldValueDuplicate:
		return ViolationRule(schema.DuplicateItem)
	case metav1.CauseTypeTooLong:
		return ViolationRule(schema.MaxLength)
	case metav1.CauseTypeTooMany:
		return ViolationRule(schema.MaxItems)
	case metav1.CauseTypeTypeInvalid:
		return ViolationRule(schema.WrongType)
	case metav1.CauseTypeForbidden:
		return RuleForbidden
	}
	return RuleInvalid
}

// PruneRules returns the rules of the findings of [Checker.Prune].
func PruneRules() []analysis.Rule {
	return []analysis.Rule{
		{ID: RuleUnknownField, Severity: analysis.Warning, Summary: "The schema does not specify the field: the API server drops it."},
		{ID: RuleStorageVersion, Severity: analysis.Warning,
			Summary: "The storage version does not specify the field: the API server drops it, without a warning."},
		{ID: RuleNullDropped, Severity: analysis.Info, Summary: "The schema does not allow null: the API server drops the field."},
		{ID: RuleDefaulted, Severity: analysis.Info, Summary: "The schema has a default, which the API server applies."},
		{ID: RuleDuplicateField, Severity: analysis.Warning, Summary: "The field occurs twice: the last one takes effect."},
		{ID: RuleMetadataDropped, Severity: analysis.Info, Summary: "A metadata field is malformed: the API server drops it."},
		{ID: RuleNormalized, Severity: analysis.Info, Summary: "The API server stores the value of a built-in kind in another form."},
		{ID: RuleNotStructural, Severity: analysis.Info, Summary: "The schema is not structural: the API server does not prune with it."},
		{ID: RuleSemantics, Severity: analysis.Info, Summary: "The kep and kubernetes semantics give different results."},
		{ID: RuleWebhookConversion, Severity: analysis.Info,
			Summary: "A webhook converts the object to the storage version: its changes are not shown."},
		{ID: RuleDecode, Severity: analysis.Error, Summary: "The object cannot be decoded as the kind that its CRD defines."},
		{ID: RuleInvalidDefinition, Severity: analysis.Error, Summary: "The API server would reject the CRD."},
	}
}

// ViolationRule returns the rule of findings about violations of a kind.
func ViolationRule(kind schema.ViolationKind) string {
	return "validation/" + strings.ReplaceAll(kind.String(), " ", "-")
}

// violationSummary describes a kind of violation in a sentence.
func violationSummary(kind schema.ViolationKind) string {
	return map[schema.ViolationKind]string{
		schema.WrongType:          "The value has none of the types that the schema allows.",
		schema.WrongFormat:        "The value does not have the format that the schema requires.",
		schema.Required:           "A field that the schema requires is missing.",
		schema.Enum:               "The value is not in the schema's enum.",
		schema.MaxLength:          "The string is longer than the schema allows.",
		schema.MinLength:          "The string is shorter than the schema allows.",
		schema.Pattern:            "The string does not match the schema's regular expression.",
		schema.Maximum:            "The number is above the schema's maximum.",
		schema.Minimum:            "The number is below the schema's minimum.",
		schema.MultipleOf:         "The number is not a multiple of the schema's multipleOf.",
		schema.NumberRange:        "The number is outside the range of its type and format.",
		schema.BadOperand:         "A bound in the schema is outside the range of the number's type, so no number is valid.",
		schema.FactorNotPositive:  "The schema's multipleOf is not positive, so no number is valid.",
		schema.MaxItems:           "The list has more items than the schema allows.",
		schema.MinItems:           "The list has fewer items than the schema allows.",
		schema.UniqueItems:        "The list has duplicate items.",
		schema.MaxProperties:      "The object has more fields than the schema allows.",
		schema.MinProperties:      "The object has fewer fields than the schema allows.",
		schema.ForbiddenField:     "The schema forbids fields that it does not specify.",
		schema.AllOf:              "The value does not match all schemas of an allOf.",
		schema.AnyOf:              "The value matches no schema of an anyOf.",
		schema.OneOf:              "The value does not match exactly one schema of a oneOf.",
		schema.Not:                "The value matches the schema of a not.",
		schema.DuplicateItem:      "A list of type set or map has duplicate items or keys.",
		schema.NotAnObject:        "An item of a list of type map is not an object.",
		schema.Metadata:           "The object's apiVersion, kind or metadata is invalid.",
		schema.UnionMembers:       "A union does not have exactly one member set.",
		schema.WrongDiscriminator: "The discriminator of a union does not name the member that is set.",
		schema.Scale:              "The scale subresource cannot use the value.",
		schema.Rule:               "A CEL rule (x-kubernetes-validations) is violated.",
		schema.RulesSkipped:       "CEL rules were not evaluated, because the object has other errors.",
		schema.Dependency:         "A field that another field depends on is missing.",
		schema.AdditionalItems:    "The list has more items than its tuple allows.",
	}[kind]
}
