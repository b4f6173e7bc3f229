package crd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// ValidateCreate judges a v1 definition that is to be created. It must have its
// defaults (see api.SetDefaults), and the status that a new definition has.
func ValidateCreate(ctx context.Context, crd *api.CustomResourceDefinition, o Options) Result {
	return create(ctx, formOf(crd), o)
}

// ValidateCreateV1beta1 is ValidateCreate for v1beta1.
func ValidateCreateV1beta1(ctx context.Context, crd *v1beta1.CustomResourceDefinition, o Options) Result {
	return create(ctx, formOfV1beta1(crd), o)
}

// ValidateUpdate judges a v1 definition that is to replace old.
func ValidateUpdate(ctx context.Context, crd, old *api.CustomResourceDefinition, o Options) Result {
	return update(ctx, formOf(crd), formOf(old), o)
}

// ValidateUpdateV1beta1 judges a v1beta1 definition that is to replace old, which
// is stored as v1.
func ValidateUpdateV1beta1(ctx context.Context, crd *v1beta1.CustomResourceDefinition, old *api.CustomResourceDefinition, o Options) Result {
	return update(ctx, formOfV1beta1(crd), formOf(old), o)
}

// ValidateStatusUpdate judges a write of the status alone.
func ValidateStatusUpdate(ctx context.Context, crd, old *api.CustomResourceDefinition) field.ErrorList {
	errs := validation.ValidateObjectMetaDeclaratively(ctx, operation.Update, &crd.ObjectMeta, &old.ObjectMeta, false, nil, field.NewPath("metadata"), true)
	return append(errs, validateNames(&crd.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))...)
}

func create(ctx context.Context, f *form, o Options) Result {
	name := func(name string, prefix bool) []string {
		problems := validation.NameIsDNSSubdomain(name, prefix)
		if name != f.spec.names.Plural+"."+f.spec.group {
			problems = append(problems, `must be spec.names.plural+"."+spec.group`)
		}
		return problems
	}
	errs := validation.ValidateObjectMetaDeclaratively(ctx, operation.Create, f.meta, nil, false, name, field.NewPath("metadata"), true)
	d := demandsOn(f, nil, o)
	errs = append(errs, d.spec(ctx, f)...)
	return d.rest(f, errs)
}

func update(ctx context.Context, f, old *form, o Options) Result {
	errs := validation.ValidateObjectMetaDeclaratively(ctx, operation.Update, f.meta, old.meta, false, nil, field.NewPath("metadata"), true)
	d := demandsOn(f, old, o)
	errs = append(errs, d.spec(ctx, f)...)
	path := field.NewPath("spec")
	now, before := &f.spec, &old.spec
	if d.sameNames {
		// Objects are stored under these.
		errs = append(errs, validation.ValidateImmutableField(now.scope, before.scope, path.Child("scope"))...)
		errs = append(errs, validation.ValidateImmutableField(now.names.Kind, before.names.Kind, path.Child("names", "kind"))...)
	}
	errs = append(errs, validation.ValidateImmutableField(now.group, before.group, path.Child("group"))...)
	errs = append(errs, validation.ValidateImmutableField(now.names.Plural, before.names.Plural, path.Child("names", "plural"))...)
	return d.rest(f, errs)
}

// rest checks what is not in the spec, and collects warnings.
func (d *demands) rest(f *form, errs field.ErrorList) Result {
	status := field.NewPath("status")
	errs = append(errs, validateNames(&f.status.AcceptedNames, status.Child("acceptedNames"))...)
	errs = append(errs, d.storedVersions(f, status.Child("storedVersions"))...)
	if !f.beta {
		errs = append(errs, validateApproval(f, d.stored)...)
		errs = append(errs, validatePreserve(f, d.stored)...)
	}
	return Result{Errors: errs, Warnings: d.warnings(f)}
}

