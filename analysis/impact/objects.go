package impact

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
)

// Objects counts what the changes of a comparison do to many objects.
type Objects struct {
	*Comparison
	// Tried is the number of objects, and Classes the number of those with an effect of a class.
	Tried   int
	Classes map[Class]int

	// names is the maximum number of objects that a finding names. It is 0 if there is none.
	names int
	// affected has the affected objects of each change, unannounced those that are affected
	// although no single change accounts for it. unevaluated counts those on which the rules of
	// the new CRD were not evaluated.
	affected    []tallies
	unannounced tally
	unevaluated int
	// revealed has, for each pattern of paths, the objects that hold data there which only the
	// new CRD serves.
	revealed map[string]*tally
}

// Objects returns a count without objects. Findings name up to the given number of objects, or all
// if it is 0.
func (c *Comparison) Objects(names int) *Objects {
	return &Objects{
		Comparison: c, Classes: map[Class]int{}, names: names,
		affected: make([]tallies, len(c.Changes)), revealed: map[string]*tally{},
	}
}

// Add applies both CRDs to an object and counts the effects. Findings call the object by name.
// Errors are those of [Comparison.Try].
func (o *Objects) Add(ctx context.Context, name string, src []byte) error {
	switch {
	case o.removed:
		o.Tried++
		o.Classes[Loses]++
		o.affected[0].add(name, Loses, o.names)
		return nil
	case o.new == nil:
		return nil // the CRD was added: there are no objects
	}
	outcome, err := o.Try(ctx, src)
	if err != nil {
		return err
	}
	o.Tried++
	if outcome.RulesSkipped {
		o.unevaluated++
	}
	o.reveal(name, src)
	o.attribute(name, outcome)
	return nil
}

// attribute counts the effects on an object for the changes that announce them.
func (o *Objects) attribute(name string, outcome *Outcome) {
	seen := map[Class]bool{}
	places := make([][]string, len(o.Changes))
	worst := make([]Class, len(o.Changes))
	var strays []string
	for _, x := range outcome.Observations {
		seen[x.Class] = true
		announced := o.Announcing(x)
		for _, i := range announced {
			places[i] = append(places[i], x.String())
			worst[i] = max(worst[i], x.Class)
		}
		if len(announced) == 0 {
			strays = append(strays, x.Class.String()+": "+x.String())
		}
	}
	for class := range seen {
		o.Classes[class]++
	}
	line := func(what []string) string {
		what = slices.Compact(what)
		if rest := len(what) - 3; rest > 0 {
			what = append(slices.Clip(what[:3]), fmt.Sprintf("and %d more", rest))
		}
		return name + ": " + strings.Join(what, "; ")
	}
	for i, what := range places {
		if len(what) > 0 {
			o.affected[i].add(line(what), worst[i], o.names)
		}
	}
	if len(strays) > 0 {
		o.unannounced.add(line(strays), outcome.Class(), o.names)
	}
}

// reveal counts the fields of an object that only the new CRD serves.
func (o *Objects) reveal(name string, src []byte) {
	paths, _ := o.Revealed(src) // Try has reported what cannot be compiled
	seen := map[string]bool{}
	for _, path := range paths {
		pattern := path.Pattern()
		if seen[pattern] {
			continue
		}
		seen[pattern] = true
		if o.revealed[pattern] == nil {
			o.revealed[pattern] = &tally{}
		}
		o.revealed[pattern].add(name+": "+path.String(), Clients, o.names)
	}
}

// ChangeFinding is like [Comparison.Finding], for the change with an index. What was observed on
// objects is part of the verdict, and the finding names the affected objects.
func (o *Objects) ChangeFinding(i int) Finding {
	ch := &o.Changes[i]
	ch.Observe(o.affected[i].worst())
	return o.changeFinding(i, ch.Class())
}

// AffectedFinding is like ChangeFinding, but it returns false unless the change affects an object,
// and the verdict is the worst effect on the objects instead of the worst possible one.
func (o *Objects) AffectedFinding(i int) (Finding, bool) {
	if len(o.affected[i]) == 0 {
		return Finding{}, false
	}
	return o.changeFinding(i, o.affected[i].worst()), true
}

