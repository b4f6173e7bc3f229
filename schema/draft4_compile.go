package schema

import (
	"fmt"
	"maps"
	"slices"

	"espalier.dev/api"
)

// CompileJSONSchema returns the Program of a schema in the draft-4 dialect of 2017
// (spec.validation.jsonSchema of v1beta1). Such a schema is never structural, so
// nothing is pruned. Defaults outside of logical operators are filled in.
//
// A $ref can only refer to an entry in definitions of the root, and a definition must not
// refer to itself, even indirectly. Keywords beside a $ref are ignored, and so is id. Each
// definition is compiled once, however many schemas refer to it; one that is not used is
// checked all the same.
func CompileJSONSchema(s *api.JSONSchemaProps, opts ...Option) (*Program, error) {
	if s == nil {
		s = &api.JSONSchemaProps{}
	}
	if err := checkDraft4(s); err != nil {
		return nil, err
	}
	c := draft4Compiler{compiler: newCompiler(opts, 0), definitions: s.Definitions, compiled: map[string]int32{}}
	c.p.preserveAll, c.p.draft4 = true, true
	if s.Ref != nil {
		// The root needs its own node, before the schema that it refers to.
		s = &api.JSONSchemaProps{AllOf: []api.JSONSchemaProps{*s}}
	}
	if _, err := c.schema(s, none, SchemaStep{}, true); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.definitions)) {
		if _, used := c.compiled[name]; used {
			continue
		}
		if _, err := c.definition(name); err != nil {
			return nil, err
		}
	}
	c.compact()
	if c.p.hasDefaults {
		c.markDefaults()
		for i := range c.p.nodes {
			// Only one parent of a shared definition is recorded; it may have more.
			c.p.nodes[i].flags |= defaultsBelow
		}
		if err := c.boundDefaults(); err != nil {
			return nil, err
		}
	}
	c.finishRoot()
	return c.p, nil
}

// draft4Compiler builds the nodes of a Program for a schema in the draft-4 dialect.
type draft4Compiler struct {
	*compiler
	definitions map[string]api.JSONSchemaProps
	// compiled has the nodes of the definitions; none while a definition is being
	// compiled.
	compiled map[string]int32
}

func (c *draft4Compiler) fail(parent int32, step SchemaStep, keyword, reason string) error {
	path := append(c.p.ref(parent).Path(), step)
	if parent == none {
		path = nil
	}
	return &ConversionError{Path: path, Keyword: keyword, Reason: reason}
}

// resolve returns the node of the definition that ref refers to.
func (c *draft4Compiler) resolve(ref string, parent int32, step SchemaStep) (int32, error) {
	name, _ := referredDefinition(ref, c.definitions) // checkDraft4 has found it
	id, known := c.compiled[name]
	switch {
	case !known:
		return c.definition(name)
	case id == none:
		return none, c.fail(parent, step, "$ref", fmt.Sprintf("must not be recursive, but %q refers to itself", ref))
	}
	c.p.sharing = true
	return id, nil
}

// definition adds the node of a definition.
func (c *draft4Compiler) definition(name string) (int32, error) {
	definition := c.definitions[name]
	c.compiled[name] = none
	id, err := c.schema(&definition, root, named("definitions", name), true)
	if err != nil {
		return none, err
	}
	c.compiled[name] = id
	return id, nil
}

// schema adds the node of a schema. core is true outside of logical operators.
func (c *draft4Compiler) schema(s *api.JSONSchemaProps, parent int32, step SchemaStep, core bool) (int32, error) {
	if s.Ref != nil {
		return c.resolve(*s.Ref, parent, step)
	}
	if keyword := extensionIn(s); keyword != "" {
		return none, c.fail(parent, step, keyword, "is not supported in a jsonSchema: use openAPIV3Schema")
	}
	id := c.add(parent, step)
	n := node{items: none, additional: none, parent: parent, step: step, shape: acceptsAll}
	v, err := c.values(s, parent, step)
	if err != nil {
		return none, err
	}
	if s.Nullable {
		n.flags |= nullable
	}
	format := checkedFormat(s.Type, s.Format)
	n.required = slices.Clone(s.Required)
	if n.accepts = acceptedTypes(s.Type, format, s.Nullable); n.accepts != acceptsAll {
		n.types = c.typeCheck(s.Type, format)
	}
	n.checks = c.newChecks(s.Type, format, v)
	if core && s.Default != nil {
		if n.dflt, err = decodeJSON(s.Default.Raw); err != nil {
			return none, c.fail(parent, step, "default", err.Error())
		}
		if n.dflt != nil {
			n.flags |= hasDefault
			c.p.hasDefaults = true
		}
	}
	if err := c.parts(&n, s, id, core); err != nil {
		return none, err
	}
	if n.operators, err = c.branches(s, id); err != nil {
		return none, err
	}
	c.p.nodes[id] = n
	return id, nil
}

