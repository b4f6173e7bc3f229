package lint

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/internal/nearest"
)

// Rule is a check that lint applies to CRDs or admission policies.
type Rule struct {
	// ID is the name of the rule in kebab case. It is stable.
	ID string
	// Severity is the highest severity of its findings.
	Severity analysis.Severity
	// Off reports whether the rule is disabled by default.
	Off bool
	// Profile is the profile that the rule belongs to, or "".
	Profile string
	// Title describes the problem in one line.
	Title string
	// Doc is the documentation page in Markdown: the problem, its reason, a bad and a good
	// example, and the fix.
	Doc string
}

// The IDs of the rules.
const (
	undecodable         = "undecodable"
	notChecked          = "not-checked"
	nonStructural       = "non-structural"
	invalidDefinition   = "invalid-definition"
	invalidDefault      = "invalid-default"
	invalidPattern      = "invalid-pattern"
	celRule             = "cel-rule"
	celCost             = "cel-cost"
	celOptional         = "cel-optional-field"
	supersededSpelling  = "superseded-spelling"
	nameCollision       = "name-collision"
	duplicateKey        = "duplicate-key"
	unknownField        = "unknown-field"
	unknownFormat       = "unknown-format"
	enumType            = "enum-type"
	booleanName         = "boolean-name"
	impossibleBounds    = "impossible-bounds"
	requiredUnspecified = "required-unspecified"
	prunedEmpty         = "pruned-empty"
	embeddedMetadata    = "embedded-metadata"
	impliedMetadata     = "implied-metadata"
	defaultNeverApplies = "default-never-applies"
	defaultNeedsParent  = "default-needs-parent"
	listType            = "list-type"
	setOfObjects        = "set-of-objects"
	versionSkew         = "version-skew"
	deprecatedVersion   = "v1beta1"
	preserveEverything  = "preserve-unknown-fields"
	leftover            = "leftover"
	sizeApply           = "size-apply"
	sizeStorage         = "size-storage"
	conversionLoss      = "conversion-loss"
	unspecifiedPath     = "unspecified-path"
	shortNameAmbiguous  = "short-name-ambiguous"
	semanticsPruning    = "semantics-pruning"
	semanticsDropped    = "semantics-dropped"
	semanticsRefused    = "semantics-refused"
	semanticsLiberty    = "semantics-liberty"
	semanticsPublished  = "semantics-published"
	kubernetesVersion   = "kubernetes-version"

	invalidPolicy    = "invalid-policy"
	policyBinding    = "policy-binding"
	policyMatch      = "policy-match"
	policyNamespace  = "policy-namespace"
	policyParam      = "policy-param"
	policyType       = "policy-type"
	policyTypeStatus = "policy-type-status"

	conventionBoolean    = "convention-boolean"
	conventionConditions = "convention-conditions"
	conventionEnum       = "convention-enum"
	conventionFloat      = "convention-float"
	conventionListType   = "convention-list-type"
	conventionMap        = "convention-map"
	conventionName       = "convention-name"
	conventionStatus     = "convention-status"
	conventionUnsigned   = "convention-unsigned"
)

// Conventions is the profile of the rules that follow the Kubernetes API conventions.
const Conventions = "conventions"

// Profiles returns the names that stand for several rules in Enable and Disable, except
// All.
func Profiles() []string { return []string{Conventions} }

//go:embed docs/*.md
var docs embed.FS

// Rules returns all rules, sorted by ID.
func Rules() []Rule {
	rules := table()
	for i := range rules {
		r := &rules[i]
		// The tests detect missing pages.
		page, _ := docs.ReadFile("docs/" + r.ID + ".md")
		r.Doc = string(page)
		first, _, _ := strings.Cut(r.Doc, "\n")
		_, r.Title, _ = strings.Cut(first, ": ")
	}
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}

