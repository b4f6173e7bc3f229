package crd

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// schemaWalk validates a schema and all schemas below it.
type schemaWalk struct {
	d    *demands
	errs field.ErrorList
	// found counts all errors, including those that are dropped because there are too
	// many.
	found int
	steps pathSteps
	// skipped are the schemas whose rules are not compiled; with skipAll, no rules are.
	skipped map[string]bool
	skipAll bool
}

// place is the position of a schema, and what depends on it.
type place struct {
	path  *field.Path
	depth int
	root  bool
	// defaults allows defaults; if it is false, noDefaults is the reason.
	defaults   bool
	noDefaults string
	// inMeta is true for apiVersion, kind and metadata of a resource, and below.
	inMeta bool
	// rules is true if rules here will be compiled.
	rules bool
	// parent and step are how the schema is reached.
	parent *place
	step   schema.SchemaStep
}

// into returns the place of a subschema.
func (p *place) into(path *field.Path, step schema.SchemaStep) place {
	sub := *p
	sub.path, sub.root, sub.parent, sub.step = path, false, p, step
	sub.depth++
	return sub
}

// schemaPath returns the path from the root.
func (p *place) schemaPath() schema.SchemaPath {
	path := make(schema.SchemaPath, p.depth)
	for i := p.depth - 1; i >= 0; i, p = i-1, p.parent {
		path[i] = p.step
	}
	return path
}

func (p place) withoutDefaults(why string) place {
	p.defaults, p.noDefaults = false, why
	return p
}

// room reports whether there is room for one more error, and reserves it.
func (w *schemaWalk) room(p *place) bool {
	w.found++
	if w.steps.tooMany() {
		return false
	}
	w.steps += pathSteps(p.depth)
	return true
}

func (w *schemaWalk) forbid(p *place, at func(*field.Path) *field.Path, detail string) {
	if w.room(p) {
		w.errs = append(w.errs, field.Forbidden(at(p.path), detail))
	}
}

func (w *schemaWalk) invalid(p *place, at func(*field.Path) *field.Path, value any, detail string) {
	if w.room(p) {
		w.errs = append(w.errs, field.Invalid(at(p.path), value, detail))
	}
}

func (w *schemaWalk) require(p *place, at func(*field.Path) *field.Path, detail string) {
	if w.room(p) {
		w.errs = append(w.errs, field.Required(at(p.path), detail))
	}
}

func (w *schemaWalk) unsupported(p *place, at func(*field.Path) *field.Path, value any, allowed []string) {
	if w.room(p) {
		w.errs = append(w.errs, field.NotSupported(at(p.path), value, allowed))
	}
}

// child returns the path of a keyword of the current schema.
func child(names ...string) func(*field.Path) *field.Path {
	return func(p *field.Path) *field.Path { return p.Child(names[0], names[1:]...) }
}

// walk validates s and everything below it. It returns whether s can be converted to a
// Structural.
func (w *schemaWalk) walk(s *api.JSONSchemaProps, p place) bool {
	if s == nil {
		return true
	}
	before := w.found
	w.keywords(s, &p)
	convertible := w.below(s, p)
	w.lists(s, &p)
	if len(s.XValidations) > 0 {
		w.rules(s, &p, convertible)
		// Errors in a schema would cause obscure errors in its rules.
		if w.found > before && p.rules {
			if w.steps += pathSteps(p.depth); w.steps.tooMany() {
				w.skipAll = true
			} else {
				w.skipped[p.schemaPath().String()] = true
			}
		}
	}
	return convertible
}

