package autoscaling_test

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "k8s.io/api/autoscaling/v1"
	v2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds/autoscaling"
	"espalier.dev/kinds/kind/kindtest"
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

const valid = `
metadata: {name: a, namespace: b}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}
  maxReplicas: 3
`

type hpa = v2.HorizontalPodAutoscaler

func TestDefaults(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, autoscaling.Rules()["horizontalpodautoscalers"], decode[hpa](t, valid))
	got := create(func(h *hpa) {
		h.Spec.Behavior = &v2.HorizontalPodAutoscalerBehavior{ScaleDown: &v2.HPAScalingRules{SelectPolicy: new(v2.DisabledPolicySelect)}}
		h.Annotations = map[string]string{"a": "b", "autoscaling.alpha.kubernetes.io/metrics": "x", "autoscaling.alpha.kubernetes.io/scale-up-tolerance": "x"}
		h.Status.CurrentReplicas = 1
	})
	want := decode[hpa](t, `
metadata: {name: a, namespace: b, annotations: {a: b}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}
  minReplicas: 1
  maxReplicas: 3
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}
  behavior:
    scaleUp:
      selectPolicy: Max
      stabilizationWindowSeconds: 0
      policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]
    scaleDown:
      selectPolicy: Disabled
      policies: [{type: Percent, value: 100, periodSeconds: 15}]
`)
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	rules := autoscaling.Rules()["horizontalpodautoscalers"]
	obj := decode[hpa](t, valid)
	create := kindtest.Create(t, rules, obj)
	create(func(h *hpa) { h.Name = "-" },
		`metadata.name: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`)
	create(func(h *hpa) { h.Spec.MinReplicas, h.Spec.MaxReplicas = new(int32(0)), -1 },
		`spec.minReplicas: Invalid value: 0: must be greater than or equal to 1`,
		`spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1`,
		"spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
		`spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas`)
	create(func(h *hpa) { h.Spec.MaxReplicas, h.Spec.ScaleTargetRef = 0, v2.CrossVersionObjectReference{} },
		`spec.maxReplicas: Required value: must be set and greater than 0`,
		"spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
		`spec.scaleTargetRef.kind: Required value`,
		`spec.scaleTargetRef.name: Required value`,
		`spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`)
	create(func(h *hpa) {
		h.Spec.ScaleTargetRef = v2.CrossVersionObjectReference{APIVersion: "a/b/c", Kind: "a/b", Name: ".."}
	},
		`spec.scaleTargetRef.kind: Invalid value: "a/b": may not contain '/'`,
		`spec.scaleTargetRef.name: Invalid value: "..": may not be '..'`,
		`spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`)
	create(func(h *hpa) {
		h.Spec.ScaleTargetRef = v2.CrossVersionObjectReference{Kind: "ReplicationController", Name: "a"}
	})
	create(func(h *hpa) {
		h.Spec.Behavior = &v2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   &v2.HPAScalingRules{StabilizationWindowSeconds: new(int32(-1)), SelectPolicy: new(v2.ScalingPolicySelect("X")), Policies: []v2.HPAScalingPolicy{}},
			ScaleDown: &v2.HPAScalingRules{StabilizationWindowSeconds: new(int32(3601)), Policies: []v2.HPAScalingPolicy{{Type: "X"}, {Type: "Pods", Value: 1, PeriodSeconds: 1801}}, Tolerance: new(resource.MustParse("-1"))},
		}
	},
		`spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero`,
		`spec.behavior.scaleUp.selectPolicy: Unsupported value: "X": supported values: "Disabled", "Max", "Min"`,
		`spec.behavior.scaleUp.policies: Required value: must specify at least one Policy`,
		`spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600`,
		`spec.behavior.scaleDown.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"`,
		`spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero`,
		`spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero`,
		`spec.behavior.scaleDown.policies[1].periodSeconds: Invalid value: 1801: must be less than or equal to 1800`,
		`spec.behavior.scaleDown.tolerance: Invalid value: "-1": must be greater than or equal to 0`)

	update := kindtest.Update(t, rules, "", obj)
	if got := update(func(h *hpa) { h.Status.CurrentReplicas = 1 }); got.Status.CurrentReplicas != 0 {
		t.Error("an update changes the status")
	}
	update(func(h *hpa) { h.Name = "c" }, `metadata.name: Invalid value: "c": field is immutable`)
	old := create(func(*hpa) {})
	old.Spec.MinReplicas, old.Spec.ScaleTargetRef.APIVersion = new(int32(0)), "a/b/c"
	old.Spec.Metrics = []v2.MetricSpec{{Type: "Object", Object: &v2.ObjectMetricSource{
		DescribedObject: v2.CrossVersionObjectReference{Kind: "A", Name: "a", APIVersion: "a/b/c"}, Metric: v2.MetricIdentifier{Name: "a"}, Target: v2.MetricTarget{Type: "Value", Value: new(resource.MustParse("1"))}}}}
	kindtest.Stored(t, rules, "", old)(func(*hpa) {})
	kindtest.Stored(t, rules, "", old)(func(h *hpa) { h.Spec.ScaleTargetRef.Kind = "X" },
		`spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`)

	status := kindtest.Update(t, rules, "status", obj)
	if got := status(func(h *hpa) { h.Spec.MaxReplicas, h.Status.CurrentReplicas = 0, 1 }); got.Spec.MaxReplicas != 3 || got.Status.CurrentReplicas != 1 {
		t.Errorf("got %+v", got)
	}
	status(func(h *hpa) { h.Status.CurrentReplicas, h.Status.DesiredReplicas = -1, -2 },
		`status.currentReplicas: Invalid value: -1: must be greater than or equal to 0`,
		`status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0`)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, autoscaling.Rules()["horizontalpodautoscalers"], decode[hpa](t, valid))
	metrics := func(text string, want ...string) {
		t.Helper()
		create(func(h *hpa) { h.Spec.Metrics = *decode[[]v2.MetricSpec](t, text) }, want...)
	}
	const types = `supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`
	metrics(`[{type: ""}, {type: X}]`,
		`spec.metrics[0].type: Required value: must specify a metric source type`,
		`spec.metrics[0].type: Unsupported value: "": `+types,
		`spec.metrics[0].type: Unsupported value: "": `+types,
		`spec.metrics[1].type: Unsupported value: "X": `+types,
		`spec.metrics[1].type: Unsupported value: "X": `+types)
	metrics(`[{type: Object}, {type: Pods}, {type: Resource}, {type: External}, {type: ContainerResource}]`,
		`spec.metrics[0].object: Required value: must populate information for the given metric source`,
		`spec.metrics[1].pods: Required value: must populate information for the given metric source`,
		`spec.metrics[2].resource: Required value: must populate information for the given metric source`,
		`spec.metrics[3].external: Required value: must populate information for the given metric source`,
		`spec.metrics[4].containerResource: Required value: must populate information for the given metric source`)
	metrics(`[{type: Resource, pods: {metric: {name: a}, target: {type: AverageValue, averageValue: 1}}, resource: {name: "", target: {type: X}}}]`,
		`spec.metrics[0].pods: Forbidden: must populate the given metric source only`)
	metrics(`[{type: Object, object: {describedObject: {kind: "", name: ""}, metric: {name: ""}, target: {type: "", value: 0}}}, {type: Object, object: {describedObject: {kind: A, name: a}, metric: {name: a}, target: {type: Value}}}]`,
		`spec.metrics[0].object.describedObject.kind: Required value`,
		`spec.metrics[0].object.describedObject.name: Required value`,
		`spec.metrics[0].object.metric.name: Required value: must specify a metric name`,
		`spec.metrics[0].object.target.type: Required value: must specify a metric target type`,
		`spec.metrics[0].object.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue`,
		`spec.metrics[0].object.target.value: Invalid value: "0": must be positive`,
		`spec.metrics[1].object.target.averageValue: Required value: must set either a target value or averageValue`)
	metrics(`[{type: External, external: {metric: {name: a/b}, target: {type: Value, value: 1, averageValue: 0}}}, {type: External, external: {metric: {name: a}, target: {type: Value}}}]`,
		`spec.metrics[0].external.metric.name: Invalid value: "a/b": may not contain '/'`,
		`spec.metrics[0].external.target.averageValue: Invalid value: "0": must be positive`,
		`spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target`,
		`spec.metrics[1].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target`)
	metrics(`[{type: Pods, pods: {metric: {name: a}, target: {type: Value}}}]`,
		`spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue`)
	metrics(`[{type: Resource, resource: {name: "", target: {type: Value}}}, {type: Resource, resource: {name: cpu, target: {type: Value, averageValue: 1, averageUtilization: 0}}}]`,
		`spec.metrics[0].resource.name: Required value: must specify a resource name`,
		`spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization`,
		`spec.metrics[1].resource.target.averageUtilization: Invalid value: 0: must be greater than 0`,
		`spec.metrics[1].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization`)
	metrics(`[{type: ContainerResource, containerResource: {name: "", container: "", target: {type: Value, averageValue: 1}}}, {type: ContainerResource, containerResource: {name: x, container: A, target: {type: Value, averageValue: 1}}}]`,
		`spec.metrics[0].containerResource.name: Required value: must specify a resource name`,
		`spec.metrics[0].containerResource.container: Required value: must specify a container`,
		`spec.metrics[1].containerResource.name: Invalid value: "x": must be a standard resource type or fully qualified`,
		`spec.metrics[1].containerResource.name: Invalid value: "x": must be a standard resource for containers`,
		`spec.metrics[1].containerResource.container: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`)
}

