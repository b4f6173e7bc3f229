package columns_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds/columns"
	"espalier.dev/kinds/kind"
)

// long is a time 20 years ago.
var long = metav1.NewTime(time.Now().AddDate(-20, 0, -100))

func object[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func cells(t *testing.T, obj kind.Object) string {
	t.Helper()
	table := columns.For(obj)
	if table == nil {
		t.Fatalf("%T has no columns", obj)
	}
	row := table.Row(obj)
	if len(row.Cells) != len(table.Definitions()) {
		t.Errorf("%T: %d cells in %d columns", obj, len(row.Cells), len(table.Definitions()))
	}
	return strings.TrimSuffix(fmt.Sprintln(row.Cells...), "\n")
}

func TestPods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pod, want string }{
		{"no status", `{spec: {containers: [{name: a}]}}`, "p 0/1  0 20y <none> <none> <none> <none>"},
		{"pending", `{spec: {containers: [{name: a}], nodeName: node}, status: {phase: Pending, podIP: 10.0.0.1}}`, "p 0/1 Pending 0 20y 10.0.0.1 node <none> <none>"},
		{"reason", `{status: {phase: Failed, reason: Evicted}}`, "p 0/0 Evicted 0 20y <none> <none> <none> <none>"},
		{"gated", `{status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}}`,
			"p 0/0 SchedulingGated 0 20y <none> <none> <none> <none>"},
		{"running", `{spec: {containers: [{name: a}, {name: b}]}, status: {phase: Running, containerStatuses: [
			{name: a, ready: true, restartCount: 2, state: {running: {}}, lastState: {terminated: {exitCode: 1, finishedAt: "2001-01-01T00:00:00Z"}}},
			{name: b, state: {waiting: {reason: CrashLoopBackOff}}, restartCount: 1}]}}`, "p 1/2 CrashLoopBackOff 3 (AGE ago) 20y <none> <none> <none> <none>"},
		{"ended", `{spec: {containers: [{name: a}]}, status: {phase: Running, containerStatuses: [{name: a, state: {terminated: {exitCode: 3}}}]}}`,
			"p 0/1 ExitCode:3 0 20y <none> <none> <none> <none>"},
		{"killed", `{spec: {containers: [{name: a}]}, status: {phase: Running, containerStatuses: [{name: a, state: {terminated: {signal: 9}}}]}}`,
			"p 0/1 Signal:9 0 20y <none> <none> <none> <none>"},
		{"half completed", `{spec: {containers: [{name: a}, {name: b}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [
			{name: a, state: {terminated: {reason: Completed}}}, {name: b, ready: true, state: {running: {}}}]}}`, "p 1/2 Running 0 20y <none> <none> <none> <none>"},
		{"half completed, not ready", `{spec: {containers: [{name: a}, {name: b}]}, status: {phase: Running, containerStatuses: [
			{name: a, state: {terminated: {reason: Completed}}}, {name: b, ready: true, state: {running: {}}}]}}`, "p 1/2 NotReady 0 20y <none> <none> <none> <none>"},
		{"init", `{spec: {initContainers: [{name: i}, {name: j}], containers: [{name: a}]}, status: {phase: Pending, initContainerStatuses: [
			{name: i, state: {terminated: {exitCode: 0}}, restartCount: 4}, {name: j, state: {running: {}}}]}}`, "p 0/1 Init:1/2 4 20y <none> <none> <none> <none>"},
		{"init failed", `{spec: {initContainers: [{name: i}], containers: [{name: a}]}, status: {phase: Pending, initContainerStatuses: [
			{name: i, state: {terminated: {exitCode: 7}}}]}}`, "p 0/1 Init:ExitCode:7 0 20y <none> <none> <none> <none>"},
		{"sidecar", `{spec: {initContainers: [{name: i, restartPolicy: Always}], containers: [{name: a}]}, status: {phase: Running,
			initContainerStatuses: [{name: i, started: true, ready: true, restartCount: 5, state: {running: {}}}],
			containerStatuses: [{name: a, ready: true, restartCount: 1, state: {running: {}}}]}}`, "p 2/2 Running 6 20y <none> <none> <none> <none>"},
		{"terminating", `{metadata: {deletionTimestamp: "2020-01-01T00:00:00Z"}, status: {phase: Running}}`, "p 0/0 Terminating 0 20y <none> <none> <none> <none>"},
		{"lost", `{metadata: {deletionTimestamp: "2020-01-01T00:00:00Z"}, status: {phase: Running, reason: NodeLost}}`, "p 0/0 Unknown 0 20y <none> <none> <none> <none>"},
		{"gates", `{spec: {readinessGates: [{conditionType: x}, {conditionType: y}]}, status: {phase: Running, conditions: [{type: x, status: "True"}, {type: y, status: "False"}]}}`,
			"p 0/0 Running 0 20y <none> <none> <none> 1/2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pod := object[corev1.Pod](t, c.pod)
			pod.Name, pod.CreationTimestamp = "p", long
			age := time.Since(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).Hours() / 24 / 365
			if got, want := cells(t, pod), strings.Replace(c.want, "AGE", fmt.Sprintf("%dy", int(age)), 1); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestPodConditions(t *testing.T) {
	t.Parallel()
	for phase, want := range map[corev1.PodPhase]string{corev1.PodRunning: "", corev1.PodSucceeded: "Succeeded", corev1.PodFailed: "Failed"} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		got := ""
		for _, c := range columns.For(pod).Row(pod).Conditions {
			if c.Type != metav1.RowCompleted || c.Status != metav1.ConditionTrue {
				t.Errorf("%s: unexpected condition %v", phase, c)
			}
			got += c.Reason
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", phase, got, want)
		}
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	created := metav1.ObjectMeta{Name: "x", CreationTimestamp: long}
	for _, c := range []struct {
		obj  kind.Object
		want string
	}{
		{&corev1.Service{ObjectMeta: created, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.0.0.1"},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30000, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}},
		}}, "x LoadBalancer 10.0.0.1 <pending> 80:30000/TCP,53/UDP 20y <none>"},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: long, Labels: map[string]string{
			"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge",
		}}, Spec: corev1.NodeSpec{Unschedulable: true}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1", Architecture: "arm64"},
		}}, "x Ready,SchedulingDisabled edge,worker 20y v1 <none> <none> <unknown> <unknown> (arm64) <unknown>"},
		{&corev1.Event{
			ObjectMeta: created, LastTimestamp: long, FirstTimestamp: long, Type: "Normal", Reason: "R", Message: " m\n", Source: corev1.EventSource{Component: "c", Host: "h"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", FieldPath: "f"},
		}, "20y Normal R pod/p f c, h m 20y 1 x"},
		{&eventsv1.Event{
			ObjectMeta: created, EventTime: metav1.MicroTime(long), Note: "m", Regarding: corev1.ObjectReference{Kind: "Pod"}, ReportingController: "c",
			Series: &eventsv1.EventSeries{Count: 3, LastObservedTime: metav1.MicroTime(long)},
		}, "20y   pod  c m 20y 3 x"},
		{&networkingv1.Ingress{ObjectMeta: created, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
			{Host: "a"}, {}, {Host: "b"}, {Host: "c"}, {Host: "d"},
		}}}, "x <none> a,b,c + 2 more...  80 20y"},
		{&rbacv1.RoleBinding{ObjectMeta: created, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{
			{Kind: "User", Name: "u"}, {Kind: "ServiceAccount", Namespace: "n", Name: "s"}, {Kind: "User", Name: "v"},
		}}, "x Role/r 20y u, v  n/s"},
		{&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: created, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d"}, MinReplicas: ptr.To[int32](1), MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{AverageUtilization: ptr.To[int32](80)}}},
				{Type: "External", External: &autoscalingv2.ExternalMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: ptr.To(resource.MustParse("2"))}}},
				{Type: "Other"},
			},
		}}, "x Deployment/d cpu: <unknown>/80%, <unknown>/2 (avg) + 1 more... 1 5 0 20y"},
		{&corev1.ResourceQuota{ObjectMeta: created, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"limits.cpu": resource.MustParse("2"), "requests.cpu": resource.MustParse("1"), "pods": resource.MustParse("4")},
			Used: corev1.ResourceList{"pods": resource.MustParse("3")},
		}}, "x pods: 3/4, requests.cpu: 0/1 limits.cpu: 0/2 20y"},
	} {
		if got := cells(t, c.obj); got != c.want {
			t.Errorf("%T:\ngot  %s\nwant %s", c.obj, got, c.want)
		}
	}
}

