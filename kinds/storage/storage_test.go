package storage_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/storage"
)

func TestStorageClasses(t *testing.T) {
	t.Parallel()
	rules := storage.Rules()["storageclasses"]
	valid := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Provisioner: "P"}
	create := kindtest.Create(t, rules, valid)
	if got := create(func(*storagev1.StorageClass) {}); *got.ReclaimPolicy != "Delete" || *got.VolumeBindingMode != "Immediate" {
		t.Errorf("got %+v", got)
	}
	create(func(c *storagev1.StorageClass) {
		c.Provisioner = ""
		c.Parameters = map[string]string{"": strings.Repeat("x", 256*1024+1)}
		c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRecycle)
		c.VolumeBindingMode = new(storagev1.VolumeBindingMode("x"))
		term := corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "k", Values: []string{"v", "v"}}}}
		c.AllowedTopologies = []corev1.TopologySelectorTerm{term, term, {MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "k"}, {Key: "k", Values: []string{"v"}}}}}
	},
		`provisioner: Required value`,
		`parameters: Invalid value: "": field can not be empty.`,
		`parameters: Too long: may not be more than 262144 bytes`,
		`reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`,
		`volumeBindingMode: Unsupported value: "x": supported values: "Immediate", "WaitForFirstConsumer"`,
		`allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "v"`,
		`allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: "v"`,
		`allowedTopologies[1].matchLabelExpressions: Duplicate value: ""`,
		`allowedTopologies[2].matchLabelExpressions[0].values: Required value`,
		`allowedTopologies[2].matchLabelExpressions[1].key: Duplicate value: "k"`,
		`allowedTopologies[2].matchLabelExpressions: Duplicate value: ""`,
		`allowedTopologies[2].matchLabelExpressions: Duplicate value: ""`)
	create(func(c *storagev1.StorageClass) { c.AllowedTopologies = make([]corev1.TopologySelectorTerm, 1) },
		`allowedTopologies[0].matchLabelExpressions: Duplicate value: ""`)
	kindtest.Update(t, rules, "", valid)(func(c *storagev1.StorageClass) {
		c.Provisioner, c.Parameters = "q", map[string]string{"a": "b"}
		c.ReclaimPolicy, c.VolumeBindingMode = new(corev1.PersistentVolumeReclaimRetain), new(storagev1.VolumeBindingWaitForFirstConsumer)
		c.MountOptions = []string{"x"}
	},
		`parameters: Invalid value: {"a":"b"}: field is immutable`,
		`provisioner: Invalid value: "q": field is immutable`,
		`reclaimPolicy: Invalid value: "Retain": field is immutable`,
		`volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`)
	valid.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "beta.kubernetes.io/os"}}}}
	if got := rules.Main.Warnings(valid, nil); len(got) != 1 || got[0] != `allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use "kubernetes.io/os" instead` {
		t.Errorf("got %q", got)
	}
}

func TestOtherClasses(t *testing.T) {
	t.Parallel()
	valid := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, DriverName: "d", Parameters: map[string]string{"a": "b"}}
	kindtest.Create(t, storage.Rules()["volumeattributesclasses"], valid)(func(c *storagev1.VolumeAttributesClass) { c.Parameters = nil },
		`parameters: Required value: must contain at least one key/value pair`)
	kindtest.Update(t, storage.Rules()["volumeattributesclasses"], "", valid)(func(c *storagev1.VolumeAttributesClass) { c.DriverName, c.Parameters["a"] = "e", "c" },
		`driverName: Forbidden: updates to driverName are forbidden.`, `parameters: Forbidden: updates to parameters are forbidden.`)

	capacity := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}, StorageClassName: "c"}
	kindtest.Create(t, storage.Rules()["csistoragecapacities"], capacity)(func(c *storagev1.CSIStorageCapacity) { c.Capacity = new(resource.MustParse("-1")) },
		`capacity: Invalid value: "-1": must be greater than or equal to 0`)
	kindtest.Update(t, storage.Rules()["csistoragecapacities"], "", capacity)(func(c *storagev1.CSIStorageCapacity) {
		c.StorageClassName, c.NodeTopology = "d", &metav1.LabelSelector{}
	}, `nodeTopology: Invalid value: {}: field is immutable`, `storageClassName: Invalid value: "d": field is immutable`)
}

