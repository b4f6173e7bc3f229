package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/upgrade"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/nearest"
)

// upgrader is one run of upgrade.
type upgrader struct {
	app *app
	r   *report.Reporter
	// source has the installed CRDs and the objects, or is nil. named is the flag that names it, and
	// sourceName its name in messages.
	source            source.Source
	named, sourceName string
	flags             sourceFlags
	// objects names manifests, if there are any, and newPath the new release, which has the form newForm.
	objects input.Flags
	newPath string
	newForm input.Form
	// files are those of the new release. ambiguous are those of them with a CRD that another document has
	// too, which is the one that is compared.
	files     []string
	ambiguous map[string]bool

	plan  *upgrade.Plan
	pairs map[string]*upgradedPair
	// others has the kinds of objects that no CRD defines.
	others map[string]bool
	// batch has objects that are judged next.
	batch []source.Object
}

// upgradedPair is a pair of CRDs, with their places.
type upgradedPair struct {
	*upgrade.Pair
	old, new *diffSide
}

// run compares the sides, OLD and NEW or only NEW, and checks the objects.
func (u *upgrader) run(ctx context.Context, sides []input.Flags, names int) error {
	u.plan = upgrade.NewPlan(upgrade.PlanOptions{
		Examples: names, Manifests: u.source == nil, ClusterFlags: u.clusterFlags(), StoredFlags: u.storedFlags(), Commands: u.commands,
	})
	u.pairs, u.others = map[string]*upgradedPair{}, map[string]bool{}
	old := diffSet{byName: map[string]*diffSide{}}
	if len(sides) > 1 {
		var err error
		if old, err = u.app.loadSides(ctx, sides[0], u.r.Failure, u.r.Report); err != nil {
			return err
		}
	}
	ds, err := u.app.loadDefinitions(ctx, sides[len(sides)-1], u.r.Failure)
	if err != nil {
		return err
	}
	new := sidesOf(ds, u.r.Failure, u.several)
	if u.source != nil {
		if err := u.installed(ctx, old, new); err != nil {
			return err
		}
	}
	if u.r.Summary().Failures > 0 {
		// CRDs that could not be read would count as removed.
		return nil
	}
	u.compare(ctx, old, new)
	if u.source != nil {
		err = u.stored(ctx)
	} else if len(u.objects.Paths) > 0 {
		err = u.manifests(ctx)
	}
	if err != nil {
		return err
	}
	if err := u.release(ctx, ds, sides[len(sides)-1]); err != nil {
		return err
	}
	u.report()
	return nil
}

// several reports a CRD of the new release with the name of another one: its file is not applied.
func (u *upgrader) several(it *input.Item, f analysis.Finding) {
	if u.ambiguous == nil {
		u.ambiguous = map[string]bool{}
	}
	u.ambiguous[it.File] = true
	f.Detail = append(f.Detail, "the steps do not apply this file: remove one of the CRDs")
	u.r.Report(it, f)
}

// installed replaces the old CRDs with those that the source has.
func (u *upgrader) installed(ctx context.Context, old, new diffSet) error {
	failures := sourceFailures{}
	wanted := func(name string) bool { return old.byName[name] != nil || new.byName[name] != nil }
	failed := func(failure *source.Failure) {
		if name := failure.Object.Name; name == "" || wanted(name) {
			failures.add(u.r, failure)
		}
	}
	found := map[string]bool{}
	err := source.Each(u.source.Definitions(ctx), failed, func(o source.Object) error {
		if !wanted(o.Name) {
			return nil
		}
		decoded, err := decodeCRD(o.JSON, u.app.semantics.Semantics)
		if err != nil {
			u.r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: o.Where(),
				Message: err.Error(), Object: definitionIdentity(o.Name)})
			return nil
		}
		found[o.Name] = true
		if side := old.byName[o.Name]; side != nil && !sameRelease(side.crd, decoded) {
			u.r.Add(report.Finding{Object: definitionIdentity(o.Name), Finding: analysis.Finding{
				Rule: upgrade.RuleInstalled, Severity: analysis.Info,
				Message: fmt.Sprintf("the CRD in %s is not that of the old release: it is the one that is used", u.sourceName),
			}})
		}
		old.byName[o.Name] = &diffSide{where: o.Where(), crd: decoded}
		return nil
	})
	if err != nil {
		return err
	}
	failures.report(u.r)
	if len(found) == 0 && len(failures) == 0 {
		u.r.Add(report.Finding{Finding: analysis.Finding{Rule: upgrade.RuleInstalled, Severity: analysis.Warning,
			Message: fmt.Sprintf("none of the CRDs is in %s: there is nothing to upgrade, or it is the wrong place", u.sourceName)}})
	}
	if u.named == "--dump" {
		return nil // a backup may lack CRDs
	}
	for _, name := range slices.Sorted(maps.Keys(old.byName)) {
		if !found[name] {
			u.r.Add(report.Finding{Object: definitionIdentity(name), Finding: analysis.Finding{
				Rule: upgrade.RuleInstalled, Severity: analysis.Info,
				Message: fmt.Sprintf("the CRD of the old release is not in %s", u.sourceName),
			}})
			delete(old.byName, name)
		}
	}
	return nil
}

