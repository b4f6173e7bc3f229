package rules

import (
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The volumes of pods and persistent volumes have these sources in common.

// NoBacksteps rejects paths that contain "..".
func NoBacksteps(name string, at *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(name, "/"), "..") {
		return field.ErrorList{field.Invalid(at, name, "must not contain '..'")}
	}
	return nil
}

// RelativePath rejects absolute paths and those that contain "..".
func RelativePath(name string, at *field.Path) (errs field.ErrorList) {
	if path.IsAbs(name) {
		errs = append(errs, field.Invalid(at, name, "must be a relative path"))
	}
	return append(errs, NoBacksteps(name, at)...)
}

// RelativeFile is RelativePath for files in volumes, where names that start with ".." are
// reserved.
func RelativeFile(name string, at *field.Path) field.ErrorList {
	errs := RelativePath(name, at)
	if strings.HasPrefix(name, "..") && !strings.HasPrefix(name, "../") {
		errs = append(errs, field.Invalid(at, name, "must not start with '..'"))
	}
	return errs
}

// HostPath validates a path of the node.
func HostPath(v *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if v.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := NoBacksteps(v.Path, at.Child("path"))
	if v.Type != nil {
		errs = append(errs, Enum(*v.Type, at.Child("type"), corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev,
			corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)...)
	}
	return errs
}

// GCEPersistentDisk validates a disk of Google Compute Engine.
func GCEPersistentDisk(v *corev1.GCEPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return append(Required(v.PDName, at.Child("pdName")), partition(v.Partition, at)...)
}

// AWSElasticBlockStore validates a disk of AWS.
func AWSElasticBlockStore(v *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) field.ErrorList {
	return append(Required(v.VolumeID, at.Child("volumeID")), partition(v.Partition, at)...)
}

func partition(number int32, at *field.Path) field.ErrorList {
	if number < 0 || number > 255 {
		return field.ErrorList{field.Invalid(at.Child("partition"), number, validation.InclusiveRangeError(1, 255))}
	}
	return nil
}

// NFS validates an NFS mount.
func NFS(v *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := Required(v.Server, at.Child("server"))
	errs = append(errs, Required(v.Path, at.Child("path"))...)
	if !path.IsAbs(v.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), v.Path, "must be an absolute path"))
	}
	return errs
}

// FC validates a Fibre Channel volume.
func FC(v *corev1.FCVolumeSource, at *field.Path) (errs field.ErrorList) {
	targets, ids := len(v.TargetWWNs) > 0, len(v.WWIDs) > 0
	if !targets && !ids {
		errs = append(errs, field.Required(at.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	}
	if targets && ids {
		errs = append(errs, field.Invalid(at.Child("targetWWNs"), v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case !targets:
	case v.Lun == nil:
		errs = append(errs, field.Required(at.Child("lun"), "lun is required if targetWWNs is specified"))
	case *v.Lun < 0 || *v.Lun > 255:
		errs = append(errs, field.Invalid(at.Child("lun"), v.Lun, validation.InclusiveRangeError(0, 255)))
	}
	return errs
}

// Quobyte validates a Quobyte volume.
func Quobyte(v *corev1.QuobyteVolumeSource, at *field.Path) (errs field.ErrorList) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case v.Registry == "":
		errs = append(errs, field.Required(at.Child("registry"), pairs))
	case len(v.Tenant) > 64:
		errs = append(errs, field.Required(at.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(v.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(at.Child("registry"), v.Registry, pairs))
			}
		}
	}
	return append(errs, Required(v.Volume, at.Child("volume"))...)
}

// Flocker validates a Flocker volume.
func Flocker(v *corev1.FlockerVolumeSource, at *field.Path) (errs field.ErrorList) {
	if v.DatasetName == "" && v.DatasetUUID == "" {
		errs = append(errs, field.Required(at, "one of datasetName and datasetUUID is required"))
	}
	if v.DatasetName != "" && v.DatasetUUID != "" {
		errs = append(errs, field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(v.DatasetName, "/") {
		errs = append(errs, field.Invalid(at.Child("datasetName"), v.DatasetName, "must not contain '/'"))
	}
	return errs
}

// AzureDisk validates a disk of Azure.
func AzureDisk(v *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	errs := Required(v.DiskName, at.Child("diskName"))
	errs = append(errs, Required(v.DataDiskURI, at.Child("diskURI"))...)
	if v.CachingMode != nil {
		errs = append(errs, Enum(*v.CachingMode, at.Child("cachingMode"),
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if v.Kind == nil {
		return errs
	}
	errs = append(errs, Enum(*v.Kind, at.Child("kind"), corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)...)
	prefix, example := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *v.Kind == corev1.AzureManagedDisk {
		prefix, example = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(v.DataDiskURI, prefix) {
		errs = append(errs, field.NotSupported(at.Child("diskURI"), v.DataDiskURI, []string{example}))
	}
	return errs
}

// VsphereVolume validates a disk of vSphere.
func VsphereVolume(v *corev1.VsphereVirtualDiskVolumeSource, at *field.Path) field.ErrorList {
	return Required(v.VolumePath, at.Child("volumePath"))
}

// PhotonPersistentDisk validates a disk of Photon.
func PhotonPersistentDisk(v *corev1.PhotonPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return Required(v.PdID, at.Child("pdID"))
}

// PortworxVolume validates a volume of Portworx.
func PortworxVolume(v *corev1.PortworxVolumeSource, at *field.Path) field.ErrorList {
	return Required(v.VolumeID, at.Child("volumeID"))
}

var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

// ISCSIName validates the name of an iSCSI target or initiator.
func ISCSIName(name string, at *field.Path) field.ErrorList {
	if len(name) >= 3 {
		if format, ok := iscsiNames[name[:3]]; ok {
			if format.MatchString(name) {
				return nil
			}
			return field.ErrorList{field.Invalid(at, name, "must be valid format")}
		}
	}
	return field.ErrorList{field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa")}
}

// FlexOptions rejects options of a Flex volume in the domains of Kubernetes.
func FlexOptions(options map[string]string, at *field.Path) (errs field.ErrorList) {
	for _, key := range Keys(options) {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			errs = append(errs, field.Invalid(at.Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

// CSIDriverName validates the name of a CSI driver.
func CSIDriverName(name string, at *field.Path) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(name) > 63 {
		errs = append(errs, field.TooLong(at, "", 63))
	}
	return append(errs, Invalid(name, at, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}
