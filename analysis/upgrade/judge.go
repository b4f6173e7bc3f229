package upgrade

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis"
	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
)

// Form is the form in which an object is known.
type Form uint8

const (
	// Stored is an object as etcd has it.
	Stored Form = iota
	// Served is an object as an API server serves it, in the version of [Pair.Definition].
	Served
	// Manifest is an object as a client writes it.
	Manifest
)

// Judge returns what the upgrade does to an object, which is JSON, of the installed CRD. The error
// is not about the object: ctx has ended, or a schema of a CRD cannot be compiled.
func (p *Pair) Judge(ctx context.Context, src []byte, form Form) ([]Effect, error) {
	if p.old == nil {
		return nil, nil
	}
	if p.new == nil {
		return []Effect{deleted("the new release does not have its CRD: deleting the CRD deletes the object", src)}, nil
	}
	before, err := p.was.Inspect(ctx, src)
	if err != nil {
		return nil, err
	}
	if before.Object == nil {
		return []Effect{unreadable(whole(RuleNotJudged, analysis.Warning, Check, "it cannot be read under the installed CRD"), &before)}, nil
	}
	j := &judgement{Pair: p, ctx: ctx, form: form, src: src, before: &before}
	if p.recreated {
		j.add(deleted("its CRD must be deleted and created again: deleting the CRD deletes the object", src))
	}
	j.versions()
	if p.intermediate {
		j.add(whole(RuleNotJudged, analysis.Warning, Intermediate,
			"what a release between the two makes of the object is not known: judge it again when that release is installed"))
		return j.effects, nil
	}
	base, ok, err := j.base()
	if err != nil || !ok {
		return j.effects, err
	}
	err = j.after(base)
	return j.effects, cmp.Or(err, ctx.Err())
}

// whole returns an effect on an object as a whole.
func whole(rule string, s analysis.Severity, a Action, message string) Effect {
	return Effect{Rule: rule, Severity: s, Action: a, Message: message, Summary: message}
}

// unreadable returns an effect on an object with the reason why it cannot be read.
func unreadable(e Effect, r *compliance.Report) Effect {
	e.Message += ": " + r.Problems[0].Message
	return e
}

// deleted returns the effect that an object is deleted.
func deleted(message string, src []byte) Effect {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(src, &object) == nil && len(object.Finalizers) > 0 {
		message += "; it has finalizers, and the deletion waits until controllers remove them"
	}
	return whole(RuleDeleted, analysis.Error, Save, message)
}

// judgement is the state of Judge for one object.
type judgement struct {
	*Pair
	ctx    context.Context
	form   Form
	src    []byte
	before *compliance.Report
	// held has the problems that the object has under the installed CRD, and those of the prepared one
	// that are reported.
	held map[string]bool
	// object is src, parsed when it is needed.
	object  any
	effects []Effect
}

func (j *judgement) add(e Effect) { j.effects = append(j.effects, e) }

// versions adds the effects on an object by the version that it is stored in, and by the versions
// that its writers use.
func (j *judgement) versions() {
	is, version := j.is.Definition(), j.before.Version
	if j.form == Manifest {
		if serves(j.was.Definition(), version) && !serves(is, version) {
			action, to := ChangeVersionAfter, j.target()
			if both := j.servedByBoth(); both != "" {
				if action = ChangeVersion; !serves(j.was.Definition(), to) {
					to = both // the installed CRD does not serve the other one yet
				}
			}
			j.add(whole(RuleVersion, analysis.Error, action, fmt.Sprintf("the new CRD does not serve version %s, which the manifest uses: change it to %s",
				version, to)))
		}
		return
	}
	if j.form == Stored && version != "" && !j.recreated && !j.intermediate {
		switch v := is.Version(version); {
		case v == nil:
			j.add(whole(RuleMigration, analysis.Error, Rewrite, fmt.Sprintf("stored in version %s, which the new CRD does not have", version)))
		case !v.Storage() && len(j.missing) == 0:
			j.add(whole(RuleMigration, analysis.Warning, Migrate, fmt.Sprintf("stored in version %s; the storage version of the new CRD is %s",
				version, is.Storage().Name())))
		}
	}
	j.managers()
}

// servedByBoth returns a version that both CRDs serve, or "".
func (j *judgement) servedByBoth() string {
	for _, v := range j.is.Definition().Versions() {
		if v.Served() && serves(j.was.Definition(), v.Name()) {
			return v.Name()
		}
	}
	return ""
}

