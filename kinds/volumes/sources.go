package volumes

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// source is a source that a volume has.
type source struct {
	// field is the name of the field in errors about more than one source, and path the one in
	// errors of the source. In kube-apiserver, some differ.
	field, path string
	check       func(path *field.Path) field.ErrorList
}

// sources returns the sources of a volume, in the order in which they are validated. name is the
// name of the volume.
func sources(s *corev1.PersistentVolumeSource, name string) (list []source) {
	list = appendSource(list, "hostPath", "hostPath", s.HostPath, rules.HostPath)
	list = appendSource(list, "gcePersistentDisk", "persistentDisk", s.GCEPersistentDisk, rules.GCEPersistentDisk)
	list = appendSource(list, "awsElasticBlockStore", "awsElasticBlockStore", s.AWSElasticBlockStore, rules.AWSElasticBlockStore)
	list = appendSource(list, "glusterfs", "glusterfs", s.Glusterfs, glusterfs)
	list = appendSource(list, "flocker", "flocker", s.Flocker, rules.Flocker)
	list = appendSource(list, "nfs", "nfs", s.NFS, rules.NFS)
	list = appendSource(list, "rbd", "rbd", s.RBD, rbd)
	list = appendSource(list, "quobyte", "quobyte", s.Quobyte, rules.Quobyte)
	list = appendSource(list, "cephFS", "cephfs", s.CephFS, cephFS)
	list = appendSource(list, "iscsi", "iscsi", s.ISCSI, func(v *corev1.ISCSIPersistentVolumeSource, path *field.Path) field.ErrorList {
		return iscsi(v, name, path)
	})
	list = appendSource(list, "cinder", "cinder", s.Cinder, cinder)
	list = appendSource(list, "fc", "fc", s.FC, rules.FC)
	list = appendSource(list, "flexVolume", "flexVolume", s.FlexVolume, flexVolume)
	list = appendSource(list, "azureFile", "azureFile", s.AzureFile, azureFile)
	list = appendSource(list, "vsphereVolume", "vsphereVolume", s.VsphereVolume, rules.VsphereVolume)
	list = appendSource(list, "photonPersistentDisk", "photonPersistentDisk", s.PhotonPersistentDisk, rules.PhotonPersistentDisk)
	list = appendSource(list, "portworxVolume", "portworxVolume", s.PortworxVolume, rules.PortworxVolume)
	list = appendSource(list, "azureDisk", "azureDisk", s.AzureDisk, rules.AzureDisk)
	list = appendSource(list, "scaleIO", "scaleIO", s.ScaleIO, scaleIO)
	list = appendSource(list, localField, localField, s.Local, local)
	list = appendSource(list, "storageos", "storageos", s.StorageOS, storageOS)
	return appendSource(list, "csi", "csi", s.CSI, csi)
}

const localField = "local"

func appendSource[T any](list []source, name, path string, v *T, check func(*T, *field.Path) field.ErrorList) []source {
	if v == nil {
		return list
	}
	return append(list, source{name, path, func(path *field.Path) field.ErrorList { return check(v, path) }})
}

