package builtin

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
)

// TestReaderConvert converts a stored object to a version that a parameter of a policy can have.
func TestReaderConvert(t *testing.T) {
	t.Parallel()
	r := NewReader(nil, kinds.Rules(cel.New()), kinds.All())
	target := int32(80)
	stored := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3, Metrics: []autoscalingv2.MetricSpec{{
		Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &target}}}}}}
	obj, err := r.Convert(stored, autoscalingv1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := obj.(*autoscalingv1.HorizontalPodAutoscaler)
	if !ok || got.Spec.MaxReplicas != 3 || got.Spec.TargetCPUUtilizationPercentage == nil || *got.Spec.TargetCPUUtilizationPercentage != target {
		t.Errorf("got %+v", obj)
	}
}