// target returns the version that manifests should use.
func (j *judgement) target() string {
	is := j.is.Definition()
	if is.Storage().Served() {
		return is.Storage().Name()
	}
	for _, v := range is.Versions() {
		if v.Served() {
			return v.Name()
		}
	}
	return "a version that is served"
}

// managers finds the clients that write the object in a version that the new CRD does not serve.
func (j *judgement) managers() {
	var object struct {
		Metadata struct {
			ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
		} `json:"metadata"`
	}
	if !j.unserved() || json.Unmarshal(j.src, &object) != nil {
		return
	}
	seen := map[string]bool{}
	for _, m := range object.Metadata.ManagedFields {
		group, version, _ := strings.Cut(m.APIVersion, "/")
		if group != j.new.Spec.Group || !serves(j.was.Definition(), version) || serves(j.is.Definition(), version) || seen[m.Manager+" "+version] {
			continue
		}
		seen[m.Manager+" "+version] = true
		j.add(whole(RuleVersion, analysis.Warning, ChangeVersionAfter,
			fmt.Sprintf("%s writes version %s, which the new CRD does not serve", m.Manager, version)))
	}
}

// unserved reports whether the new CRD does not serve a version that the old one serves.
func (j *judgement) unserved() bool {
	return slices.ContainsFunc(j.was.Definition().Versions(), func(v *crd.Version) bool {
		return v.Served() && !serves(j.is.Definition(), v.Name())
	})
}

// serves reports whether a CRD serves a version.
func serves(d *crd.Definition, version string) bool {
	v := d.Version(version)
	return v != nil && v.Served()
}

// base returns the object as it is stored when the new CRD is applied. It returns false if that
// is not known.
func (j *judgement) base() (base []byte, ok bool, err error) {
	j.held = map[string]bool{}
	j.hold(j.before)
	rewritten := len(j.missing) > 0 && !j.recreated
	var object schema.Object // nil if it is stored as it is
	switch {
	case j.recreated:
		object = j.adapted()
	case rewritten:
		report, err := j.prepared.Inspect(j.ctx, j.src)
		if err != nil {
			return nil, false, err
		}
		j.lost(&report, "dropped when the object is stored in version "+j.prepared.Definition().Storage().Name())
		j.rewritten(&report)
		object = report.Object
	case j.form != Stored:
		object = j.before.Object
	}
	if base = j.src; object != nil {
		base = encode(object)
	}
	version, storage := versionOf(base), j.is.Definition().Storage().Name()
	webhook := converts(j.new)
	switch {
	case version == storage:
	case rewritten && converts(j.old) && version != j.prepared.Definition().Storage().Name(), webhook && j.is.Definition().Version(version) == nil:
		j.add(whole(RuleNotJudged, analysis.Info, Check, fmt.Sprintf("a webhook converts it from version %s: what it makes of the object is not known", version)))
		return nil, false, nil
	case webhook:
		j.add(whole(RuleNotJudged, analysis.Info, Check, fmt.Sprintf(
			"judged in version %s only: a webhook converts it to the storage version %s", version, storage)))
	}
	return base, true, nil
}

// adapted returns the object with the kind and the scope of the new CRD, for which it has to be
// created again.
func (j *judgement) adapted() schema.Object {
	object := withMetadata(j.before.Object)
	object["kind"] = j.new.Spec.Names.Kind
	meta := object["metadata"].(map[string]any)
	if delete(meta, "resourceVersion"); j.new.Spec.Scope == api.ClusterScoped {
		delete(meta, "namespace")
	} else if meta["namespace"] == nil {
		meta["namespace"] = metav1.NamespaceDefault
	}
	return object
}

// versionOf returns the version of an object.
func versionOf(src []byte) string {
	id, err := api.Identify(src)
	if err != nil {
		return ""
	}
	_, version, _ := strings.Cut(id.APIVersion, "/")
	return version
}

// hold records the problems of an object, which are not effects of a later step.
func (j *judgement) hold(r *compliance.Report) {
	for i := range r.Problems {
		j.held[problemKey(&r.Problems[i])] = true
	}
}

func problemKey(p *compliance.Problem) string {
	return fmt.Sprintf("%s %d %s %s", p.Kind, p.Violation, p.Path.Pointer(), p.Rule)
}

