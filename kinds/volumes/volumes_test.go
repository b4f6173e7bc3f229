package volumes_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/volumes"
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{"storage": resource.MustParse(size)}
}

func volume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			Capacity:               storage("1Gi"),
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		},
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, volumes.Rules()["persistentvolumes"], volume())
	got := create(func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound })
	if got.Status.Phase != "Pending" || got.Status.LastPhaseTransitionTime.IsZero() || got.Spec.PersistentVolumeReclaimPolicy != "Retain" || *got.Spec.VolumeMode != "Filesystem" {
		t.Errorf("got %+v", got)
	}
	create(func(pv *corev1.PersistentVolume) {
		pv.Annotations = map[string]string{"volume.beta.kubernetes.io/mount-options": ""}
		pv.Spec = corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: "x",
			NodeAffinity:                  &corev1.VolumeNodeAffinity{},
			StorageClassName:              "A_",
			VolumeMode:                    new(corev1.PersistentVolumeMode("y")),
			VolumeAttributesClassName:     new(""),
		}
	},
		`spec.accessModes: Required value`,
		`spec.capacity: Required value`,
		`spec.capacity: Unsupported value: null: supported values: "storage"`,
		`spec.persistentVolumeReclaimPolicy: Unsupported value: "x": supported values: "Delete", "Recycle", "Retain"`,
		`spec.nodeAffinity.required: Required value: must specify required node constraints`,
		`spec: Required value: must specify a volume type`,
		`spec.storageClassName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`spec.volumeMode: Unsupported value: "y": supported values: "Block", "Filesystem"`,
		`spec.volumeAttributesClassName: Required value: an empty string is disallowed`,
		`spec.csi: Required value: has to be specified when using volumeAttributesClassName`,
		`metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type`)
	create(func(pv *corev1.PersistentVolume) {
		pv.Spec.Capacity["cpu"] = resource.MustParse("-1")
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteOncePod", "ReadOnlyMany", "x"}
	},
		`spec.accessModes: Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
		`spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes`,
		`spec.capacity: Unsupported value: {"cpu":"-1","storage":"1Gi"}: supported values: "storage"`,
		`spec.capacity[cpu]: Invalid value: -1: must be a valid resource quantity`,
		`spec.capacity[cpu]: Invalid value: "-1": must be greater than zero`)
}

