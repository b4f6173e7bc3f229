package protocol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// maxAnswer is the maximum size of an answer, approximately, in bytes.
const maxAnswer = 64 << 20

// maxValues is the maximum number of values of an object, defaults included: a list of empty objects
// gets the defaults of its items.
const maxValues = 1 << 21

// maxTyped is the maximum number of values of an object of Kubernetes' own kinds. Their Go types are much
// larger than the text of an empty object.
const maxTyped = 100_000

// maxAssisted is the maximum number of findings about an object for which fixes are looked for.
const maxAssisted = 20

// CheckRequest asks what an API server does to objects that a client creates or updates.
type CheckRequest struct {
	// CRDs and Objects are YAML or JSON documents. Old are the objects before an update.
	CRDs    string `json:"crds"`
	Objects string `json:"objects"`
	Old     string `json:"old,omitempty"`
	// FieldValidation is warn, which is the default, ignore or strict.
	FieldValidation string    `json:"fieldValidation,omitempty"`
	Semantics       Semantics `json:"semantics"`
	// Both asks for the result in the other semantics, too, where it differs.
	Both bool `json:"both,omitempty"`
}

// CheckAnswer is the answer to a CheckRequest.
type CheckAnswer struct {
	// CRDs, Text and Old are what is wrong with the texts.
	CRDs []Finding `json:"crds"`
	Text []Finding `json:"text"`
	Old  []Finding `json:"old"`
	// Objects has the result of each object.
	Objects []CheckedObject `json:"objects"`
	// More is set if there are more objects than are answered.
	More bool `json:"more,omitempty"`
}

// CheckedObject is what happens to one object.
type CheckedObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	// CRD is the name of the CRD of the object. It is empty for Kubernetes' own kinds.
	CRD string `json:"crd,omitempty"`
	// Update is set if the object replaces an old one.
	Update bool `json:"update,omitempty"`
	// BuiltIn is set for Kubernetes' own kinds.
	BuiltIn bool `json:"builtIn,omitempty"`
	// Unevaluated is set if the CRD has rules, but the engine evaluates none.
	Unevaluated bool   `json:"unevaluated,omitempty"`
	Range       *Range `json:"range,omitempty"`
	Outcome
	// Other is the result in the other semantics if it differs.
	Other *Outcome `json:"other,omitempty"`
}

// Verdict is what the API server answers to a request with the object.
type Verdict string

// The verdicts. No object without a CRD is known to be accepted.
const (
	Accepted Verdict = "accepted"
	Rejected Verdict = "rejected"
	Unknown  Verdict = "unknown"
)

// Outcome is the result in one semantics.
type Outcome struct {
	Semantics Semantics `json:"semantics"`
	Verdict   Verdict   `json:"verdict"`
	Findings  []Finding `json:"findings"`
	// Stored is the object as it is stored, in YAML. It is empty if the object cannot be decoded. If
	// the object is rejected, it would be stored like that otherwise.
	Stored string `json:"stored,omitempty"`
	// Lines shows Stored together with what was removed.
	Lines []Line `json:"lines,omitempty"`
	// General are findings about the whole, such as a schema that no API server prunes with.
	General []Finding `json:"general,omitempty"`

	object schema.Object
}

// check answers a CheckRequest.
func (e *Engine) check(ctx context.Context, r CheckRequest) (*CheckAnswer, error) {
	fields := object.Warn
	if r.FieldValidation != "" {
		var err error
		if fields, err = object.ParseFieldValidation(r.FieldValidation); err != nil {
			return nil, failf(BadRequest, "%v", err)
		}
	}
	set, err := e.set(r.CRDs, r.Semantics)
	if err != nil {
		return nil, err
	}
	objects, err := newText(r.Objects)
	if err != nil {
		return nil, err
	}
	old, err := newText(r.Old)
	if err != nil {
		return nil, err
	}
	answer := &CheckAnswer{CRDs: set.problems(), Text: objects.problems, Old: old.problems, Objects: []CheckedObject{}, More: objects.more}
	for _, list := range []*[]Finding{&answer.Text, &answer.Old} {
		if *list == nil {
			*list = []Finding{}
		}
	}
	left := maxAnswer
	for _, it := range objects.objects {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, err := set.index.Find(it); err != nil && !complete {
			return nil, failf(Incomplete, "%s is no kind of the CRDs", it.title())
		}
		c := &checking{Engine: e, ctx: ctx, item: it, fields: fields, update: r.Old != "", left: &left}
		if c.update {
			c.old = old.like(it)
		}
		o := CheckedObject{APIVersion: it.APIVersion(), Kind: it.Kind(), Namespace: it.namespace, Name: it.name, Update: c.old != nil,
			Range: it.at("/kind", analysis.FieldValue)}
		var uses *definition
		o.Outcome, uses = c.in(set, r.Semantics)
		o.BuiltIn = uses == nil && o.Verdict != Unknown
		if uses != nil {
			o.CRD = uses.item.name
		}
		o.Unevaluated = e.options.Rules == nil && uses.hasRules(it.GroupVersionKind().Version)
		if r.Both && uses != nil {
			others, err := e.set(r.CRDs, r.Semantics.other())
			if err != nil {
				return nil, err
			}
			if other, _ := c.in(others, r.Semantics.other()); other.Verdict != o.Verdict || !reflect.DeepEqual(other.object, o.object) {
				o.Other = &other
			}
		}
		if left < 0 {
			return nil, failf(TooLarge, "the result has more than %d MiB: use fewer or smaller objects and defaults", maxAnswer>>20)
		}
		answer.Objects = append(answer.Objects, o)
	}
	return answer, nil
}