// after adds what the new CRD does to the object as it is stored.
func (j *judgement) after(base []byte) error {
	report, err := j.is.Inspect(j.ctx, base)
	if err != nil {
		return err
	}
	if report.Object == nil {
		j.add(unreadable(whole(impact.Invalid.ID(), analysis.Error, Correct, "it cannot be read under the new CRD"), &report))
		return nil
	}
	j.lost(&report, "hidden, and dropped with the next write")
	j.invalid(&report)
	j.defaults(nil, map[string]any(j.before.Object), map[string]any(report.Object))
	for _, t := range j.transitions {
		if holds(map[string]any(report.Object), t.path) {
			path := impact.FieldPath(t.path)
			e := whole(RuleTransition, analysis.Info, Check, t.message+": updates that violate it are rejected")
			e.Path, e.Pattern = path, path
			j.add(e)
		}
	}
	return j.revealed()
}

// effect returns the effect for a problem.
func effect(p *compliance.Problem, rule string, s analysis.Severity, a Action) Effect {
	e := Effect{Rule: rule, Severity: s, Action: a, Path: p.Path.String(), Pattern: audit.Pattern(p), Pointer: p.Path.Pointer(),
		Message: p.Message, Summary: p.Message}
	if p.Summary != "" {
		e.Summary = strings.ReplaceAll(p.Summary, e.Path, e.Pattern)
	}
	return e
}

// lost adds the fields that are dropped and were not hidden before. One that the object does not set
// itself is the matter of defaults, and one that holds its default is not worth an error: clients get
// the default, unless they ask for it.
func (j *judgement) lost(r *compliance.Report, how string) {
	var found []*compliance.Problem
	for i := range r.Problems {
		p := &r.Problems[i]
		if (p.Kind == compliance.Unspecified || p.Kind == compliance.Malformed) && !j.held[problemKey(p)] && j.isStored(p.Path) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return
	}
	filled := j.withoutFields(found)
	for _, p := range found {
		severity, consequence := analysis.Error, ": it is "+how
		if is, ok := filled(p.Path); ok {
			if value, _ := p.Path.Find(j.object); equal(value, is) {
				severity, consequence = analysis.Warning, ", which holds its default "+show(value)+consequence
			}
		}
		e := effect(p, impact.Loses.ID(), severity, Save)
		e.Message += consequence
		e.Summary += consequence
		j.add(e)
	}
}

// withoutFields reads the object without fields that are dropped. The result returns the default
// that a path then has under the installed CRD, if there is one.
func (j *judgement) withoutFields(dropped []*compliance.Problem) func(schema.Path) (any, bool) {
	var object any
	_ = json.Unmarshal(j.src, &object) // it has been read
	for _, p := range dropped {
		p.Path.Delete(object)
	}
	report, _ := j.was.Inspect(j.ctx, encode(object)) // it has no object if ctx has ended
	return func(path schema.Path) (any, bool) { return path.Find(map[string]any(report.Object)) }
}

// rewritten adds the values for which the object cannot be stored anew in the version of the
// prepared CRD, and holds what the report has, except what only creating the object would violate:
// that is judged under the new CRD.
func (j *judgement) rewritten(r *compliance.Report) {
	var invalid []*compliance.Problem
	for i := range r.Problems {
		if p := &r.Problems[i]; p.Kind == compliance.Invalid || p.Kind == compliance.Contradiction {
			invalid = append(invalid, p)
		} else {
			j.held[problemKey(p)] = true
		}
	}
	if len(invalid) == 0 || !j.rejectsUpdate(invalid[0].Version, r.Object) {
		return
	}
	consequence := "; storing the object in version " + invalid[0].Version.Name() + " is rejected"
	for _, p := range invalid {
		j.held[problemKey(p)] = true
		e := effect(p, impact.Invalid.ID(), analysis.Error, Correct)
		e.Message += consequence
		e.Summary += consequence
		j.add(e)
	}
}

// invalid adds the values that become invalid, and whether updates of the object still pass.
func (j *judgement) invalid(r *compliance.Report) {
	var found []*compliance.Problem
	for i := range r.Problems {
		p := &r.Problems[i]
		if (p.Kind == compliance.Invalid || p.Kind == compliance.Contradiction) && (j.recreated || !j.held[problemKey(p)]) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return
	}
	action, consequence := Correct, "; creating the object is rejected, updates of other fields pass"
	if j.rejectsUpdate(found[0].Version, r.Object) {
		consequence = "; every update of the object is rejected"
	}
	if j.recreated {
		action, consequence = Recreate, "; creating the object again is rejected"
	}
	for _, p := range found {
		e := effect(p, impact.Invalid.ID(), analysis.Error, action)
		e.Message += consequence
		e.Summary += consequence
		j.add(e)
	}
}

