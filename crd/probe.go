package crd

import (
	"context"
	"errors"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/schema"
)

// probed is the name of the field that a probe puts its value into.
const probed = "x"

// probe holds a value against a schema that need not be that of an object: both
// are made a field of an object.
type probe struct {
	program *schema.Program
	obj     schema.Object
}

func newProbe(s *schema.Structural, v any, sem schema.Semantics) (*probe, error) {
	program, err := schema.Compile(wrap(restrict(s, []any{v}, true)),
		schema.WithSemantics(sem), schema.WithPreserveUnknownFields(), schema.WithoutRules())
	if err != nil {
		return nil, err
	}
	return &probe{program, schema.Object{probed: copyValue(v)}}, nil
}

// coerce brings the metadata of resources in the value into shape, or says why that
// cannot be done.
func (p *probe) coerce(at *field.Path) *field.Error {
	_, err := p.program.Normalize(p.obj, schema.DecodeOptions{})
	if err == nil {
		return nil
	}
	var bad *schema.MetadataError
	if !errors.As(err, &bad) {
		return field.Invalid(at, "", err.Error())
	}
	path := at
	for _, step := range bad.Path[1:] {
		switch step.Kind {
		case schema.Field:
			path = path.Child(step.Key)
		case schema.MapKey:
			path = path.Key(step.Key)
		case schema.Index:
			path = path.Index(step.Index)
		}
	}
	return field.Invalid(path, bad.Value, bad.Problem)
}

// validate returns what is wrong with the metadata of resources in the value, and
// what is wrong otherwise.
func (p *probe) validate(ctx context.Context, at *field.Path) (metadata, others field.ErrorList) {
	var m, o schema.Violations
	for _, v := range p.program.Validate(ctx, p.obj, nil) {
		if v.Kind == schema.Metadata {
			m = append(m, v)
		} else {
			o = append(o, v)
		}
	}
	return fieldErrors(m, at), fieldErrors(o, at)
}

// fieldErrors renders violations of a probe as errors of the value, which is at.
func fieldErrors(vs schema.Violations, at *field.Path) field.ErrorList {
	errs := unwrap(vs).FieldErrors()
	for _, e := range errs {
		// Some name a path of their own.
		rest := strings.TrimPrefix(strings.TrimPrefix(e.Field, probed), ".")
		switch {
		case e.Field == "<nil>" || e.Field == "":
			rest = ""
		case !strings.HasPrefix(e.Field, probed+".") && !strings.HasPrefix(e.Field, probed+"["):
			rest = e.Field
		}
		switch {
		case at == nil:
			e.Field = rest
		case rest == "":
			e.Field = at.String()
		default:
			e.Field = at.String() + "." + rest
		}
	}
	return errs
}

// unwrap takes the name of the probed field off the paths of violations.
func unwrap(vs schema.Violations) schema.Violations {
	out := make(schema.Violations, len(vs))
	for i, v := range vs {
		if len(v.Path) > 0 {
			v.Path = v.Path[1:]
		}
		branches := make([]schema.Violations, len(v.Branches))
		for j, b := range v.Branches {
			branches[j] = unwrap(b)
		}
		v.Branches = branches
		out[i] = v
	}
	return out
}

// isPruned says whether pruning takes anything from v.
func isPruned(s *schema.Structural, v any, sem schema.Semantics) bool {
	switch v.(type) {
	case map[string]any, []any:
	default:
		return false
	}
	program, err := schema.Compile(wrap(restrict(s, []any{v}, false)), schema.WithSemantics(sem))
	if err != nil {
		return false
	}
	report, err := program.Normalize(schema.Object{probed: copyValue(v)}, schema.DecodeOptions{Report: true, FromStorage: true})
	if err != nil {
		return false
	}
	for _, c := range report.Changes {
		// What metadata loses is not decided by any schema.
		if c.Kind == schema.Pruned && c.Schema != (schema.NodeRef{}) {
			return true
		}
	}
	return false
}

// wrap makes s the schema of a field.
func wrap(s *schema.Structural) *schema.Structural {
	return &schema.Structural{
		Generic:    schema.Generic{Type: "object"},
		Properties: map[string]*schema.Structural{probed: s},
	}
}

// restrict returns the part of s that some values meet, without defaults, rules and
// list types: the rest has no say in whether they are valid. Checking all defaults
// would take quadratic time otherwise. Without conditions it is the shape alone.
func restrict(s *schema.Structural, values []any, conditions bool) *schema.Structural {
	out := &schema.Structural{}
	if s == nil {
		return out
	}
	out.Type, out.Nullable = s.Type, s.Nullable
	out.XPreserveUnknownFields = s.XPreserveUnknownFields
	out.XEmbeddedResource = s.XEmbeddedResource
	out.XIntOrString = s.XIntOrString
	if conditions {
		out.XUnions = s.XUnions
		out.ValueValidation = s.ValueValidation
	}
	fields := map[string][]any{}
	var items, others []any
	for _, v := range values {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if _, ok := s.Properties[k]; ok {
					fields[k] = append(fields[k], x)
				} else {
					others = append(others, x)
				}
			}
		case []any:
			items = append(items, v...)
		}
	}
	if s.Items != nil {
		out.Items = restrict(s.Items, items, conditions)
	}
	if len(s.Properties) > 0 {
		unmet := &schema.Structural{}
		out.Properties = make(map[string]*schema.Structural, len(s.Properties))
		for name, prop := range s.Properties {
			out.Properties[name] = unmet
			if met := fields[name]; len(met) > 0 {
				out.Properties[name] = restrict(prop, met, conditions)
			}
		}
	}
	if ap := s.AdditionalProperties; ap != nil {
		out.AdditionalProperties = &schema.StructuralOrBool{Bool: ap.Bool}
		if ap.Structural != nil {
			out.AdditionalProperties.Structural = restrict(ap.Structural, others, conditions)
		}
	}
	return out
}

// copyValue copies a JSON value.
func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for k, x := range out {
			out[k] = copyValue(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = copyValue(x)
		}
		return out
	}
	return v
}
