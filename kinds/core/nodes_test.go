package core_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/core"
	"espalier.dev/kinds/kind/kindtest"
)

func TestNodes(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["nodes"]
	valid := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", ProviderID: "p"}}
	create := kindtest.Create(t, rules, valid)
	got := create(func(n *corev1.Node) {
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1")}
		n.Spec.ConfigSource = &corev1.NodeConfigSource{}
	})
	if len(got.Spec.PodCIDRs) != 1 || got.Status.Allocatable.Cpu().Value() != 1 || got.Spec.ConfigSource != nil {
		t.Errorf("got %+v", got)
	}
	create(func(n *corev1.Node) {
		n.Annotations = map[string]string{"scheduler.alpha.kubernetes.io/taints": "x", "scheduler.alpha.kubernetes.io/preferAvoidPods": `{"preferAvoidPods":[{}]}`}
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: "x"}, {Key: "k", Effect: "x", Value: "-"}}
		n.Status.Capacity = corev1.ResourceList{"pods": resource.MustParse("-1500m")}
		n.Status.NodeInfo.Swap = &corev1.NodeSwapStatus{Capacity: new(int64(0))}
		n.Status.DeclaredFeatures = []string{"b", "A", "A"}
		n.Spec.PodCIDR, n.Spec.PodCIDRs = "", []string{"10.0.0.0/24", "10.0.1.0/24"}
	},
		`metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": invalid character 'x' looking for beginning of value`,
		`metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature: Required value`,
		`metadata.taints[0].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		`metadata.taints[1].value: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		`metadata.taints[1].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		`metadata.taints[1]: Duplicate value: {"Key":"k","Value":"-","Effect":"x","TimeAdded":null}: taints must be unique by key and effect pair`,
		`status.capacity.pods: Invalid value: "-1500m": must be greater than or equal to 0`,
		`status.capacity.pods: Invalid value: "-1500m": must be an integer`,
		`status.allocatable.pods: Invalid value: "-1500m": must be greater than or equal to 0`,
		`status.allocatable.pods: Invalid value: "-1500m": must be an integer`,
		`metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero`,
		`status.declaredFeatures[0]: Invalid value: "b": invalid feature name "b": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes`,
		`status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically`,
		`status.declaredFeatures[2]: Duplicate value: "A"`,
		`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family`)

	kindtest.Update(t, rules, "", valid)(func(n *corev1.Node) {
		n.Spec.PodCIDR, n.Spec.ProviderID, n.Spec.DoNotUseExternalID = "10.0.1.0/24", "q", "x"
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1")}
	},
		`spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`,
		`spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`,
		`spec.externalID: Forbidden: may not be updated`)
	got = kindtest.Update(t, rules, "status", valid)(func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Status.Config = &corev1.NodeConfigStatus{Active: &corev1.NodeConfigSource{}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: "x"}, {Type: "x"}}
	}, `status.addresses[1]: Duplicate value: {"Type":"x","Address":""}`)
	if got.Spec.Unschedulable || got.Status.Config != nil {
		t.Errorf("got %+v", got)
	}

	// Stored objects may have fields that Kubernetes has removed.
	old := valid.DeepCopy()
	old.ResourceVersion = "1"
	old.Spec.ConfigSource = &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{UID: "u"}}
	old.Status.Config = &corev1.NodeConfigStatus{Assigned: &corev1.NodeConfigSource{}, Active: &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{Namespace: "n", Name: "m", KubeletConfigKey: "k"}}}
	kindtest.Errors(t, rules.Status.Validate(old, old),
		`spec.configSource.configMap.uid: Forbidden: uid must not be set in spec`,
		`spec.configSource.configMap.namespace: Required value`,
		`spec.configSource.configMap.name: Required value`,
		`spec.configSource.configMap.kubeletConfigKey: Required value`,
		`status.config.assigned: Invalid value: {"ConfigMap":null}: exactly one reference subfield must be non-nil`,
		`status.config.active.configMap.uid: Required value`,
		`status.config.active.configMap.resourceVersion: Required value`)
	if got := rules.Fields(&corev1.Node{}); got["spec.unschedulable"] != "false" {
		t.Errorf("got %v", got)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	rules := core.Rules()["endpoints"]
	valid := &corev1.Endpoints{ObjectMeta: named(), Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}, Ports: []corev1.EndpointPort{{Port: 1}}}}}
	create := kindtest.Create(t, rules, valid)
	if got := create(func(*corev1.Endpoints) {}); got.Subsets[0].Ports[0].Protocol != "TCP" {
		t.Errorf("got %+v", got)
	}
	create(func(e *corev1.Endpoints) {
		e.Subsets = []corev1.EndpointSubset{{Ports: []corev1.EndpointPort{{Protocol: "x"}, {Name: "A", Port: 1, AppProtocol: new("a/b/c")}}},
			{NotReadyAddresses: []corev1.EndpointAddress{{IP: "127.0.0.1", Hostname: "a.b", NodeName: new("-")}}}}
	},
		"subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
		`subsets[0].ports[0].name: Required value`,
		`subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive`,
		`subsets[0].ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"`,
		`subsets[0].ports[1].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		`subsets[0].ports[1].appProtocol: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
		`subsets[1].notReadyAddresses[0].hostname: Invalid value: "a.b": must not contain dots`,
		`subsets[1].notReadyAddresses[0].nodeName: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`subsets[1].notReadyAddresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`)
	stored := valid.DeepCopy()
	stored.ResourceVersion = "1"
	stored.Subsets[0].Addresses[0].IP = "x"
	kindtest.Errors(t, rules.Main.Validate(stored, stored))
}
