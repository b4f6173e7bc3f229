package oracle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
	engine "espalier.dev/schema"
)

// Ours is a schema compiled by the engine.
type Ours struct {
	program *engine.Program
	// identified is the same program with apiVersion, kind and scope.
	identified *engine.Program
}

// OurSchema reads a schema as the product does.
func OurSchema(schemaJSON []byte) (*api.JSONSchemaProps, error) {
	s := &api.JSONSchemaProps{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(schemaJSON, s); err != nil {
		return nil, err
	}
	return s, nil
}

// OurStructural returns the structural form of a schema and its violations, or an error if it
// has no structural form.
func OurStructural(schemaJSON []byte) (*engine.Structural, field.ErrorList, error) {
	props, err := OurSchema(schemaJSON)
	if err != nil {
		return nil, nil, err
	}
	s, err := engine.NewStructural(props)
	if err != nil {
		return nil, nil, err
	}
	var errs field.ErrorList
	for _, f := range engine.Check(s, engine.Kubernetes) {
		if f.Refused {
			errs = append(errs, f.FieldError(nil))
		}
	}
	return s, errs, nil
}

// NewOurs compiles a schema with the semantics of kube-apiserver. schemaJSON is nil if there
// is no schema.
func NewOurs(schemaJSON []byte, kind schema.GroupVersionKind, namespaced, preserve bool) (*Ours, error) {
	var s *engine.Structural
	if schemaJSON != nil {
		props, err := OurSchema(schemaJSON)
		if err != nil {
			return nil, err
		}
		if s, err = engine.NewStructural(props); err != nil {
			return nil, err
		}
	}
	opts := []engine.Option{engine.WithSemantics(engine.Kubernetes), engine.WithoutRules()}
	if preserve {
		opts = append(opts, engine.WithPreserveUnknownFields())
	}
	program, err := engine.Compile(s, opts...)
	if err != nil {
		return nil, err
	}
	id := engine.Identity{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespaced: namespaced}
	identified, err := engine.Compile(s, append(opts, engine.WithIdentity(id))...)
	if err != nil {
		return nil, err
	}
	return &Ours{program, identified}, nil
}

// Decode does what [Reference.Decode] does. It decodes in all three ways and returns an error
// if they disagree.
func (o *Ours) Decode(data []byte, mode Mode) Decoded {
	opts := engine.DecodeOptions{Report: true, FromStorage: mode == FromStorage}
	obj, report, err := o.program.Decode(data, opts)
	if err != nil {
		return Decoded{Err: err}
	}
	d := Decoded{Object: obj, Unknown: report.UnknownFields(), Duplicate: report.DuplicateFields()}
	opts.Report = false
	silent, _, err := o.program.Decode(data, opts)
	if err != nil || !equal(silent, obj) {
		return Decoded{Err: fmt.Errorf("a report changes the outcome: %s with, %s without (%v)", encode(obj), encode(silent), err)}
	}
	return d
}

// Normalize is Decode for an object that is already a tree.
func (o *Ours) Normalize(obj map[string]any, mode Mode) Decoded {
	report, err := o.program.Normalize(obj, engine.DecodeOptions{Report: true, FromStorage: mode == FromStorage})
	if err != nil {
		return Decoded{Err: err}
	}
	return Decoded{Object: obj, Unknown: report.UnknownFields(), Duplicate: report.DuplicateFields()}
}

// IsNormal reports whether decoding would leave the object unchanged.
func (o *Ours) IsNormal(data []byte) bool { return o.program.IsNormal(data) }

// Validate is [Reference.Validate] with the engine.
func (o *Ours) Validate(obj, old map[string]any) field.ErrorList {
	return o.program.Validate(context.Background(), obj, old).FieldErrors()
}

// ValidateIdentity is [Reference.ValidateIdentity] with the engine.
func (o *Ours) ValidateIdentity(obj, old map[string]any) field.ErrorList {
	return o.identified.Validate(context.Background(), obj, old).FieldErrors()
}