// hasRules reports whether the schema of a version has rules. The definition may be nil.
func (d *definition) hasRules(version string) bool {
	if d == nil {
		return false
	}
	base, err := d.base()
	if err != nil {
		return false // it is not accepted
	}
	found := false
	if v := base.Version(version); v != nil {
		s, _ := v.Schema() // a schema that cannot be read is a finding
		schema.WalkSubschemas(s, func(_ schema.SchemaPath, s *api.JSONSchemaProps) bool {
			found = found || len(s.XValidations) > 0
			return !found
		})
	}
	return found
}

// like returns the object with the same group, kind, namespace and name, or nil.
func (t *text) like(it *item) *item {
	same := func(o *item) bool {
		return lookup.KindOf(o) == lookup.KindOf(it) && o.namespace == it.namespace && o.name == it.name
	}
	if i := slices.IndexFunc(t.objects, same); i >= 0 {
		return t.objects[i]
	}
	return nil
}

// checking checks an object.
type checking struct {
	*Engine
	ctx    context.Context
	item   *item
	fields object.FieldValidation
	// update is set if there is a text with old objects. old is nil if it does not have this one.
	update bool
	old    *item
	// left is what is left of maxAnswer. It is negative if the answer is too large.
	left *int
}

// in returns the outcome in a semantics, and the CRD of the object, which is nil for Kubernetes' own
// kinds and if there is none.
func (c *checking) in(set *crdSet, sem Semantics) (Outcome, *definition) {
	out := Outcome{Semantics: sem, Verdict: Unknown, Findings: []Finding{}}
	it := c.item
	add := func(findings ...analysis.Finding) {
		for _, f := range findings {
			g := it.finding(f)
			g.Schema = place(f.Schema)
			out.Findings = append(out.Findings, g)
		}
	}
	defer func() { out.Findings = sorted(out.Findings) }()
	if api.IsDefinition(it.TypeMeta) {
		add(analysis.Finding{Rule: "crd-as-object", Severity: analysis.Info, Path: "kind", Pointer: "/kind",
			Message: "this is a CRD: put it beside the other CRDs"})
		return out, nil
	}
	if c.update && c.old == nil {
		add(analysis.Finding{Rule: "no-old-object", Severity: analysis.Warning, Path: "metadata.name", Pointer: "/metadata/name",
			Message: fmt.Sprintf("there is no old %s: validated as a create, not as an update", it.title())})
	}
	if set.index.IsBuiltin(it) {
		var before []byte
		if c.old != nil {
			before = c.old.json
		}
		if value, err := jsonx.Parse(it.json); err == nil && countValues(value, maxTyped) > maxTyped {
			*c.left = -1
			return out, nil
		}
		found := c.kinds().Check(c.ctx, it.json, before, c.fields)
		add(found...)
		out.judge()
		c.fix(&out, found, assist.Env{Version: c.builtin.of(it.GroupVersionKind()), BuiltIn: true})
		c.stored(&out, c.kinds().PruneStored(it.json), nil, nil)
		return out, nil
	}
	d, err := set.index.Find(it)
	if err != nil {
		var missing *lookup.Missing
		if errors.As(err, &missing) {
			missing.Remedy = strings.Replace(missing.Remedy, lookup.AddCRD, "add it to the CRDs", 1)
			add(missing.Finding())
		}
		return out, nil
	}
	checker, err := d.checker()
	if err != nil {
		out.Verdict = Rejected
		add(analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind",
			Message: "the CRD cannot be used: " + err.Error()})
		return out, d
	}
	var before schema.Object
	if c.old != nil {
		value, err := jsonx.Parse(c.old.json)
		if before, _ = value.(schema.Object); err != nil {
			add(analysis.Finding{Rule: object.RuleDecode, Severity: analysis.Error, Message: "cannot read the old object: " + err.Error()})
		}
	}
	base, _ := d.base() // the checker has it
	version := base.Version(it.GroupVersionKind().Version)
	if tooManyValues(it.json, version, base.Storage()) {
		*c.left = -1
		return out, d
	}
	found := checker.Check(c.ctx, it.json, before, c.fields)
	for i := range found {
		if found[i].Schema == nil {
			found[i].Schema = ruleLocation(checker, version, &found[i])
		}
	}
	add(found...)
	out.judge()
	c.fix(&out, found, assist.Env{Version: version})
	c.stored(&out, checker.PruneStored(it.json), before, version)
	return out, d
}

