package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// The rules of findings about objects, beside the keywords of schemas.
const (
	ruleMissingDefinition = "missing-definition"
	ruleInvalidDefinition = "invalid-definition"
	ruleDecode            = "decode"
	ruleUnknownField      = "unknown-field"
	ruleDuplicateField    = "duplicate-field"
	ruleServerWarning     = "server-warning"
	ruleSemantics         = "semantics"
	rulePruned            = "pruned"
	ruleNullDropped       = "null-dropped"
	ruleDefaulted         = "defaulted"
	ruleMetadataDropped   = "metadata-dropped"
	ruleNotStructural     = "non-structural"
	ruleNoDefinitions     = "no-definitions"
	ruleSeveral           = "several-definitions"
)

// fieldValidation is what becomes of unknown and duplicate fields.
type fieldValidation uint8

const (
	fieldsIgnore fieldValidation = iota
	fieldsWarn
	fieldsStrict
)

func parseFieldValidation(s string) (fieldValidation, error) {
	switch strings.ToLower(s) {
	case "ignore":
		return fieldsIgnore, nil
	case "warn":
		return fieldsWarn, nil
	case "strict":
		return fieldsStrict, nil
	}
	return 0, fmt.Errorf("--field-validation %s: choose ignore, warn or strict", s)
}

// inputRules describe what can be wrong with input of any command.
func inputRules() []report.Rule {
	return []report.Rule{
		{ID: input.Unreadable, Severity: analysis.Error, Summary: "A file cannot be read."},
		{ID: input.Syntax, Severity: analysis.Error, Summary: "A document is neither YAML nor JSON, or no object."},
		{ID: input.Empty, Severity: analysis.Error, Summary: "A directory has no manifests in it."},
		{ID: ruleNoDefinitions, Severity: analysis.Error, Summary: "There is no CustomResourceDefinition where there should be one."},
	}
}

// validationRules describe what validate finds.
func validationRules() []report.Rule {
	rules := append(inputRules(),
		report.Rule{ID: ruleMissingDefinition, Severity: analysis.Error, Summary: "No CustomResourceDefinition defines the object's kind and version.", Help: "Name the definition with --crd, or pass over such objects with --ignore-missing-crds."},
		report.Rule{ID: ruleInvalidDefinition, Severity: analysis.Error, Summary: "A server would not take the CustomResourceDefinition.", Help: "espalier lint says what is wrong with it."},
		report.Rule{ID: ruleSeveral, Severity: analysis.Info, Summary: "The kind of an object has several definitions: the first that serves its version counts."},
		report.Rule{ID: ruleDecode, Severity: analysis.Error, Summary: "The object cannot be read as what its definition says it is."},
		report.Rule{ID: ruleUnknownField, Severity: analysis.Warning, Summary: "The schema does not specify the field: a server drops it.", Help: "espalier prune --why says which schema decided."},
		report.Rule{ID: ruleDuplicateField, Severity: analysis.Warning, Summary: "The field occurs twice: the last one counts."},
		report.Rule{ID: ruleServerWarning, Severity: analysis.Info, Summary: "What a server warns about."},
		report.Rule{ID: ruleSemantics, Severity: analysis.Info, Summary: "The design documents and kube-apiserver come to different ends."},
	)
	for kind := schema.WrongType; kind <= schema.AdditionalItems; kind++ {
		severity := analysis.Error
		if kind == schema.RulesSkipped {
			severity = analysis.Info
		}
		rules = append(rules, report.Rule{ID: violationRule(kind), Severity: severity, Summary: violationSummary(kind)})
	}
	return rules
}

// violationSummary says in a sentence what a kind of violation is.
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

// violationRule is the rule of findings about violations of a kind.
func violationRule(kind schema.ViolationKind) string {
	return "validation/" + strings.ReplaceAll(kind.String(), " ", "-")
}

// changeWord says in a word what was done.
func changeWord(kind schema.ChangeKind) string {
	switch kind {
	case schema.Pruned:
		return "pruned"
	case schema.NullDropped:
		return "dropped as null"
	case schema.Defaulted:
		return "defaulted"
	case schema.Duplicate:
		return "a duplicate"
	}
	return "dropped from metadata"
}

// changeAt gives a finding about a change its place.
func changeAt(it *input.Item, kind schema.ChangeKind, f analysis.Finding) report.Finding {
	if kind == schema.Duplicate {
		return report.AtAgain(it, f)
	}
	return report.AtKey(it, f)
}

// fieldFinding is the finding about a field that is unknown or occurs twice.
func fieldFinding(d *definition, v *crd.Version, c *schema.Change, severity analysis.Severity) (analysis.Finding, bool) {
	f := analysis.Finding{Severity: severity, Path: c.Path.String(), Pointer: c.Path.Pointer()}
	switch c.Kind {
	case schema.Pruned:
		f.Rule = ruleUnknownField
		f.Message = fmt.Sprintf("unknown field %q: a server drops it", c.Path.String())
		if name := c.Nearest(); name != "" {
			f.Message += fmt.Sprintf("; did you mean %q?", name)
		}
		f.Detail = []string{"schema: " + d.pruning(v, c)}
	case schema.Duplicate:
		f.Rule = ruleDuplicateField
		f.Message = fmt.Sprintf("duplicate field %q: the last one counts", c.Path.String())
	default:
		return f, false
	}
	return f, true
}

