package columns

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func storageClassColumns() []column {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return []column{
		nameWith(marked("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")),
		text("Provisioner", doc["provisioner"], func(c *storagev1.StorageClass) any { return c.Provisioner }),
		text("ReclaimPolicy", doc["reclaimPolicy"], func(c *storagev1.StorageClass) any {
			return orElse(c.ReclaimPolicy, string(corev1.PersistentVolumeReclaimDelete))
		}),
		text("VolumeBindingMode", doc["volumeBindingMode"], func(c *storagev1.StorageClass) any {
			return orElse(c.VolumeBindingMode, string(storagev1.VolumeBindingImmediate))
		}),
		text("AllowVolumeExpansion", doc["allowVolumeExpansion"],
			func(c *storagev1.StorageClass) any { return ptr.Deref(c.AllowVolumeExpansion, false) }),
		age(),
	}
}

func volumeAttributesClassColumns() []column {
	return []column{
		name(),
		text("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"],
			func(c *storagev1.VolumeAttributesClass) any { return c.DriverName }),
		age(),
	}
}

func volumeAttachmentColumns() []column {
	spec := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	attacher := text("Attacher", spec["attacher"], func(a *storagev1.VolumeAttachment) any { return a.Spec.Attacher })
	attacher.Format = "name"
	return []column{
		name(),
		attacher,
		text("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"], func(a *storagev1.VolumeAttachment) any {
			return orElse(a.Spec.Source.PersistentVolumeName, "")
		}),
		text("Node", spec["nodeName"], func(a *storagev1.VolumeAttachment) any { return a.Spec.NodeName }),
		flag("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"],
			func(a *storagev1.VolumeAttachment) any { return a.Status.Attached }),
		age(),
	}
}

func csiNodeColumns() []column {
	return []column{
		name(),
		number("Drivers", "Drivers indicates the number of CSI drivers registered on the node",
			func(n *storagev1.CSINode) any { return count(n.Spec.Drivers) }),
		age(),
	}
}

func csiDriverColumns() []column {
	spec := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return []column{
		name(),
		flag("AttachRequired", spec["attachRequired"], func(d *storagev1.CSIDriver) any { return ptr.Deref(d.Spec.AttachRequired, true) }),
		flag("PodInfoOnMount", spec["podInfoOnMount"], func(d *storagev1.CSIDriver) any { return ptr.Deref(d.Spec.PodInfoOnMount, false) }),
		flag("StorageCapacity", spec["storageCapacity"],
			func(d *storagev1.CSIDriver) any { return ptr.Deref(d.Spec.StorageCapacity, false) }),
		text("TokenRequests", spec["tokenRequests"], func(d *storagev1.CSIDriver) any {
			if d.Spec.TokenRequests == nil {
				return unset
			}
			return joined(d.Spec.TokenRequests, ",", func(r storagev1.TokenRequest) string { return r.Audience })
		}),
		flag("RequiresRepublish", spec["requiresRepublish"],
			func(d *storagev1.CSIDriver) any { return ptr.Deref(d.Spec.RequiresRepublish, false) }),
		text("Modes", spec["volumeLifecycleModes"], func(d *storagev1.CSIDriver) any {
			return or(joined(d.Spec.VolumeLifecycleModes, ",", func(m storagev1.VolumeLifecycleMode) string { return string(m) }), none)
		}),
		age(),
	}
}

func storageVersionMigrationColumns() []column {
	named := name()
	named.Format = ""
	return []column{
		named,
		text("Resource", "GroupResource to migrate",
			func(m *storagemigrationv1.StorageVersionMigration) any { return m.Spec.Resource.String() }),
		text("Status", "Status of the migration", func(m *storagemigrationv1.StorageVersionMigration) any {
			states := []string{string(storagemigrationv1.MigrationRunning),
				string(storagemigrationv1.MigrationSucceeded), string(storagemigrationv1.MigrationFailed)}
			for _, c := range slices.Backward(m.Status.Conditions) { // the last one counts
				if c.Status == metav1.ConditionTrue && slices.Contains(states, c.Type) {
					return c.Type
				}
			}
			return "Unknown"
		}),
	}
}
