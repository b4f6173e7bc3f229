package resource

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// checkName checks the name of an attribute or a capacity, which may begin with a domain.
func checkName(name string, path *field.Path) (errs field.ErrorList) {
	parts := strings.Split(name, "/")
	switch len(parts) {
	case 1:
		return checkIdentifier(name, path)
	case 2:
	default:
		return nil // kube-apiserver accepts more slashes
	}
	if parts[0] == "" {
		errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
	} else {
		errs = append(errs, rules.CSIDriverName(parts[0], path)...)
	}
	if parts[1] == "" {
		return append(errs, field.Invalid(path, "", "the name must not be empty"))
	}
	return append(errs, checkIdentifier(parts[1], path)...)
}

// checkFullName checks a name that must have a domain.
func checkFullName(name v1.FullyQualifiedName, path *field.Path) field.ErrorList {
	errs := checkName(string(name), path)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func checkIdentifier(id string, path *field.Path) (errs field.ErrorList) {
	if len(id) > v1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "", v1.DeviceMaxIDLength))
	}
	return append(errs, rules.Invalid(id, path, content.IsCIdentifier(id))...)
}

// checkPoolName checks the name of a pool: subdomains with slashes between them.
func checkPoolName(name string, path *field.Path) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(name) > v1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "", v1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, rules.Subdomain(part, path)...)
	}
	return errs
}

// checkShareID checks the identifier of a share of a device, if there is one.
func checkShareID[T ~string](id *T, path *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	text := string(*id)
	switch err := uuid.Validate(text); {
	case err != nil:
		return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("error validating uid: %v", err))}
	case len(text) != 36 || text != strings.ToLower(text):
		return field.ErrorList{field.Invalid(path, text,
			"uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")}
	}
	return nil
}
