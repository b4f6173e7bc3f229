package upgrade

import (
	"cmp"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/audit"
	"espalier.dev/internal/shell"
)

// PlanOptions configure NewPlan.
type PlanOptions struct {
	// Examples is the maximum number of objects that a group names.
	Examples int
	// Groups is the maximum number of groups for a rule and a CRD: paths can be as many as
	// objects. Further ones are one group. Zero means [audit.DefaultPaths].
	Groups int
	// Manifests reports whether objects come from manifests, which are to be edited instead of the
	// objects of a cluster.
	Manifests bool
	// ClusterFlags are the flags that name the cluster, for kubectl and espalier, with a space before
	// each.
	ClusterFlags string
	// StoredFlags are the flags for espalier migrate that name the stored data, with a space before
	// each, so that its backup has fields that are not served.
	StoredFlags string
	// Commands returns commands for an action that depend on where CRDs and objects come from. It may
	// be nil.
	Commands func(Action) []string
}

// Plan collects the effects of an upgrade. It is not safe for concurrent use.
type Plan struct {
	options PlanOptions
	// Objects is the number of objects, and Affected the number of those with an effect that is
	// an error or a warning.
	Objects, Affected int64
	// Checked reports whether objects were checked, of which there may be none.
	Checked bool

	groups map[groupKey]*Group
	// sizes counts the groups of a rule and a CRD.
	sizes map[groupKey]int
	steps [actions]*Step
}

// NewPlan returns a plan without effects.
func NewPlan(o PlanOptions) *Plan {
	o.Groups = cmp.Or(o.Groups, audit.DefaultPaths)
	return &Plan{options: o, groups: map[groupKey]*Group{}, sizes: map[groupKey]int{}}
}

// Group is an effect that objects of a CRD have.
type Group struct {
	CRD string
	// Effect has no Path; its Message is about all objects. Its Pattern is [audit.Other] if the
	// group stands for many paths.
	Effect
	// Objects counts objects, or an object once for each path if the group stands for many.
	// It is zero if the effect is one on the CRD.
	Objects int64
	// Examples are some of the objects.
	Examples []audit.Example
}

// groupKey identifies a group.
type groupKey struct{ crd, rule, pattern, summary string }

// Step is a step of an upgrade.
type Step struct {
	Action Action
	// CRDs are the names of the CRDs that the step is about.
	CRDs []string
	// Commands are what to run. Further commands may be needed for each object.
	Commands []string
	// Objects is the number of objects that the step is about.
	Objects int64
}

// Title returns the phase and the action.
func (s *Step) Title() string { return TitleOf(s.Action) }

// TitleOf returns the title of the step with an action.
func TitleOf(a Action) string {
	phase := a.Phase().String()
	return strings.ToUpper(phase[:1]) + phase[1:] + ": " + a.String()
}

// step returns the step for an action, of which a CRD is a part.
func (p *Plan) step(a Action, of *Pair) *Step {
	s := p.steps[a]
	if s == nil {
		s = &Step{Action: a}
		p.steps[a] = s
	}
	if of != nil && !slices.Contains(s.CRDs, of.Name) {
		s.CRDs = append(s.CRDs, of.Name)
		s.Commands = append(s.Commands, of.commandsFor(a, p.options.ClusterFlags)...)
	}
	return s
}

// AddPair adds a CRD. It returns the effects on it.
func (p *Plan) AddPair(of *Pair) []Effect {
	if of.Changed && of.new != nil {
		p.step(Apply, of)
	}
	for _, e := range of.Effects() {
		p.need(e.Action, of)
		if e.Action == Delete {
			// The cluster may have objects that are not among those that are checked.
			p.step(Save, of)
			p.step(Recreate, of)
		}
	}
	return of.Effects()
}

// need adds the steps that an effect needs: those that follow from its own too.
func (p *Plan) need(a Action, of *Pair) *Step {
	s := p.step(a, of)
	switch {
	case a == SwitchStorage:
		p.step(Rewrite, of)
	case of.recreated && a == Save:
		p.step(Delete, of)
	}
	return s
}