// sameRelease reports whether an installed CRD is that of a release, apart from the conversion
// webhook, which gets its certificate in the cluster.
func sameRelease(release, installed *api.CustomResourceDefinition) bool {
	a, b := release.Spec, installed.Spec
	a.Conversion, b.Conversion = nil, nil
	return reflect.DeepEqual(a, b)
}

// compare compares the CRDs of the same names.
func (u *upgrader) compare(ctx context.Context, old, new diffSet) {
	names := maps.Clone(old.byName)
	maps.Copy(names, new.byName)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := &upgradedPair{old: old.byName[name], new: new.byName[name]}
		options := upgrade.Options{Semantics: u.app.semantics.Semantics, Rules: cel.Checker{}}
		var was, is *api.CustomResourceDefinition
		if p.old != nil {
			was = p.old.crd
		}
		if p.new != nil {
			is, options.V1beta1 = p.new.crd, p.new.beta
		}
		var err error
		if p.Pair, err = upgrade.NewPair(ctx, was, is, options); err != nil {
			problem := input.Problem{Rule: object.RuleInvalidDefinition, Message: "cannot compare: " + err.Error(), Object: definitionIdentity(name)}
			if p.new != nil {
				at := p.new.item.Position("").Value
				problem.File, problem.Line, problem.Column = p.new.item.File, at.Line, at.Column
			}
			u.r.Failure(problem)
			continue
		}
		u.r.Progress("CRDs compared")
		u.plan.AddPair(p.Pair)
		u.pairs[name] = p
	}
}

// stored judges the objects of the source.
func (u *upgrader) stored(ctx context.Context) error {
	u.plan.Checked = true
	selected := source.Selection{Namespaces: u.flags.namespaces}
	for _, name := range slices.Sorted(maps.Keys(u.pairs)) {
		if d := u.pairs[name].Definition(); d != nil {
			selected.Definitions = append(selected.Definitions, d)
		}
	}
	if len(selected.Definitions) == 0 {
		return nil // all CRDs are new
	}
	failures := sourceFailures{}
	failed := func(failure *source.Failure) { failures.add(u.r, failure) }
	form := upgrade.Served
	if u.source.Stored() {
		form = upgrade.Stored
	}
	if err := source.Each(u.source.Objects(ctx, selected), failed, func(o source.Object) error { return u.add(ctx, o, form) }); err != nil {
		return err
	}
	if err := u.judge(ctx, form); err != nil {
		return err
	}
	failures.report(u.r)
	return nil
}