// extensionIn returns an x-kubernetes-* keyword of s, or "". Such keywords must not be
// ignored silently.
func extensionIn(s *api.JSONSchemaProps) string {
	switch {
	case len(s.XValidations) > 0:
		return "x-kubernetes-validations"
	case s.XPreserveUnknownFields != nil:
		return "x-kubernetes-preserve-unknown-fields"
	case s.XEmbeddedResource:
		return "x-kubernetes-embedded-resource"
	case s.XIntOrString:
		return "x-kubernetes-int-or-string"
	case s.XListType != nil:
		return "x-kubernetes-list-type"
	case len(s.XListMapKeys) > 0:
		return "x-kubernetes-list-map-keys"
	case s.XMapType != nil:
		return "x-kubernetes-map-type"
	case len(s.XUnions) > 0:
		return "x-kubernetes-unions"
	}
	return ""
}

// values returns the value validations of s that are not about its fields or items.
func (c *draft4Compiler) values(s *api.JSONSchemaProps, parent int32, step SchemaStep) (*ValueValidation, error) {
	v := &ValueValidation{
		Maximum: s.Maximum, ExclusiveMaximum: s.ExclusiveMaximum, Minimum: s.Minimum, ExclusiveMinimum: s.ExclusiveMinimum,
		MaxLength: s.MaxLength, MinLength: s.MinLength, Pattern: s.Pattern, MaxItems: s.MaxItems, MinItems: s.MinItems,
		UniqueItems: s.UniqueItems, MultipleOf: s.MultipleOf, MaxProperties: s.MaxProperties, MinProperties: s.MinProperties,
	}
	for _, e := range s.Enum {
		value, err := decodeJSON(e.Raw)
		if err != nil {
			return nil, c.fail(parent, step, "enum", err.Error())
		}
		v.Enum = append(v.Enum, JSON{value})
	}
	return v, nil
}

// parts adds the schemas of fields and items.
func (c *draft4Compiler) parts(n *node, s *api.JSONSchemaProps, id int32, core bool) (err error) {
	d := &draft4Checks{more: none}
	if len(s.Properties) > 0 {
		list := make([]property, 0, len(s.Properties))
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			prop := s.Properties[name]
			child, err := c.schema(&prop, id, named("properties", name), core)
			if err != nil {
				return err
			}
			list = append(list, property{name, child})
		}
		n.props = newProperties(list)
	}
	if n.additional, n.flags, err = c.orBool(s.AdditionalProperties, n.flags, id, "additionalProperties", core); err != nil {
		return err
	}
	for _, source := range slices.Sorted(maps.Keys(s.PatternProperties)) {
		prop := s.PatternProperties[source]
		child, err := c.schema(&prop, id, named("patternProperties", source), false)
		if err != nil {
			return err
		}
		p := c.pattern(source)
		if _, err := p.compile(); err != nil {
			return c.fail(id, named("patternProperties", source), "patternProperties", err.Error())
		}
		d.patterns = append(d.patterns, patternProperty{p, child})
	}
	for _, field := range slices.Sorted(maps.Keys(s.Dependencies)) {
		dep := dependency{field: field, required: slices.Clone(s.Dependencies[field].Property), node: none}
		if schema := s.Dependencies[field].Schema; schema != nil {
			if dep.node, err = c.schema(schema, id, named("dependencies", field), false); err != nil {
				return err
			}
		}
		d.dependencies = append(d.dependencies, dep)
	}
	if s.Items != nil && s.Items.Schema != nil {
		if n.items, err = c.schema(s.Items.Schema, id, keyword("items"), core); err != nil {
			return err
		}
	} else if s.Items != nil {
		for i := range s.Items.JSONSchemas {
			child, err := c.schema(&s.Items.JSONSchemas[i], id, indexed("items", i), false)
			if err != nil {
				return err
			}
			d.tuple = append(d.tuple, child)
		}
	}
	var more nodeFlags
	if d.more, more, err = c.orBool(s.AdditionalItems, 0, id, "additionalItems", false); err != nil {
		return err
	}
	d.closed = more&closed != 0
	if len(d.patterns) > 0 || len(d.dependencies) > 0 || len(d.tuple) > 0 {
		n.draft4 = d
	}
	return nil
}

// orBool adds the schema of additionalProperties or additionalItems, unless it is a
// boolean.
func (c *draft4Compiler) orBool(s *api.JSONSchemaPropsOrBool, flags nodeFlags, id int32, name string, core bool) (int32, nodeFlags, error) {
	switch {
	case s == nil:
		return none, flags, nil
	case s.Schema != nil:
		child, err := c.schema(s.Schema, id, keyword(name), core)
		return child, flags, err
	case !s.Allows:
		return none, flags | closed, nil
	}
	return none, flags, nil
}

func (c *draft4Compiler) branches(s *api.JSONSchemaProps, id int32) (*operators, error) {
	if len(s.AllOf) == 0 && len(s.AnyOf) == 0 && len(s.OneOf) == 0 && s.Not == nil {
		return nil, nil
	}
	j := &operators{not: none}
	for _, k := range []struct {
		name string
		from []api.JSONSchemaProps
		to   *[]int32
	}{{"allOf", s.AllOf, &j.allOf}, {"anyOf", s.AnyOf, &j.anyOf}, {"oneOf", s.OneOf, &j.oneOf}} {
		for i := range k.from {
			child, err := c.schema(&k.from[i], id, indexed(k.name, i), false)
			if err != nil {
				return nil, err
			}
			*k.to = append(*k.to, child)
		}
	}
	if s.Not != nil {
		var err error
		if j.not, err = c.schema(s.Not, id, keyword("not"), false); err != nil {
			return nil, err
		}
	}
	return j, nil
}
