package pods

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestManyWarnings checks that the warnings about a pod are bounded: each port and each file is
// compared with all before it.
func TestManyWarnings(t *testing.T) {
	t.Parallel()
	ports := func(n int) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Name = "a"
		pod.Spec.Containers = []corev1.Container{{Name: "a", Ports: make([]corev1.ContainerPort, n)}}
		return pod
	}
	if got := len(podWarnings(ports(30), nil)); got != 30*29/2 {
		t.Errorf("got %d warnings about 30 ports", got)
	}
	if got := len(podWarnings(ports(5000), nil)); got != maxWarnings {
		t.Errorf("got %d warnings about 5000 ports", got)
	}
	pod := ports(0)
	items := make([]corev1.KeyToPath, 20_000)
	for i := range items {
		items[i] = corev1.KeyToPath{Key: "k", Path: fmt.Sprint(i)}
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: items}}}}
	w := &warner{spec: &pod.Spec, meta: &pod.ObjectMeta}
	w.warnOverlaps()
	if most := maxComparisons + len(items); w.compared > most {
		t.Errorf("%d comparisons, more than %d", w.compared, most)
	}
	for i := range items {
		items[i].Path = "same"
	}
	w = &warner{spec: &pod.Spec, meta: &pod.ObjectMeta}
	if w.warnOverlaps(); len(w.list) != maxWarnings {
		t.Errorf("got %d warnings about equal files", len(w.list))
	}
}