// violationFindings turns violations into findings. What is wrong in all branches
// of an allOf stands by itself; of other junctors the branch that came closest to
// holding explains what is missing.
func violationFindings(d *definition, v *crd.Version, vs schema.Violations) (findings []analysis.Finding) {
	for i := range vs {
		violation := &vs[i]
		if violation.Kind == schema.AllOf {
			for _, branch := range violation.Branches {
				findings = append(findings, violationFindings(d, v, branch)...)
			}
			continue
		}
		path := violationPath(violation)
		f := analysis.Finding{
			Rule: violationRule(violation.Kind), Severity: analysis.Error,
			Path: path.String(), Pointer: path.Pointer(), Message: violationMessage(violation),
		}
		if violation.Kind == schema.RulesSkipped {
			// The rules are not at fault, what is has its own findings.
			f.Severity = analysis.Info
			f.Message = strings.TrimPrefix(f.Message, "Invalid value: null: ")
			findings = append(findings, f)
			continue
		}
		f.Detail = append(f.Detail, junctorDetail(violation, "")...)
		if rule, ok := violation.Want.(string); ok && violation.Kind == schema.Rule {
			f.Detail = append(f.Detail, "rule: "+strings.Join(strings.Fields(rule), " "))
		}
		if violation.Schema != (schema.NodeRef{}) {
			f.Detail = append(f.Detail, "schema: "+d.locate(v, violation.Schema.Path()))
		}
		findings = append(findings, f)
	}
	return findings
}

// violationPath is where a violation is. What Kubernetes finds fault with in metadata
// it names in its own error only.
func violationPath(v *schema.Violation) schema.Path {
	if v.Kind != schema.Metadata || v.Cause == nil {
		return v.Path
	}
	rest, ok := strings.CutPrefix(v.Cause.Field, v.Path.FieldPath().String())
	if !ok {
		return v.Path
	}
	path := slices.Clone(v.Path)
	for rest != "" {
		var key string
		if rest[0] == '[' {
			key, rest, _ = strings.Cut(rest[1:], "]")
			if i, err := strconv.Atoi(key); err == nil {
				path = append(path, schema.Step{Kind: schema.Index, Index: i})
			} else {
				path = append(path, schema.Step{Kind: schema.MapKey, Key: key})
			}
			continue
		}
		rest = strings.TrimPrefix(rest, ".")
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		key, rest = rest[:end], rest[end:]
		path = append(path, schema.Step{Key: key})
	}
	return path
}

// violationMessage is the violation as kube-apiserver words it, without its path.
func violationMessage(v *schema.Violation) string {
	// Alone, without what its branches add: that is told apart.
	alone := *v
	alone.Branches, alone.Closest = nil, -1
	errs := schema.Violations{alone}.FieldErrors()
	if len(errs) == 0 {
		return v.String()
	}
	return errs[0].ErrorBody()
}

// maxBranches is how many branches of a junctor are explained.
const maxBranches = 8

// junctorDetail explains why no branch of an anyOf or oneOf holds, the closest first,
// or which ones do where only one may.
func junctorDetail(v *schema.Violation, indent string) (lines []string) {
	if v.Kind != schema.AnyOf && v.Kind != schema.OneOf || len(v.Branches) == 0 {
		return nil
	}
	name := "anyOf"
	if v.Kind == schema.OneOf {
		name = "oneOf"
	}
	if v.Holding > 1 {
		var holding []string
		for i, branch := range v.Branches {
			if len(branch) == 0 {
				holding = append(holding, fmt.Sprintf("%s[%d]", name, i))
			}
		}
		return []string{fmt.Sprintf("%s%s all hold; only one may", indent, strings.Join(holding, ", "))}
	}
	branch := func(i int, verb string) {
		lines = append(lines, fmt.Sprintf("%s%s[%d] %s:", indent, name, i, verb))
		for j := range v.Branches[i] {
			w := &v.Branches[i][j]
			lines = append(lines, fmt.Sprintf("%s  %s: %s", indent, displayPath(w), violationMessage(w)))
			lines = append(lines, junctorDetail(w, indent+"    ")...)
		}
	}
	if v.Closest >= 0 && v.Closest < len(v.Branches) {
		branch(v.Closest, "comes closest, but fails on")
	}
	if others := len(v.Branches) - 1; indent == "" && others > 0 && len(v.Branches) <= maxBranches {
		for i := range v.Branches {
			if i != v.Closest {
				branch(i, "fails on")
			}
		}
	}
	return lines
}

func displayPath(v *schema.Violation) string {
	if p := v.Path.String(); p != "" {
		return p
	}
	return "the object"
}

// difference says in what a valid object may fare differently in the two semantics.
// All that can make a difference stands in the schema.
type difference struct {
	// pruning is about what is stored, validation about what is accepted.
	pruning, validation bool
}

// differenceOf looks for what makes a difference in the schema of a version.
func differenceOf(v *crd.Version) (d difference) {
	s := v.Structural()
	d.pruning = v.Definition().PreservesUnknownFields()
	d.validation = d.pruning || s != nil && s.AdditionalProperties != nil
	d.look(s)
	return d
}

func (d *difference) look(s *schema.Structural) {
	if s == nil || d.pruning && d.validation {
		return
	}
	d.pruning = d.pruning || s.XPreserveUnknownFields || s.XEmbeddedResource
	d.validation = d.validation || s.XEmbeddedResource || len(s.XUnions) > 0
	for _, p := range s.Properties {
		d.look(p)
	}
	if s.AdditionalProperties != nil {
		d.look(s.AdditionalProperties.Structural)
	}
	d.look(s.Items)
}
