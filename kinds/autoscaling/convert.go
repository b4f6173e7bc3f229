package autoscaling

import (
	"encoding/json"

	v1 "k8s.io/api/autoscaling/v1"
	v2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/rules"
)

// The annotations of v1 hold what only v2 has fields for, as JSON.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
)

// dropAnnotations removes the annotations of v1.
func dropAnnotations(meta *metav1.ObjectMeta) {
	for _, name := range []string{metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation,
		"autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance"} {
		delete(meta.Annotations, name)
	}
}

// FromV1 converts an autoscaler to v2 and applies the defaults of v1. Annotations that are not
// valid JSON are ignored.
func FromV1(in *v1.HorizontalPodAutoscaler) *v2.HorizontalPodAutoscaler {
	in = in.DeepCopy()
	rules.SetDefaultPointer(&in.Spec.MinReplicas, 1)
	out := &v2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: v2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: v2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: v2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	out.TypeMeta = metav1.TypeMeta{APIVersion: v2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"}
	if metrics, ok := annotation[[]v1.MetricSpec](in, metricsAnnotation); ok {
		out.Spec.Metrics = convert(metrics, metricFromV1)
	}
	if n := in.Spec.TargetCPUUtilizationPercentage; n != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*n))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []v2.MetricSpec{cpuMetric(defaultUtilization)}
	}
	if b, ok := annotation[v2.HorizontalPodAutoscalerBehavior](in, behaviorAnnotation); ok && b != (v2.HorizontalPodAutoscalerBehavior{}) {
		out.Spec.Behavior = &b
	}
	if n := in.Status.CurrentCPUUtilizationPercentage; n != nil {
		out.Status.CurrentMetrics = []v2.MetricStatus{{Type: v2.ResourceMetricSourceType, Resource: &v2.ResourceMetricStatus{
			Name: corev1.ResourceCPU, Current: v2.MetricValueStatus{AverageUtilization: n},
		}}}
	}
	if metrics, ok := annotation[[]v1.MetricStatus](in, currentMetricsAnnotation); ok {
		out.Status.CurrentMetrics = convert(metrics, metricStatusFromV1)
	}
	if conditions, ok := annotation[[]v1.HorizontalPodAutoscalerCondition](in, conditionsAnnotation); ok {
		out.Status.Conditions = convert(conditions, conditionFromV1)
	}
	dropAnnotations(&out.ObjectMeta)
	return out
}

// ToV1 converts an autoscaler from v2.
func ToV1(in *v2.HorizontalPodAutoscaler) *v1.HorizontalPodAutoscaler {
	in = in.DeepCopy()
	out := &v1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: v1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: v1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: v1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	out.TypeMeta = metav1.TypeMeta{APIVersion: v1.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"}
	dropAnnotations(&out.ObjectMeta)

	annotations := map[string]any{}
	var others []v1.MetricSpec
	for _, m := range in.Spec.Metrics {
		if r := m.Resource; m.Type == v2.ResourceMetricSourceType && r != nil &&
			r.Name == corev1.ResourceCPU && r.Target.AverageUtilization != nil {
			rules.SetDefaultPointer(&out.Spec.TargetCPUUtilizationPercentage, *r.Target.AverageUtilization)
			continue
		}
		others = append(others, metricToV1(m))
	}
	if len(others) > 0 {
		annotations[metricsAnnotation] = others
	}
	for _, m := range in.Status.CurrentMetrics {
		if r := m.Resource; m.Type == v2.ResourceMetricSourceType && r != nil &&
			r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = new(*r.Current.AverageUtilization)
		}
	}
	if len(in.Status.CurrentMetrics) > 0 {
		// Those of the CPU too: the raw value has no field.
		annotations[currentMetricsAnnotation] = convert(in.Status.CurrentMetrics, metricStatusToV1)
	}
	if in.Spec.Behavior != nil {
		// Kube-apiserver writes its internal type.
		annotations[behaviorAnnotation] = rules.Internal(in.Spec.Behavior)
	}
	if len(in.Status.Conditions) > 0 {
		annotations[conditionsAnnotation] = convert(in.Status.Conditions, conditionToV1)
	}
	if len(annotations) > 0 && out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	for name, value := range annotations {
		// Quantities, times and strings always have a JSON form.
		if text, err := json.Marshal(value); err == nil {
			out.Annotations[name] = string(text)
		}
	}
	return out
}

// annotation reads the JSON in an annotation.
func annotation[T any](in *v1.HorizontalPodAutoscaler, name string) (value T, ok bool) {
	text, ok := in.Annotations[name]
	if !ok || json.Unmarshal([]byte(text), &value) != nil {
		return *new(T), false
	}
	return value, true
}