// spec checks the spec.
func (d demands) spec(ctx context.Context, f *form) field.ErrorList {
	spec, path := &f.spec, field.NewPath("spec")
	var errs field.ErrorList
	if spec.group == "" {
		errs = append(errs, field.Required(path.Child("group"), ""))
	} else if problems := utilvalidation.IsDNS1123Subdomain(spec.group); len(problems) > 0 {
		errs = append(errs, field.Invalid(path.Child("group"), spec.group, strings.Join(problems, ",")))
	} else if !strings.Contains(spec.group, ".") {
		errs = append(errs, field.Invalid(path.Child("group"), spec.group, "should be a domain with at least one dot"))
	}
	errs = append(errs, validateEnum(path.Child("scope"), string(spec.scope), string(api.ClusterScoped), string(api.NamespaceScoped))...)

	errs = append(errs, d.schemasThere(spec, path)...)
	if spec.prunes() {
		d.structural = true
	}
	if d.defaults && spec.anySchema(hasDefault) {
		d.structural = true
		if spec.preserves() {
			errs = append(errs, field.Invalid(path.Child("preserveUnknownFields"), true, "must be false in order to use defaults in the schema"))
		}
	}
	if spec.anySchema(hasExtension) || d.semantics.KnowsUnions() && spec.anySchema(hasUnions) {
		d.structural = true
	}
	errs = append(errs, d.versions(ctx, f, path)...)
	errs = append(errs, d.exclusive(spec, path)...)

	names := path.Child("names")
	for _, required := range [...]struct{ name, value string }{
		{"plural", spec.names.Plural}, {"singular", spec.names.Singular}, {"kind", spec.names.Kind}, {"listKind", spec.names.ListKind},
	} {
		if required.value == "" {
			errs = append(errs, field.Required(names.Child(required.name), ""))
		}
	}
	errs = append(errs, validateNames(&spec.names, names)...)
	errs = append(errs, d.common(ctx, spec, path)...)
	errs = append(errs, d.legacy(f, path)...)
	return append(errs, d.conversion(spec, path.Child("conversion"))...)
}

// schemasThere checks that there are schemas where there have to be.
func (d *demands) schemasThere(spec *formSpec, path *field.Path) (errs field.ErrorList) {
	if openAPI(spec.common.schema) != nil {
		return nil
	}
	for i := range spec.versions {
		v := &spec.versions[i]
		if openAPI(v.parts.schema) != nil {
			continue
		}
		at := path.Child("versions").Index(i).Child("schema", "openAPIV3Schema")
		switch {
		case d.anySchema:
			errs = append(errs, field.Required(at, ""))
		case spec.prunes() && v.served && needsSchemaToPrune(d.semantics):
			errs = append(errs, field.Required(at, "because otherwise all fields are pruned"))
		}
	}
	return errs
}

// versions checks each version.
func (d *demands) versions(ctx context.Context, f *form, path *field.Path) (errs field.ErrorList) {
	spec := &f.spec
	for i := range spec.versions {
		v := &spec.versions[i]
		at := path.Child("versions").Index(i)
		if problems := utilvalidation.IsDNS1035Label(v.name); len(problems) > 0 {
			errs = append(errs, field.Invalid(at.Child("name"), v.name, strings.Join(problems, ",")))
		}
		for _, problem := range deprecationProblems(v) {
			errs = append(errs, field.Invalid(at.Child("deprecationWarning"), v.deprecationWarning, problem))
		}
		errs = append(errs, d.schema(ctx, v.parts.schema, hasStatus(spec.subresourcesFor(v)), d.unchanged[v.name], at.Child("schema"))...)
		errs = append(errs, validateSubresources(v.parts.subresources, at.Child("subresources"))...)
		errs = append(errs, validateColumns(v.parts.columns, at.Child("additionalPrinterColumns"))...)
		if len(v.parts.selectable) > 0 {
			if props := openAPI(v.parts.schema); props == nil {
				errs = append(errs, field.Invalid(at.Child("selectableFields"), "", "may only be set when `version.schema.openAPIV3Schema` is not included"))
			} else {
				errs = append(errs, d.selectable(v.parts.selectable, props, at, v.name)...)
			}
		}
	}
	return errs
}

// common checks what stands at the top for all versions.
func (d *demands) common(ctx context.Context, spec *formSpec, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, d.schema(ctx, spec.common.schema, d.anyStatus(spec), d.unchanged[spec.version], path.Child("validation"))...)
	errs = append(errs, validateSubresources(spec.common.subresources, path.Child("subresources"))...)
	errs = append(errs, validateColumns(spec.common.columns, path.Child("additionalPrinterColumns"))...)
	if len(spec.common.selectable) > 0 {
		if spec.common.schema == nil {
			errs = append(errs, field.Invalid(path.Child("selectableFields"), "", "may only be set when validations.schema is included"))
		} else {
			errs = append(errs, d.selectable(spec.common.selectable, spec.common.schema.OpenAPIV3Schema, path, "")...)
		}
	}
	return errs
}

