package impact

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// ErrOtherKind is returned for an object whose kind is not the one of the CRDs.
var ErrOtherKind = errors.New("the object has a different kind")

// Observation is an effect of the new CRD on one object.
type Observation struct {
	Class Class
	// Path is the place in the object.
	Path schema.Path
	// Detail describes the effect where the class does not.
	Detail string
	// Broken is the violated condition if the class is Invalid and the condition is part of
	// a schema.
	Broken schema.ViolationKind
}

// Announcing returns the indices of the changes that predict an observation: those about
// the violated condition itself, or else the most specific ones among those with an effect
// at its path. If there is none, Compare has missed a change.
func (c *Comparison) Announcing(x Observation) (found []int) {
	depth, exact := -1, false
	for i := range c.Changes {
		ch := &c.Changes[i]
		n := ch.announces(x)
		if n < 0 {
			continue
		}
		isExact := x.Class == Invalid && strings.EqualFold(ch.Kind, keywordOf(x.Broken))
		if isExact && !exact || isExact == exact && n > depth {
			found, depth, exact = nil, n, isExact
		}
		if isExact == exact && n == depth {
			found = append(found, i)
		}
	}
	return found
}

// keywordOf returns the kind of the changes that add a condition.
func keywordOf(k schema.ViolationKind) string {
	switch k {
	case schema.Required:
		return "required-added"
	case schema.Rule:
		return "rule-added"
	case schema.WrongType:
		return "type"
	case schema.WrongFormat, schema.NumberRange:
		return "format"
	case schema.DuplicateItem, schema.NotAnObject:
		return "list-type"
	case schema.UnionMembers, schema.WrongDiscriminator:
		return "unions"
	}
	return strings.ReplaceAll(k.String(), " ", "")
}

// announces returns how specific the effect is that predicts an observation, or -1 if no
// effect does.
func (c *Change) announces(x Observation) int {
	depth := -1
	for _, e := range c.Effects {
		// An effect on a required field only explains that the field is missing.
		if e.Class.explains(x.Class) && (!e.missing || x.Broken == schema.Required) && e.Covers(x.Path) {
			depth = max(depth, len(e.Path))
		}
	}
	return depth
}

// explains reports whether an effect of the class can be observed as another one.
func (c Class) explains(observed Class) bool {
	if c == Unknown {
		// The fields are kept, but they now are validated, and values in them are defaulted.
		return observed != Loses
	}
	// Any effect may explain a default that is gone.
	return c == observed || observed == Clients
}

// Outcome is the effect of the new CRD on one object.
type Outcome struct {
	// Observations are sorted by class and path.
	Observations []Observation
	// WasInvalid reports whether the object is invalid under the old CRD too. Its violations
	// of the old CRD are not among the observations.
	WasInvalid bool
	// RulesSkipped reports whether the rules of the new CRD were not evaluated, because the
	// object has other violations. They may be violated too.
	RulesSkipped bool
}

// Class returns the worst class of any observation.
func (o *Outcome) Class() Class {
	worst := Safe
	for _, x := range o.Observations {
		worst = max(worst, x.Class)
	}
	return worst
}

// Of returns the observations of a class.
func (o *Outcome) Of(class Class) (found []Observation) {
	for _, x := range o.Observations {
		if x.Class == class {
			found = append(found, x)
		}
	}
	return found
}

// Try admits an object under the old and the new CRD and returns the differences. It
// returns ErrOtherKind for objects of another kind, and other errors for objects that
// cannot be read.
func (c *Comparison) Try(ctx context.Context, src []byte) (*Outcome, error) {
	id, err := api.Identify(src)
	if err != nil {
		return nil, err
	}
	group, version, _ := strings.Cut(id.APIVersion, "/")
	if c.old == nil || group != c.old.Group() || id.Kind != c.old.Names().Kind {
		return nil, ErrOtherKind
	}
	from := c.old.Version(version)
	if from == nil {
		return nil, fmt.Errorf("the old CRD has no version %q", version)
	}
	t := &trial{ctx: ctx, from: from, seen: map[string]bool{}, outcome: &Outcome{}}
	if err := t.read(src); err != nil {
		return nil, err
	}
	none := strategy(c.new.CRD()) == "None"
	to := c.new.Version(version)
	if to != nil {
		if err := t.through(to); err != nil {
			return nil, err
		}
	}
	if storage := c.new.Storage(); storage != nil && storage != to && none && (from.Storage() || to == nil) {
		if err := t.through(storage); err != nil {
			return nil, err
		}
	}
	if to == nil && from.Storage() {
		t.see(Observation{Class: Loses, Detail: "its version is removed: it can no longer be read"})
	}
	slices.SortStableFunc(t.outcome.Observations, func(a, b Observation) int {
		if a.Class != b.Class {
			return int(b.Class) - int(a.Class)
		}
		return strings.Compare(a.Path.String(), b.Path.String())
	})
	return t.outcome, nil
}

// trial is the state of Try for one object.
type trial struct {
	ctx     context.Context
	from    *crd.Version
	outcome *Outcome
	seen    map[string]bool

	// forms are the forms in which the object may be stored: with its defaults or, if it
	// is older than they are, without.
	forms []form
	// held has the object's violations of the old CRD.
	held map[string]bool
}

// form is a stored object, and the same object as read under the old CRD.
type form struct{ stored, view schema.Object }

