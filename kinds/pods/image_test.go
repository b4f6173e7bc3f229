package pods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPullPolicy checks the default policy of images whose name is as long as allowed, with the
// repository that Docker's registry implies, or longer.
func TestPullPolicy(t *testing.T) {
	t.Parallel()
	name := func(n int) string { return strings.Repeat("b", n) }
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                             corev1.PullAlways,
		"nginx:1":                           corev1.PullIfNotPresent,
		name(247):                           corev1.PullAlways,
		name(248):                           corev1.PullIfNotPresent,
		"docker.io/" + name(247):            corev1.PullAlways,
		"docker.io/" + name(248):            corev1.PullIfNotPresent,
		"docker.io/a/" + name(253):          corev1.PullAlways,
		"docker.io/a/" + name(254):          corev1.PullIfNotPresent,
		"registry.example.com/" + name(255): corev1.PullAlways,
		"registry.example.com/" + name(256): corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}

// TestGracePeriod checks how long a deleted pod may take.
func TestGracePeriod(t *testing.T) {
	t.Parallel()
	rules := Rules()["pods"]
	p := &corev1.Pod{}
	rules.Default(p)
	for _, test := range []struct {
		node      string
		phase     corev1.PodPhase
		requested *int64
		want      int64
	}{
		{"", corev1.PodPending, nil, 0},
		{"node", corev1.PodRunning, nil, 30},
		{"node", corev1.PodRunning, new(int64(5)), 5},
		{"node", corev1.PodRunning, new(int64(-5)), 1},
		{"node", corev1.PodSucceeded, nil, 0},
	} {
		p.Spec.NodeName, p.Status.Phase = test.node, test.phase
		if got := rules.Graceful(p, test.requested); got != test.want {
			t.Errorf("%+v: %d seconds", test, got)
		}
	}
}
