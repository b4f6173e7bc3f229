package pods_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/pods"
)

func TestPodUpdates(t *testing.T) {
	t.Parallel()
	rules := pods.Rules()["pods"]
	update := kindtest.Update(t, rules, "", pod())
	p := update(func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = "nginx:2"
		p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
		p.Status.Phase = corev1.PodRunning
	})
	if p.Generation != 2 || p.Status.Phase != corev1.PodPending {
		t.Errorf("generation %d and phase %s after an update", p.Generation, p.Status.Phase)
	}
	update(func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
	},
		`spec.containers: Forbidden: pod updates may not add or remove containers`)
	update(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}} },
		`spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a'`)

	old := pod()
	old.Name = "web"
	rules.Default(old)
	old.ResourceVersion = "1"
	changed := old.DeepCopy()
	changed.Spec.Hostname = "other"
	errs := rules.Main.Validate(changed, old)
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,") ||
		!strings.Contains(errs[0].Error(), "\n- \"Hostname\": \"\",\n+ \"Hostname\": \"other\",\n") {
		t.Errorf("a change of the host name: %v", errs)
	}

	gated := pod()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}}
	gated.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	update = kindtest.Update(t, rules, "", gated)
	update(func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	update(func(p *corev1.Pod) { p.Spec.NodeSelector["zone"] = "a" })
	update(func(p *corev1.Pod) { p.Spec.NodeSelector = nil },
		`spec.nodeSelector: Invalid value: null: only additions to spec.nodeSelector are allowed (no mutations or deletions)`)
}

func TestPodSubresources(t *testing.T) {
	t.Parallel()
	rules := pods.Rules()["pods"]
	status := kindtest.Update(t, rules, "status", pod())
	p := status(func(p *corev1.Pod) {
		p.Spec.NodeName = "other"
		p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "10.0.0.1"
	})
	if p.Spec.NodeName != "" || p.Status.PodIPs[0].IP != "10.0.0.1" {
		t.Errorf("the status has written %+v", p)
	}
	if got := rules.Fields(p); got["status.phase"] != "Running" || got["status.podIP"] != "10.0.0.1" || got["spec.hostNetwork"] != "false" {
		t.Errorf("wrong fields: %v", got)
	}
	status(func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed }, `status.qosClass: Invalid value: "Guaranteed": field is immutable`)
	status(func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "x"}} },
		`status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`)

	ephemeral := kindtest.Update(t, rules, "ephemeralcontainers", pod())
	debug := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}
	ephemeral(func(p *corev1.Pod) { p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debug} })
	ephemeral(func(p *corev1.Pod) {
		c := debug
		c.Name, c.Ports = "web", []corev1.ContainerPort{{ContainerPort: 80}}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{c}
	}, `spec.ephemeralContainers[0].name: Duplicate value: "web"`, `spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container`)

	sized := pod()
	sized.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	resize := kindtest.Update(t, rules, "resize", sized)
	if p := resize(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") }); p.Generation != 2 {
		t.Errorf("generation %d after a resize", p.Generation)
	}
	resize(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil },
		`spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing`,
		`spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed`)
}

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	rules := pods.Rules()["pods"]
	p := pod()
	rules.Default(p)
	for _, test := range []struct {
		node      string
		phase     corev1.PodPhase
		requested *int64
		want      int64
	}{
		{"", corev1.PodPending, nil, 0},
		{"node", corev1.PodRunning, nil, 30},
		{"node", corev1.PodRunning, ptr.To[int64](5), 5},
		{"node", corev1.PodRunning, ptr.To[int64](-5), 1},
		{"node", corev1.PodSucceeded, nil, 0},
	} {
		p.Spec.NodeName, p.Status.Phase = test.node, test.phase
		if got := rules.Graceful(p, test.requested); got != test.want {
			t.Errorf("%+v: %d seconds", test, got)
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	valid := &corev1.ReplicationController{ObjectMeta: pod().ObjectMeta, Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{Spec: pod().Spec}}}
	valid.Spec.Template.Labels = map[string]string{"app": "web"}
	create := kindtest.Create(t, pods.Rules()["replicationcontrollers"], valid)
	rc := create(func(*corev1.ReplicationController) {})
	if rc.Spec.Selector["app"] != "web" || *rc.Spec.Replicas != 1 || rc.Labels["app"] != "web" {
		t.Errorf("wrong defaults: %+v", rc)
	}
	create(func(rc *corev1.ReplicationController) { rc.Spec.Template = nil }, `spec.selector: Required value`, `spec.template: Required value`)

	templates := pods.Rules()["podtemplates"]
	template := &corev1.PodTemplate{ObjectMeta: pod().ObjectMeta, Template: *valid.Spec.Template}
	warned := kindtest.Create(t, templates, template)(func(t *corev1.PodTemplate) {
		t.Template.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m"}, RBDImage: "i"}}}}
	})
	if got := templates.Main.Warnings(warned, nil); len(got) != 1 || got[0] != "template.spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+" {
		t.Errorf("warnings: %q", got)
	}
}
