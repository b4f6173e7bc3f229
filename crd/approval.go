package crd

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// approval is the value of the approval annotation, which CRDs in Kubernetes' own
// groups must have.
type approval uint8

const (
	approvalInvalid approval = iota
	approved
	approvalBypassed
	approvalMissing
)

// isProtected reports whether a group is one of Kubernetes' own.
func isProtected(group string) bool {
	for _, own := range [...]string{"k8s.io", "kubernetes.io"} {
		if group == own || strings.HasSuffix(group, "."+own) {
			return true
		}
	}
	return false
}

// approvalOf returns the approval, and the reason for it.
func approvalOf(annotations map[string]string) (approval, string) {
	const see = ", see https://github.com/kubernetes/enhancements/pull/1111"
	text := annotations[api.KubeAPIApprovedAnnotation]
	if text == "" {
		return approvalMissing, fmt.Sprintf("protected groups must have approval annotation %q"+see, api.KubeAPIApprovedAnnotation)
	}
	if strings.HasPrefix(text, "unapproved") {
		return approvalBypassed, fmt.Sprintf("not approved: %q", text)
	}
	if u, err := url.ParseRequestURI(text); err == nil && u.Host != "" && u.Scheme != "" {
		return approved, "approved in " + text
	}
	return approvalInvalid, fmt.Sprintf("protected groups must have approval annotation %q with either a URL or a reason starting with \"unapproved\""+see, api.KubeAPIApprovedAnnotation)
}

// validateApproval validates the annotation, unless it has not changed.
func validateApproval(f, old *form) field.ErrorList {
	if !isProtected(f.spec.group) {
		return nil
	}
	state, reason := approvalOf(f.meta.Annotations)
	if old != nil {
		if before, _ := approvalOf(old.meta.Annotations); before == state {
			return nil
		}
	}
	at := field.NewPath("metadata", "annotations").Key(api.KubeAPIApprovedAnnotation)
	switch state {
	case approvalInvalid:
		return field.ErrorList{field.Invalid(at, f.meta.Annotations[api.KubeAPIApprovedAnnotation], reason)}
	case approvalMissing:
		return field.ErrorList{field.Required(at, reason)}
	}
	return nil
}
