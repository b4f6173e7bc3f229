package node_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/node"
)

func TestRuntimeClasses(t *testing.T) {
	t.Parallel()
	rules := node.Rules()["runtimeclasses"]
	valid := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Handler: "h"}
	create := kindtest.Create(t, rules, valid)
	create(func(c *nodev1.RuntimeClass) {
		c.Handler = ""
		c.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("1Mi"), "pods": resource.MustParse("1")}}
		c.Scheduling = &nodev1.Scheduling{Tolerations: []corev1.Toleration{{Key: "k", Operator: "x"}, {Key: "k", Operator: "x"}}}
	},
		`handler: Required value`,
		`overhead.limits[hugepages-2Mi]: Invalid value: "1Mi": 1Mi is not positive integer multiple of hugepages-2Mi`,
		`overhead.limits[pods]: Invalid value: "pods": must be a standard resource for containers`,
		`overhead: Forbidden: HugePages require cpu or memory`,
		`scheduling.tolerations[0].operator: Unsupported value: "x": supported values: "Equal", "Exists"`,
		`scheduling.tolerations[1].operator: Unsupported value: "x": supported values: "Equal", "Exists"`,
		`scheduling.tolerations[1]: Duplicate value: {"Key":"k","Operator":"x","Value":"","Effect":"","TolerationSeconds":null}`)
	kindtest.Update(t, rules, "", valid)(func(c *nodev1.RuntimeClass) { c.Handler = "i" }, `handler: Invalid value: "i": field is immutable`)
	valid.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{"beta.kubernetes.io/arch": ""}}
	if got := rules.Main.Warnings(valid, nil); len(got) != 1 || got[0] != `scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/arch" instead` {
		t.Errorf("got %q", got)
	}
}
