package main

import (
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/fix"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/replay"
	"espalier.dev/analysis/suite"
	"espalier.dev/analysis/upgrade"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/suppress"
)

// Rules of findings about the CRDs that a command needs.
const (
	ruleNoDefinitions = "no-definitions"
	ruleMisspelled    = "misspelled-definition"
	ruleSeveral       = "several-definitions"
	ruleNoOldObject   = "no-old-object"
	ruleSeveralOld    = "several-old-objects"
	// ruleUnreadableBase is the rule for files that cannot be read at the merge base.
	ruleUnreadableBase = "unreadable-base"
	// ruleDuplicateObject is the rule for objects that are twice in the input.
	ruleDuplicateObject = "duplicate-object"
)

// ruleNoObjects is the rule for objects of which none is of the kind of a compared CRD.
const ruleNoObjects = "no-objects"

// Rules of the findings of test, in addition to those of package suite.
const (
	ruleNoSuite         = "no-suite"
	ruleSuiteDefinition = "suite-definition"
)

// ruleNotReplayed is the rule for events of an audit log that are not judged.
const ruleNotReplayed = "not-replayed"

// ruleNotEditable is the rule for documents that cannot be edited in place.
const ruleNotEditable = "not-editable"

// Rules of what cannot be read from a source, and of objects as an API server serves them.
const (
	ruleEncrypted = "encrypted"
	ruleForbidden = "forbidden"
	ruleNotServed = "not-served"
	ruleNotListed = "not-listed"
	ruleServed    = "served-objects"
)

// inputRules returns the rules of findings about the input of any command.
func inputRules() []analysis.Rule {
	return append(suppress.Rules(), []analysis.Rule{
		{ID: input.Unreadable, Severity: analysis.Error, Summary: "A file cannot be read."},
		{ID: input.Syntax, Severity: analysis.Error, Summary: "A document is not an object in YAML or JSON."},
		{ID: input.Empty, Severity: analysis.Error, Summary: "A directory contains no manifests, or a file no documents."},
		{ID: input.Template, Severity: analysis.Error, Summary: "A document is a Helm template.",
			Help: "Name the chart, or let --helm render all charts."},
		{ID: input.Unrendered, Severity: analysis.Error, Summary: "A Helm chart or a kustomization cannot be rendered.",
			Help: "--helm-values and --helm-set set values that a chart requires. --helm-network and --kustomize-network load parts from the network."},
		{ID: ruleNoDefinitions, Severity: analysis.Error, Summary: "The input contains no CRD."},
		{ID: ruleMisspelled, Severity: analysis.Error,
			Summary: "An object is probably meant to be a CRD, but its apiVersion or kind is misspelled."},
	}...)
}

// fixedRules returns the rules of findings that can neither be suppressed nor get another
// severity: those about the input, and the results of tests.
func fixedRules() []analysis.Rule {
	return append(testRules(),
		analysis.Rule{ID: ruleNoObjects}, // an input of diff that cannot be used
		analysis.Rule{ID: ruleNotEditable},
		analysis.Rule{ID: ruleEncrypted}, analysis.Rule{ID: ruleForbidden},
		analysis.Rule{ID: ruleNotServed}, analysis.Rule{ID: ruleNotListed},
	)
}

// suppressible returns the sorted IDs of the rules whose findings can be suppressed.
func suppressible(rules ...[]analysis.Rule) []string {
	fixed := idsOf(fixedRules())
	return slices.DeleteFunc(idsOf(rules...), func(id string) bool { return slices.Contains(fixed, id) })
}