// tooManyValues reports whether an object has more than maxValues with the defaults of one of the
// versions, which may be nil.
func tooManyValues(source []byte, versions ...*crd.Version) bool {
	value, err := jsonx.Parse(source)
	obj, ok := value.(schema.Object)
	if err != nil || !ok {
		return false
	}
	for _, v := range versions {
		if v == nil {
			continue
		}
		if p, err := v.Program(); err == nil && p.DefaultedValues(obj, maxValues) > maxValues {
			return true
		}
	}
	return false
}

// countValues returns the number of values in a value, or more than limit if there are more.
func countValues(value any, limit int) int {
	n := 1
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if n += countValues(v, limit-n); n > limit {
				break
			}
		}
	case []any:
		for _, v := range value {
			if n += countValues(v, limit-n); n > limit {
				break
			}
		}
	}
	return n
}

// judge decides from the findings.
func (o *Outcome) judge() {
	o.Verdict = Accepted
	if slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Severity == analysis.Error }) {
		o.Verdict = Rejected
	}
}

// fix adds fixes to findings, which are in the order of found.
func (c *checking) fix(out *Outcome, found []analysis.Finding, env assist.Env) {
	if env.Version == nil || c.item.base != "" {
		return
	}
	first := len(out.Findings) - len(found)
	at := slices.Index(c.item.text.objects, c.item)
	for i := range min(len(found), maxAssisted) {
		for _, fix := range assist.Fixes(c.item.doc.Source(), found[i], env) {
			out.Findings[first+i].Fixes = append(out.Findings[first+i].Fixes, Fix{fix.Message, at, fix.Edits})
		}
	}
}

// stored adds the stored object. version is nil for Kubernetes' own kinds.
func (c *checking) stored(out *Outcome, pruned *object.Pruned, old schema.Object, version *crd.Version) {
	// The findings of a rejected object have its failures already, maybe in other words: validation and pruning differ
	// if the schema is not structural.
	if out.Verdict != Rejected {
		for _, f := range pruned.Failures {
			out.Findings = append(out.Findings, c.item.finding(f))
		}
	}
	for _, f := range []*analysis.Finding{preview(pruned), pruned.Webhook} {
		if f != nil {
			out.General = append(out.General, Finding{Rule: f.Rule, Severity: f.Severity, Path: f.Path, Message: f.Message, Detail: f.Detail})
		}
	}
	out.object = pruned.Object
	if out.object == nil {
		return
	}
	v := &view{ctx: c.ctx, item: c.item, reasons: map[string]*analysis.Finding{}}
	for _, f := range pruned.Reasons() {
		if v.reasons[f.Pointer] == nil {
			v.reasons[f.Pointer] = &f
		}
	}
	if version != nil && version.HasStatus() {
		// Clients write the status through its own endpoint.
		keepStatus(out.object, old)
		v.reasons["/status"] = &analysis.Finding{Rule: "status-subresource", Pointer: "/status",
			Message: "status is a subresource: this request does not change it"}
	}
	given, err := jsonx.Parse(c.item.json)
	if err != nil {
		return
	}
	if *c.left -= yamlx.Size(out.object, *c.left); *c.left < 0 {
		return
	}
	if text, err := yamlx.Marshal(out.object); err == nil {
		out.Stored = string(text)
	}
	v.value("", given, true, out.object, true, nodeOf(c.item), frame{})
	out.Lines = v.lines
	*c.left -= v.size
	if v.full() {
		out.General = append(out.General, Finding{Rule: "too-large", Severity: analysis.Info,
			Message: "the object is too large to be shown: copy it to see all of it"})
	}
}

// keepStatus gives an object the status of the old one, or none.
func keepStatus(obj, old schema.Object) {
	delete(obj, "status")
	if status, ok := old["status"]; ok {
		obj["status"] = status
	}
}

// preview returns the finding about a schema that is not structural, or nil.
func preview(p *object.Pruned) *analysis.Finding {
	if p.Preview == nil {
		return nil
	}
	return &p.Preview.Finding
}