// manifests judges the objects of files. It is an input error if there are only objects of other
// kinds.
func (u *upgrader) manifests(ctx context.Context) error {
	u.plan.Checked = true
	kinds := map[runtimeschema.GroupKind]*upgradedPair{}
	var defined []string
	for _, p := range u.pairs {
		if p.old != nil {
			spec := &p.old.crd.Spec
			kinds[runtimeschema.GroupKind{Group: spec.Group, Kind: spec.Names.Kind}] = p
			defined = append(defined, spec.Group+" "+spec.Names.Kind)
		}
	}
	failures := u.r.Summary().Failures
	if err := input.Read(ctx, u.app.stdin, u.objects, func(it *input.Item) error {
		p := kinds[lookup.KindOf(it)]
		if p == nil {
			if !isDefinition(it) {
				u.others[strings.TrimSpace(it.APIVersion()+" "+it.Kind())] = true
			}
			u.r.Skipped(it, "no CRD of the old release defines its kind")
			return nil
		}
		o := source.Object{Definition: p.Name, Namespace: it.Namespace(), Name: it.Name(), Item: it,
			JSON: substituted(it, u.objects.Keep != input.Everything)}
		if o.Namespace == "" && p.old.crd.Spec.Scope != api.ClusterScoped {
			o.Namespace = metav1.NamespaceDefault
			o.JSON = source.WithNamespace(o.JSON, o.Namespace)
		}
		return u.add(ctx, o, upgrade.Manifest)
	}, u.r.Failure); err != nil {
		return err
	}
	if err := u.judge(ctx, upgrade.Manifest); err != nil {
		return err
	}
	if u.r.Summary().Failures > failures || u.plan.Objects > 0 {
		return nil
	}
	message := "no objects found"
	if slices.Sort(defined); len(u.others) > 0 {
		message = fmt.Sprintf("no objects of the CRDs found: the CRDs of the old release define %s, the objects are %s",
			nearest.First(defined, 5), nearest.First(slices.Sorted(maps.Keys(u.others)), 5))
	}
	u.r.Failure(input.Problem{Rule: ruleNoObjects, File: strings.Join(u.objects.Paths, ", "), Message: message})
	return nil
}

// batchSize is the number of objects that are in memory at a time.
const batchSize = 128

// add adds an object to the batch, and judges the batch if it is full.
func (u *upgrader) add(ctx context.Context, o source.Object, form upgrade.Form) error {
	if u.batch = append(u.batch, o); len(u.batch) < batchSize {
		return ctx.Err()
	}
	return u.judge(ctx, form)
}