// keywords reports the keywords that s must not have.
func (w *schemaWalk) keywords(s *api.JSONSchemaProps, p *place) {
	switch t := typeOf(s); {
	case len(s.Type) > 1:
		w.invalid(p, child("type"), []string(s.Type), "must be a single type, not a list of types")
	case t != "" && w.d.knownTypes && !isOpenAPIType(t):
		w.unsupported(p, child("type"), t, openAPITypes())
	}
	if s.Default != nil && !p.defaults {
		detail := "must not be set"
		if p.noDefaults != "" {
			detail += " " + p.noDefaults
		}
		w.forbid(p, child("default"), detail)
	}
	forbid := func(is bool, keyword, detail string) {
		if is {
			w.forbid(p, child(keyword), detail)
		}
	}
	forbid(s.ID != "", "id", "id is not supported")
	forbid(s.AdditionalItems != nil, "additionalItems", "additionalItems is not supported")
	forbid(len(s.PatternProperties) != 0, "patternProperties", "patternProperties is not supported")
	forbid(len(s.Definitions) != 0, "definitions", "definitions is not supported")
	forbid(s.Dependencies != nil, "dependencies", "dependencies is not supported")
	forbid(s.Ref != nil, "$ref", "$ref is not supported")
	forbid(s.Type.Single() == "null", "type", "type cannot be set to null, use nullable as an alternative")
	forbid(s.Items != nil && len(s.Items.JSONSchemas) != 0, "items", "items must be a schema object and not an array")
	forbid(p.inMeta && s.XEmbeddedResource, "x-kubernetes-embedded-resource", "must not be used inside of resource meta")
	forbid(s.UniqueItems, "uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic")
	if ap := s.AdditionalProperties; ap != nil && len(s.Properties) != 0 && (!ap.Allows || ap.Schema != nil) {
		w.forbid(p, child("additionalProperties"), "additionalProperties and properties are mutual exclusive")
	}
	if x := s.XPreserveUnknownFields; x != nil && !*x {
		w.invalid(p, child("x-kubernetes-preserve-unknown-fields"), *x, "must be true or undefined")
	}
}

// below validates the subschemas of s, and returns whether all of them can be
// converted. It does not use schema.Subschemas, because kube-apiserver reports errors
// in a different order, and because what is allowed in a schema depends on the schemas
// around it.
func (w *schemaWalk) below(s *api.JSONSchemaProps, p place) bool {
	ok := isConvertible(s)
	walk := func(s *api.JSONSchemaProps, p place) {
		// All of them have to be walked, whatever the results of the first ones.
		converts := w.walk(s, p)
		ok = ok && converts
	}
	if ap := s.AdditionalProperties; ap != nil {
		sub := p.into(p.path.Child("additionalProperties"), schema.SchemaStep{Keyword: "additionalProperties"})
		if p.inMeta {
			// The result of pruning a default would depend on the key.
			sub = sub.withoutDefaults("inside additionalProperties applying to object metadata")
		}
		walk(ap.Schema, sub)
	}
	for _, name := range sortedKeys(s.Properties) {
		prop := s.Properties[name]
		sub := p.into(p.path.Child("properties").Key(name), schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name})
		if (p.root || s.XEmbeddedResource) && schema.IsMetaField(name) {
			sub.inMeta = true
			if p.root {
				sub = sub.withoutDefaults("in top-level " + name)
			}
		}
		walk(&prop, sub)
	}
	if s.Items != nil {
		sub := p.into(p.path.Child("items"), schema.SchemaStep{Keyword: "items"})
		walk(s.Items.Schema, sub)
		for i := range s.Items.JSONSchemas {
			item := sub
			item.path, item.rules = sub.path.Index(i), false
			walk(&s.Items.JSONSchemas[i], item)
		}
	}
	// Rules below are not compiled.
	p.rules = false
	elsewhere := func(s *api.JSONSchemaProps, path *field.Path) { walk(s, p.into(path, schema.SchemaStep{})) }
	elsewhere(s.Not, p.path.Child("not"))
	list := func(keyword string, schemas []api.JSONSchemaProps) {
		for i := range schemas {
			elsewhere(&schemas[i], p.path.Child(keyword).Index(i))
		}
	}
	list("allOf", s.AllOf)
	list("oneOf", s.OneOf)
	list("anyOf", s.AnyOf)
	for _, name := range sortedKeys(s.Definitions) {
		def := s.Definitions[name]
		elsewhere(&def, p.path.Child("definitions").Key(name))
	}
	for _, name := range sortedKeys(s.Dependencies) {
		elsewhere(s.Dependencies[name].Schema, p.path.Child("dependencies").Key(name))
	}
	return ok
}

// isConvertible reports whether a Structural can represent the keywords of s.
func isConvertible(s *api.JSONSchemaProps) bool {
	return s.ID == "" && s.Schema == "" && (s.Ref == nil || *s.Ref == "") && len(s.PatternProperties) == 0 &&
		len(s.Dependencies) == 0 && s.AdditionalItems == nil && len(s.Definitions) == 0 && len(s.Type) <= 1 &&
		(s.Items == nil || len(s.Items.JSONSchemas) == 0) && (s.XPreserveUnknownFields == nil || *s.XPreserveUnknownFields)
}
