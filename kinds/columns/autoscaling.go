package columns

import (
	"fmt"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

func horizontalPodAutoscalerColumns() []column {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
	return []column{
		name(),
		text("Reference", spec["scaleTargetRef"], func(a *autoscalingv2.HorizontalPodAutoscaler) any {
			return a.Spec.ScaleTargetRef.Kind + "/" + a.Spec.ScaleTargetRef.Name
		}),
		text("Targets", spec["metrics"], func(a *autoscalingv2.HorizontalPodAutoscaler) any { return targets(a) }),
		text("MinPods", spec["minReplicas"], func(a *autoscalingv2.HorizontalPodAutoscaler) any {
			if a.Spec.MinReplicas == nil {
				return unset
			}
			return strconv.Itoa(int(*a.Spec.MinReplicas))
		}),
		text("MaxPods", spec["maxReplicas"], func(a *autoscalingv2.HorizontalPodAutoscaler) any { return int64(a.Spec.MaxReplicas) }),
		text("Replicas", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"],
			func(a *autoscalingv2.HorizontalPodAutoscaler) any {
				return int64(a.Status.CurrentReplicas)
			}),
		age(),
	}
}

// targets returns the current and desired values of the first metrics.
func targets(a *autoscalingv2.HorizontalPodAutoscaler) string {
	if len(a.Spec.Metrics) == 0 {
		return none
	}
	all := make([]string, len(a.Spec.Metrics))
	for i, m := range a.Spec.Metrics {
		var status autoscalingv2.MetricStatus
		if i < len(a.Status.CurrentMetrics) {
			status = a.Status.CurrentMetrics[i]
		}
		all[i] = target(m, status)
	}
	return few(all, ", ", 2, len(all))
}

// target returns the current and the desired value of a metric. The status of another metric
// has no current value of this one.
func target(m autoscalingv2.MetricSpec, s autoscalingv2.MetricStatus) string {
	switch {
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		var current *autoscalingv2.MetricValueStatus
		if s.External != nil {
			current = &s.External.Current
		}
		return valueOrAverage(m.External.Target, current)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		var current *autoscalingv2.MetricValueStatus
		if s.Object != nil {
			current = &s.Object.Current
		}
		return valueOrAverage(m.Object.Target, current)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		current := unknown
		if s.Pods != nil {
			current = quantity(s.Pods.Current.AverageValue)
		}
		return current + "/" + quantity(m.Pods.Target.AverageValue)
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		var current *autoscalingv2.MetricValueStatus
		if s.Resource != nil {
			current = &s.Resource.Current
		}
		return string(m.Resource.Name) + ": " + averageOrUtilization(m.Resource.Target, current)
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		var current *autoscalingv2.MetricValueStatus
		if s.ContainerResource != nil {
			current = &s.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + averageOrUtilization(m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

func valueOrAverage(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	now := unknown
	if target.AverageValue != nil {
		if current != nil && current.AverageValue != nil {
			now = quantity(current.AverageValue)
		}
		return now + "/" + quantity(target.AverageValue) + " (avg)"
	}
	if current != nil {
		now = quantity(current.Value)
	}
	return now + "/" + quantity(target.Value)
}

func averageOrUtilization(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	now := unknown
	if target.AverageValue != nil {
		if current != nil {
			now = quantity(current.AverageValue)
		}
		return now + "/" + quantity(target.AverageValue)
	}
	desired := "<auto>"
	if target.AverageUtilization != nil {
		desired = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	if current != nil && current.AverageUtilization != nil {
		now = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	return now + "/" + desired
}

// quantity returns the text of a quantity. Quantities keep their text, so it is that of a copy:
// other requests may read the object.
func quantity(q *resource.Quantity) string {
	if q != nil {
		c := *q
		q = &c
	}
	return q.String()
}
