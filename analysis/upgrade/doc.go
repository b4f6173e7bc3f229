// Package upgrade determines what the upgrade of an operator's CRDs does to objects, and the steps
// that the upgrade takes: what to do before, the upgrade itself, and what to do after.
//
// A [Pair] is an installed CRD and the one that replaces it. [Pair.Judge] says what the upgrade does
// to one object, by what a server would do: it reads the object under the old CRD and under the new
// one, and compares what it serves, what it would store, and which updates it accepts. What was
// wrong with the object before is not an effect of the upgrade. A [Plan] collects the effects on
// many objects in groups, in memory that does not grow with their number, and orders the steps.
//
// The verdicts are about objects. What a change of a schema might do to objects that do not exist
// is not reported, unlike in package impact.
package upgrade

import (
	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
)

// Phase is when a step is to be taken.
type Phase uint8

// The phases in their order.
const (
	Before Phase = iota
	During
	After
)

// String returns the phase in words.
func (p Phase) String() string {
	switch p {
	case Before:
		return "before the upgrade"
	case During:
		return "the upgrade"
	}
	return "after the upgrade"
}

// ID returns the phase as one word.
func (p Phase) ID() string {
	switch p {
	case Before:
		return "before"
	case During:
		return "upgrade"
	}
	return "after"
}

// Action is a step of an upgrade.
type Action uint8

// The actions, in the order in which they are to be taken.
const (
	// CorrectNew corrects CRDs and manifests of the new release that the API server rejects.
	CorrectNew Action = iota
	// Intermediate upgrades to a release between the two, because they have no version in common.
	Intermediate
	// Save saves objects that are deleted, and fields that are dropped.
	Save
	// ChangeVersion changes manifests to a version that both releases serve.
	ChangeVersion
	// SwitchStorage makes another version the storage version of the installed CRD.
	SwitchStorage
	// Correct corrects objects that become invalid. They may need fields that only the new storage
	// version has.
	Correct
	// Rewrite stores objects anew under the installed CRD.
	Rewrite
	// Delete deletes CRDs that cannot be updated.
	Delete
	// StartWebhook makes a conversion webhook available.
	StartWebhook
	// Apply applies the new CRDs.
	Apply
	// Recreate creates objects again.
	Recreate
	// ChangeVersionAfter changes manifests to a version that only the new release serves.
	ChangeVersionAfter
	// Migrate stores objects anew under the new CRD.
	Migrate
	// Check checks objects whose meaning or whose updates may change.
	Check
	// Audit inspects the stored objects.
	Audit

	actions
)

// Phase returns when the action is to be taken.
func (a Action) Phase() Phase {
	switch {
	case a < Delete:
		return Before
	case a <= Apply:
		return During
	}
	return After
}

// ID returns the action as one word.
func (a Action) ID() string {
	return [actions]string{"correct-new", "intermediate-release", "save", "change-version", "switch-storage", "correct", "rewrite", "delete", "start-webhook",
		"apply", "recreate", "change-version-after", "migrate", "check", "audit"}[a]
}

// String describes the action in one sentence.
func (a Action) String() string {
	return [actions]string{
		"correct what the API server rejects in the new release",
		"upgrade to a release that has versions of both CRDs",
		"save objects that are deleted, and fields that are dropped",
		"change manifests to a version that the new CRD serves",
		"make another version the storage version of the installed CRD",
		"correct objects that become invalid",
		"store objects anew under the installed CRD",
		"delete CRDs that cannot be updated",
		"start the conversion webhook of the new release",
		"apply the new CRDs",
		"create the saved objects again, edited for the new CRD",
		"change manifests to a version that the new CRD serves",
		"store objects anew in the storage version",
		"check objects whose meaning may change",
		"audit the stored objects",
	}[a]
}

// Rules of findings. Those that diff has too mean the same there: [impact.RuleRefused],
// [impact.RuleRevealed], and the IDs of the classes Loses, Invalid and Defaulted.
const (
	// RuleDeleted is an object that is deleted with its CRD.
	RuleDeleted = "object-deleted"
	// RuleMigration is an object, or a CRD, that needs a migration to another version.
	RuleMigration = "needs-migration"
	// RuleVersion is a version that the new CRD does not serve.
	RuleVersion = "version-not-served"
	// RuleWebhook is a CRD whose objects need a conversion webhook.
	RuleWebhook = "conversion-webhook"
	// RuleNotJudged is an object that cannot be judged.
	RuleNotJudged = "not-judged"
	// RuleTransition is a new rule about updates.
	RuleTransition = "transition-rule"
	// RuleManifest is an object of the new release that its own CRDs reject.
	RuleManifest = "invalid-manifest"
	// RuleInstalled is an installed CRD that is not the one of the old release.
	RuleInstalled = "installed-crd"
)

// Rules returns the rules of the findings.
func Rules() []analysis.Rule {
	return []analysis.Rule{
		{ID: impact.RuleRefused, Severity: analysis.Error, Summary: "The API server rejects the new CRD."},
		{ID: RuleDeleted, Severity: analysis.Error, Summary: "Objects are deleted with their CRD.",
			Help: "Save the objects before the upgrade."},
		{ID: impact.Loses.ID(), Severity: analysis.Error, Summary: "Objects lose data: fields are hidden, and dropped with the next write.",
			Help: "Move the data to other fields, or save it, before the upgrade."},
		{ID: impact.Invalid.ID(), Severity: analysis.Error, Summary: "Objects become invalid.",
			Help: "Correct the objects before the upgrade."},
		{ID: RuleMigration, Severity: analysis.Warning, Summary: "Objects must be stored in another version.",
			Help: "Run espalier migrate."},
		{ID: RuleVersion, Severity: analysis.Error, Summary: "Manifests or clients use a version that the new CRD does not serve.",
			Help: "Change the apiVersion."},
		{ID: impact.RuleRevealed, Severity: analysis.Warning,
			Summary: "Stored objects hold data that the old CRD does not specify and the new one would serve."},
		{ID: impact.Defaulted.ID(), Severity: analysis.Warning, Summary: "Objects get new defaults, or different ones."},
		{ID: RuleWebhook, Severity: analysis.Warning, Summary: "Objects are converted by a webhook that must be available."},
		{ID: RuleManifest, Severity: analysis.Error, Summary: "An object of the new release is invalid."},
		{ID: RuleTransition, Severity: analysis.Info, Summary: "A new rule restricts updates of objects."},
		{ID: RuleNotJudged, Severity: analysis.Info, Summary: "Objects cannot be judged."},
		{ID: RuleInstalled, Severity: analysis.Info, Summary: "The installed CRD is not the one of the old release."},
	}
}