// Add adds an object of a CRD, and the effects on it.
func (p *Plan) Add(of *Pair, o audit.Object, effects []Effect) {
	p.Objects++
	p.Checked = true
	seen := map[any]bool{}
	bad := false
	for i := range effects {
		e := &effects[i]
		bad = bad || e.Severity != analysis.Info
		step := p.need(e.Action, of)
		if !seen[e.Action] {
			seen[e.Action] = true
			step.Objects++
		}
		if of.recreated && e.Rule == RuleDeleted {
			if again := p.step(Recreate, of); !seen[Recreate] {
				seen[Recreate] = true
				again.Objects++
			}
		}
		g := p.group(of.Name, e)
		if g.Pattern != audit.Other {
			if seen[g] {
				continue
			}
			seen[g] = true
		}
		g.Objects++
		p.example(g, o, e)
	}
	if bad {
		p.Affected++
	}
}

// group returns the group of an effect.
func (p *Plan) group(crd string, e *Effect) *Group {
	key := groupKey{crd, e.Rule, e.Pattern, e.Summary}
	if g := p.groups[key]; g != nil {
		return g
	}
	all := groupKey{crd: crd, rule: e.Rule}
	group := &Group{CRD: crd, Effect: *e}
	group.Path, group.Pointer, group.Message = "", "", e.Summary
	if p.sizes[all] >= p.options.Groups {
		key = groupKey{crd, e.Rule, audit.Other, ""}
		if g := p.groups[key]; g != nil {
			return g
		}
		group.Pattern, group.Message = audit.Other, "further paths have the same problem"
	}
	p.sizes[all]++
	p.groups[key] = group
	return group
}

// example names an object in a group.
func (p *Plan) example(g *Group, o audit.Object, e *Effect) {
	if len(g.Examples) >= p.options.Examples {
		return
	}
	x := audit.Example{Namespace: o.Namespace, Name: o.Name, Path: e.Path, Message: e.Message}
	if o.Where != nil {
		x.Where = o.Where()
	}
	g.Examples = append(g.Examples, x)
}

// Groups returns the groups of an action, the worst first.
func (p *Plan) Groups(a Action) (all []*Group) {
	for _, g := range p.groups {
		if g.Action == a {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(g, h *Group) int {
		return cmp.Or(g.Severity.Compare(h.Severity), cmp.Compare(h.Objects, g.Objects), strings.Compare(g.CRD, h.CRD),
			strings.Compare(g.Rule, h.Rule), strings.Compare(g.Pattern, h.Pattern), strings.Compare(g.Summary, h.Summary))
	})
	return all
}

// Steps returns the steps in their order.
func (p *Plan) Steps() (steps []Step) {
	if p.Objects > 0 && p.steps[Apply] != nil {
		p.step(Audit, nil)
	}
	for a, s := range p.steps {
		if s == nil {
			continue
		}
		step := *s
		step.CRDs, step.Commands = slices.Clone(s.CRDs), slices.Clone(s.Commands)
		slices.Sort(step.CRDs)
		step.Commands = append(step.Commands, p.commandsFor(&step)...)
		if p.options.Commands != nil {
			step.Commands = append(step.Commands, p.options.Commands(Action(a))...)
		}
		steps = append(steps, step)
	}
	return steps
}

// commandsFor returns the commands of a step that are run once.
func (p *Plan) commandsFor(s *Step) []string {
	flags := p.options.ClusterFlags
	names := strings.Join(quoted(s.CRDs), " ")
	switch s.Action {
	case Correct:
		return p.edits()
	case Rewrite:
		return []string{"espalier migrate " + names + flags + p.options.StoredFlags + " --write --backup before-upgrade.jsonl"}
	case Delete:
		return []string{"kubectl" + flags + " delete crd " + names}
	case Migrate:
		return []string{"espalier migrate " + names + flags + p.options.StoredFlags + " --write --backup after-upgrade.jsonl"}
	}
	return nil
}

// maxEdits is the maximum number of objects for which there is a command that edits them.
const maxEdits = 10

// edits returns the commands that edit the objects that become invalid.
func (p *Plan) edits() (commands []string) {
	if p.options.Manifests {
		return nil
	}
	for _, g := range p.Groups(Correct) {
		for _, x := range g.Examples {
			command := "kubectl" + p.options.ClusterFlags + " edit " + shell.Quote(g.CRD) + " " + shell.Quote(x.Name)
			if x.Namespace != "" {
				command += " -n " + shell.Quote(x.Namespace)
			}
			if !slices.Contains(commands, command) && len(commands) < maxEdits {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// Need adds the step for an action that is not about a CRD.
func (p *Plan) Need(a Action) { p.step(a, nil) }

func quoted(all []string) (out []string) {
	for _, s := range all {
		out = append(out, shell.Quote(s))
	}
	return out
}