// rejectsUpdate reports whether a version, which has judged the object, rejects an update that only changes
// a label.
func (j *judgement) rejectsUpdate(v *crd.Version, object schema.Object) bool {
	old, updated := withMetadata(object), withMetadata(object)
	meta := updated["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	added := map[string]any{"espalier.dev/upgrade": "try"}
	maps.Copy(added, labels)
	meta["labels"] = added
	violations, _ := v.Validate(j.ctx, updated, old) // the schema is compiled
	return slices.ContainsFunc(violations, func(v schema.Violation) bool { return v.Kind != schema.RulesSkipped })
}

// withMetadata returns an object with metadata of its own, and with a resource version, without
// which the API server accepts no update.
func withMetadata(object schema.Object) schema.Object {
	copied := maps.Clone(object)
	meta, _ := object["metadata"].(map[string]any)
	own := map[string]any{}
	maps.Copy(own, meta)
	own["resourceVersion"], copied["metadata"] = "1", own
	return copied
}

// defaults adds the differences between an object as it is read under the old and under the new CRD
// that defaults cause.
func (j *judgement) defaults(at schema.Path, was, is any) {
	if reflect.DeepEqual(was, is) {
		return
	}
	switch is := is.(type) {
	case map[string]any:
		if was, ok := was.(map[string]any); ok {
			j.members(at, was, is)
			return
		}
	case []any:
		if was, ok := was.([]any); ok && len(was) == len(is) {
			for i := range is {
				j.defaults(append(slices.Clip(at), schema.Step{Index: i, Kind: schema.Index}), was[i], is[i])
			}
			return
		}
	}
	j.defaulted(at, analysis.Warning, fmt.Sprintf("the default %s → %s", show(was), show(is)))
}

// members compares the fields of an object.
func (j *judgement) members(at schema.Path, was, is map[string]any) {
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(at) == 0 && schema.IsMetaField(name) {
			continue
		}
		path := append(slices.Clip(at), schema.Step{Key: name})
		before, had := was[name]
		after, has := is[name]
		switch {
		case had && has:
			j.defaults(path, before, after)
		case has && !j.isStored(path):
			j.defaulted(path, analysis.Info, "gets the default "+show(after))
		case had && !j.isStored(path):
			j.defaulted(path, analysis.Warning, "no longer gets the default "+show(before))
		}
	}
}

// isStored reports whether a field is part of the object itself, so that no default has set it.
func (j *judgement) isStored(path schema.Path) bool {
	if j.object == nil {
		_ = json.Unmarshal(j.src, &j.object) // it has been read
	}
	_, found := path.Find(j.object)
	return found
}

func (j *judgement) defaulted(at schema.Path, s analysis.Severity, message string) {
	e := whole(impact.Defaulted.ID(), s, Check, message)
	e.Path, e.Pattern, e.Pointer = at.String(), at.Pattern(), at.Pointer()
	j.add(e)
}

// equal reports whether two values are the same JSON. Their numbers may have different types.
func equal(a, b any) bool { return bytes.Equal(encode(a), encode(b)) }

// encode returns a value as JSON. All values here can be expressed in it.
func encode(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}

// show returns a value as text of limited length.
func show(v any) string {
	text := encode(v)
	const most = 60
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "…"
	}
	return string(text)
}

// holds reports whether an object has a value at a path of a schema.
func holds(value any, path schema.SchemaPath) bool {
	if len(path) == 0 {
		return true
	}
	switch v := value.(type) {
	case []any:
		return path[0].Keyword == "items" && slices.ContainsFunc(v, func(item any) bool { return holds(item, path[1:]) })
	case map[string]any:
		if path[0].Keyword == "properties" {
			child, ok := v[path[0].Name]
			return ok && holds(child, path[1:])
		}
		for _, child := range v {
			if path[0].Keyword == "additionalProperties" && holds(child, path[1:]) {
				return true
			}
		}
	}
	return false
}

// revealed adds the hidden fields of a stored object that the new CRD serves.
func (j *judgement) revealed() error {
	if j.form != Stored || j.recreated || !j.before.Has(compliance.Unspecified) {
		return nil
	}
	paths, err := j.was.Revealed(j.is, j.src)
	for _, path := range paths {
		e := whole(impact.RuleRevealed, analysis.Warning, Rewrite,
			"it is stored, but not served under the installed CRD, which does not specify it: the new CRD serves it, unless the object is stored anew before")
		e.Path, e.Pattern, e.Pointer = path.String(), path.Pattern(), path.Pointer()
		j.add(e)
	}
	return err
}
