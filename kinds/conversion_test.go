package kinds_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/autoscaling/v1"
	v2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/dump"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds/autoscaling"
	"espalier.dev/kinds/events"
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestConversionOfAutoscalers converts to v1 and back. The annotations are those of kube-apiserver.
func TestConversionOfAutoscalers(t *testing.T) {
	t.Parallel()
	full := decode[v2.HorizontalPodAutoscaler](t, `
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

func TestAutoscalersOfV1(t *testing.T) {
	t.Parallel()
	h := decode[v1.HorizontalPodAutoscaler](t, `
metadata: {name: a, annotations: {autoscaling.alpha.kubernetes.io/metrics: "[{", autoscaling.alpha.kubernetes.io/behavior: "{}", b: c}}
spec: {scaleTargetRef: {kind: A, name: a}, maxReplicas: 3}
status: {currentReplicas: 1, desiredReplicas: 2, currentCPUUtilizationPercentage: 5}
`)
	got := autoscaling.FromV1(h)
	want := decode[v2.HorizontalPodAutoscaler](t, `
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

// TestConversionOfEvents converts random events to the other group and back: no field is lost.
func TestConversionOfEvents(t *testing.T) {
	t.Parallel()
	fill := randfill.NewWithSeed(1).NilChance(0.1).Funcs(
		func(to *metav1.Time, c randfill.Continue) { to.Time = time.Unix(int64(c.Uint32()), 0) },
		func(to *metav1.MicroTime, c randfill.Continue) { to.Time = time.Unix(int64(c.Uint32()), 0) },
		func(*metav1.FieldsV1, randfill.Continue) {},
		func(*metav1.TypeMeta, randfill.Continue) {},
	)
	for range 100 {
		var stored corev1.Event
		fill.Fill(&stored)
		if got := events.FromV1(events.ToV1(&stored)); !reflect.DeepEqual(got, &stored) {
			t.Fatalf("got %s\nwant %s", dump.Pretty(got), dump.Pretty(stored))
		}
		var served eventsv1.Event
		fill.Fill(&served)
		if got := events.ToV1(events.FromV1(&served)); !reflect.DeepEqual(got, &served) {
			t.Fatalf("got %s\nwant %s", dump.Pretty(got), dump.Pretty(served))
		}
	}
}