// anyStatus says whether some version has a status subresource.
func (d *demands) anyStatus(spec *formSpec) bool {
	return hasStatus(spec.common.subresources) || spec.hasPerVersion(func(p *formParts) bool { return hasStatus(p.subresources) })
}

// exclusive checks that things are said once, and in the right place.
func (d *demands) exclusive(spec *formSpec, path *field.Path) (errs field.ErrorList) {
	parts := [...]struct {
		top, word string
		has       func(*formParts) bool
		get       func(*formParts) any
	}{
		{"validation", "schemas", hasSchema, func(p *formParts) any { return p.schema }},
		{"subresources", "subresources", hasSubresources, func(p *formParts) any { return p.subresources }},
		{"additionalPrinterColumns", "additionalPrinterColumns", hasColumns, func(p *formParts) any { return p.columns }},
	}
	for _, p := range parts {
		if p.has(&spec.common) && spec.hasPerVersion(p.has) {
			errs = append(errs, field.Forbidden(path.Child(p.top), "top-level and per-version "+p.word+" are mutually exclusive"))
		}
	}
	at := path.Child("versions")
	for _, p := range parts {
		all := !slices.ContainsFunc(spec.versions, func(v formVersion) bool { return !p.has(&v.parts) })
		if all && len(spec.versions) > 0 && spec.same(p.get) {
			errs = append(errs, field.Invalid(at, versionsValue(spec), "per-version "+p.word+" may not all be set to identical values (top-level "+p.top+" should be used instead)"))
		}
	}
	storage, seen, unique := 0, map[string]bool{}, true
	for i := range spec.versions {
		if spec.versions[i].storage {
			storage++
		}
		unique = unique && !seen[spec.versions[i].name]
		seen[spec.versions[i].name] = true
	}
	if !unique {
		errs = append(errs, field.Invalid(at, versionsValue(spec), "must contain unique version names"))
	}
	if storage != 1 {
		errs = append(errs, field.Invalid(at, versionsValue(spec), "must have exactly one version marked as storage version"))
	}
	if spec.version != "" {
		if problems := utilvalidation.IsDNS1035Label(spec.version); len(problems) > 0 {
			errs = append(errs, field.Invalid(path.Child("version"), spec.version, strings.Join(problems, ",")))
		}
		if len(spec.versions) > 0 && spec.versions[0].name != spec.version {
			errs = append(errs, field.Invalid(path.Child("version"), spec.version, "must match the first version in spec.versions"))
		}
	}
	return errs
}

// versionsValue is what an error about the versions shows of them. Their schemas
// would bury the error.
func versionsValue(spec *formSpec) string {
	names := make([]string, len(spec.versions))
	for i := range spec.versions {
		names[i] = spec.versions[i].name
	}
	return strings.Join(names, ", ")
}

// storedVersions checks that what is stored can still be read.
func (d *demands) storedVersions(f *form, path *field.Path) (errs field.ErrorList) {
	stored := f.status.StoredVersions
	if len(stored) == 0 {
		return field.ErrorList{field.Invalid(path, stored, "must have at least one stored version")}
	}
	missing := map[string]int{}
	for i, name := range stored {
		missing[name] = i
	}
	for i := range f.spec.versions {
		v := &f.spec.versions[i]
		// A second version of the same name finds its entry taken.
		if _, ok := missing[v.name]; v.storage && !ok {
			errs = append(errs, field.Invalid(path, stored, "must have the storage version "+v.name))
		}
		delete(missing, v.name)
	}
	for i, name := range stored {
		if last, ok := missing[name]; !ok || last != i {
			continue
		}
		text := "must appear in spec.versions"
		if !d.beta {
			text = fmt.Sprintf("missing from spec.versions; %[1]s was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in %[1]s and removes %[1]s from status.storedVersions", name)
		}
		errs = append(errs, field.Invalid(path.Index(i), name, text))
	}
	return errs
}

// validatePreserve refuses to turn pruning off, unless it was off before.
func validatePreserve(f, old *form) field.ErrorList {
	if old != nil && old.spec.preserve != nil && *old.spec.preserve || f.spec.preserve == nil || !*f.spec.preserve {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true,
		"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")}
}

// validateEnum checks that a required value is one of those allowed.
func validateEnum(path *field.Path, value string, allowed ...string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}