// idsOf returns the IDs of rules, sorted and without duplicates.
func idsOf(rules ...[]analysis.Rule) (ids []string) {
	for _, r := range slices.Concat(rules...) {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// lintRules returns the rules of the findings of lint, given the configured rules.
func lintRules(configured []lint.Rule) []analysis.Rule {
	rules := inputRules()
	for _, r := range configured {
		rules = append(rules, analysis.Rule{ID: r.ID, Severity: r.Severity, Summary: r.Title, Help: r.Doc})
	}
	return rules
}

// fixRules returns the rules of the findings of fix.
func fixRules() []analysis.Rule {
	rules := append(lintRules(lint.Rules()), analysis.Rule{
		ID: ruleNotEditable, Severity: analysis.Error, Summary: "The document cannot be edited in place.",
	})
	return append(rules, fix.Rules()...)
}

// validationRules returns the rules of the findings of validate.
func validationRules() []analysis.Rule {
	rules := append(inputRules(),
		analysis.Rule{ID: lookup.RuleMissing, Severity: analysis.Error,
			Summary: "There is no CRD for the object, and its kind is not built in.",
			Help:    "Add the CRD with --crd, or skip objects of unknown kinds with --ignore-missing-crds."},
		analysis.Rule{ID: ruleDuplicateObject, Severity: analysis.Warning,
			Summary: "Two objects of a file, or of a directory, have the same group, kind, namespace and name.",
			Help:    "Only one of them takes effect: rename or remove the other."},
		analysis.Rule{ID: ruleNoOldObject, Severity: analysis.Warning,
			Summary: "--old has no object with the same group, kind, namespace and name."},
		analysis.Rule{ID: ruleSeveralOld, Severity: analysis.Error,
			Summary: "--old has several objects with the same group, kind, namespace and name."},
		analysis.Rule{ID: ruleUnreadableBase, Severity: analysis.Warning,
			Summary: "A file cannot be read at the merge base: its objects are checked as created."},
		analysis.Rule{ID: object.RuleInvalidDefinition, Severity: analysis.Error,
			Summary: "The API server would reject the CRD.", Help: "Use espalier lint for details."},
		analysis.Rule{ID: ruleSeveral, Severity: analysis.Warning,
			Summary: "Several CRDs define the kind of an object, and differ.", Help: "Select one with --crd."},
	)
	return slices.Concat(rules, sourceRules(), lookup.ReleaseRules(), object.CheckRules(), object.CauseRules(), policyRules())
}

// pruneRules returns the rules of the findings of prune.
func pruneRules() []analysis.Rule {
	rules := append(inputRules(), object.PruneRules()...)
	return append(rules,
		analysis.Rule{ID: ruleSeveral, Severity: analysis.Warning,
			Summary: "Several CRDs define the kind of an object, and differ.", Help: "Select one with --crd."},
		analysis.Rule{ID: lookup.RuleMissing, Severity: analysis.Error, Summary: "There is no CRD for the object."},
		analysis.Rule{ID: ruleNotEditable, Severity: analysis.Error, Summary: "The document cannot be edited in place: there is no diff."},
	)
}

// diffRules returns the rules of the findings of diff, with their configured severities.
func diffRules(c impact.Config) []analysis.Rule {
	rules := append(inputRules(),
		analysis.Rule{ID: object.RuleInvalidDefinition, Severity: analysis.Error, Summary: "The CRD cannot be read."},
		analysis.Rule{ID: object.RuleDecode, Severity: analysis.Error, Summary: "The object cannot be read."},
		analysis.Rule{ID: ruleSeveral, Severity: analysis.Warning, Summary: "Several CRDs have the same name: only the first is compared."},
		analysis.Rule{ID: ruleNoObjects, Severity: analysis.Error, Summary: "No object is of the kind of a compared CRD."},
		analysis.Rule{ID: ruleUnreadableBase, Severity: analysis.Warning,
			Summary: "A file cannot be read at the merge base: its CRDs count as added."},
	)
	return slices.Concat(rules, sourceRules(), c.Rules())
}

// reviewRules returns the rules of the findings of review, given the configured rules of lint.
func reviewRules(configured []lint.Rule, c impact.Config) (rules []analysis.Rule) {
	on := slices.DeleteFunc(slices.Clone(configured), func(r lint.Rule) bool { return r.Off })
	seen := map[string]bool{}
	for _, r := range slices.Concat(validationRules(), diffRules(c), lintRules(on)) {
		if !seen[r.ID] {
			seen[r.ID] = true
			rules = append(rules, r)
		}
	}
	return rules
}

// upgradeRules returns the rules of the findings of upgrade.
func upgradeRules() []analysis.Rule {
	rules := append(inputRules(),
		analysis.Rule{ID: object.RuleInvalidDefinition, Severity: analysis.Error, Summary: "The CRD cannot be used."},
		analysis.Rule{ID: ruleSeveral, Severity: analysis.Warning, Summary: "Several CRDs have the same name: only the first is compared."},
		analysis.Rule{ID: ruleNoObjects, Severity: analysis.Error, Summary: "No object is of the kind of a CRD."},
	)
	return slices.Concat(rules, sourceRules(), upgrade.Rules())
}

// sourceRules returns the rules of findings about a source of stored objects.
func sourceRules() []analysis.Rule {
	return []analysis.Rule{
		{ID: ruleEncrypted, Severity: analysis.Error, Summary: "Stored objects cannot be decrypted.",
			Help: "Set --encryption-provider-config to the configuration of the server that wrote them."},
		{ID: ruleForbidden, Severity: analysis.Error, Summary: "The user may not list the objects of a CRD."},
		{ID: ruleNotServed, Severity: analysis.Error,
			Summary: "The objects of a CRD are not served: it was deleted, or is not established."},
		{ID: ruleNotListed, Severity: analysis.Error,
			Summary: "The server cannot list the objects of a CRD, for example because a conversion webhook fails."},
		{ID: ruleServed, Severity: analysis.Info, Summary: "Objects come from an API server, which hides what the CRD does not specify."},
	}
}

// auditRules returns the rules of the findings of audit.
func auditRules() []analysis.Rule {
	rules := append(inputRules(),
		analysis.Rule{ID: object.RuleInvalidDefinition, Severity: analysis.Error, Summary: "The CRD cannot be used."},
	)
	return slices.Concat(rules, sourceRules(), audit.Rules())
}

// testRules returns the rules of the findings of test.
func testRules() []analysis.Rule {
	return append(inputRules(),
		analysis.Rule{ID: suite.RuleFailed, Severity: analysis.Error, Summary: "A test case fails."},
		analysis.Rule{ID: suite.RuleMalformed, Severity: analysis.Error, Summary: "A test suite is malformed."},
		analysis.Rule{ID: ruleNoSuite, Severity: analysis.Error, Summary: "The input contains no test suite."},
		analysis.Rule{ID: ruleSuiteDefinition, Severity: analysis.Error,
			Summary: "The CRD of a test suite is missing, ambiguous or invalid."},
	)
}

// recordRules returns the rules of the findings of record.
func recordRules() []analysis.Rule {
	rules := append(inputRules(),
		analysis.Rule{ID: object.RuleInvalidDefinition, Severity: analysis.Error,
			Summary: "The CRD cannot be used.", Help: "Use espalier lint for details."},
		analysis.Rule{ID: ruleNotReplayed, Severity: analysis.Info, Summary: "Events of the log were not judged."},
	)
	return append(rules, replay.Rules()...)
}

// selectors returns what --enable and --disable of lint accept, for shell completion.
func selectors() []string {
	return append(ruleIDs(), lint.Conventions+"\tall rules that follow the Kubernetes API conventions", lint.All+"\tall rules")
}

// ruleIDs returns the IDs of lint rules for shell completion, each with its title.
func ruleIDs() (ids []string) {
	for _, r := range lint.Rules() {
		ids = append(ids, r.ID+"\t"+r.Title)
	}
	return ids
}
