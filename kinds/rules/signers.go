package rules

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SignerName validates the name of a signer of certificates: a domain and a path.
func SignerName(name string, path *field.Path) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	segments := strings.Split(name, "/")
	if len(segments) != 2 {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	const maxDomain = validation.DNS1123SubdomainMaxLength
	if len(segments[0]) > maxDomain {
		errs = append(errs, field.TooLong(path, "", maxDomain))
	}
	labels := strings.Split(segments[0], ".")
	errs = append(errs, firstInvalid(segments[0], labels, validation.IsDNS1123Label, path)...)
	if len(labels) < 2 {
		errs = append(errs, field.Invalid(path, segments[0], "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, firstInvalid(segments[1], strings.Split(segments[1], "."), validation.IsDNS1123Subdomain, path)...)
	// The path has room for the name of a namespaced object.
	const limit = maxDomain + 1 + validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 1
	if len(name) > limit {
		errs = append(errs, field.TooLong(path, "", limit))
	}
	return errs
}

// firstInvalid returns the errors of the first label that has any.
func firstInvalid(segment string, labels []string, check func(string) []string, path *field.Path) (errs field.ErrorList) {
	for _, label := range labels {
		for _, message := range check(label) {
			errs = append(errs, field.Invalid(path, segment, fmt.Sprintf("validating label %q: %s", label, message)))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}
