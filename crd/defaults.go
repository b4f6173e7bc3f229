package crd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// checkDefaults checks the defaults of a structural schema: what they fill in must
// be valid, and not pruned right away.
func (d *demands) checkDefaults(ctx context.Context, s *schema.Structural, at *field.Path) field.ErrorList {
	w := defaultWalk{ctx: ctx, d: d}
	root := *s
	root.XEmbeddedResource = true
	w.walk(&root, defaultPlace{path: at})
	return w.errs
}

type defaultWalk struct {
	ctx   context.Context
	d     *demands
	errs  field.ErrorList
	steps int
}

// defaultPlace is where a schema stands.
type defaultPlace struct {
	path  *field.Path
	depth int
	// around leads to the value in the closest resource around it.
	around *surrounding
	inMeta bool
}

// surrounding is a place in a resource.
type surrounding struct {
	// resource is the schema of the resource, at its root alone.
	resource *schema.Structural
	parent   *surrounding
	key      string
	isItem   bool
}

// with returns the resource that has nothing but v, at the place.
func (s *surrounding) with(v any) (map[string]any, *schema.Structural, error) {
	for ; s.parent != nil; s = s.parent {
		if s.isItem {
			v = []any{v}
		} else {
			v = map[string]any{s.key: v}
		}
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, nil, errors.New("object root default value must be of object type")
	}
	return obj, s.resource, nil
}

func (w *defaultWalk) walk(s *schema.Structural, p defaultPlace) {
	if s == nil {
		return
	}
	if w.steps > maxErrorSteps {
		// What is not looked at must not pass.
		if len(w.errs) == 0 {
			w.errs = append(w.errs, field.Forbidden(p.path, "has defaults nested too deeply in metadata"))
		}
		return
	}
	if s.XEmbeddedResource {
		p.inMeta = false
		p.around = &surrounding{resource: s}
	}
	if s.Default != nil && s.Default.Value != nil {
		var errs field.ErrorList
		at := p.path.Child("default")
		if p.inMeta {
			w.steps += p.depth
			errs = w.inMetadata(s, p, at)
		} else {
			errs = w.value(s, at)
		}
		w.steps += len(errs) * (p.depth + 1)
		w.errs = append(w.errs, errs...)
	}
	// Defaults of map values are not looked at: kube-apiserver takes it that there
	// are none.
	p.depth++
	if s.Items != nil {
		sub := p
		sub.path, sub.around = p.path.Child("items"), &surrounding{parent: p.around, isItem: true}
		w.walk(s.Items, sub)
	}
	for _, name := range sortedKeys(s.Properties) {
		sub := p
		sub.path, sub.around = p.path.Child("properties").Key(name), &surrounding{parent: p.around, key: name}
		sub.inMeta = p.inMeta || s.XEmbeddedResource && isMetaField(name)
		w.walk(s.Properties[name], sub)
	}
}

// value checks a default outside of metadata.
func (w *defaultWalk) value(s *schema.Structural, at *field.Path) (errs field.ErrorList) {
	v := s.Default.Value
	p, err := newProbe(s, v, w.d.semantics)
	if err != nil {
		return field.ErrorList{field.Invalid(at, v, err.Error())}
	}
	bad := p.coerce(at)
	if w.d.prunedDefaults && isPruned(s, v, w.d.semantics) {
		// The value that kube-apiserver shows has its metadata in shape.
		errs = append(errs, field.Invalid(at, p.obj[probed], "must not have unknown fields"))
	}
	if bad != nil {
		return append(errs, bad)
	}
	metadata, others := p.validate(w.ctx, at)
	switch {
	case len(metadata) > 0:
		return append(errs, metadata...)
	case len(others) > 0:
		return append(errs, others...)
	}
	return append(errs, w.rules(s, v, at)...)
}

