package crd

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// ValidateCreate validates a v1 CRD that is to be created. Its defaults must be set
// (see api.SetDefaults), and its status must be that of a new CRD.
func ValidateCreate(ctx context.Context, crd *api.CustomResourceDefinition, o Options) Result {
	return create(ctx, formOf(crd), o)
}

// ValidateCreateV1beta1 is ValidateCreate for v1beta1.
func ValidateCreateV1beta1(ctx context.Context, crd *v1beta1.CustomResourceDefinition, o Options) Result {
	return create(ctx, formOfV1beta1(crd), o)
}

// ValidateUpdate validates a v1 CRD that is to replace old.
func ValidateUpdate(ctx context.Context, crd, old *api.CustomResourceDefinition, o Options) Result {
	return update(ctx, formOf(crd), formOf(old), o)
}

// ValidateUpdateV1beta1 validates a v1beta1 CRD that is to replace old, which is stored
// as v1.
func ValidateUpdateV1beta1(ctx context.Context, crd *v1beta1.CustomResourceDefinition,
	old *api.CustomResourceDefinition, o Options) Result {
	return update(ctx, formOfV1beta1(crd), formOf(old), o)
}

// ValidateStatusUpdate validates an update of the status.
func ValidateStatusUpdate(ctx context.Context, crd, old *api.CustomResourceDefinition) field.ErrorList {
	errs := validation.ValidateObjectMetaDeclaratively(ctx, operation.Update, &crd.ObjectMeta,
		&old.ObjectMeta, false, nil, field.NewPath("metadata"), true)
	return append(errs, validateNames(&crd.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))...)
}

// The functions below list the checks in the order of kube-apiserver's errors. The name
// of a check tells its file.

// create validates a CRD that is to be created.
func create(ctx context.Context, f *form, o Options) Result {
	d := demandsOn(f, nil, o)
	return Result{
		Errors: slices.Concat(
			validation.ValidateObjectMetaDeclaratively(ctx, operation.Create, f.meta, nil, false,
				nameIn(&f.spec), field.NewPath("metadata"), true),
			d.spec(ctx, f, field.NewPath("spec")),
			d.status(f, field.NewPath("status")),
			d.v1Only(f),
		),
		Warnings: d.warnings(f),
	}
}

// update validates a CRD that is to replace old.
func update(ctx context.Context, f, old *form, o Options) Result {
	d := demandsOn(f, old, o)
	return Result{
		Errors: slices.Concat(
			validation.ValidateObjectMetaDeclaratively(ctx, operation.Update, f.meta, old.meta,
				false, nil, field.NewPath("metadata"), true),
			d.spec(ctx, f, field.NewPath("spec")),
			d.immutable(&f.spec, &old.spec, field.NewPath("spec")),
			d.status(f, field.NewPath("status")),
			d.v1Only(f),
		),
		Warnings: d.warnings(f),
	}
}

// spec validates the spec.
func (d *demands) spec(ctx context.Context, f *form, path *field.Path) field.ErrorList {
	spec := &f.spec
	return slices.Concat(
		validateGroup(spec.group, path.Child("group")),
		validateScope(spec.scope, path.Child("scope")),
		d.requiredSchemas(spec, path.Child("versions")),
		d.preserveWithDefaults(spec, path.Child("preserveUnknownFields")),
		d.versions(ctx, spec, path.Child("versions")),
		validateExclusiveParts(spec, path),
		validateDistinctParts(spec, path.Child("versions")),
		validateVersionNames(spec, path.Child("versions")),
		validateStorageVersion(spec, path.Child("versions")),
		validateFirstVersion(spec, path.Child("version")),
		validateRequiredNames(&spec.names, path.Child("names")),
		validateNames(&spec.names, path.Child("names")),
		d.allVersions(ctx, spec, path),
		d.legacy(f, path),
		d.conversion(spec, path.Child("conversion")),
	)
}

// versions validates each version.
func (d *demands) versions(ctx context.Context, spec *formSpec, path *field.Path) (errs field.ErrorList) {
	for i := range spec.versions {
		errs = append(errs, d.version(ctx, spec, &spec.versions[i], path.Index(i))...)
	}
	return errs
}

// version validates one version.
func (d *demands) version(ctx context.Context, spec *formSpec, v *formVersion, path *field.Path) field.ErrorList {
	return slices.Concat(
		validateVersionName(v.name, path.Child("name")),
		validateDeprecation(v, path.Child("deprecationWarning")),
		d.schema(ctx, v.parts.schema, hasStatus(spec.subresourcesFor(v)), d.unchanged[v.name], path.Child("schema")),
		validateSubresources(v.parts.subresources, path.Child("subresources")),
		validateColumns(v.parts.columns, path.Child("additionalPrinterColumns")),
		d.selectableInVersion(v, path),
	)
}

// allVersions validates the parts at the top, which apply to all versions.
func (d *demands) allVersions(ctx context.Context, spec *formSpec, path *field.Path) field.ErrorList {
	return slices.Concat(
		d.schema(ctx, spec.common.schema, spec.anyStatus(), d.unchanged[spec.version], path.Child("validation")),
		validateSubresources(spec.common.subresources, path.Child("subresources")),
		validateColumns(spec.common.columns, path.Child("additionalPrinterColumns")),
		d.selectableInAll(spec, path),
	)
}

// immutable checks that an update does not change where objects are stored.
func (d *demands) immutable(now, before *formSpec, path *field.Path) (errs field.ErrorList) {
	if d.sameNames {
		errs = slices.Concat(
			validation.ValidateImmutableField(now.scope, before.scope, path.Child("scope")),
			validation.ValidateImmutableField(now.names.Kind, before.names.Kind, path.Child("names", "kind")),
		)
	}
	return slices.Concat(
		errs,
		validation.ValidateImmutableField(now.group, before.group, path.Child("group")),
		validation.ValidateImmutableField(now.names.Plural, before.names.Plural, path.Child("names", "plural")),
	)
}

// status validates the status.
func (d *demands) status(f *form, path *field.Path) field.ErrorList {
	return slices.Concat(
		validateNames(&f.status.AcceptedNames, path.Child("acceptedNames")),
		d.storedVersions(f, path.Child("storedVersions")),
	)
}

// v1Only checks what v1beta1 does not require.
func (d *demands) v1Only(f *form) field.ErrorList {
	if f.beta {
		return nil
	}
	return slices.Concat(
		validateApproval(f, d.stored),
		validatePreserve(f, d.stored),
	)
}

// validateEnum checks that a required value is one of the allowed values.
func validateEnum(path *field.Path, value string, allowed ...string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}
