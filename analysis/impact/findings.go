package impact

import (
	"context"
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonptr"
)

// Rules of findings about two CRDs, in addition to the IDs of the classes.
const (
	// RuleRefused is an update that an API server rejects.
	RuleRefused = "update-refused"
	// RuleRevealed is data in stored objects that the old CRD hides and the new one serves.
	RuleRevealed = "revealed"
	// RuleSemantics is a worse verdict in the other semantics.
	RuleSemantics = "semantics"
	// RuleNames is a comparison of CRDs with different names.
	RuleNames = "different-names"
	// RuleUnevaluated is a number of objects on which rules were not evaluated. It is reported
	// where changes are judged by the objects that they affect.
	RuleUnevaluated = "rules-not-evaluated"
)

// Rules returns the rules of findings about two CRDs.
func Rules() []analysis.Rule {
	rules := []analysis.Rule{
		{ID: RuleRefused, Severity: analysis.Error, Summary: "The API server would reject the update from the old CRD to the new one."},
		{ID: RuleRevealed, Severity: analysis.Warning,
			Summary: "Stored objects hold data that the old CRD does not specify and the new one would serve."},
		{ID: RuleSemantics, Severity: analysis.Info, Summary: "The kep and kubernetes semantics give different results."},
		{ID: RuleNames, Severity: analysis.Info, Summary: "The CRDs that are compared have different names."},
		{ID: RuleUnevaluated, Severity: analysis.Info,
			Summary: "New rules were not evaluated on some objects, which have other errors."},
	}
	for _, class := range Classes() {
		rules = append(rules, analysis.Rule{ID: class.ID(), Severity: class.Severity(), Summary: class.Summary()})
	}
	return rules
}

// Severity returns the severity of findings about changes of the class.
func (c Class) Severity() analysis.Severity {
	switch c {
	case Loses, Invalid:
		return analysis.Error
	case Defaulted, Unknown, Clients:
		return analysis.Warning
	}
	return analysis.Info
}

// Summary describes the changes of the class in one sentence.
func (c Class) Summary() string {
	switch c {
	case Loses:
		return "Stored objects lose data: fields are pruned, or nulls dropped."
	case Invalid:
		return "Stored objects may become invalid: validation is new or stricter."
	case Defaulted:
		return "Objects get new defaults, or different ones."
	case Unknown:
		return "Unknown fields that were kept are now validated."
	case Clients:
		return "Clients may break: requests are rejected, or responses have new values."
	}
	return "None of these effects."
}

// Finding is a finding about two CRDs. Its Pointer points into the new one. Both pointers
// refer to the v1 form; one of the CRDs may lack the field they point to.
type Finding struct {
	analysis.Finding
	// OldPointer points into the old CRD.
	OldPointer string
	// CRD is the name of the CRD. Version and Field are the parts of Path: the version, or the
	// versions between which objects move, and the field. They may be empty.
	CRD, Version, Field string
	// Class is the verdict.
	Class Class
	// Affected is the number of objects that are known to be affected.
	Affected int
	// Equal identifies the finding without its place.
	Equal Equality

	// head is the part of the message before that of the change. moves is set if Version has two
	// versions.
	head  string
	moves bool
}

// Finding returns a change as a finding: the verdict, with the effects and their reasons as
// details.
func (c *Comparison) Finding(ch *Change) Finding { return c.finding(ch, ch.Class()) }

// finding returns a change as a finding of a class, which may be milder than that of the change.
func (c *Comparison) finding(ch *Change, worst Class) Finding {
	head := worst.String() + ": "
	f := Finding{
		OldPointer: ch.OldPointer, CRD: c.Name, Version: ch.version(), Field: FieldPath(ch.Path),
		Class: worst, Equal: ch.equality(worst), head: head,
		moves: strings.Contains(ch.version(), " → "),
		Finding: analysis.Finding{
			Rule: worst.ID(), Severity: c.options.Config.severity(worst.ID(), worst.Severity()),
			Path: ch.Place(), Pointer: ch.NewPointer, Part: analysis.FieldName,
			Message: head + ch.Message,
		}}
	seen := map[string]bool{}
	for _, class := range ch.Classes() {
		if class != Safe && class <= worst {
			f.Detail = append(f.Detail, ch.reasons(class, worst, seen)...)
		}
	}
	if ch.Leniency != "" && worst >= Invalid {
		f.Detail = append(f.Detail, ch.Leniency)
	}
	return f
}

// maxReasons limits the reasons that a finding lists for one class.
const maxReasons = 5