// inMetadata checks a default in apiVersion, kind or metadata of a resource.
func (w *defaultWalk) inMetadata(s *schema.Structural, p defaultPlace, at *field.Path) field.ErrorList {
	v := s.Default.Value
	const must = "must result in valid metadata: "
	obj, resource, err := p.around.with(copyValue(v))
	if err != nil {
		return field.ErrorList{field.Invalid(at, v, must+err.Error())}
	}
	for k, value := range map[string]string{"apiVersion": "validation/v1", "kind": "Validation"} {
		if _, found := obj[k]; !found {
			obj[k] = value
		}
	}
	whole, err := newProbe(resource, obj, w.d.semantics)
	if err != nil {
		return field.ErrorList{field.Invalid(at, v, err.Error())}
	}
	if err := whole.coerce(nil); err != nil {
		return field.ErrorList{field.Invalid(at, v, must+err.Error())}
	}
	if metadata, _ := whole.validate(w.ctx, nil); len(metadata) > 0 {
		return field.ErrorList{field.Invalid(at, v, must+metadata.ToAggregate().Error())}
	}
	alone, err := newProbe(s, v, w.d.semantics)
	if err != nil {
		return field.ErrorList{field.Invalid(at, v, err.Error())}
	}
	if _, errs := alone.validate(w.ctx, at); len(errs) > 0 {
		return errs
	}
	return w.rules(s, v, at)
}

// rules puts a default to the rules of its schema.
func (w *defaultWalk) rules(s *schema.Structural, v any, at *field.Path) field.ErrorList {
	if w.d.rules == nil || !structuralHasRules(s) {
		return nil
	}
	compiled, err := w.d.rules.Compile(wrap(s))
	if err != nil || compiled == nil {
		// What is wrong with the rules themselves is said elsewhere.
		return nil
	}
	obj := map[string]any{probed: copyValue(v)}
	// As a value that replaces itself, in which nothing is forgiven for being
	// unchanged: rules of transition see the old value, the others do not need it.
	errs := compiled.Validate(w.ctx, obj, obj).FieldErrors()
	said := map[string]bool{}
	for _, e := range errs {
		said[e.Error()] = true
	}
	if others, err := w.d.rules.Compile(wrap(withoutOptionalOldSelf(s))); err == nil && others != nil {
		for _, e := range others.Validate(w.ctx, obj, nil).FieldErrors() {
			if !said[e.Error()] {
				errs = append(errs, e)
			}
		}
	}
	if len(errs) == 0 {
		// And as a value that replaces none.
		errs = compiled.Validate(w.ctx, obj, nil).FieldErrors()
	}
	for _, e := range errs {
		e.Field = below(at, strings.TrimPrefix(e.Field, probed))
	}
	return errs
}

// withoutOptionalOldSelf returns s without the rules that can do with and without an
// old value.
func withoutOptionalOldSelf(s *schema.Structural) *schema.Structural {
	s = s.DeepCopy()
	visit(s, func(s *schema.Structural) {
		s.XValidations = slices.DeleteFunc(s.XValidations, func(r api.ValidationRule) bool { return r.OptionalOldSelf != nil && *r.OptionalOldSelf })
	})
	return s
}

func structuralHasRules(s *schema.Structural) bool {
	if s == nil {
		return false
	}
	if len(s.XValidations) > 0 || structuralHasRules(s.Items) {
		return true
	}
	for _, prop := range s.Properties {
		if structuralHasRules(prop) {
			return true
		}
	}
	return s.AdditionalProperties != nil && structuralHasRules(s.AdditionalProperties.Structural)
}

// losesDefaults says whether some default of a structural schema would lose a part
// of it to pruning, where it stands in an object.
func losesDefaults(s *schema.Structural, sem schema.Semantics) bool {
	root := *s
	root.XEmbeddedResource = true
	l := lossWalk{sem: sem}
	l.walk(&root, &surrounding{resource: &root}, 1)
	return l.lost && !l.failed
}

// lossWalk looks for defaults that lose something.
type lossWalk struct {
	sem schema.Semantics
	// lost says that there is one; failed that no answer can be given.
	lost, failed bool
	// steps bounds the work: each default is looked at with all that is around it.
	steps int
}

func (l *lossWalk) walk(s *schema.Structural, around *surrounding, depth int) {
	if s == nil || l.failed {
		return
	}
	if s.Default != nil && s.Default.Value != nil {
		obj, resource, err := around.with(copyValue(s.Default.Value))
		// The cost of a copy, of a schema and of two programs.
		l.steps += 4 * depth
		l.failed = err != nil || l.steps > maxErrorSteps
		if !l.lost && !l.failed {
			l.lost = isPruned(resource, obj, l.sem) || isReshaped(resource, obj, l.sem)
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		l.walk(ap.Structural, &surrounding{parent: around, key: "*"}, depth+1)
	}
	l.walk(s.Items, &surrounding{parent: around, isItem: true}, depth+1)
	for _, name := range sortedKeys(s.Properties) {
		l.walk(s.Properties[name], &surrounding{parent: around, key: name}, depth+1)
	}
}
