package crd

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// maxSelectable is the maximum number of selectable fields in a version.
const maxSelectable = 8

// selectableInVersion validates the selectable fields of one version.
func (d *demands) selectableInVersion(v *formVersion, path *field.Path) field.ErrorList {
	if len(v.parts.selectable) == 0 {
		return nil
	}
	props := openAPI(v.parts.schema)
	if props == nil {
		return field.ErrorList{field.Invalid(path.Child("selectableFields"), "",
			"may only be set when `version.schema.openAPIV3Schema` is not included")}
	}
	return d.selectable(v.parts.selectable, props, path, v.name)
}

// selectableInAll validates the selectable fields at the top, which apply to all
// versions.
func (d *demands) selectableInAll(spec *formSpec, path *field.Path) field.ErrorList {
	if len(spec.common.selectable) == 0 {
		return nil
	}
	if spec.common.schema == nil {
		return field.ErrorList{field.Invalid(path.Child("selectableFields"), "", "may only be set when validations.schema is included")}
	}
	return d.selectable(spec.common.selectable, spec.common.schema.OpenAPIV3Schema, path, "")
}

// selectable validates selectable fields. at is the path of the version or of the spec
// that has them; name is the name of the version.
func (d *demands) selectable(fields []api.SelectableField, props *api.JSONSchemaProps, at *field.Path, name string) (errs field.ErrorList) {
	path := at.Child("selectableFields")
	if schema.AnySubschema(props, func(s *api.JSONSchemaProps) bool { return !isConvertible(s) }) {
		errs = append(errs, field.Invalid(at.Child("schema.openAPIV3Schema"), "", unsupportedKeyword(props)))
	}
	unique := map[string]bool{}
	for i := range fields {
		p, value := path.Index(i).Child("jsonPath"), fields[i].JSONPath
		if value == "" {
			errs = append(errs, field.Required(p, ""))
			continue
		}
		to, found, err := resolve(value, props, false)
		if err != nil {
			errs = append(errs, field.Invalid(p, value, "is an invalid path: "+err.Error()))
			continue
		}
		if to.Root().String() == "metadata" {
			errs = append(errs, field.Invalid(p, value, "must not point to fields in metadata"))
		}
		if !isSelectable(found) {
			errs = append(errs,
				field.Invalid(p, value,
					"must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if unique[to.String()] {
			errs = append(errs, field.Duplicate(p, value))
		}
		unique[to.String()] = true
	}
	if len(unique) > maxSelectable && !d.manySelectable[name] {
		errs = append(errs, field.TooMany(path, len(unique), maxSelectable))
	}
	return errs
}

func isSelectable(s *api.JSONSchemaProps) bool {
	if s == nil {
		return false
	}
	switch s.Type.Single() {
	case "string", "boolean", "integer":
		return true
	}
	return false
}