// TestConversion converts to v1 and back. The annotations are those of kube-apiserver.
func TestConversion(t *testing.T) {
	t.Parallel()
	full := decode[hpa](t, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: a, namespace: b}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}
  minReplicas: 2
  maxReplicas: 3
  metrics:
  - {type: Object, object: {describedObject: {apiVersion: v1, kind: A, name: a}, metric: {name: a, selector: {matchLabels: {a: b}}}, target: {type: Value, value: "1"}}}
  - {type: Object, object: {describedObject: {apiVersion: v1, kind: A, name: a}, metric: {name: a}, target: {type: AverageValue, averageValue: "1"}}}
  - {type: Pods, pods: {metric: {name: a}, target: {type: AverageValue, averageValue: "1"}}}
  - {type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 5}}}
  - {type: ContainerResource, containerResource: {name: memory, container: c, target: {type: AverageValue, averageValue: "5"}}}
  - {type: External, external: {metric: {name: a}, target: {type: Value, value: "1"}}}
  - {type: External, external: {metric: {name: a}, target: {type: AverageValue, averageValue: "1"}}}
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
  behavior:
    scaleUp: {selectPolicy: Max, tolerance: "0.1", policies: [{type: Pods, value: 4, periodSeconds: 15}]}
status:
  currentReplicas: 1
  desiredReplicas: 2
  observedGeneration: 3
  conditions: [{type: AbleToScale, status: "True", lastTransitionTime: "2020-01-01T00:00:00Z", reason: r, message: m}]
  currentMetrics:
  - {type: Object, object: {describedObject: {apiVersion: v1, kind: A, name: a}, metric: {name: a}, current: {value: "1", averageValue: "2"}}}
  - {type: Pods, pods: {metric: {name: a}, current: {averageValue: "1"}}}
  - {type: Resource, resource: {name: cpu, current: {averageValue: "1", averageUtilization: 7}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: c, current: {averageValue: "1"}}}
  - {type: External, external: {metric: {name: a}, current: {value: "1"}}}
