package pods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/pods"
)

// pod returns a valid pod.
func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

func TestPodDefaults(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, pods.Rules()["pods"], pod())
	p := create(func(p *corev1.Pod) {
		p.Spec.DeprecatedServiceAccount = "robot"
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-5)
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		p.Spec.Volumes = []corev1.Volume{{Name: "tmp"}}
		p.Status.Phase = corev1.PodRunning
	})
	c := p.Spec.Containers[0]
	for _, check := range []struct{ name, got, want string }{
		{"dnsPolicy", string(p.Spec.DNSPolicy), "ClusterFirst"},
		{"restartPolicy", string(p.Spec.RestartPolicy), "Always"},
		{"schedulerName", p.Spec.SchedulerName, "default-scheduler"},
		{"serviceAccountName", p.Spec.ServiceAccountName, "robot"},
		{"imagePullPolicy", string(c.ImagePullPolicy), "Always"},
		{"terminationMessagePath", c.TerminationMessagePath, "/dev/termination-log"},
		{"request", c.Resources.Requests.Cpu().String(), "1"},
		{"phase", string(p.Status.Phase), "Pending"},
		{"qosClass", string(p.Status.QOSClass), "Burstable"},
	} {
		if check.got != check.want {
			t.Errorf("%s is %q, want %q", check.name, check.got, check.want)
		}
	}
	if p.Generation != 1 || *p.Spec.TerminationGracePeriodSeconds != 1 || !*p.Spec.EnableServiceLinks || p.Spec.Volumes[0].EmptyDir == nil {
		t.Errorf("wrong defaults: %+v", p)
	}
}

func TestImagePullPolicy(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, pods.Rules()["pods"], pod())
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                         corev1.PullAlways,
		"nginx:latest":                  corev1.PullAlways,
		"nginx:1.27":                    corev1.PullIfNotPresent,
		"nginx" + digest:                corev1.PullIfNotPresent,
		"nginx:latest" + digest:         corev1.PullAlways,
		"registry.example.com:5000/a/b": corev1.PullAlways,
		"localhost/a:v1":                corev1.PullIfNotPresent,
		"Nginx":                         corev1.PullIfNotPresent,
		"Upper/nginx":                   corev1.PullAlways,
		"a//b":                          corev1.PullIfNotPresent,
		digest[len("@sha256:"):]:        corev1.PullIfNotPresent,
	} {
		p := create(func(p *corev1.Pod) { p.Spec.Containers[0].Image = image })
		if got := p.Spec.Containers[0].ImagePullPolicy; got != want {
			t.Errorf("%s is pulled %s, want %s", image, got, want)
		}
	}
}

func TestPodErrors(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, pods.Rules()["pods"], pod())
	create(func(p *corev1.Pod) { p.Spec.Containers = nil }, `spec.containers: Required value`)
	create(func(p *corev1.Pod) {
		p.Name = "Web"
		p.Spec.Containers[0].Name = ""
		p.Spec.Containers[0].Image = ""
	},
		`metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`spec.containers[0].name: Required value`, `spec.containers[0].image: Required value`)
	create(func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" },
		`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`)
	create(func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: "/x"}}
	}, `spec.containers[0].volumeMounts[0].name: Not found: "x"`)
	create(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}, CephFS: &corev1.CephFSVolumeSource{}}}}
	}, `spec.volumes[0].cephFS: Forbidden: may not specify more than 1 volume type`)
}