// table returns all rules without their pages, which take time to read.
func table() []Rule {
	rules := []Rule{
		{ID: undecodable, Severity: analysis.Error},
		{ID: notChecked, Severity: analysis.Info},
		{ID: nonStructural, Severity: analysis.Error},
		{ID: invalidDefinition, Severity: analysis.Error},
		{ID: invalidDefault, Severity: analysis.Error},
		{ID: invalidPattern, Severity: analysis.Error},
		{ID: celRule, Severity: analysis.Error},
		{ID: celCost, Severity: analysis.Error},
		{ID: celOptional, Severity: analysis.Warning},
		{ID: supersededSpelling, Severity: analysis.Error},
		{ID: nameCollision, Severity: analysis.Error},
		{ID: duplicateKey, Severity: analysis.Warning},
		{ID: unknownField, Severity: analysis.Warning},
		{ID: unknownFormat, Severity: analysis.Warning},
		{ID: enumType, Severity: analysis.Warning},
		{ID: booleanName, Severity: analysis.Warning},
		{ID: impossibleBounds, Severity: analysis.Warning},
		{ID: requiredUnspecified, Severity: analysis.Warning},
		{ID: prunedEmpty, Severity: analysis.Warning},
		{ID: embeddedMetadata, Severity: analysis.Warning},
		{ID: impliedMetadata, Severity: analysis.Info},
		{ID: conversionLoss, Severity: analysis.Warning},
		{ID: unspecifiedPath, Severity: analysis.Warning},
		{ID: defaultNeverApplies, Severity: analysis.Warning},
		{ID: defaultNeedsParent, Severity: analysis.Info},
		{ID: listType, Severity: analysis.Info},
		{ID: setOfObjects, Severity: analysis.Warning},
		{ID: versionSkew, Severity: analysis.Warning},
		{ID: deprecatedVersion, Severity: analysis.Warning},
		{ID: preserveEverything, Severity: analysis.Warning},
		{ID: leftover, Severity: analysis.Info},
		{ID: sizeApply, Severity: analysis.Warning},
		{ID: sizeStorage, Severity: analysis.Warning},
		{ID: shortNameAmbiguous, Severity: analysis.Info},
		{ID: semanticsPruning, Severity: analysis.Warning},
		{ID: semanticsDropped, Severity: analysis.Warning},
		{ID: semanticsRefused, Severity: analysis.Info},
		{ID: semanticsLiberty, Severity: analysis.Info},
		{ID: semanticsPublished, Severity: analysis.Info, Off: true},
		{ID: invalidPolicy, Severity: analysis.Error},
		{ID: policyBinding, Severity: analysis.Warning},
		{ID: policyMatch, Severity: analysis.Warning},
		{ID: policyNamespace, Severity: analysis.Warning},
		{ID: policyParam, Severity: analysis.Warning},
		{ID: policyType, Severity: analysis.Warning},
		{ID: policyTypeStatus, Severity: analysis.Info, Off: true},
		{ID: kubernetesVersion, Severity: analysis.Error},
	}
	for _, id := range [...]string{
		conventionBoolean, conventionConditions, conventionEnum, conventionFloat, conventionListType,
		conventionMap, conventionName, conventionStatus, conventionUnsigned,
	} {
		rules = append(rules, Rule{ID: id, Severity: analysis.Warning, Off: true, Profile: Conventions})
	}
	return rules
}

// Lookup returns the rule with the given ID. The error suggests a similar ID.
func Lookup(id string) (Rule, error) {
	rules := Rules()
	for _, r := range rules {
		if r.ID == id {
			return r, nil
		}
	}
	var ids []string
	for _, r := range rules {
		ids = append(ids, r.ID)
	}
	if meant := nearest.Name(id, slices.Values(ids)); meant != "" {
		return Rule{}, fmt.Errorf("unknown rule %q: did you mean %s?", id, meant)
	}
	return Rule{}, fmt.Errorf("unknown rule %q", id)
}

// DeprecatedVersion is the rule for CRDs of a version that Kubernetes has removed.
const DeprecatedVersion = deprecatedVersion

// ConversionLoss is the rule for fields that conversion without a webhook loses.
const ConversionLoss = conversionLoss

// AboutKey reports whether the findings of a rule are about the presence of a field, not
// its value. The position to show is then the name of the field.
func AboutKey(rule string) bool {
	switch rule {
	case booleanName, unknownField, supersededSpelling, duplicateKey, leftover, semanticsDropped:
		return true
	}
	return false
}