func TestVolumeAttachments(t *testing.T) {
	t.Parallel()
	rules := storage.Rules()["volumeattachments"]
	valid := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true},
	}
	create := kindtest.Create(t, rules, valid)
	if got := create(func(*storagev1.VolumeAttachment) {}); got.Status.Attached {
		t.Errorf("got %+v", got.Status)
	}
	create(func(a *storagev1.VolumeAttachment) { a.Spec = storagev1.VolumeAttachmentSpec{NodeName: "n"} },
		`spec.attacher: Required value`, `spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName`)
	create(func(a *storagev1.VolumeAttachment) { a.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{} },
		`spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName`)
	create(func(a *storagev1.VolumeAttachment) {
		a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{}, Capacity: corev1.ResourceList{"storage": resource.MustParse("1")}, PersistentVolumeReclaimPolicy: "Delete",
			NodeAffinity: &corev1.VolumeNodeAffinity{}, StorageClassName: "c", VolumeMode: new(corev1.PersistentVolumeBlock),
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		}}
	},
		`spec.source.inlineVolumeSpec.claimRef: Forbidden: may not be specified in the context of inline volumes`,
		`spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes`,
		`spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes`,
		`spec.source.inlineVolumeSpec.accessModes: Required value`,
		`spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes`,
		`spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: may not be specified in the context of inline volumes`,
		`spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes`,
		`spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes`)
	kindtest.Update(t, rules, "", valid)(func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "m" },
		`spec: Invalid value: {"Attacher":"d","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"m"}: field is immutable`)
	got := kindtest.Update(t, rules, "status", valid)(func(a *storagev1.VolumeAttachment) {
		a.Spec.NodeName, a.Labels = "m", map[string]string{"a": "b"}
		a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1025), ErrorCode: new(int32(-1))}
	},
		`status.attachError.message: Too long: may not be more than 262144 bytes`,
		`status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive`)
	if got.Spec.NodeName != "n" || got.Labels != nil {
		t.Errorf("got %+v", got)
	}
}

func TestCSI(t *testing.T) {
	t.Parallel()
	rules := storage.Rules()["csidrivers"]
	valid := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	create := kindtest.Create(t, rules, valid)
	got := create(func(d *storagev1.CSIDriver) { d.Spec.PreventPodSchedulingIfMissing = new(true) })
	if s := got.Spec; !*s.AttachRequired || *s.PodInfoOnMount || *s.StorageCapacity || *s.RequiresRepublish || *s.SELinuxMount ||
		*s.FSGroupPolicy != "ReadWriteOnceWithFSType" || s.VolumeLifecycleModes[0] != "Persistent" || s.PreventPodSchedulingIfMissing != nil {
		t.Errorf("got %+v", s)
	}
	create(func(d *storagev1.CSIDriver) {
		d.Spec.FSGroupPolicy = new(storagev1.FSGroupPolicy("x"))
		d.Spec.TokenRequests = []storagev1.TokenRequest{{ExpirationSeconds: new(int64(1))}, {}, {Audience: "a", ExpirationSeconds: new(int64(1<<32 + 1))}}
		d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"y"}
		d.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(9))
	},
		`spec.fsGroupPolicy: Unsupported value: "x": supported values: "File", "None", "ReadWriteOnceWithFSType"`,
		`spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes`,
		`spec.tokenRequests[1].audience: Duplicate value: ""`,
		`spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`,
		`spec.volumeLifecycleModes: Unsupported value: "y": supported values: "Persistent", "Ephemeral"`,
		`spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds`)
	create(func(d *storagev1.CSIDriver) { d.Spec.ServiceAccountTokenInSecrets = new(true) },
		`spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified`)
	update := kindtest.Update(t, rules, "", valid)
	if got := update(func(d *storagev1.CSIDriver) { d.Spec.PodInfoOnMount = new(true) }); got.Generation != 1 {
		t.Errorf("got generation %d", got.Generation)
	}
	update(func(d *storagev1.CSIDriver) {
		d.Spec.AttachRequired, d.Spec.VolumeLifecycleModes = new(false), []storagev1.VolumeLifecycleMode{"Ephemeral"}
	},
		`spec.attachedRequired: Invalid value: false: field is immutable`,
		`spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable`)

	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", NodeID: "n"}}}}
	kindtest.Create(t, storage.Rules()["csinodes"], node)(func(n *storagev1.CSINode) {
		n.Spec.Drivers = []storagev1.CSINodeDriver{{Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(-1))}}, {Name: "d", NodeID: "n", TopologyKeys: []string{"k", "k"}}, {Name: "d", NodeID: "n"}}
	},
		`spec.drivers[0].name: Required value`, `spec.drivers[0].nodeID: Required value`,
		`spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0`,
		`spec.drivers[1]: Duplicate value: "k"`,
		`spec.drivers[2].name: Duplicate value: "d"`)
	updateNode := kindtest.Update(t, storage.Rules()["csinodes"], "", node)
	updateNode(func(n *storagev1.CSINode) {
		n.Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(1))}
	})
	updateNode(func(n *storagev1.CSINode) { n.Spec.Drivers[0].NodeID = "m" },
		`spec.drivers: Invalid value: {"Name":"d","NodeID":"m","TopologyKeys":null,"Allocatable":null}: field is immutable`)
}
