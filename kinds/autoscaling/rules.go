// Package autoscaling has the rules of horizontal pod autoscalers, and their conversion between v1
// and v2, the version that is stored.
package autoscaling

import (
	v2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds of autoscaling, by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"horizontalpodautoscalers": {
			Default: kind.On(setDefaults),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v2.HorizontalPodAutoscaler) {
					obj.Status = v2.HorizontalPodAutoscalerStatus{}
					if old != nil {
						obj.Status = old.Status
					}
				}),
				Validate: kind.Check(validate),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare:  kind.Change(func(obj, old *v2.HorizontalPodAutoscaler) { obj.Spec = old.Spec }),
				Validate: kind.Check(validateStatus),
				Reset:    []string{"spec"},
			},
		},
	}
}

// setDefaults also removes the annotations of v1: v2 has fields for them.
func setDefaults(h *v2.HorizontalPodAutoscaler) {
	dropAnnotations(&h.ObjectMeta)
	rules.SetDefaultPointer(&h.Spec.MinReplicas, 1)
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []v2.MetricSpec{cpuMetric(defaultUtilization)}
	}
	if b := h.Spec.Behavior; b != nil {
		b.ScaleUp = withDefaults(b.ScaleUp, &v2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)),
			SelectPolicy:               new(v2.MaxChangePolicySelect),
			Policies: []v2.HPAScalingPolicy{
				{Type: v2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: v2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			},
		})
		// The stabilization window of scaling down is a flag of the controller.
		b.ScaleDown = withDefaults(b.ScaleDown, &v2.HPAScalingRules{
			SelectPolicy: new(v2.MaxChangePolicySelect),
			Policies:     []v2.HPAScalingPolicy{{Type: v2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}},
		})
	}
}

// defaultUtilization is the CPU utilization in percent that an autoscaler without metrics aims at.
const defaultUtilization = 80

func cpuMetric(utilization int32) v2.MetricSpec {
	return v2.MetricSpec{Type: v2.ResourceMetricSourceType, Resource: &v2.ResourceMetricSource{
		Name:   corev1.ResourceCPU,
		Target: v2.MetricTarget{Type: v2.UtilizationMetricType, AverageUtilization: &utilization},
	}}
}

func withDefaults(r, defaults *v2.HPAScalingRules) *v2.HPAScalingRules {
	if r == nil {
		return defaults
	}
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = defaults.StabilizationWindowSeconds
	}
	if r.SelectPolicy == nil {
		r.SelectPolicy = defaults.SelectPolicy
	}
	if r.Policies == nil {
		r.Policies = defaults.Policies
	}
	return r
}
