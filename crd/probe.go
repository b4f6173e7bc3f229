package crd

import (
	"context"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// probed is the name of the field into which a probe puts its value.
const probed = "x"

// probe validates a value against a schema that need not be the schema of an object: it
// puts both into a field of an object.
type probe struct {
	// schema is the part of the schema that applies to the value.
	schema  *schema.Structural
	program *schema.Program
	value   any
	obj     schema.Object
}

func newProbe(s *schema.Structural, v any, sem schema.Semantics) *probe {
	part := restrict(s, []any{v}, true)
	// A schema without defaults and rules can always be compiled.
	program, _ := schema.Compile(wrap(part), schema.WithSemantics(sem), schema.WithPreserveUnknownFields(), schema.WithoutRules())
	return &probe{part, program, v, schema.Object{probed: jsonx.Copy(v)}}
}

// coerce normalizes the metadata of resources in the value, or returns an error if that
// is impossible.
func (p *probe) coerce(at *field.Path) *field.Error {
	_, err := p.program.Normalize(p.obj, schema.DecodeOptions{})
	var bad *schema.MetadataError
	if !errors.As(err, &bad) {
		return nil // where nothing is pruned, there are no other errors
	}
	value := p.value
	var here any = map[string]any(p.obj)
	for i, step := range bad.Path {
		if i > 0 {
			value = valueAt(value, step)
		}
		if resource, ok := here.(map[string]any); ok && i == len(bad.Path)-1 {
			// Malformed metadata stays as it is.
			resource[step.Key] = jsonx.Copy(value)
		}
		here = valueAt(here, step)
	}
	return field.Invalid(bad.Path[1:].Field(at), value, bad.Problem)
}

// valueAt returns the value at a step from v.
func valueAt(v any, step schema.Step) any {
	if list, ok := v.([]any); ok {
		return list[step.Index]
	}
	fields, _ := v.(map[string]any)
	return fields[step.Key]
}

// validate returns the errors in the metadata of resources in the value and, if there
// are none, all other errors.
func (p *probe) validate(ctx context.Context, at *field.Path) (metadata, others field.ErrorList) {
	var rest schema.Violations
	for _, v := range p.program.Validate(ctx, p.obj, nil) {
		if v.Kind != schema.Metadata {
			rest = append(rest, v)
			continue
		}
		e := *v.Cause
		e.Field = v.Path[1:].Field(at).String()
		metadata = append(metadata, &e)
	}
	if len(metadata) > 0 {
		return metadata, nil
	}
	if weakensDefaultSchemas(p.program.Semantics()) {
		return nil, kubeErrors(p.schema, p.obj[probed], at)
	}
	return nil, fieldErrors(rest, at)
}

// fieldErrors returns the violations of a probe as errors of the value at the path at.
func fieldErrors(vs schema.Violations, at *field.Path) field.ErrorList {
	errs := unwrap(vs).FieldErrors()
	for _, e := range errs {
		if e.Field == "<nil>" {
			e.Field = at.String()
		} else {
			e.Field = at.String() + "." + e.Field
		}
	}
	return errs
}

// unwrap removes the probed field from the paths of violations.
func unwrap(vs schema.Violations) schema.Violations {
	out := make(schema.Violations, len(vs))
	for i, v := range vs {
		v.Path = v.Path[1:]
		branches := make([]schema.Violations, len(v.Branches))
		for j, b := range v.Branches {
			branches[j] = unwrap(b)
		}
		v.Branches = branches
		out[i] = v
	}
	return out
}

// isPruned reports whether pruning removes anything from v.
func isPruned(s *schema.Structural, v any, sem schema.Semantics) bool {
	switch v.(type) {
	case map[string]any, []any:
	default:
		return false
	}
	// A schema without defaults and rules can always be compiled, and malformed metadata is dropped.
	program, _ := schema.Compile(wrap(restrict(s, []any{v}, false)), schema.WithSemantics(sem))
	report, _ := program.Normalize(schema.Object{probed: jsonx.Copy(v)}, schema.DecodeOptions{Report: true, FromStorage: true})
	for _, c := range report.Changes {
		// No schema decides what is removed from metadata.
		if c.Kind == schema.Pruned && c.Schema != (schema.NodeRef{}) {
			return true
		}
	}
	return false
}

// isReshaped reports whether v contains a resource whose metadata is not normal.
func isReshaped(s *schema.Structural, v any, sem schema.Semantics) bool {
	p := newProbe(s, v, sem)
	_, _ = p.program.Normalize(p.obj, schema.DecodeOptions{FromStorage: true}) // malformed metadata is dropped
	return !reflect.DeepEqual(p.obj[probed], v)
}

// wrap returns the schema of an object with a field that has the schema s.
func wrap(s *schema.Structural) *schema.Structural {
	return &schema.Structural{
		Generic:    schema.Generic{Type: "object"},
		Properties: map[string]*schema.Structural{probed: s},
	}
}

// restrict returns the part of s that applies to some values, without defaults, rules
// and list types, which do not affect whether the values are valid. Without it,
// validating all defaults would take quadratic time. If conditions is false, only the
// structure is kept.
func restrict(s *schema.Structural, values []any, conditions bool) *schema.Structural {
	out := &schema.Structural{}
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
	for name, met := range fields {
		if out.Properties == nil {
			out.Properties = make(map[string]*schema.Structural, len(fields))
		}
		out.Properties[name] = restrict(s.Properties[name], met, conditions)
	}
	if out.Properties == nil {
		// Whether there are fields matters, whatever their names.
		for name := range s.Properties {
			out.Properties = map[string]*schema.Structural{name: {}}
			break
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