func setSourceDefaults(s *corev1.PersistentVolumeSource) {
	if v := s.HostPath; v != nil {
		rules.SetDefaultPointer(&v.Type, corev1.HostPathUnset)
	}
	if v := s.RBD; v != nil {
		rules.SetDefault(&v.RBDPool, "rbd")
		rules.SetDefault(&v.RadosUser, "admin")
		rules.SetDefault(&v.Keyring, "/etc/ceph/keyring")
	}
	if v := s.ISCSI; v != nil {
		rules.SetDefault(&v.ISCSIInterface, "default")
	}
	if v := s.AzureDisk; v != nil {
		rules.SetDefaultPointer(&v.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		rules.SetDefaultPointer(&v.FSType, "ext4")
		rules.SetDefaultPointer(&v.ReadOnly, false)
		rules.SetDefaultPointer(&v.Kind, corev1.AzureSharedBlobDisk)
	}
	if v := s.ScaleIO; v != nil {
		rules.SetDefault(&v.StorageMode, "ThinProvisioned")
		rules.SetDefault(&v.FSType, "xfs")
	}
}

func glusterfs(v *corev1.GlusterfsPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.Required(v.EndpointsName, path.Child("endpoints"))
	errs = append(errs, rules.Required(v.Path, path.Child("path"))...)
	if namespace := v.EndpointsNamespace; namespace != nil {
		if *namespace == "" {
			return append(errs, field.Invalid(path.Child("endpointsNamespace"), "",
				"if the endpointnamespace is set, it must be a valid namespace name"))
		}
		errs = append(errs, rules.Invalid(*namespace, path.Child("endpointsNamespace"),
			apivalidation.ValidateNamespaceName(*namespace, false))...)
	}
	return errs
}

func rbd(v *corev1.RBDPersistentVolumeSource, path *field.Path) (errs field.ErrorList) {
	if len(v.CephMonitors) == 0 {
		errs = append(errs, field.Required(path.Child("monitors"), ""))
	}
	return append(errs, rules.Required(v.RBDImage, path.Child("image"))...)
}

func cephFS(v *corev1.CephFSPersistentVolumeSource, path *field.Path) field.ErrorList {
	if len(v.Monitors) == 0 {
		return field.ErrorList{field.Required(path.Child("monitors"), "")}
	}
	return nil
}

func iscsi(v *corev1.ISCSIPersistentVolumeSource, name string, path *field.Path) field.ErrorList {
	const malformed = "must be valid format"
	errs := rules.Required(v.TargetPortal, path.Child("targetPortal"))
	if v.InitiatorName != nil && len(name)+1+len(v.TargetPortal) > 64 {
		errs = append(errs, field.Invalid(path.Child("targetportal"), v.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if v.IQN == "" {
		errs = append(errs, field.Required(path.Child("iqn"), ""))
	} else if len(rules.ISCSIName(v.IQN, nil)) > 0 {
		errs = append(errs, field.Invalid(path.Child("iqn"), v.IQN, malformed))
	}
	if v.Lun < 0 || v.Lun > 255 {
		errs = append(errs, field.Invalid(path.Child("lun"), v.Lun, validation.InclusiveRangeError(0, 255)))
	}
	if (v.DiscoveryCHAPAuth || v.SessionCHAPAuth) && v.SecretRef == nil {
		errs = append(errs, field.Required(path.Child("secretRef"), ""))
	}
	if v.SecretRef != nil {
		errs = append(errs, rules.Required(v.SecretRef.Name, path.Child("secretRef", "name"))...)
	}
	if name := v.InitiatorName; name != nil && len(rules.ISCSIName(*name, nil)) > 0 {
		errs = append(errs, field.Invalid(path.Child("initiatorname"), *name, malformed))
	}
	return errs
}

func cinder(v *corev1.CinderPersistentVolumeSource, path *field.Path) field.ErrorList {
	return append(rules.Required(v.VolumeID, path.Child("volumeID")), requiredReference(v.SecretRef, path.Child("secretRef"))...)
}

// requiredReference validates that a reference has a name and a namespace, if there is one.
func requiredReference(ref *corev1.SecretReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return append(rules.Required(ref.Name, path.Child("name")), rules.Required(ref.Namespace, path.Child("namespace"))...)
}

func flexVolume(v *corev1.FlexPersistentVolumeSource, path *field.Path) field.ErrorList {
	return append(rules.Required(v.Driver, path.Child("driver")), rules.FlexOptions(v.Options, path.Child("options"))...)
}

func azureFile(v *corev1.AzureFilePersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.Required(v.SecretName, path.Child("secretName"))
	errs = append(errs, rules.Required(v.ShareName, path.Child("shareName"))...)
	if v.SecretNamespace != nil {
		errs = append(errs, rules.Required(*v.SecretNamespace, path.Child("secretNamespace"))...)
	}
	return errs
}

func scaleIO(v *corev1.ScaleIOPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.Required(v.Gateway, path.Child("gateway"))
	errs = append(errs, rules.Required(v.System, path.Child("system"))...)
	return append(errs, rules.Required(v.VolumeName, path.Child("volumeName"))...)
}

func local(v *corev1.LocalVolumeSource, path *field.Path) field.ErrorList {
	if v.Path == "" {
		return field.ErrorList{field.Required(path.Child("path"), "")}
	}
	return rules.NoBacksteps(v.Path, path.Child("path"))
}

func storageOS(v *corev1.StorageOSPersistentVolumeSource, path *field.Path) (errs field.ErrorList) {
	if v.VolumeName == "" {
		errs = append(errs, field.Required(path.Child("volumeName"), ""))
	} else {
		errs = append(errs, rules.Label(v.VolumeName, path.Child("volumeName"))...)
	}
	if v.VolumeNamespace != "" {
		errs = append(errs, rules.Label(v.VolumeNamespace, path.Child("volumeNamespace"))...)
	}
	if v.SecretRef != nil {
		errs = append(errs, rules.Required(v.SecretRef.Name, path.Child("secretRef", "name"))...)
		errs = append(errs, rules.Required(v.SecretRef.Namespace, path.Child("secretRef", "namespace"))...)
	}
	return errs
}

func csi(v *corev1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.CSIDriverName(v.Driver, path.Child("driver"))
	errs = append(errs, rules.Required(v.VolumeHandle, path.Child("volumeHandle"))...)
	errs = append(errs, secret(v.ControllerPublishSecretRef, path.Child("controllerPublishSecretRef"))...)
	errs = append(errs, secret(v.ControllerExpandSecretRef, path.Child("controllerExpandSecretRef"))...)
	errs = append(errs, secret(v.NodePublishSecretRef, path.Child("nodePublishSecretRef"))...)
	return append(errs, secret(v.NodeExpandSecretRef, path.Child("nodeExpandSecretRef"))...)
}

// secret validates a reference, if there is one.
func secret(ref *corev1.SecretReference, path *field.Path) (errs field.ErrorList) {
	if ref == nil {
		return nil
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, rules.Subdomain(ref.Name, path.Child("name"))...)
	}
	if ref.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), ""))
	}
	return append(errs, rules.Label(ref.Namespace, path.Child("namespace"))...)
}
