package crd

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// checkDefaults validates the defaults of a structural schema: they must be valid, and
// pruning must not change them.
func (d *demands) checkDefaults(ctx context.Context, s *schema.Structural, at *field.Path) field.ErrorList {
	w := defaultWalk{ctx: ctx, d: d}
	root := *s
	root.XEmbeddedResource = true
	w.walk(&root, defaultPlace{path: at})
	return w.errs
}

// defaultWalk walks a schema itself instead of using Structural.All, because it passes
// information from a schema to those below it. Computing that for each default would
// take quadratic time in deeply nested schemas.
type defaultWalk struct {
	ctx  context.Context
	d    *demands
	errs field.ErrorList
	// way leads from the root to the current schema.
	way   schema.SchemaPath
	steps pathSteps
}

// defaultPlace is the position of a schema.
type defaultPlace struct {
	path *field.Path
	// resource is the schema of the closest resource around the value, and start the
	// number of steps that lead to it.
	resource *schema.Structural
	start    int
	inMeta   bool
}

func (w *defaultWalk) walk(s *schema.Structural, p defaultPlace) {
	if w.steps.tooMany() {
		// Defaults that are not checked must not be accepted.
		if len(w.errs) == 0 {
			w.errs = append(w.errs, field.Forbidden(p.path, "has defaults nested too deeply in metadata"))
		}
		return
	}
	if s.XEmbeddedResource {
		p.resource, p.start, p.inMeta = s, len(w.way), false
	}
	if s.Default != nil && s.Default.Value != nil {
		var errs field.ErrorList
		at := p.path.Child("default")
		if p.inMeta {
			w.steps += pathSteps(len(w.way))
			errs = w.inMetadata(s, p, at)
		} else {
			errs = w.value(s, at)
		}
		w.steps += pathSteps(len(errs) * len(w.way))
		w.errs = append(w.errs, errs...)
	}
	// Defaults of map values are not checked: kube-apiserver assumes that there are
	// none.
	if s.Items != nil {
		w.below(s.Items, p, p.path.Child("items"), schema.SchemaStep{Keyword: "items"})
	}
	for _, name := range sortedKeys(s.Properties) {
		sub := p
		sub.inMeta = p.inMeta || s.XEmbeddedResource && schema.IsMetaField(name)
		w.below(s.Properties[name], sub, p.path.Child("properties").Key(name),
			schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name})
	}
}

// below continues with a schema below the current one.
func (w *defaultWalk) below(s *schema.Structural, p defaultPlace, path *field.Path, step schema.SchemaStep) {
	p.path = path
	w.way = append(w.way, step)
	w.walk(s, p)
	w.way = w.way[:len(w.way)-1]
}

// value validates a default outside of metadata.
func (w *defaultWalk) value(s *schema.Structural, at *field.Path) (errs field.ErrorList) {
	v := s.Default.Value
	p := newProbe(s, v, w.d.semantics)
	bad := p.coerce(at)
	if w.d.prunedDefaults && isPruned(s, v, w.d.semantics) {
		// kube-apiserver shows the value with normalized metadata.
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

// inMetadata validates a default in apiVersion, kind or metadata of a resource.
func (w *defaultWalk) inMetadata(s *schema.Structural, p defaultPlace, at *field.Path) field.ErrorList {
	v := s.Default.Value
	const must = "must result in valid metadata: "
	obj, _ := around(w.way[p.start:], jsonx.Copy(v)).(map[string]any) // a field of the resource is around it
	for k, value := range map[string]string{"apiVersion": "validation/v1", "kind": "Validation"} {
		if _, found := obj[k]; !found {
			obj[k] = value
		}
	}
	whole := newProbe(p.resource, obj, w.d.semantics)
	if err := whole.coerce(nil); err != nil {
		return field.ErrorList{field.Invalid(at, v, must+err.Error())}
	}
	if metadata, _ := whole.validate(w.ctx, nil); len(metadata) > 0 {
		return field.ErrorList{field.Invalid(at, v, must+metadata.ToAggregate().Error())}
	}
	alone := newProbe(s, v, w.d.semantics)
	if _, errs := alone.validate(w.ctx, at); len(errs) > 0 {
		return errs
	}
	return w.rules(s, v, at)
}

// rules evaluates the rules of a schema on its default.
func (w *defaultWalk) rules(s *schema.Structural, v any, at *field.Path) field.ErrorList {
	if w.d.rules == nil || !structuralHasRules(s) {
		return nil
	}
	obj := map[string]any{probed: jsonx.Copy(v)}
	evaluate := func(s *schema.Structural, old map[string]any) field.ErrorList {
		// Errors in the rules themselves are reported elsewhere.
		if compiled, _ := w.d.rules.Compile(wrap(s)); compiled != nil {
			return compiled.Validate(w.ctx, obj, old).FieldErrors()
		}
		return nil
	}
	// Evaluate an update of the value to itself, without ratcheting: transition rules
	// see the old value, and the others ignore it.
	errs := evaluate(s, obj)
	said := map[string]bool{}
	for _, e := range errs {
		said[e.Error()] = true
	}
	for _, e := range evaluate(withoutOptionalOldSelf(s), nil) {
		if !said[e.Error()] {
			errs = append(errs, e)
		}
	}
	if len(errs) == 0 {
		// Evaluate a create too.
		errs = evaluate(s, nil)
	}
	for _, e := range errs {
		// kube-apiserver writes the fieldPath of a rule differently from other paths.
		e.Field = at.String() + strings.TrimPrefix(e.Field, probed)
	}
	return errs
}

// withoutOptionalOldSelf returns s without the rules for which oldSelf is optional.
func withoutOptionalOldSelf(s *schema.Structural) *schema.Structural {
	s = s.DeepCopy()
	for _, s := range s.All() {
		s.XValidations = slices.DeleteFunc(s.XValidations,
			func(r api.ValidationRule) bool { return r.OptionalOldSelf != nil && *r.OptionalOldSelf })
	}
	return s
}

// structuralHasRules reports whether s has rules outside of logical operators.
func structuralHasRules(s *schema.Structural) bool {
	return s.Any(func(s *schema.Structural) bool { return len(s.XValidations) > 0 })
}

// costOfDefault is the number of values that checking a default takes for each step of its path: a
// copy, a schema and two programs.
const costOfDefault = 4

// losesDefaults reports whether pruning removes parts of a default of a structural
// schema. It returns false if checking would take too long.
func losesDefaults(s *schema.Structural, sem schema.Semantics) bool {
	root := *s
	root.XEmbeddedResource = true
	lost := false
	var steps pathSteps
	for path, s := range root.All() {
		if s.Default == nil || s.Default.Value == nil {
			continue
		}
		obj, ok := around(path, jsonx.Copy(s.Default.Value)).(map[string]any)
		// Each default is checked together with everything around it.
		steps += pathSteps(costOfDefault * len(path))
		if !ok || steps.tooMany() {
			return false
		}
		lost = lost || isPruned(&root, obj, sem) || isReshaped(&root, obj, sem)
	}
	return lost
}

// around returns the smallest value that has v at the path.
func around(path schema.SchemaPath, v any) any {
	for _, step := range slices.Backward(path) {
		switch step.Keyword {
		case "items":
			v = []any{v}
		case "properties":
			v = map[string]any{step.Name: v}
		default:
			v = map[string]any{"*": v}
		}
	}
	return v
}