`)
	old := autoscaling.ToV1(full)
	if n, m := old.Spec.TargetCPUUtilizationPercentage, old.Status.CurrentCPUUtilizationPercentage; n == nil || *n != 50 || m == nil || *m != 7 {
		t.Errorf("got %v and %v", n, m)
	}
	const behavior = `{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":"100m"},"ScaleDown":null}`
	if got := old.Annotations["autoscaling.alpha.kubernetes.io/behavior"]; got != behavior {
		t.Errorf("got %s\nwant %s", got, behavior)
	}
	if got, want := old.Annotations["autoscaling.alpha.kubernetes.io/metrics"], `[{"type":"Object","object":{"target":{"kind":"A","name":"a","apiVersion":"v1"},"metricName":"a","targetValue":"1","selector":{"matchLabels":{"a":"b"}}}},`; !strings.HasPrefix(got, want) {
		t.Errorf("got %s\nwant %s…", got, want)
	}
	back := autoscaling.FromV1(old)
	if !equality.Semantic.DeepEqual(back, full) {
		a, _ := json.Marshal(back)
		b, _ := json.Marshal(full)
		t.Errorf("got %s\nwant %s", a, b)
	}
	if len(old.Annotations) != 4 || len(full.Annotations) != 0 || len(back.Annotations) != 0 {
		t.Errorf("got annotations %v, %v, %v", old.Annotations, full.Annotations, back.Annotations)
	}
}

func TestFromV1(t *testing.T) {
	t.Parallel()
	h := decode[v1.HorizontalPodAutoscaler](t, `
metadata: {name: a, annotations: {autoscaling.alpha.kubernetes.io/metrics: "[{", autoscaling.alpha.kubernetes.io/behavior: "{}", b: c}}
spec: {scaleTargetRef: {kind: A, name: a}, maxReplicas: 3}
status: {currentReplicas: 1, desiredReplicas: 2, currentCPUUtilizationPercentage: 5}
`)
	got := autoscaling.FromV1(h)
	want := decode[hpa](t, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: a, annotations: {b: c}}
spec:
  scaleTargetRef: {kind: A, name: a}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
status: {currentReplicas: 1, desiredReplicas: 2, currentMetrics: [{type: Resource, resource: {name: cpu, current: {averageUtilization: 5}}}]}
`)
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
