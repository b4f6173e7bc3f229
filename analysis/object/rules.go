package object

import (
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/schema"
)

// The rules of findings about objects. Findings about violations of a schema have the rule
// "validation/" with the name of the keyword.
const (
	RuleDecode          = "decode"
	RuleUnknownField    = "unknown-field"
	RuleDuplicateField  = "duplicate-field"
	RuleServerWarning   = "server-warning"
	RuleSemantics       = "semantics"
	RulePruned          = "pruned"
	RuleNullDropped     = "null-dropped"
	RuleDefaulted       = "defaulted"
	RuleMetadataDropped = "metadata-dropped"
	// RuleNotStructural and RuleInvalidDefinition are about the CRD of an object.
	RuleNotStructural     = "non-structural"
	RuleInvalidDefinition = "invalid-definition"
)

// CheckRules returns the rules of the findings of [Checker.Check].
func CheckRules() []analysis.Rule {
	rules := []analysis.Rule{
		{ID: RuleDecode, Severity: analysis.Error, Summary: "The object cannot be read as what its definition says it is."},
		{ID: RuleUnknownField, Severity: analysis.Warning, Summary: "The schema does not specify the field: a server drops it.", Help: "espalier prune --why says which schema decided."},
		{ID: RuleDuplicateField, Severity: analysis.Warning, Summary: "The field occurs twice: the last one counts."},
		{ID: RuleServerWarning, Severity: analysis.Info, Summary: "What a server warns about."},
		{ID: RuleSemantics, Severity: analysis.Info, Summary: "The design documents and kube-apiserver come to different ends."},
	}
	for kind := schema.WrongType; kind <= schema.AdditionalItems; kind++ {
		severity := analysis.Error
		if kind == schema.RulesSkipped {
			severity = analysis.Info
		}
		rules = append(rules, analysis.Rule{ID: violationRule(kind), Severity: severity, Summary: violationSummary(kind)})
	}
	return rules
}

// PruneRules returns the rules of the findings of [Checker.Prune].
func PruneRules() []analysis.Rule {
	return []analysis.Rule{
		{ID: RulePruned, Severity: analysis.Warning, Summary: "The schema does not specify the field: a server drops it."},
		{ID: RuleNullDropped, Severity: analysis.Info, Summary: "The schema does not allow null: a server drops the field."},
		{ID: RuleDefaulted, Severity: analysis.Info, Summary: "The schema has a default, which a server fills in."},
		{ID: RuleDuplicateField, Severity: analysis.Warning, Summary: "The field occurs twice: the last one counts."},
		{ID: RuleMetadataDropped, Severity: analysis.Info, Summary: "The field of metadata is malformed."},
		{ID: RuleNotStructural, Severity: analysis.Info, Summary: "The schema is not structural: no server prunes by it."},
		{ID: RuleSemantics, Severity: analysis.Info, Summary: "The design documents and kube-apiserver come to different ends."},
		{ID: RuleDecode, Severity: analysis.Error, Summary: "The object cannot be read as what its definition says it is."},
		{ID: RuleInvalidDefinition, Severity: analysis.Error, Summary: "A server would not take the CustomResourceDefinition."},
	}
}

// violationRule returns the rule of findings about violations of a kind.
func violationRule(kind schema.ViolationKind) string {
	return "validation/" + strings.ReplaceAll(kind.String(), " ", "-")
}

// violationSummary describes a kind of violation in a sentence.
func violationSummary(kind schema.ViolationKind) string {
	return map[schema.ViolationKind]string{
		schema.WrongType:          "The value is of none of the types that the schema allows.",
		schema.WrongFormat:        "The value does not have the format that the schema asks for.",
		schema.Required:           "A field that the schema requires is missing.",
		schema.Enum:               "The value is not among those that the schema lists.",
		schema.MaxLength:          "The string is longer than the schema allows.",
		schema.MinLength:          "The string is shorter than the schema allows.",
		schema.Pattern:            "The string does not match the schema's regular expression.",
		schema.Maximum:            "The number is above the schema's maximum.",
		schema.Minimum:            "The number is below the schema's minimum.",
		schema.MultipleOf:         "The number is no multiple of the one that the schema names.",
		schema.NumberRange:        "The number is out of the range of its type and format.",
		schema.BadOperand:         "A bound in the schema is out of the range of the number's type, so no number keeps it.",
		schema.FactorNotPositive:  "The schema's multipleOf is not above zero, so no number keeps it.",
		schema.MaxItems:           "The list has more items than the schema allows.",
		schema.MinItems:           "The list has fewer items than the schema allows.",
		schema.UniqueItems:        "The list has an item twice that may occur once.",
		schema.MaxProperties:      "The object has more fields than the schema allows.",
		schema.MinProperties:      "The object has fewer fields than the schema allows.",
		schema.ForbiddenField:     "The schema forbids fields that it does not specify.",
		schema.AllOf:              "The value does not keep all schemas of an allOf.",
		schema.AnyOf:              "The value keeps no schema of an anyOf.",
		schema.OneOf:              "The value does not keep exactly one schema of a oneOf.",
		schema.Not:                "The value keeps a schema that it must not keep.",
		schema.DuplicateItem:      "A list that is a set or a map has the same item or key twice.",
		schema.NotAnObject:        "An item of a list that is a map is no object.",
		schema.Metadata:           "Kubernetes does not take the object's apiVersion, kind or metadata.",
		schema.UnionMembers:       "Not exactly one member of a union is set.",
		schema.WrongDiscriminator: "The discriminator of a union names a member that is not the one that is set.",
		schema.Scale:              "The scale subresource cannot use the value.",
		schema.Rule:               "A rule in CEL (x-kubernetes-validations) does not hold.",
		schema.RulesSkipped:       "Rules in CEL were not evaluated, because of what else is wrong with the object.",
		schema.Dependency:         "A field is missing that another one depends on.",
		schema.AdditionalItems:    "The list has more items than its tuple allows.",
	}[kind]
}