// reasons returns the reasons of the effects of a class. If there are none, it returns the
// class itself unless that is the verdict. seen has the reasons that are already listed.
func (c *Change) reasons(class, verdict Class, seen map[string]bool) (lines []string) {
	for _, e := range c.Effects {
		if e.Class != class || e.Reason == "" || seen[e.Reason] {
			continue
		}
		seen[e.Reason] = true
		lines = append(lines, class.String()+": "+e.Reason)
	}
	switch rest := len(lines) - maxReasons; {
	case rest == 1:
		lines = append(lines[:maxReasons], fmt.Sprintf("%s: 1 more reason", class))
	case rest > 1:
		lines = append(lines[:maxReasons], fmt.Sprintf("%s: %d more reasons", class, rest))
	case lines == nil && class != verdict:
		lines = []string{class.String()}
	}
	return lines
}

// Names returns a finding if the CRDs have different names.
func (c *Comparison) Names() []Finding {
	if c.old == nil || c.old.CRD().Name == c.new.CRD().Name {
		return nil
	}
	return []Finding{{OldPointer: "/metadata/name", CRD: c.Name, Finding: analysis.Finding{
		Rule: RuleNames, Severity: c.options.Config.severity(RuleNames, analysis.Info), Path: "metadata.name", Pointer: "/metadata/name",
		Message: fmt.Sprintf("compares CRDs with different names: %s and %s", c.old.CRD().Name, c.new.CRD().Name),
	}}}
}

// Rejections returns the reasons why an API server would reject the update, as findings.
func (c *Comparison) Rejections() (findings []Finding) {
	for _, e := range c.Rejected {
		path, body := e.Field, e.ErrorBody()
		if paths := analysis.V1Paths(path, len(c.new.Versions())); !c.options.V1beta1 && len(paths) > 0 {
			// Versions with a common schema have the same errors, so the first represents all.
			path, body = paths[0], analysis.V1Words(body, 0)
		}
		pointer := jsonptr.FromPath(path)
		const head = "the API server would reject the update: "
		findings = append(findings, Finding{
			OldPointer: pointer, CRD: c.Name, Field: path, head: head,
			Equal: Equality{Rule: RuleRefused, Kind: path, Message: body},
			Finding: analysis.Finding{
				Rule: RuleRefused, Severity: c.options.Config.severity(RuleRefused, analysis.Error),
				Path: path, Pointer: pointer, Part: analysis.FieldName,
				Message: head + body,
			}})
	}
	return findings
}

// OtherSemantics compares the CRDs under the other semantics and reports the changes whose
// verdict is worse there.
func (c *Comparison) OtherSemantics(ctx context.Context) (findings []Finding) {
	if c.old == nil {
		return nil
	}
	options := c.options
	options.Semantics = options.Semantics.Other()
	other, err := Compare(ctx, c.old.CRD(), c.new.CRD(), options)
	if err != nil {
		return nil
	}
	here := map[string]Class{}
	for i := range c.Changes {
		here[c.Changes[i].key()] = c.Changes[i].Class()
	}
	for i := range other.Changes {
		change := &other.Changes[i]
		if change.Class() > here[change.key()] { // a change that is not known is safe
			f := other.Finding(change)
			if f.Equal != (Equality{}) {
				f.Equal.Kind += " " + f.Rule // the class
			}
			findings = append(findings, f)
		}
	}
	if len(other.Rejected) > 0 && len(c.Rejected) == 0 {
		findings = append(findings, Finding{CRD: c.Name, Finding: analysis.Finding{
			Message: "the API server would reject the update: " + other.Rejected[0].Error(), Part: analysis.FieldName,
		}})
	}
	for i := range findings {
		f := &findings[i]
		with := fmt.Sprintf("with --semantics %s, ", options.Semantics)
		f.head, f.Message = with+f.head, with+f.Message
		f.Rule, f.Severity, f.Class, f.Detail = RuleSemantics, c.options.Config.severity(RuleSemantics, analysis.Info), Safe, nil
		if f.Equal != (Equality{}) {
			f.Equal.Rule = RuleSemantics
		}
	}
	return findings
}

// key identifies the change in another comparison of the same CRDs.
func (c *Change) key() string {
	return strings.Join([]string{c.Kind, c.OldPointer, c.NewPointer, c.OldVersion, c.NewVersion, c.Message}, "\x00")
}

// String describes what happened to the object.
func (x Observation) String() string {
	path := x.Path.String()
	if path == "" {
		path = "the object"
	}
	switch {
	case x.Class == Invalid:
		return x.Detail
	case x.Detail != "":
		return path + ": " + x.Detail
	case x.Class == Loses:
		return path + " is lost"
	}
	return path + " is defaulted"
}
