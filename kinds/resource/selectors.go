package resource

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// CEL compiles the expressions of device selectors. Package espalier.dev/kinds/cel implements it.
type CEL interface {
	// DeviceSelector returns the errors of an expression. stored is set if the stored object has it:
	// it may use functions that are too new for an object that is created.
	DeviceSelector(path *field.Path, expression string, stored bool) field.ErrorList
}

// checks are the rules that need CEL. Without it, expressions are not compiled.
type checks struct{ cel CEL }

// selectors checks the selectors of devices.
func (c checks) selectors(selectors []v1.DeviceSelector, path *field.Path, stored bool) field.ErrorList {
	return checkList(selectors, v1.DeviceSelectorsMaxSize, path.Child("selectors"), func(s *v1.DeviceSelector, path *field.Path) field.ErrorList {
		path = path.Child("cel")
		if s.CEL == nil {
			return field.ErrorList{field.Required(path, "")}
		}
		path = path.Child("expression")
		switch text := s.CEL.Expression; {
		case len(text) > v1.CELSelectorExpressionMaxLength:
			return field.ErrorList{field.TooLong(path, "", v1.CELSelectorExpressionMaxLength)}
		case c.cel != nil:
			return c.cel.DeviceSelector(path, text, stored)
		}
		return nil
	})
}

// checkConfiguration checks that a configuration names its driver and has parameters. stored is set
// if the stored object has it.
func checkConfiguration(c *v1.DeviceConfiguration, path *field.Path, stored bool) field.ErrorList {
	path = path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	limit := v1.OpaqueParametersMaxLength
	if stored {
		limit = unlimited // earlier versions had no limit
	}
	errs := rules.CSIDriverName(c.Opaque.Driver, path.Child("driver"))
	return append(errs, checkObject(c.Opaque.Parameters, path.Child("parameters"), limit)...)
}

// checkObject checks that a value of any type is an object with a limited size.
func checkObject(value runtime.RawExtension, path *field.Path, limit int) field.ErrorList {
	const omitted = "<value omitted>"
	switch {
	case len(value.Raw) == 0:
		return field.ErrorList{field.Required(path, "")}
	case limit != unlimited && len(value.Raw) > limit:
		return field.ErrorList{field.TooLong(path, "", limit)}
	}
	var parsed any
	if err := json.Unmarshal(value.Raw, &parsed); err != nil {
		return field.ErrorList{field.Invalid(path, omitted, fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	switch parsed.(type) {
	case nil:
		return field.ErrorList{field.Required(path, "")}
	case map[string]any:
		return nil
	}
	return field.ErrorList{field.Invalid(path, omitted, "must be a valid JSON object")}
}
