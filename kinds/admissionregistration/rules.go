// Package admissionregistration has the rules of webhook configurations and admission policies.
//
// Kube-apiserver also asks the authorizer whether the author of a policy or a binding can read its
// parameters. That needs the request and is not part of the rules.
package admissionregistration

import (
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds of admissionregistration.k8s.io, by resource. If cel is nil,
// expressions are not compiled.
func Rules(cel CEL) map[string]kind.Rules {
	c := &checks{cel}
	return map[string]kind.Rules{
		"validatingwebhookconfigurations": {
			Conditional: true,
			Default:     kind.On(defaultValidatingWebhooks),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ValidatingWebhookConfiguration) {
					rules.Generation(obj, old, old != nil && reflect.DeepEqual(obj.Webhooks, old.Webhooks))
				}),
				Validate: kind.Check(c.validatingWebhooks),
				Warnings: reservedName,
			},
		},
		"mutatingwebhookconfigurations": {
			Conditional: true,
			Default:     kind.On(defaultMutatingWebhooks),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.MutatingWebhookConfiguration) {
					rules.Generation(obj, old, old != nil && reflect.DeepEqual(obj.Webhooks, old.Webhooks))
				}),
				Validate: kind.Check(c.mutatingWebhooks),
				Warnings: reservedName,
			},
		},
		"validatingadmissionpolicies": {
			Conditional: true,
			Default:     kind.On(defaultValidatingPolicy),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ValidatingAdmissionPolicy) {
					obj.Status = v1.ValidatingAdmissionPolicyStatus{}
					if old != nil {
						obj.Status = old.Status
					}
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(c.validatingPolicy),
				Warnings: reservedName,
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ValidatingAdmissionPolicy) {
					obj.Spec = old.Spec
					metav1.ResetObjectMetaForStatus(obj, old)
				}),
				Validate: kind.Check(validatePolicyStatus),
				Warnings: reservedName,
				Reset:    []string{"spec", "metadata"},
			},
		},
		"validatingadmissionpolicybindings": {
			Conditional: true,
			Default:     kind.On(defaultValidatingBinding),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ValidatingAdmissionPolicyBinding) {
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateValidatingBinding),
				Warnings: reservedName,
			},
		},
		"mutatingadmissionpolicies": {
			Conditional: true,
			Default:     kind.On(defaultMutatingPolicy),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.MutatingAdmissionPolicy) {
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(c.mutatingPolicy),
				Warnings: reservedName,
			},
		},
		"mutatingadmissionpolicybindings": {
			Conditional: true,
			Default:     kind.On(defaultMutatingBinding),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.MutatingAdmissionPolicyBinding) {
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateMutatingBinding),
				Warnings: reservedName,
			},
		},
	}
}

// reservedName warns about names that are reserved for configurations in files.
func reservedName(obj, _ kind.Object) []string {
	const suffix = ".static.k8s.io"
	if !strings.HasSuffix(obj.GetName(), suffix) {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", suffix)}
}
