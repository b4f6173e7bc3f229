package admissionregistration

import (
	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/rules"
)

func defaultValidatingWebhooks(c *v1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		rules.SetDefaultPointer(&w.FailurePolicy, v1.Fail)
		rules.SetDefaultPointer(&w.TimeoutSeconds, 10)
		defaultSelection(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
		defaultClient(&w.ClientConfig)
		defaultScopes(w.Rules)
	}
}

func defaultMutatingWebhooks(c *v1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		rules.SetDefaultPointer(&w.FailurePolicy, v1.Fail)
		rules.SetDefaultPointer(&w.TimeoutSeconds, 10)
		rules.SetDefaultPointer(&w.ReinvocationPolicy, v1.NeverReinvocationPolicy)
		defaultSelection(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
		defaultClient(&w.ClientConfig)
		defaultScopes(w.Rules)
	}
}

// defaultSelection sets the defaults of fields that webhooks and policies have in common.
func defaultSelection(policy **v1.MatchPolicyType, namespaces, objects **metav1.LabelSelector) {
	rules.SetDefaultPointer(policy, v1.Equivalent)
	rules.SetDefaultPointer(namespaces, metav1.LabelSelector{})
	rules.SetDefaultPointer(objects, metav1.LabelSelector{})
}

func defaultClient(c *v1.WebhookClientConfig) {
	if c.Service != nil {
		rules.SetDefaultPointer(&c.Service.Port, 443)
	}
}

func defaultScopes(list []v1.RuleWithOperations) {
	for i := range list {
		rules.SetDefaultPointer(&list[i].Scope, v1.AllScopes)
	}
}

func defaultMatch(m *v1.MatchResources) {
	if m == nil {
		return
	}
	defaultSelection(&m.MatchPolicy, &m.NamespaceSelector, &m.ObjectSelector)
	for _, list := range [][]v1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range list {
			rules.SetDefaultPointer(&list[i].Scope, v1.AllScopes)
		}
	}
}

func defaultValidatingPolicy(p *v1.ValidatingAdmissionPolicy) {
	rules.SetDefaultPointer(&p.Spec.FailurePolicy, v1.Fail)
	defaultMatch(p.Spec.MatchConstraints)
}

func defaultMutatingPolicy(p *v1.MutatingAdmissionPolicy) {
	rules.SetDefaultPointer(&p.Spec.FailurePolicy, v1.Fail)
	defaultMatch(p.Spec.MatchConstraints)
}

func defaultValidatingBinding(b *v1.ValidatingAdmissionPolicyBinding) {
	defaultMatch(b.Spec.MatchResources)
}

func defaultMutatingBinding(b *v1.MutatingAdmissionPolicyBinding) {
	defaultMatch(b.Spec.MatchResources)
}