func TestSources(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, volumes.Rules()["persistentvolumes"], volume())
	with := func(s corev1.PersistentVolumeSource) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeSource = s }
	}
	create(with(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}, NFS: &corev1.NFSVolumeSource{}, FlexVolume: &corev1.FlexPersistentVolumeSource{}}),
		`spec.nfs: Forbidden: may not specify more than 1 volume type`, `spec.flexVolume.driver: Required value`)
	create(with(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "../a"}}),
		`spec.local.path: Invalid value: "../a": must not contain '..'`, `spec.nodeAffinity: Required value: Local volume requires node affinity`)
	create(with(corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{NodePublishSecretRef: &corev1.SecretReference{Name: "A"}}}),
		`spec.csi.driver: Required value`, `spec.csi.volumeHandle: Required value`,
		`spec.csi.nodePublishSecretRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`spec.csi.nodePublishSecretRef.namespace: Required value`)
	create(with(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
		TargetPortal: strings.Repeat("x", 63), IQN: "x", Lun: 256, SessionCHAPAuth: true, InitiatorName: new("iqn.x")}}),
		`spec.iscsi.targetportal: Invalid value: "`+strings.Repeat("x", 63)+`": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.`,
		`spec.iscsi.iqn: Invalid value: "x": must be valid format`,
		`spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive`,
		`spec.iscsi.secretRef: Required value`,
		`spec.iscsi.initiatorname: Invalid value: "iqn.x": must be valid format`)
	for _, c := range []struct {
		source corev1.PersistentVolumeSource
		errors []string
	}{
		{corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsNamespace: new("")}},
			[]string{`glusterfs.endpoints: Required value`, `glusterfs.path: Required value`, `glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name`}},
		{corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}, []string{`rbd.monitors: Required value`, `rbd.image: Required value`}},
		{corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{}}, []string{`cephfs.monitors: Required value`}},
		{corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: &corev1.SecretReference{}}},
			[]string{`cinder.volumeID: Required value`, `cinder.secretRef.name: Required value`, `cinder.secretRef.namespace: Required value`}},
		{corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretNamespace: new("")}},
			[]string{`azureFile.secretName: Required value`, `azureFile.shareName: Required value`, `azureFile.secretNamespace: Required value`}},
		{corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{}},
			[]string{`scaleIO.gateway: Required value`, `scaleIO.system: Required value`, `scaleIO.volumeName: Required value`}},
		{corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{SecretRef: &corev1.ObjectReference{}}},
			[]string{`storageos.volumeName: Required value`, `storageos.secretRef.name: Required value`, `storageos.secretRef.namespace: Required value`}},
		{corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}, []string{`persistentDisk.pdName: Required value`}},
	} {
		for i := range c.errors {
			c.errors[i] = "spec." + c.errors[i]
		}
		create(with(c.source), c.errors...)
	}
}

func TestVolumeUpdates(t *testing.T) {
	t.Parallel()
	rules := volumes.Rules()["persistentvolumes"]
	term := func(key string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: "Exists"}}}}}}
	}
	valid := volume()
	valid.Spec.NodeAffinity = term("beta.kubernetes.io/os")
	valid.Spec.VolumeAttributesClassName = new("c")
	update := kindtest.Update(t, rules, "", valid)
	update(func(pv *corev1.PersistentVolume) {
		pv.Spec.NodeAffinity = term("kubernetes.io/os")
		pv.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "a", Namespace: "b"}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Name: "c"}
	})
	update(func(pv *corev1.PersistentVolume) {
		pv.Spec.NodeAffinity = term("x")
		pv.Spec.CSI.VolumeHandle = "i"
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		pv.Spec.VolumeAttributesClassName = nil
	},
		"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -22,7 +22,7 @@\n  \"StorageOS\": null,\n  \"CSI\": {\n   \"Driver\": \"d\",\n-  \"VolumeHandle\": \"h\",\n+  \"VolumeHandle\": \"i\",\n   \"ReadOnly\": false,\n   \"FSType\": \"\",\n   \"VolumeAttributes\": null,\n",
		`volumeMode: Invalid value: "Block": field is immutable`,
		`nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"x","Operator":"Exists","Values":null}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA`,
		`spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden`)
	update(func(pv *corev1.PersistentVolume) { pv.Spec.AccessModes = nil }, `spec.accessModes: Required value`, `spec.accessModes: Required value`)

	status := kindtest.Update(t, rules, "status", valid)
	set := metav1.NewTime(time.Unix(1, 0))
	if got := status(func(pv *corev1.PersistentVolume) { pv.Status.Phase, pv.Status.LastPhaseTransitionTime = "Bound", &set }); !got.Status.LastPhaseTransitionTime.Equal(&set) {
		t.Errorf("got %+v", got.Status)
	}
	if got := status(func(pv *corev1.PersistentVolume) { pv.Status.Phase, pv.Status.LastPhaseTransitionTime = "Bound", nil }); got.Status.LastPhaseTransitionTime.IsZero() {
		t.Errorf("got %+v", got.Status)
	}
	status(func(pv *corev1.PersistentVolume) { pv.ResourceVersion = "" },
		`metadata.resourceVersion: Invalid value: "": must be specified for an update`, `resourceVersion: Required value`)
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			Resources:   corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		},
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	rules := volumes.Rules()["persistentvolumeclaims"]
	create := kindtest.Create(t, rules, claim())
	got := create(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Status.Phase = "Bound"
		pvc.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "c"}
	})
	if got.Status.Phase != "" || got.Spec.DataSourceRef.Name != "c" || *got.Spec.VolumeMode != "Filesystem" {
		t.Errorf("got %+v", got)
	}
	got = create(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "Other", Name: "c"}
	})
	if got.Spec.DataSource != nil || got.Spec.DataSourceRef != nil {
		t.Errorf("got %+v", got.Spec)
	}
	got = create(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("example.com"), Kind: "Other", Name: "c"}
	})
	if got.Spec.DataSource.Name != "c" || *got.Spec.DataSource.APIGroup != "example.com" {
		t.Errorf("got %+v", got.Spec)
	}
	got = create(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.DataSourceRef = &corev1.TypedObjectReference{Namespace: new("n"), Kind: "Other", Name: "c"}
	})
	if got.Spec.DataSourceRef != nil {
		t.Errorf("got %+v", got.Spec)
	}
	create(func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.Resources.Requests = nil }, `spec.resources[storage]: Required value`)

	valid := claim()
	valid.Annotations = map[string]string{"volume.beta.kubernetes.io/storage-class": "c"}
	update := kindtest.Update(t, rules, "", valid)
	update(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.VolumeName, pvc.Spec.StorageClassName = "v", new("c")
		delete(pvc.Annotations, "volume.beta.kubernetes.io/storage-class")
	})
	update(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Annotations["volume.beta.kubernetes.io/storage-class"] = "d"
		pvc.Spec.Resources.Requests = storage("2Gi")
	},
		`metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "d": field is immutable`,
		"spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n")

	bound := claim()
	bound.ResourceVersion = "1"
	bound.Status = corev1.PersistentVolumeClaimStatus{Phase: "Bound", Capacity: storage("1Gi"), CurrentVolumeAttributesClassName: new("x")}
	bound.Spec.VolumeAttributesClassName = new("x")
	change := func(f func(*corev1.PersistentVolumeClaim), want ...string) {
		t.Helper()
		pvc := bound.DeepCopy()
		f(pvc)
		rules.Main.Prepare(pvc, bound)
		kindtest.Errors(t, rules.Main.Validate(pvc, bound), want...)
	}
	change(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.Resources.Requests = storage("2Gi")
		pvc.Spec.VolumeAttributesClassName = new("y")
	})
	change(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.Resources.Requests = storage("1Mi")
		pvc.Spec.VolumeAttributesClassName = nil
		pvc.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	},
		"spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n@@ -11,7 +11,7 @@\n  },\n  \"VolumeName\": \"\",\n  \"StorageClassName\": null,\n- \"VolumeMode\": null,\n+ \"VolumeMode\": \"Block\",\n  \"DataSource\": null,\n  \"DataSourceRef\": null,\n  \"VolumeAttributesClassName\": \"x\"\n",
		`spec.resources.requests.storage: Forbidden: field can not be less than status.capacity`,
		`volumeMode: Invalid value: "Block": field is immutable`,
		`spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil`)

	kindtest.Update(t, rules, "status", claim())(func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Status.Capacity = storage("-1")
		pvc.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"cpu": "x"}
		pvc.Status.AllocatedResources = storage("-1")
	},
		`status.capacity[storage]: Invalid value: -1: must be a valid resource quantity`,
		`status.allocatedResourceStatuses: Unsupported value: "cpu": supported values: "storage"`,
		`status.allocatedResourceStatuses: Unsupported value: "cpu": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"`,
		`status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity`)
}