// judge judges the objects of the batch at the same time, and reports them in their order.
func (u *upgrader) judge(ctx context.Context, form upgrade.Form) error {
	effects := make([][]upgrade.Effect, len(u.batch))
	workers, working := errgroup.WithContext(ctx)
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range u.batch {
		workers.Go(func() (err error) {
			o := &u.batch[i]
			if effects[i], err = u.pairs[o.Definition].Judge(working, o.JSON, form); err != nil && ctx.Err() == nil {
				err = fmt.Errorf("the CRD %s cannot be used: %w", o.Definition, err)
			}
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	for i := range u.batch {
		u.judged(&u.batch[i], effects[i])
	}
	u.batch = u.batch[:0]
	return ctx.Err()
}

// judged reports the effects on an object.
func (u *upgrader) judged(o *source.Object, effects []upgrade.Effect) {
	u.r.Progress("objects")
	p := u.pairs[o.Definition]
	var kept []upgrade.Effect
	for _, e := range effects {
		f := analysis.Finding{Rule: e.Rule, Severity: e.Severity, Path: e.Path, Pointer: e.Pointer, Message: e.Message, Detail: e.Detail}
		finding := report.Finding{Finding: f, File: "", Object: input.Identity{
			APIVersion: p.old.crd.Spec.Group, Kind: p.old.crd.Spec.Names.Kind, Namespace: o.Namespace, Name: o.Name}}
		if o.Item != nil {
			finding = report.At(o.Item, f)
		} else if where := o.Where(); where != "" {
			finding.Detail = append(slices.Clip(finding.Detail), "at "+where)
		}
		u.r.Section(upgrade.TitleOf(e.Action))
		if u.r.AddMember(finding) {
			kept = append(kept, e)
		}
	}
	u.plan.Add(p.Pair, audit.Object{Namespace: o.Namespace, Name: o.Name, Where: o.Where}, kept)
}

// release validates the other objects of the new release with its CRDs.
func (u *upgrader) release(ctx context.Context, ds *definitions, flags input.Flags) error {
	if slices.Contains(flags.Paths, "-") {
		return nil // standard input has been read
	}
	u.r.Section(upgrade.TitleOf(upgrade.CorrectNew))
	return input.Read(ctx, u.app.stdin, flags, func(it *input.Item) error {
		if !slices.Contains(u.files[max(0, len(u.files)-1):], it.File) {
			u.files = append(u.files, it.File)
		}
		if isDefinition(it) {
			return nil
		}
		var findings []analysis.Finding
		if d := ds.Of(lookup.KindOf(it)); len(d) > 0 {
			checker, err := d[0].checker()
			if err != nil {
				return nil // it is reported that the CRD cannot be used
			}
			findings = checker.Check(ctx, it.JSON, nil, object.Ignore)
		} else if lookup.IsBuiltin(it.APIVersion(), it.Kind()) {
			findings = builtinChecker().Check(ctx, it.JSON, nil, object.Ignore)
		}
		for _, f := range findings {
			if f.Severity == analysis.Error {
				f.Rule, f.Message = upgrade.RuleManifest, "the API server rejects this object of the new release: "+f.Message
				u.plan.Need(upgrade.CorrectNew)
				u.r.Report(it, f)
			}
		}
		return ctx.Err()
	}, func(input.Problem) {}) // problems were reported when the CRDs were read
}

// report reports everything that was found, step by step.
func (u *upgrader) report() {
	names := slices.Sorted(maps.Keys(u.pairs))
	steps := u.plan.Steps()
	s := u.r.Summary()
	for i := range steps {
		step := &steps[i]
		title := step.Title()
		u.r.Section(title)
		for _, name := range names {
			for _, e := range u.pairs[name].Effects() {
				if e.Action == step.Action {
					u.r.Add(u.pairs[name].at(e))
				}
			}
		}
		for _, g := range u.plan.Groups(step.Action) {
			u.r.AddMerged(u.groupFinding(g))
		}
		s.Steps = append(s.Steps, report.Step{Phase: step.Action.Phase().ID(), Action: step.Action.ID(), Title: title,
			CRDs: step.CRDs, Objects: step.Objects, Commands: step.Commands})
	}
	u.r.Section("")
	if u.source != nil && !u.source.Stored() {
		u.r.Add(servedFinding("use etcd (--etcd-servers) or a snapshot (--snapshot) to see in which versions they are stored"))
	}
	s.Objects = int(u.plan.Objects)
	s.Extra = map[string]any{"crds": len(u.pairs), "checked": u.plan.Checked, "affected": u.plan.Affected}
	if !u.plan.Checked {
		s.Objects = len(u.pairs)
		s.Notes = append(s.Notes, "no objects were checked, so these are only the steps that the CRDs need: add --objects, --from-cluster, --snapshot, --etcd-servers or --dump")
	}
	if s.Errors+s.Warnings+s.Infos == 0 && len(steps) == 0 {
		s.Verdict = "nothing to do"
	}
	if u.plan.Checked {
		s.Note = fmt.Sprintf("%d affected, %s", u.plan.Affected, analysis.Plural(len(u.pairs), "CRD"))
	}
}

// at returns an effect on the CRD as a finding, with its position.
func (p *upgradedPair) at(e upgrade.Effect) report.Finding {
	f := analysis.Finding{Rule: e.Rule, Severity: e.Severity, Path: e.Path, Pointer: e.Pointer, Part: analysis.FieldName,
		Message: e.Message, Detail: e.Detail}
	if p.new == nil || p.new.item == nil {
		return report.Finding{Finding: f, Object: definitionIdentity(p.Name)}
	}
	f.Pointer = p.new.find(e.Pointer)
	return report.At(p.new.item, f)
}

// groupFinding returns the finding about a group of objects.
func (u *upgrader) groupFinding(g *upgrade.Group) report.Finding {
	f := analysis.Finding{Rule: g.Rule, Severity: g.Severity, Path: g.Pattern,
		Message: fmt.Sprintf("%s (%s of %s)", g.Message, analysis.Plural(int(g.Objects), "object"), g.CRD)}
	for i := range g.Examples {
		x := &g.Examples[i]
		line := x.FullName()
		if x.Where != "" {
			line += " (" + x.Where + ")"
		}
		if x.Path != g.Pattern && x.Path != "" {
			line += ": " + x.Path
		}
		if x.Message != g.Message {
			line += ": " + x.Message
		}
		f.Detail = append(f.Detail, line)
	}
	if rest := g.Objects - int64(len(g.Examples)); rest > 0 && len(g.Examples) > 0 {
		f.Detail = append(f.Detail, fmt.Sprintf("and %d more", rest))
	}
	return report.Finding{Finding: f}
}
