// Package certificates has the rules of the kinds of the group certificates.k8s.io.
package certificates

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
)

// request is short for the only kind of the group.
type request = certificatesv1.CertificateSigningRequest

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"certificatesigningrequests": {
		Main: kind.Write{
			Prepare: kind.Change(prepare),
			Validate: kind.Check(func(csr, old *request) field.ErrorList {
				return validate(csr, old, allowed{})
			}),
			Reset: []string{"spec", "status"},
		},
		Status: &kind.Write{
			Prepare: kind.Change(prepareStatus),
			Validate: kind.Check(func(csr, old *request) field.ErrorList {
				return validate(csr, old, allowed{certificate: true})
			}),
			Reset: []string{"spec", "status.conditions"},
		},
		Subresources: map[string]kind.Write{"approval": {
			Prepare: kind.Change(prepareApproval),
			Validate: kind.Check(func(csr, old *request) field.ErrorList {
				return validate(csr, old, allowed{approval: true})
			}),
			Reset: []string{"spec", "status.certificate"},
		}},
		Requester: func(obj kind.Object, by kind.User) { setRequester(obj.(*request), by) },
		Fields: func(obj kind.Object) fields.Set {
			return fields.Set{"spec.signerName": obj.(*request).Spec.SignerName}
		},
	}}
}

func setRequester(csr *request, by kind.User) {
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups = by.GetName(), by.GetUID(), by.GetGroups()
	for key, values := range by.GetExtra() {
		if csr.Spec.Extra == nil {
			csr.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		csr.Spec.Extra[key] = values
	}
}

func prepare(csr, old *request) {
	if old != nil {
		csr.Spec, csr.Status = old.Spec, old.Status
		return
	}
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups, csr.Spec.Extra = "", "", nil, nil
	csr.Status = certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{}}
}

// prepareStatus keeps the conditions of the approval as they are. If there are more or less of
// them, validation rejects the update.
func prepareStatus(csr, old *request) {
	csr.Spec = old.Spec
	for _, name := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		before, after := indices(old, name), indices(csr, name)
		if len(before) == len(after) {
			for i := range before {
				csr.Status.Conditions[after[i]] = old.Status.Conditions[before[i]]
			}
		}
	}
	setTimes(csr, old)
}

func prepareApproval(csr, old *request) {
	setTimes(csr, old)
	conditions := csr.Status.Conditions
	csr.Spec, csr.Status = old.Spec, old.Status
	csr.Status.Conditions = conditions
}

func indices(csr *request, name certificatesv1.RequestConditionType) (found []int) {
	for i, condition := range csr.Status.Conditions {
		if condition.Type == name {
			found = append(found, i)
		}
	}
	return found
}

func conditions(csr *request, name certificatesv1.RequestConditionType) (found []certificatesv1.CertificateSigningRequestCondition) {
	for _, i := range indices(csr, name) {
		found = append(found, csr.Status.Conditions[i])
	}
	return found
}

// setTimes sets the times of conditions that have none. The transition of a condition that had
// the same status before is not new.
func setTimes(csr, old *request) {
	now := metav1.Now()
	for i := range csr.Status.Conditions {
		c := &csr.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		same := slices.IndexFunc(old.Status.Conditions, func(o certificatesv1.CertificateSigningRequestCondition) bool {
			return o.Type == c.Type && o.Status == c.Status && !o.LastTransitionTime.IsZero()
		})
		if same >= 0 {
			c.LastTransitionTime = old.Status.Conditions[same].LastTransitionTime
		}
	}
}
