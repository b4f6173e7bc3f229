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

// ErrOtherKind says that an object is not of the definitions' kind.
var ErrOtherKind = errors.New("the object has a different kind")

// Observation is something that a change did to an object.
type Observation struct {
	Class Class
	// Path is where, in the object.
	Path schema.Path
	// Detail says what, where the class does not.
	Detail string
	// Broken is the condition that is broken, if the class is Invalid and a schema
	// states it.
	Broken schema.ViolationKind
}

// Announcing returns the changes that announce an observation, as indices: those
// that speak of the very condition that is broken or else, of those that announce
// something there, the most specific. There is at least one, or Compare has
// overlooked something.
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

// keywordOf is the kind of changes that add a condition.
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

// announces says how specific an effect is that announces an observation; -1 stands
// for none.
func (c *Change) announces(x Observation) int {
	depth := -1
	for _, e := range c.Effects {
		// A default that is gone may be announced by whatever made it go; a field that
		// is missed has nothing else wrong with it.
		if (e.Class == x.Class || x.Class == Clients && e.Class != Safe) && (!e.missing || x.Broken == schema.Required) && e.Covers(x.Path) {
			depth = max(depth, len(e.Path))
		}
	}
	return depth
}

// Outcome is what the change of definitions does to one object.
type Outcome struct {
	// Observations are what was seen, by class and path.
	Observations []Observation
	// WasInvalid says that the old definition does not take the object either. What it
	// holds against it is not among the observations.
	WasInvalid bool
}

// Class is the worst that was seen.
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

// Try takes an object through the old and through the new definition, and says what
// is different. Objects of another kind give ErrOtherKind; other errors are about
// objects that cannot be read.
func (c *Comparison) Try(ctx context.Context, src []byte) (*Outcome, error) {
	id, err := api.Identify(src)
	if err != nil {
		return nil, err
	}
	group, version, _ := strings.Cut(id.APIVersion, "/")
	if c.old == nil || c.new == nil || group != c.old.Group() || id.Kind != c.old.Names().Kind {
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
	moved := from.Storage() && c.new.Storage() != nil && c.new.Storage().Name() != version
	if (moved || to == nil) && none && c.new.Storage() != nil {
		if err := t.through(c.new.Storage()); err != nil {
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

// trial is one object on its way.
type trial struct {
	ctx     context.Context
	from    *crd.Version
	outcome *Outcome
	seen    map[string]bool

	// forms are the forms in which the object may be in storage: with its defaults or,
	// if it is older than they are, without.
	forms []form
	// held is what the old definition holds against it.
	held map[string]bool
}

// form is an object in storage, and how it is read under the old definition.
type form struct{ stored, view schema.Object }

// see records an observation, once.
func (t *trial) see(x Observation) {
	key := fmt.Sprint(x.Class.ID(), x.Broken, x.Path.Pointer())
	if t.seen[key] {
		return
	}
	t.seen[key] = true
	x.Path = slices.Clone(x.Path)
	t.outcome.Observations = append(t.outcome.Observations, x)
}

// read takes the object through the old definition.
func (t *trial) read(src []byte) error {
	p, err := t.from.Program()
	if err != nil {
		return err
	}
	obj, report, err := p.Decode(src, schema.DecodeOptions{Report: true, FromStorage: true})
	if err != nil {
		return err
	}
	vs, err := t.from.Validate(t.ctx, obj, nil)
	if err != nil {
		return err
	}
	t.held = map[string]bool{}
	t.hold(vs)
	bare := jsonx.CopyObject(obj)
	stripped := false
	for _, change := range report.Changes {
		if change.Kind == schema.Defaulted && remove(bare, change.Path) {
			stripped = true
		}
	}
	if err := t.add(p, obj); err != nil || !stripped {
		return err
	}
	return t.add(p, bare)
}

// add adds a form in which the object may be stored. Reading it need not give what
// is stored: a default may have nulls in it that do not stay. A form that was never
// valid is none.
func (t *trial) add(p *schema.Program, stored schema.Object) error {
	view := jsonx.CopyObject(stored)
	if _, err := p.Normalize(view, schema.DecodeOptions{FromStorage: true}); err != nil {
		return err
	}
	vs, err := t.from.Validate(t.ctx, view, nil)
	if err != nil {
		return err
	}
	if len(t.forms) == 0 {
		t.hold(vs)
	} else if len(vs) > 0 {
		return nil
	}
	t.forms = append(t.forms, form{stored, view})
	return nil
}

// hold remembers what the old definition holds against the object.
func (t *trial) hold(vs schema.Violations) {
	for i := range vs {
		t.held[key(&vs[i])] = true
	}
	t.outcome.WasInvalid = t.outcome.WasInvalid || len(vs) > 0
}

func key(v *schema.Violation) string { return v.Kind.String() + v.Path.Pointer() }

// remove removes a field, and reports whether it was one.
func remove(v any, p schema.Path) bool {
	for i, s := range p {
		switch x := v.(type) {
		case map[string]any:
			if i == len(p)-1 {
				_, found := x[s.Key]
				delete(x, s.Key)
				return found
			}
			v = x[s.Key]
		case []any:
			if s.Index >= len(x) {
				return false
			}
			v = x[s.Index]
		default:
			return false
		}
	}
	return false
}

// through takes the stored object through a version of the new definition.
func (t *trial) through(to *crd.Version) error {
	p, err := to.Program()
	if err != nil {
		return err
	}
	apiVersion := to.GroupVersionKind().GroupVersion().String()
	for _, f := range t.forms {
		obj := jsonx.CopyObject(f.stored)
		obj["apiVersion"] = apiVersion
		if _, err := p.Normalize(obj, schema.DecodeOptions{FromStorage: true}); err != nil {
			t.see(Observation{Class: Invalid, Detail: err.Error()})
			continue
		}
		before, view := maps.Clone(f.stored), maps.Clone(f.view)
		before["apiVersion"], view["apiVersion"] = apiVersion, apiVersion
		t.difference(nil, before, view, obj)
		vs, err := to.Validate(t.ctx, obj, nil)
		if err != nil {
			return err
		}
		for i := range vs {
			if vs[i].Kind != schema.RulesSkipped && !t.held[key(&vs[i])] {
				t.see(Observation{Class: Invalid, Path: vs[i].Path, Detail: vs[i].String(), Broken: vs[i].Kind})
			}
		}
	}
	return nil
}

// absent is the value of a field that is not there.
type absent struct{}

// difference compares a value as it is stored, as it was read under the old
// definition, and as it is read under the new one.
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