// see records an observation unless it is already recorded.
func (t *trial) see(x Observation) {
	key := fmt.Sprint(x.Class.ID(), x.Broken, x.Path.Pointer())
	if t.seen[key] {
		return
	}
	t.seen[key] = true
	x.Path = slices.Clone(x.Path)
	t.outcome.Observations = append(t.outcome.Observations, x)
}

// read admits the object under the old CRD.
func (t *trial) read(src []byte) error {
	p, err := t.from.Program()
	if err != nil {
		return err
	}
	obj, report, err := p.Decode(src, schema.DecodeOptions{Report: true, FromStorage: true})
	if err != nil {
		return err
	}
	t.place(obj)
	vs, _ := t.from.Validate(t.ctx, obj, nil) // the schema is compiled
	t.held = map[string]bool{}
	t.hold(vs)
	bare := jsonx.CopyObject(obj)
	stripped := false
	for _, change := range report.Changes {
		if change.Kind == schema.Defaulted {
			change.Path.Delete(bare)
			stripped = true
		}
	}
	t.add(p, obj)
	if stripped {
		t.add(p, bare)
	}
	return nil
}

// place sets the namespace of a namespaced object that has none, because it comes from a file:
// without one it is invalid, and rules are not evaluated.
func (t *trial) place(obj schema.Object) {
	meta, ok := obj["metadata"].(map[string]any)
	if ok && t.from.Definition().Namespaced() && (meta["namespace"] == nil || meta["namespace"] == "") {
		meta["namespace"] = "default"
	}
}

// add adds a form in which the object may be stored. Reading it may return something else,
// because nulls in a default may be dropped. A form that was never valid is not added.
func (t *trial) add(p *schema.Program, stored schema.Object) {
	view := jsonx.CopyObject(stored)
	_, _ = p.Normalize(view, schema.DecodeOptions{FromStorage: true}) // it has been decoded
	vs, _ := t.from.Validate(t.ctx, view, nil)
	if len(t.forms) == 0 {
		t.hold(vs)
	} else if len(vs) > 0 {
		return
	}
	t.forms = append(t.forms, form{stored, view})
}

// hold records the object's violations of the old CRD.
func (t *trial) hold(vs schema.Violations) {
	for i := range vs {
		t.held[key(&vs[i])] = true
	}
	t.outcome.WasInvalid = t.outcome.WasInvalid || len(vs) > 0
}

func key(v *schema.Violation) string { return v.Kind.String() + v.Path.Pointer() }

// through reads the stored object in a version of the new CRD and validates it.
func (t *trial) through(to *crd.Version) error {
	p, err := to.Program()
	if err != nil {
		return err
	}
	apiVersion := to.GroupVersionKind().GroupVersion().String()
	for _, f := range t.forms {
		obj := jsonx.CopyObject(f.stored)
		obj["apiVersion"] = apiVersion
		_, _ = p.Normalize(obj, schema.DecodeOptions{FromStorage: true}) // its metadata has been decoded
		before, view := maps.Clone(f.stored), maps.Clone(f.view)
		before["apiVersion"], view["apiVersion"] = apiVersion, apiVersion
		t.difference(nil, before, view, obj)
		vs, _ := to.Validate(t.ctx, obj, nil) // the schema is compiled
		for i := range vs {
			if vs[i].Kind == schema.RulesSkipped {
				t.outcome.RulesSkipped = true
			} else if !t.held[key(&vs[i])] {
				detail := vs[i].String()
				if rest, ok := strings.CutPrefix(detail, "<nil>"); ok {
					detail = "the object" + rest // its error has no path
				}
				t.see(Observation{Class: Invalid, Path: vs[i].Path, Detail: detail, Broken: vs[i].Kind})
			}
		}
	}
	return nil
}

// absent is the value of an absent field.
type absent struct{}

// difference compares a value as stored, as read under the old CRD, and as read under the
// new one.
func (t *trial) difference(p schema.Path, stored, was, is any) {
	if reflect.DeepEqual(was, is) && reflect.DeepEqual(stored, was) {
		return
	}
	sm, _ := stored.(map[string]any)
	wm, wasMap := was.(map[string]any)
	im, isMap := is.(map[string]any)
	if wasMap && isMap {
		names := map[string]bool{}
		for _, m := range []map[string]any{sm, wm, im} {
			for name := range m {
				names[name] = true
			}
		}
		get := func(m map[string]any, name string) any {
			if v, ok := m[name]; ok {
				return v
			}
			return absent{}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			t.difference(append(p, schema.Step{Key: name}), get(sm, name), get(wm, name), get(im, name))
		}
		return
	}
	sl, _ := stored.([]any)
	wl, wasList := was.([]any)
	il, isList := is.([]any)
	if wasList && isList && len(wl) == len(il) {
		for i := range il {
			var s any = absent{}
			if i < len(sl) {
				s = sl[i]
			}
			t.difference(append(p, schema.Step{Index: i, Kind: schema.Index}), s, wl[i], il[i])
		}
		return
	}
	switch {
	case reflect.DeepEqual(was, is):
	case is != any(absent{}):
		t.see(Observation{Class: Defaulted, Path: p})
	case stored != any(absent{}):
		t.see(Observation{Class: Loses, Path: p})
	default:
		t.see(Observation{Class: Clients, Path: p, Detail: "its default is removed"})
	}
}
