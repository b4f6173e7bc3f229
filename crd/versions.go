package crd

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// requiredSchemas checks that the required schemas are set.
func (d *demands) requiredSchemas(spec *formSpec, path *field.Path) (errs field.ErrorList) {
	if openAPI(spec.common.schema) != nil {
		return nil
	}
	for i := range spec.versions {
		v := &spec.versions[i]
		if openAPI(v.parts.schema) != nil {
			continue
		}
		at := path.Index(i).Child("schema", "openAPIV3Schema")
		switch {
		case d.anySchema:
			errs = append(errs, field.Required(at, ""))
		case spec.prunes() && v.served && needsSchemaToPrune(d.semantics):
			errs = append(errs, field.Required(at, "because otherwise all fields are pruned"))
		}
	}
	return errs
}

// validateVersionName validates the name of a version.
func validateVersionName(name string, path *field.Path) field.ErrorList {
	if problems := utilvalidation.IsDNS1035Label(name); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, name, strings.Join(problems, ","))}
	}
	return nil
}

// validateDeprecation validates the deprecation warning of a version.
func validateDeprecation(v *formVersion, path *field.Path) (errs field.ErrorList) {
	for _, problem := range deprecationProblems(v) {
		errs = append(errs, field.Invalid(path, v.deprecationWarning, problem))
	}
	return errs
}

// deprecationProblems returns what is wrong with the deprecation warning of a version.
func deprecationProblems(v *formVersion) (problems []string) {
	if v.deprecationWarning == nil {
		return nil
	}
	if !v.deprecated {
		return []string{"can only be set for deprecated versions"}
	}
	text := *v.deprecationWarning
	if len(text) > 256 {
		problems = append(problems, "must be <= 256 characters long")
	}
	if text == "" {
		problems = append(problems, "must not be an empty string")
	}
	for i, r := range text {
		// Control characters are not printable.
		if !unicode.IsPrint(r) {
			problems = append(problems,
				fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
			break
		}
	}
	if !utf8.ValidString(text) {
		problems = append(problems, "must only contain printable UTF-8 characters")
	}
	return problems
}

// versionedPart is a part of the spec that is either in each version or at the top, for
// all versions.
type versionedPart struct {
	// top is its name at the top; word is its name in errors about versions.
	top, word string
	has       func(*formParts) bool
	get       func(*formParts) any
}

func versionedParts() []versionedPart {
	return []versionedPart{
		{"validation", "schemas", hasSchema, func(p *formParts) any { return p.schema }},
		{"subresources", "subresources", hasSubresources, func(p *formParts) any { return p.subresources }},
		{"additionalPrinterColumns", "additionalPrinterColumns", hasColumns, func(p *formParts) any { return p.columns }},
	}
}

// validateExclusiveParts checks that no part is both at the top and in versions.
func validateExclusiveParts(spec *formSpec, path *field.Path) (errs field.ErrorList) {
	for _, p := range versionedParts() {
		if p.has(&spec.common) && spec.hasPerVersion(p.has) {
			errs = append(errs, field.Forbidden(path.Child(p.top), "top-level and per-version "+p.word+" are mutually exclusive"))
		}
	}
	return errs
}

// validateDistinctParts checks that no part is the same in all versions: then it
// belongs at the top.
func validateDistinctParts(spec *formSpec, path *field.Path) (errs field.ErrorList) {
	for _, p := range versionedParts() {
		all := !slices.ContainsFunc(spec.versions, func(v formVersion) bool { return !p.has(&v.parts) })
		if all && len(spec.versions) > 0 && spec.same(p.get) {
			errs = append(errs, field.Invalid(path, versionsValue(spec), "per-version "+p.word+
				" may not all be set to identical values (top-level "+p.top+" should be used instead)"))
		}
	}
	return errs
}

// validateVersionNames checks that no two versions have the same name.
func validateVersionNames(spec *formSpec, path *field.Path) field.ErrorList {
	seen := map[string]bool{}
	for i := range spec.versions {
		if seen[spec.versions[i].name] {
			return field.ErrorList{field.Invalid(path, versionsValue(spec), "must contain unique version names")}
		}
		seen[spec.versions[i].name] = true
	}
	return nil
}

// validateStorageVersion checks that there is exactly one storage version.
func validateStorageVersion(spec *formSpec, path *field.Path) field.ErrorList {
	n := 0
	for i := range spec.versions {
		if spec.versions[i].storage {
			n++
		}
	}
	if n != 1 {
		return field.ErrorList{field.Invalid(path, versionsValue(spec), "must have exactly one version marked as storage version")}
	}
	return nil
}

// validateFirstVersion validates spec.version, the name of the first version in
// v1beta1.
func validateFirstVersion(spec *formSpec, path *field.Path) field.ErrorList {
	if spec.version == "" {
		return nil
	}
	errs := validateVersionName(spec.version, path)
	if len(spec.versions) > 0 && spec.versions[0].name != spec.version {
		errs = append(errs, field.Invalid(path, spec.version, "must match the first version in spec.versions"))
	}
	return errs
}

// versionsValue returns the versions as an error shows them, without their schemas,
// which would make the error unreadable.
func versionsValue(spec *formSpec) any {
	if len(spec.versions) == 0 {
		return nil
	}
	names := make([]string, len(spec.versions))
	for i := range spec.versions {
		names[i] = spec.versions[i].name
	}
	return strings.Join(names, ", ")
}

// storedVersions checks that stored objects can still be read.
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
		// Another version of the same name may already have removed the entry.
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