func convert[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// optional converts a source or a status of a metric that may be nil.
func optional[A, B any](v *A, f func(A) B) *B {
	if v == nil {
		return nil
	}
	return new(f(*v))
}

func zeroOr(q *resource.Quantity) resource.Quantity {
	if q == nil {
		return resource.Quantity{}
	}
	return *q
}

func conditionFromV1(c v1.HorizontalPodAutoscalerCondition) v2.HorizontalPodAutoscalerCondition {
	return v2.HorizontalPodAutoscalerCondition{Type: v2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
		LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration}
}

func conditionToV1(c v2.HorizontalPodAutoscalerCondition) v1.HorizontalPodAutoscalerCondition {
	return v1.HorizontalPodAutoscalerCondition{Type: v1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
		LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration}
}

func metricFromV1(m v1.MetricSpec) v2.MetricSpec {
	return v2.MetricSpec{
		Type: v2.MetricSourceType(m.Type),
		Object: optional(m.Object, func(s v1.ObjectMetricSource) v2.ObjectMetricSource {
			target := v2.MetricTarget{Type: v2.ValueMetricType, Value: &s.TargetValue, AverageValue: s.AverageValue}
			if s.AverageValue != nil {
				target.Type = v2.AverageValueMetricType
				if s.TargetValue.IsZero() {
					// v1 cannot omit the value.
					target.Value = nil
				}
			}
			return v2.ObjectMetricSource{DescribedObject: v2.CrossVersionObjectReference(s.Target), Target: target,
				Metric: v2.MetricIdentifier{Name: s.MetricName, Selector: s.Selector}}
		}),
		Pods: optional(m.Pods, func(s v1.PodsMetricSource) v2.PodsMetricSource {
			return v2.PodsMetricSource{Metric: v2.MetricIdentifier{Name: s.MetricName, Selector: s.Selector},
				Target: v2.MetricTarget{Type: v2.AverageValueMetricType, AverageValue: &s.TargetAverageValue}}
		}),
		Resource: optional(m.Resource, func(s v1.ResourceMetricSource) v2.ResourceMetricSource {
			return v2.ResourceMetricSource{Name: s.Name, Target: utilization(s.TargetAverageUtilization, s.TargetAverageValue)}
		}),
		ContainerResource: optional(m.ContainerResource, func(s v1.ContainerResourceMetricSource) v2.ContainerResourceMetricSource {
			return v2.ContainerResourceMetricSource{Name: s.Name, Container: s.Container,
				Target: utilization(s.TargetAverageUtilization, s.TargetAverageValue)}
		}),
		External: optional(m.External, func(s v1.ExternalMetricSource) v2.ExternalMetricSource {
			target := v2.MetricTarget{Type: v2.ValueMetricType, Value: s.TargetValue, AverageValue: s.TargetAverageValue}
			if s.TargetValue == nil {
				target.Type = v2.AverageValueMetricType
			}
			return v2.ExternalMetricSource{Metric: v2.MetricIdentifier{Name: s.MetricName, Selector: s.MetricSelector}, Target: target}
		}),
	}
}

func utilization(percent *int32, value *resource.Quantity) v2.MetricTarget {
	if percent == nil {
		return v2.MetricTarget{Type: v2.AverageValueMetricType, AverageValue: value}
	}
	return v2.MetricTarget{Type: v2.UtilizationMetricType, AverageUtilization: percent, AverageValue: value}
}

func metricToV1(m v2.MetricSpec) v1.MetricSpec {
	return v1.MetricSpec{
		Type: v1.MetricSourceType(m.Type),
		Object: optional(m.Object, func(s v2.ObjectMetricSource) v1.ObjectMetricSource {
			return v1.ObjectMetricSource{Target: v1.CrossVersionObjectReference(s.DescribedObject),
				MetricName: s.Metric.Name, Selector: s.Metric.Selector,
				TargetValue: zeroOr(s.Target.Value), AverageValue: s.Target.AverageValue}
		}),
		Pods: optional(m.Pods, func(s v2.PodsMetricSource) v1.PodsMetricSource {
			return v1.PodsMetricSource{MetricName: s.Metric.Name, Selector: s.Metric.Selector,
				TargetAverageValue: zeroOr(s.Target.AverageValue)}
		}),
		Resource: optional(m.Resource, func(s v2.ResourceMetricSource) v1.ResourceMetricSource {
			return v1.ResourceMetricSource{Name: s.Name,
				TargetAverageUtilization: s.Target.AverageUtilization, TargetAverageValue: s.Target.AverageValue}
		}),
		ContainerResource: optional(m.ContainerResource, func(s v2.ContainerResourceMetricSource) v1.ContainerResourceMetricSource {
			return v1.ContainerResourceMetricSource{Name: s.Name, Container: s.Container,
				TargetAverageUtilization: s.Target.AverageUtilization, TargetAverageValue: s.Target.AverageValue}
		}),
		External: optional(m.External, func(s v2.ExternalMetricSource) v1.ExternalMetricSource {
			return v1.ExternalMetricSource{MetricName: s.Metric.Name, MetricSelector: s.Metric.Selector,
				TargetValue: s.Target.Value, TargetAverageValue: s.Target.AverageValue}
		}),
	}
}

func metricStatusFromV1(m v1.MetricStatus) v2.MetricStatus {
	return v2.MetricStatus{
		Type: v2.MetricSourceType(m.Type),
		Object: optional(m.Object, func(s v1.ObjectMetricStatus) v2.ObjectMetricStatus {
			return v2.ObjectMetricStatus{Metric: v2.MetricIdentifier{Name: s.MetricName,
				Selector: s.Selector}, DescribedObject: v2.CrossVersionObjectReference(s.Target),
				Current: v2.MetricValueStatus{Value: &s.CurrentValue, AverageValue: s.AverageValue}}
		}),
		Pods: optional(m.Pods, func(s v1.PodsMetricStatus) v2.PodsMetricStatus {
			return v2.PodsMetricStatus{Metric: v2.MetricIdentifier{Name: s.MetricName, Selector: s.Selector},
				Current: v2.MetricValueStatus{AverageValue: &s.CurrentAverageValue}}
		}),
		Resource: optional(m.Resource, func(s v1.ResourceMetricStatus) v2.ResourceMetricStatus {
			return v2.ResourceMetricStatus{Name: s.Name,
				Current: v2.MetricValueStatus{AverageValue: &s.CurrentAverageValue, AverageUtilization: s.CurrentAverageUtilization}}
		}),
		ContainerResource: optional(m.ContainerResource, func(s v1.ContainerResourceMetricStatus) v2.ContainerResourceMetricStatus {
			return v2.ContainerResourceMetricStatus{Name: s.Name, Container: s.Container,
				Current: v2.MetricValueStatus{AverageValue: &s.CurrentAverageValue, AverageUtilization: s.CurrentAverageUtilization}}
		}),
		External: optional(m.External, func(s v1.ExternalMetricStatus) v2.ExternalMetricStatus {
			return v2.ExternalMetricStatus{Metric: v2.MetricIdentifier{Name: s.MetricName, Selector: s.MetricSelector},
				Current: v2.MetricValueStatus{Value: &s.CurrentValue, AverageValue: s.CurrentAverageValue}}
		}),
	}
}

func metricStatusToV1(m v2.MetricStatus) v1.MetricStatus {
	return v1.MetricStatus{
		Type: v1.MetricSourceType(m.Type),
		Object: optional(m.Object, func(s v2.ObjectMetricStatus) v1.ObjectMetricStatus {
			return v1.ObjectMetricStatus{Target: v1.CrossVersionObjectReference(s.DescribedObject),
				MetricName: s.Metric.Name, Selector: s.Metric.Selector,
				CurrentValue: zeroOr(s.Current.Value), AverageValue: s.Current.AverageValue}
		}),
		Pods: optional(m.Pods, func(s v2.PodsMetricStatus) v1.PodsMetricStatus {
			return v1.PodsMetricStatus{MetricName: s.Metric.Name, Selector: s.Metric.Selector,
				CurrentAverageValue: zeroOr(s.Current.AverageValue)}
		}),
		Resource: optional(m.Resource, func(s v2.ResourceMetricStatus) v1.ResourceMetricStatus {
			return v1.ResourceMetricStatus{Name: s.Name,
				CurrentAverageUtilization: s.Current.AverageUtilization, CurrentAverageValue: zeroOr(s.Current.AverageValue)}
		}),
		ContainerResource: optional(m.ContainerResource, func(s v2.ContainerResourceMetricStatus) v1.ContainerResourceMetricStatus {
			return v1.ContainerResourceMetricStatus{Name: s.Name, Container: s.Container,
				CurrentAverageUtilization: s.Current.AverageUtilization, CurrentAverageValue: zeroOr(s.Current.AverageValue)}
		}),
		External: optional(m.External, func(s v2.ExternalMetricStatus) v1.ExternalMetricStatus {
			return v1.ExternalMetricStatus{MetricName: s.Metric.Name, MetricSelector: s.Metric.Selector,
				CurrentValue: zeroOr(s.Current.Value), CurrentAverageValue: s.Current.AverageValue}
		}),
	}
}