// Every kind of client-go's scheme can be shown.
func TestEmptyObjects(t *testing.T) {
	t.Parallel()
	special := 0
	for gvk, of := range scheme.Scheme.AllKnownTypes() {
		obj, ok := reflect.New(of).Interface().(kind.Object)
		if !ok || columns.For(obj) == nil {
			continue
		}
		special++
		cells(t, obj)
		list, err := scheme.Scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			continue // Scale has none
		}
		if table := columns.For(list); table == nil || len(table.Definitions()) == 0 {
			t.Errorf("%T has no columns", list)
		}
	}
	if special < 50 {
		t.Errorf("%d kinds have columns of their own", special)
	}
}

func TestConvert(t *testing.T) {
	t.Parallel()
	convert := func(obj runtime.Object, options runtime.Object) *metav1.Table {
		t.Helper()
		table, err := columns.Convert(obj, options)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	schemas := &flowcontrolv1.FlowSchemaList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c", RemainingItemCount: ptr.To[int64](3)}}
	for name, precedence := range map[string]int32{"c": 2, "a": 9, "b": 2} {
		schemas.Items = append(schemas.Items, flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: precedence},
		})
	}
	table := convert(schemas, &metav1.TableOptions{})
	if table.ResourceVersion != "7" || table.Continue != "c" || *table.RemainingItemCount != 3 || len(table.ColumnDefinitions) != 6 {
		t.Errorf("unexpected table %+v", table)
	}
	var order string
	for _, row := range table.Rows {
		order += row.Cells[0].(string)
	}
	if order != "bca" {
		t.Errorf("got flow schemas %s", order)
	}
	if table := convert(schemas, &metav1.TableOptions{NoHeaders: true}); table.ColumnDefinitions != nil {
		t.Errorf("unexpected headers %v", table.ColumnDefinitions)
	}
	one := convert(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: "5"}}, nil)
	if one.ResourceVersion != "5" || len(one.Rows) != 1 || one.Rows[0].Cells[0] != "s" {
		t.Errorf("unexpected table %+v", one)
	}
	if empty := convert(&corev1.PodList{}, nil); empty.Rows == nil || len(empty.ColumnDefinitions) != 9 {
		t.Errorf("unexpected table %+v", empty)
	}
	if role := convert(&rbacv1.Role{}, nil); role != nil {
		t.Errorf("unexpected table %+v", role)
	}
}