// changeFinding returns a change as a finding of a class, with the affected objects.
func (o *Objects) changeFinding(i int, class Class) Finding {
	ch := &o.Changes[i]
	f := o.finding(ch, class)
	f.Affected = o.affected[i].count()
	if o.Tried > 0 && (class > Clients || f.Affected > 0) {
		lines := o.affected[i].details(class, o.Tried)
		f.Detail = append(f.Detail, lines...)
		if f.Affected > 0 && f.Equal != (Equality{}) {
			f.Equal.Objects = strings.Join(append([]string{o.Name, f.Field}, lines...), "\n")
		}
		if o.unevaluated > 0 && ch.BreaksRules() {
			f.Detail = append(f.Detail, o.unevaluatedLine())
		}
	}
	return f
}

func (o *Objects) unevaluatedLine() string {
	return fmt.Sprintf("rules not evaluated on %d of %s, because of other errors", o.unevaluated, analysis.Plural(o.Tried, "object"))
}

// Unevaluated returns a finding if changes may break rules on objects on which the rules could not
// be evaluated.
func (o *Objects) Unevaluated() []Finding {
	if o.unevaluated == 0 || !slices.ContainsFunc(o.Changes, func(c Change) bool { return c.BreaksRules() }) {
		return nil
	}
	return []Finding{{CRD: o.Name, Finding: analysis.Finding{
		Rule: RuleUnevaluated, Severity: o.options.Config.severity(RuleUnevaluated, analysis.Info),
		Message: o.unevaluatedLine() + ": new rules may reject them, too",
	}}}
}

// OtherFindings returns the findings about objects that no single change accounts for.
func (o *Objects) OtherFindings() (findings []Finding) {
	if o.unannounced.count > 0 {
		f := o.Finding(&Change{Effects: []Effect{{Class: o.unannounced.worst}}})
		f.Equal, f.Affected = Equality{}, o.unannounced.count
		f.Message = analysis.Plural(o.unannounced.count, "object") + " affected, but not by any single change"
		f.Detail = o.unannounced.lines()
		findings = append(findings, f)
	}
	for _, pattern := range slices.Sorted(maps.Keys(o.revealed)) {
		t := o.revealed[pattern]
		f := o.RevealedFinding(pattern, t.count, o.Tried, t.lines())
		f.CRD, f.Affected = o.Name, t.count
		findings = append(findings, f)
	}
	return findings
}

// tally counts objects and lists some of them.
type tally struct {
	count int
	names []string
	// worst is the worst class of effects on the objects.
	worst Class
}

func (t *tally) add(name string, class Class, limit int) {
	t.count++
	t.worst = max(t.worst, class)
	if limit == 0 || len(t.names) < limit {
		t.names = append(t.names, name)
	}
}

func (t *tally) lines() []string {
	lines := t.names
	if rest := t.count - len(t.names); rest > 0 {
		lines = append(slices.Clip(lines), fmt.Sprintf("and %d more", rest))
	}
	return lines
}

// tallies counts the objects that a change affects, by the worst effect on each.
type tallies map[Class]*tally

func (t *tallies) add(name string, class Class, limit int) {
	if *t == nil {
		*t = tallies{}
	}
	if (*t)[class] == nil {
		(*t)[class] = &tally{}
	}
	(*t)[class].add(name, class, limit)
}

// worst returns the worst class of effects on the objects.
func (t tallies) worst() Class {
	worst := Safe
	for class := range t {
		worst = max(worst, class)
	}
	return worst
}

// count returns the number of objects.
func (t tallies) count() (n int) {
	for _, of := range t {
		n += of.count
	}
	return n
}

// details describes how many of a number of objects are affected by a change of a class, and
// names some of them. Objects on which the change has a milder effect are counted separately.
func (t tallies) details(class Class, of int) (lines []string) {
	objects := analysis.Plural(of, "object")
	if t[class] == nil {
		lines = append(lines, "affects none of "+objects)
		if len(t) > 0 {
			lines[0] = fmt.Sprintf("%s: none of %s", class.Observed(), objects)
		}
	}
	for _, c := range Classes() {
		if t[c] == nil {
			continue
		}
		verb := "affects"
		if c != class {
			verb = c.Observed() + ":"
		}
		lines = append(lines, fmt.Sprintf("%s %d of %s:", verb, t[c].count, objects))
		for _, line := range t[c].lines() {
			lines = append(lines, "  "+line)
		}
	}
	return lines
}
