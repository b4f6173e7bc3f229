package policy_test

import (
	"testing"

	v1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/policy"
)

func TestBudgets(t *testing.T) {
	t.Parallel()
	rules := policy.Rules()["poddisruptionbudgets"]
	valid := &v1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
		Spec:       v1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}
	create := kindtest.Create(t, rules, valid)
	if got := create(func(b *v1.PodDisruptionBudget) { b.Status.CurrentHealthy = 1 }); got.Status.CurrentHealthy != 0 || got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
	create(func(b *v1.PodDisruptionBudget) {
		b.Spec = v1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(-1)), MaxUnavailable: new(intstr.FromString("101%")), UnhealthyPodEvictionPolicy: new(v1.UnhealthyPodEvictionPolicyType("X"))}
	},
		`spec: Invalid value: {"MinAvailable":-1,"Selector":null,"MaxUnavailable":"101%","UnhealthyPodEvictionPolicy":"X"}: minAvailable and maxUnavailable cannot be both set`,
		`spec.minAvailable: Invalid value: -1: must be greater than or equal to 0`,
		`spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%`,
		`spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported values: "AlwaysAllow", "IfHealthyBudget"`)
	create(func(b *v1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("x")) },
		`spec.minAvailable: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`)
	badValue := func(b *v1.PodDisruptionBudget) {
		b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"-"}}}
	}
	create(badValue, `spec.selector.matchExpressions[0].values[0]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`)

	old := valid.DeepCopy()
	badValue(old)
	kindtest.Stored(t, rules, "", old)(func(*v1.PodDisruptionBudget) {})

	update := kindtest.Update(t, rules, "", valid)
	if got := update(func(b *v1.PodDisruptionBudget) { b.Spec.MinAvailable, b.Status.CurrentHealthy = nil, 1 }); got.Status.CurrentHealthy != 0 || got.Generation != 2 {
		t.Errorf("got %+v", got)
	}
	status := kindtest.Update(t, rules, "status", valid)
	if got := status(func(b *v1.PodDisruptionBudget) { b.Spec.MinAvailable, b.Status.CurrentHealthy = nil, 1 }); got.Status.CurrentHealthy != 1 || got.Spec.MinAvailable == nil {
		t.Errorf("got %+v", got)
	}
	status(func(b *v1.PodDisruptionBudget) {
		b.Status = v1.PodDisruptionBudgetStatus{DisruptionsAllowed: -1, CurrentHealthy: -2, DesiredHealthy: -3, ExpectedPods: -4, Conditions: make([]metav1.Condition, 1)}
	},
		`status.conditions[0].type: Required value: is required`,
		`status.conditions[0].status: Required value`,
		`status.conditions[0].lastTransitionTime: Required value`,
		`status.conditions[0].reason: Required value`,
		`status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0`,
		`status.currentHealthy: Invalid value: -2: must be greater than or equal to 0`,
		`status.desiredHealthy: Invalid value: -3: must be greater than or equal to 0`,
		`status.expectedPods: Invalid value: -4: must be greater than or equal to 0`)
}

// TestSelectorLabel checks which selectors keep the label of selectors that were stored by v1beta1.
func TestSelectorLabel(t *testing.T) {
	t.Parallel()
	const label = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
	exists := metav1.LabelSelectorRequirement{Key: label, Operator: metav1.LabelSelectorOpExists}
	for _, c := range []struct {
		selector metav1.LabelSelector
		want     string
	}{
		{metav1.LabelSelector{}, ""},
		{metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{exists}}, label},
		{metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{exists}}, "a=b"},
		{metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpDoesNotExist}}}, ""},
	} {
		b := &v1.PodDisruptionBudget{Spec: v1.PodDisruptionBudgetSpec{Selector: &c.selector}}
		policy.Rules()["poddisruptionbudgets"].Default(b)
		if got := metav1.FormatLabelSelector(b.Spec.Selector); got != c.want && !(c.want == "" && got == "<none>") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
