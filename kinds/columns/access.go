package columns

import (
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"espalier.dev/kinds/kind"
)

// bindingColumns returns the columns of bindings of roles.
func bindingColumns[T kind.Object](title string, doc map[string]string, of func(T) (rbacv1.RoleRef, []rbacv1.Subject)) []column {
	subjects := func(subjectKind string, text func(rbacv1.Subject) string) func(T) any {
		return func(obj T) any {
			var out []string
			_, all := of(obj)
			for _, s := range all {
				if s.Kind == subjectKind {
					out = append(out, text(s))
				}
			}
			return strings.Join(out, ", ")
		}
	}
	byName := func(s rbacv1.Subject) string { return s.Name }
	return []column{
		name(),
		text("Role", doc["roleRef"], func(obj T) any {
			role, _ := of(obj)
			return role.Kind + "/" + role.Name
		}),
		age(),
		wide(text("Users", "Users in the "+title, subjects(rbacv1.UserKind, byName))),
		wide(text("Groups", "Groups in the "+title, subjects(rbacv1.GroupKind, byName))),
		wide(text("ServiceAccounts", "ServiceAccounts in the "+title, subjects(rbacv1.ServiceAccountKind, func(s rbacv1.Subject) string {
			return s.Namespace + "/" + s.Name
		}))),
	}
}

func certificateSigningRequestColumns() []column {
	spec := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return []column{
		name(),
		age(),
		text("SignerName", spec["signerName"], func(r *certificatesv1.CertificateSigningRequest) any {
			return or(r.Spec.SignerName,
				none)
		}),
		text("Requestor", spec["request"], func(r *certificatesv1.CertificateSigningRequest) any { return r.Spec.Username }),
		text("RequestedDuration", spec["expirationSeconds"], func(r *certificatesv1.CertificateSigningRequest) any {
			if r.Spec.ExpirationSeconds == nil {
				return none
			}
			return duration.HumanDuration(time.Duration(*r.Spec.ExpirationSeconds) * time.Second)
		}),
		text("Condition", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"],
			func(r *certificatesv1.CertificateSigningRequest) any {
				has := map[certificatesv1.RequestConditionType]bool{}
				for _, c := range r.Status.Conditions {
					has[c.Type] = true
				}
				status := "Pending"
				switch {
				case has[certificatesv1.CertificateDenied]:
					status = "Denied"
				case has[certificatesv1.CertificateApproved]:
					status = "Approved"
				}
				if has[certificatesv1.CertificateFailed] {
					status += ",Failed"
				}
				if len(r.Status.Certificate) > 0 {
					status += ",Issued"
				}
				return status
			}),
	}
}

func clusterTrustBundleColumns() []column {
	return []column{
		name(),
		text("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"],
			func(b *certificatesv1.ClusterTrustBundle) any {
				return or(b.Spec.SignerName, none)
			}),
	}
}

func podCertificateRequestColumns() []column {
	spec := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return []column{
		name(),
		text("PodName", spec["podName"], func(r *certificatesv1.PodCertificateRequest) any { return r.Spec.PodName }),
		text("ServiceAccountName", spec["serviceAccountName"],
			func(r *certificatesv1.PodCertificateRequest) any { return r.Spec.ServiceAccountName }),
		text("NodeName", spec["nodeName"], func(r *certificatesv1.PodCertificateRequest) any { return string(r.Spec.NodeName) }),
		text("SignerName", spec["signerName"], func(r *certificatesv1.PodCertificateRequest) any { return r.Spec.SignerName }),
		text("State", "Is the request Pending, Issued, Denied, or Failed?", func(r *certificatesv1.PodCertificateRequest) any {
			state := "Pending"
			for _, c := range r.Status.Conditions { // at most one of them is set
				switch c.Type {
				case certificatesv1.PodCertificateRequestConditionTypeIssued,
					certificatesv1.PodCertificateRequestConditionTypeDenied,
					certificatesv1.PodCertificateRequestConditionTypeFailed:
					state = c.Type
				}
			}
			return state
		}),
		text("UnverifiedUserAnnotations", spec["unverifiedUserAnnotations"], func(r *certificatesv1.PodCertificateRequest) any {
			return labels.FormatLabels(r.Spec.UnverifiedUserAnnotations)
		}),
	}
}

func webhookColumns[T kind.Object](webhooks func(T) any) []column {
	return []column{name(), number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", webhooks),
		age()}
}

func validatingAdmissionPolicyColumns() []column {
	return []column{
		name(),
		number("Validations", "Validations indicates the number of validation rules defined in this configuration",
			func(p *admissionregistrationv1.ValidatingAdmissionPolicy) any { return count(p.Spec.Validations) }),
		paramKind(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.ParamKind {
			return p.Spec.ParamKind
		}),
		age(),
	}
}

func mutatingAdmissionPolicyColumns() []column {
	return []column{
		name(),
		number("Mutations", "Mutation indicates the number of mutations rules defined in this configuration",
			func(p *admissionregistrationv1.MutatingAdmissionPolicy) any { return count(p.Spec.Mutations) }),
		paramKind(func(p *admissionregistrationv1.MutatingAdmissionPolicy) *admissionregistrationv1.ParamKind {
			return p.Spec.ParamKind
		}),
		age(),
	}
}

func paramKind[T kind.Object](of func(T) *admissionregistrationv1.ParamKind) column {
	return text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy", func(obj T) any {
		if k := of(obj); k != nil {
			return k.APIVersion + "/" + k.Kind
		}
		return unset
	})
}

// policyBindingColumns returns the columns of bindings of admission policies.
func policyBindingColumns[T kind.Object](of func(T) (policy string, params *admissionregistrationv1.ParamRef)) []column {
	return []column{
		name(),
		text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to", func(obj T) any {
			policy, _ := of(obj)
			return policy
		}),
		text("ParamRef", "ParamRef indicates the param resource which sets the configuration param", func(obj T) any {
			_, ref := of(obj)
			switch {
			case ref != nil && ref.Name != "":
				return or(ref.Namespace, "*") + "/" + ref.Name
			case ref != nil && ref.Selector != nil:
				return ref.Selector.String()
			}
			return unset
		}),
		age(),
	}
}
