package apps_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/apps"
	"espalier.dev/kinds/kind/kindtest"
)

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

func TestDeployments(t *testing.T) {
	t.Parallel()
	rules := apps.Rules()["deployments"]
	valid := &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Selector: selector(), Template: template()}}
	create := kindtest.Create(t, rules, valid)
	d := create(func(d *appsv1.Deployment) { d.Status.Replicas = 3 })
	if *d.Spec.Replicas != 1 || d.Spec.Strategy.RollingUpdate.MaxSurge.String() != "25%" || *d.Spec.ProgressDeadlineSeconds != 600 || d.Status.Replicas != 0 || d.Generation != 1 {
		t.Errorf("wrong defaults: %+v", d)
	}
	create(func(d *appsv1.Deployment) { d.Spec.Selector = nil }, "spec.selector: Required value",
		"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`")
	create(func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }, `spec.selector: Invalid value: {}: empty selector is invalid for deployment`)
	create(func(d *appsv1.Deployment) { d.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever },
		`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`)
	create(func(d *appsv1.Deployment) { d.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) },
		`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported`)
	create(func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromString("0%"))}
	}, "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0")
	create(func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "x" },
		`spec.strategy: Unsupported value: {"Type":"x","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"`)
	create(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 600 }, `spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds`)
	create(func(d *appsv1.Deployment) { d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "-1"} },
		`spec.rollback.version: Invalid value: -1: must be greater than or equal to 0`)

	update := kindtest.Update(t, rules, "", valid)
	if d := update(func(d *appsv1.Deployment) { d.Spec.Paused = true }); d.Generation != 2 {
		t.Errorf("the generation is %d after a change", d.Generation)
	}
	update(func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchLabels["app"] = "db"
		d.Spec.Template.Labels["app"] = "db"
	},
		`spec.selector: Invalid value: {"matchLabels":{"app":"db"}}: field is immutable`)

	status := kindtest.Update(t, rules, "status", valid)
	d = status(func(d *appsv1.Deployment) { d.Spec.Paused = true; d.Status.Replicas = 2; d.Status.ReadyReplicas = 1 })
	if d.Spec.Paused || d.Status.Replicas != 2 {
		t.Errorf("the status has written %+v", d)
	}
	status(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1; d.Status.UpdatedReplicas = -1 },
		`status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0`,
		`status.readyReplicas: Invalid value: 1: cannot be greater than status.replicas`)
}

func TestReplicaSets(t *testing.T) {
	t.Parallel()
	rules := apps.Rules()["replicasets"]
	valid := &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Selector: selector(), Template: template()}}
	create := kindtest.Create(t, rules, valid)
	rs := create(func(*appsv1.ReplicaSet) {})
	if got := rules.Fields(rs)["status.replicas"]; got != "0" {
		t.Errorf("the field status.replicas is %q", got)
	}
	create(func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To[int32](-1) }, `spec.replicas: Invalid value: -1: must be greater than or equal to 0`)
	kindtest.Update(t, rules, "status", valid)(func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas = 1; rs.Status.Replicas = 1 },
		`status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas`)
}

func TestStatefulSets(t *testing.T) {
	t.Parallel()
	rules := apps.Rules()["statefulsets"]
	valid := &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Selector: selector(), Template: template(), ServiceName: "web"}}
	create := kindtest.Create(t, rules, valid)
	set := create(func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(2))}}
	})
	if set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil || *set.Spec.UpdateStrategy.RollingUpdate.Partition != 0 || set.Spec.PodManagementPolicy != "OrderedReady" {
		t.Errorf("wrong defaults: %+v", set.Spec)
	}
	create(func(set *appsv1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
		set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}, `spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required`,
		`spec.volumeClaimTemplates[0].spec.resources[storage]: Required value`)
	create(func(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = "x" },
		`spec.podManagementPolicy: Invalid value: "x": must be 'OrderedReady' or 'Parallel'`)

	update := kindtest.Update(t, rules, "", valid)
	update(func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](3) })
	update(func(set *appsv1.StatefulSet) { set.Spec.ServiceName = "other" },
		`spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden`)
}

func TestDaemonSets(t *testing.T) {
	t.Parallel()
	rules := apps.Rules()["daemonsets"]
	valid := &appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: template()}}
	create := kindtest.Create(t, rules, valid)
	create(func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.FromInt32(1))}
	}, `spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero`)

	update := kindtest.Update(t, rules, "", valid)
	for change, want := range map[string]string{"nginx": "1", "nginx:2": "2"} {
		ds := update(func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = change })
		if got := ds.Annotations[appsv1.DeprecatedTemplateGeneration]; got != want {
			t.Errorf("the generation of the template is %q with the image %s, want %s", got, change, want)
		}
	}
	kindtest.Update(t, rules, "status", valid)(func(ds *appsv1.DaemonSet) { ds.Status.NumberReady = -1 },
		`status.numberReady: Invalid value: -1: must be greater than or equal to 0`)
}

func TestControllerRevisions(t *testing.T) {
	t.Parallel()
	rules := apps.Rules()["controllerrevisions"]
	valid := &appsv1.ControllerRevision{ObjectMeta: meta(), Data: runtime.RawExtension{Raw: []byte(`{"a":1}`)}}
	create := kindtest.Create(t, rules, valid)
	create(func(r *appsv1.ControllerRevision) { r.Data.Raw = nil }, `data: Required value: data is mandatory`)
	create(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`[]`) }, `data: Required value: data must be a valid JSON object`)
	create(func(r *appsv1.ControllerRevision) { r.Revision = -1 }, `revision: Invalid value: -1: must be greater than or equal to 0`)
	kindtest.Update(t, rules, "", valid)(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"a":2}`) },
		`data: Invalid value: {"a":2}: field is immutable`)
}
