package core_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"espalier.dev/kinds/core"
	"espalier.dev/kinds/kind/kindtest"
)

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestResourceQuotas(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["resourcequotas"]
	valid := &corev1.ResourceQuota{ObjectMeta: named(), Spec: corev1.ResourceQuotaSpec{Hard: resources("pods", "1"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}}}
	create := kindtest.Create(t, rules, valid)
	if got := create(func(q *corev1.ResourceQuota) { q.Status.Used = resources("pods", "1") }); got.Status.Used != nil {
		t.Errorf("got %+v", got.Status)
	}
	create(func(q *corev1.ResourceQuota) {
		q.Spec.Hard = resources("storage", "1", "x", "1", "pods", "500m", "cpu", "-1")
		q.Spec.Scopes = []corev1.ResourceQuotaScope{"BestEffort", "NotBestEffort", "y"}
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: "Terminating", Operator: "In"}, {ScopeName: "PriorityClass", Operator: "Exists", Values: []string{"v"}}, {ScopeName: "z", Operator: "w"}}}
	},
		`spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0`,
		`spec.hard[pods]: Invalid value: "500m": must be an integer`,
		`spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota`,
		`spec.hard[x]: Invalid value: "x": must be a standard resource type or fully qualified`,
		`spec.hard[x]: Invalid value: "x": must be a standard resource for quota`,
		`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","y"]: unsupported scope applied to resource`,
		`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","y"]: unsupported scope`,
		`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","y"]: conflicting scopes`,
		`spec.scopeSelector.matchExpressions.operator: Invalid value: "In": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity`,
		"spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
		"spec.scopeSelector.matchExpressions.values: Invalid value: [\"v\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
		`spec.scopeSelector.matchExpressions.scopeName: Invalid value: "z": unsupported scope`,
		`spec.scopeSelector.matchExpressions.operator: Invalid value: "w": not a valid selector operator`)
	kindtest.Update(t, rules, "", valid)(func(q *corev1.ResourceQuota) { q.Spec.Scopes = nil }, `spec.scopes: Invalid value: null: field is immutable`)
	kindtest.Update(t, rules, "status", valid)(func(q *corev1.ResourceQuota) {
		q.Status.Hard, q.Status.Used = resources("pods", "-1"), resources("pods", "-1")
	},
		`status.hard[pods]: Invalid value: "-1": must be greater than or equal to 0`,
		`status.used[pods]: Invalid value: "-1": must be greater than or equal to 0`)
	valid.Spec.Hard = resources("cpu", "2", "limits.cpu", "1")
	if got := rules.Main.Warnings(valid, nil); len(got) != 1 || got[0] != "ResourceQuota cpu (2) should be less than limits.cpu (1)" {
		t.Errorf("got %q", got)
	}
}

func TestLimitRanges(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["limitranges"]
	valid := &corev1.LimitRange{ObjectMeta: named(), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: "Container", Max: resources("cpu", "2"), Min: resources("memory", "1")}}}}
	create := kindtest.Create(t, rules, valid)
	got := create(func(l *corev1.LimitRange) { l.Name = "" })
	if item := got.Spec.Limits[0]; got.Name == "" || item.Default.Cpu().Value() != 2 || item.DefaultRequest.Cpu().Value() != 2 || item.DefaultRequest.Memory().Value() != 1 {
		t.Errorf("got %+v", got)
	}
	create(func(l *corev1.LimitRange) {
		l.Spec.Limits = []corev1.LimitRangeItem{
			{Type: "x"},
			{Type: "Pod", Default: resources("cpu", "1"), DefaultRequest: resources("cpu", "1")},
			{Type: "Pod", Max: resources("pods", "1")},
			{Type: "PersistentVolumeClaim"},
			{Type: "Container", Min: resources("cpu", "4"), Max: resources("cpu", "2"), Default: resources("cpu", "3"), DefaultRequest: resources("cpu", "5"), MaxLimitRequestRatio: resources("cpu", "700m")},
			{Type: "example.com/x", Default: resources("example.com/y", "2"), DefaultRequest: resources("example.com/y", "1")},
		}
	},
		`spec.limits[0].type: Invalid value: "x": must be a standard limit type or fully qualified`,
		"spec.limits[1].default: Forbidden: may not be specified when `type` is 'Pod'",
		"spec.limits[1].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
		`spec.limits[2].type: Duplicate value: "Pod"`,
		`spec.limits[2].max[pods]: Invalid value: "pods": must be a standard resource for containers`,
		`spec.limits[3].limits: Required value: either minimum or maximum storage value is required, but neither was provided`,
		`spec.limits[4].min[cpu]: Invalid value: "4": min value 4 is greater than max value 2`,
		`spec.limits[4].defaultRequest[cpu]: Invalid value: "5": default request value 5 is greater than max value 2`,
		`spec.limits[4].defaultRequest[cpu]: Invalid value: "5": default request value 5 is greater than default limit value 3`,
		`spec.limits[4].default[cpu]: Invalid value: "4": min value 4 is greater than default value 3`,
		`spec.limits[4].default[cpu]: Invalid value: "2": default value 3 is greater than max value 2`,
		`spec.limits[4].maxLimitRequestRatio[cpu]: Invalid value: "700m": ratio 700m is less than 1`,
		`spec.limits[4].maxLimitRequestRatio[cpu]: Invalid value: "700m": ratio 700m is greater than max/min = 0.500000`,
		`spec.limits[5].defaultRequest[example.com/y]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/y`)
}
