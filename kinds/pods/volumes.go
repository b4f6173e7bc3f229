package pods

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// checkVolumes validates the volumes of a pod. Later rules find the valid ones in c.volumes.
func (c *checker) checkVolumes(path *field.Path) {
	// The names of the claims that are created for ephemeral volumes.
	created := sets.New[string]()
	if c.meta != nil && c.meta.Name != "" {
		for _, volume := range c.spec.Volumes {
			if volume.Ephemeral != nil {
				created.Insert(c.meta.Name + "-" + volume.Name)
			}
		}
	}
	c.volumes = map[string]*corev1.VolumeSource{}
	for i := range c.spec.Volumes {
		volume, at := &c.spec.Volumes[i], path.Index(i)
		before := len(c.errs)
		c.checkVolume(volume, at)
		if volume.Name == "" {
			c.add(field.Required(at.Child("name"), ""))
		} else {
			c.add(rules.Label(volume.Name, at.Child("name"))...)
		}
		if c.volumes[volume.Name] != nil {
			c.add(field.Duplicate(at.Child("name"), volume.Name))
		}
		if len(c.errs) == before {
			c.volumes[volume.Name] = &volume.VolumeSource
		}
		if claim := volume.PersistentVolumeClaim; claim != nil && created.Has(claim.ClaimName) {
			c.add(field.Invalid(at.Child("persistentVolumeClaim", "claimName"), claim.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
}

// volumeType is a type of volumes.
type volumeType struct {
	// name is the field, conflict the name in errors about a second type, if it is different.
	name, conflict string
	set            func(v *corev1.VolumeSource) bool
	check          func(c *checker, v *corev1.VolumeSource, path *field.Path)
}

// source describes a type by the function that returns it and one that validates it.
func source[T any](name string, get func(v *corev1.VolumeSource) *T, validate func(*T, *field.Path) field.ErrorList) volumeType {
	return checked(name, get, func(c *checker, v *T, path *field.Path) { c.add(validate(v, path)...) })
}

// checked is source for types whose rules depend on the pod.
func checked[T any](name string, get func(v *corev1.VolumeSource) *T, check func(*checker, *T, *field.Path)) volumeType {
	return volumeType{
		name:  name,
		set:   func(v *corev1.VolumeSource) bool { return get(v) != nil },
		check: func(c *checker, v *corev1.VolumeSource, path *field.Path) { check(c, get(v), path) },
	}
}

// as renames a type in errors about a second type.
func (t volumeType) as(conflict string) volumeType {
	t.conflict = conflict
	return t
}

// volumeTypes are all types, in the order of kube-apiserver, and with its paths.
var volumeTypes = sync.OnceValue(func() []volumeType {
	type v = *corev1.VolumeSource
	return []volumeType{
		source("emptyDir", func(s v) *corev1.EmptyDirVolumeSource { return s.EmptyDir }, validateEmptyDir),
		source("hostPath", func(s v) *corev1.HostPathVolumeSource { return s.HostPath }, rules.HostPath),
		source("gitRepo", func(s v) *corev1.GitRepoVolumeSource { return s.GitRepo }, validateGitRepo),
		source("persistentDisk", func(s v) *corev1.GCEPersistentDiskVolumeSource { return s.GCEPersistentDisk },
			rules.GCEPersistentDisk).as("gcePersistentDisk"),
		source("awsElasticBlockStore", func(s v) *corev1.AWSElasticBlockStoreVolumeSource { return s.AWSElasticBlockStore },
			rules.AWSElasticBlockStore),
		source("secret", func(s v) *corev1.SecretVolumeSource { return s.Secret }, validateSecret),
		source("nfs", func(s v) *corev1.NFSVolumeSource { return s.NFS }, rules.NFS),
		source("iscsi", func(s v) *corev1.ISCSIVolumeSource { return s.ISCSI }, validateISCSI),
		source("glusterfs", func(s v) *corev1.GlusterfsVolumeSource { return s.Glusterfs }, validateGlusterfs),
		source("flocker", func(s v) *corev1.FlockerVolumeSource { return s.Flocker }, rules.Flocker),
		source("persistentVolumeClaim", func(s v) *corev1.PersistentVolumeClaimVolumeSource { return s.PersistentVolumeClaim },
			validateClaim),
		source("rbd", func(s v) *corev1.RBDVolumeSource { return s.RBD }, validateRBD),
		source("cinder", func(s v) *corev1.CinderVolumeSource { return s.Cinder }, validateCinder),
		source("cephfs", func(s v) *corev1.CephFSVolumeSource { return s.CephFS }, validateCephFS).as("cephFS"),
		source("quobyte", func(s v) *corev1.QuobyteVolumeSource { return s.Quobyte }, rules.Quobyte),
		checked("downwardAPI", func(s v) *corev1.DownwardAPIVolumeSource { return s.DownwardAPI },
			(*checker).checkDownwardAPI).as("downwarAPI"),
		source("fc", func(s v) *corev1.FCVolumeSource { return s.FC }, rules.FC),
		source("flexVolume", func(s v) *corev1.FlexVolumeSource { return s.FlexVolume }, validateFlex),
		source("configMap", func(s v) *corev1.ConfigMapVolumeSource { return s.ConfigMap }, validateConfigMap),
		source("azureFile", func(s v) *corev1.AzureFileVolumeSource { return s.AzureFile }, validateAzureFile),
		source("vsphereVolume", func(s v) *corev1.VsphereVirtualDiskVolumeSource { return s.VsphereVolume }, rules.VsphereVolume),
		source("photonPersistentDisk", func(s v) *corev1.PhotonPersistentDiskVolumeSource { return s.PhotonPersistentDisk },
			rules.PhotonPersistentDisk),
		source("portworxVolume", func(s v) *corev1.PortworxVolumeSource { return s.PortworxVolume }, rules.PortworxVolume),
		source("azureDisk", func(s v) *corev1.AzureDiskVolumeSource { return s.AzureDisk }, rules.AzureDisk),
		source("storageos", func(s v) *corev1.StorageOSVolumeSource { return s.StorageOS }, validateStorageOS),
		checked("projected", func(s v) *corev1.ProjectedVolumeSource { return s.Projected }, (*checker).checkProjected),
		source("scaleIO", func(s v) *corev1.ScaleIOVolumeSource { return s.ScaleIO }, validateScaleIO),
		source("csi", func(s v) *corev1.CSIVolumeSource { return s.CSI }, validateCSI),
		source("ephemeral", func(s v) *corev1.EphemeralVolumeSource { return s.Ephemeral }, validateEphemeral),
		checked("image", func(s v) *corev1.ImageVolumeSource { return s.Image }, (*checker).checkImage),
	}
})

// checkVolume validates the source of a volume, which must have exactly one type.
func (c *checker) checkVolume(volume *corev1.Volume, path *field.Path) {
	found := false
	for _, t := range volumeTypes() {
		if !t.set(&volume.VolumeSource) {
			continue
		}
		if found {
			name := t.conflict
			rules.SetDefault(&name, t.name)
			c.add(field.Forbidden(path.Child(name), "may not specify more than 1 volume type"))
		} else {
			found = true
			t.check(c, &volume.VolumeSource, path.Child(t.name))
			if t.name == "ephemeral" {
				c.checkCreatedClaim(volume.Name, path.Child("name"))
			}
		}
		const maxInitiator = 64
		if iscsi := volume.ISCSI; t.name == "iscsi" && iscsi.InitiatorName != nil &&
			len(volume.Name+":"+iscsi.TargetPortal) > maxInitiator {
			c.add(field.Invalid(path.Child("name"), volume.Name,
				"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
		}
	}
	if !found {
		c.add(field.Required(path, "must specify a volume type"))
	}
}

// checkCreatedClaim validates the name of the claim that is created for an ephemeral volume.
func (c *checker) checkCreatedClaim(volume string, path *field.Path) {
	if c.meta == nil || c.meta.Name == "" || volume == "" {
		return
	}
	name := c.meta.Name + "-" + volume
	for _, message := range apivalidation.NameIsDNSSubdomain(name, false) {
		c.add(field.Invalid(path, volume, fmt.Sprintf("PVC name %q: %v", name, message)))
	}
}

func validateEmptyDir(v *corev1.EmptyDirVolumeSource, path *field.Path) field.ErrorList {
	if v.SizeLimit != nil && v.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(path.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

func validateGitRepo(v *corev1.GitRepoVolumeSource, path *field.Path) field.ErrorList {
	return append(rules.Required(v.Repository, path.Child("repository")), rules.RelativePath(v.Directory, path.Child("directory"))...)
}

func validateMode(mode *int32, path *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(path, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

func validateSecret(v *corev1.SecretVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.Required(v.SecretName, path.Child("secretName"))
	return append(errs, validateFiles(v.Items, v.DefaultMode, path)...)
}

func validateConfigMap(v *corev1.ConfigMapVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.Required(v.Name, path.Child("name"))
	return append(errs, validateFiles(v.Items, v.DefaultMode, path)...)
}

func validateFiles(items []corev1.KeyToPath, mode *int32, path *field.Path) field.ErrorList {
	errs := validateMode(mode, path.Child("defaultMode"))
	for i := range items {
		errs = append(errs, validateFile(&items[i], path.Child("items").Index(i))...)
	}
	return errs
}

func validateFile(item *corev1.KeyToPath, path *field.Path) field.ErrorList {
	errs := rules.Required(item.Key, path.Child("key"))
	errs = append(errs, rules.Required(item.Path, path.Child("path"))...)
	errs = append(errs, rules.RelativeFile(item.Path, path.Child("path"))...)
	return append(errs, validateMode(item.Mode, path.Child("mode"))...)
}

func validateISCSI(v *corev1.ISCSIVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.Required(v.TargetPortal, path.Child("targetPortal"))
	if v.IQN == "" {
		errs = append(errs, field.Required(path.Child("iqn"), ""))
	} else {
		errs = append(errs, rules.ISCSIName(v.IQN, path.Child("iqn"))...)
	}
	if v.Lun < 0 || v.Lun > 255 {
		errs = append(errs, field.Invalid(path.Child("lun"), v.Lun, validation.InclusiveRangeError(0, 255)))
	}
	if (v.DiscoveryCHAPAuth || v.SessionCHAPAuth) && v.SecretRef == nil {
		errs = append(errs, field.Required(path.Child("secretRef"), ""))
	}
	if v.InitiatorName != nil {
		errs = append(errs, rules.ISCSIName(*v.InitiatorName, path.Child("initiatorname"))...)
	}
	return errs
}

func validateGlusterfs(v *corev1.GlusterfsVolumeSource, path *field.Path) field.ErrorList {
	return append(rules.Required(v.EndpointsName, path.Child("endpoints")), rules.Required(v.Path, path.Child("path"))...)
}

func validateClaim(v *corev1.PersistentVolumeClaimVolumeSource, path *field.Path) field.ErrorList {
	return rules.Required(v.ClaimName, path.Child("claimName"))
}

func validateRBD(v *corev1.RBDVolumeSource, path *field.Path) (errs field.ErrorList) {
	if len(v.CephMonitors) == 0 {
		errs = append(errs, field.Required(path.Child("monitors"), ""))
	}
	return append(errs, rules.Required(v.RBDImage, path.Child("image"))...)
}

func validateCinder(v *corev1.CinderVolumeSource, path *field.Path) field.ErrorList {
	return append(rules.Required(v.VolumeID, path.Child("volumeID")), validateSecretRef(v.SecretRef, path)...)
}

func validateSecretRef(ref *corev1.LocalObjectReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return rules.Required(ref.Name, path.Child("secretRef", "name"))
}

func validateCephFS(v *corev1.CephFSVolumeSource, path *field.Path) field.ErrorList {
	if len(v.Monitors) == 0 {
		return field.ErrorList{field.Required(path.Child("monitors"), "")}
	}
	return nil
}

func validateFlex(v *corev1.FlexVolumeSource, path *field.Path) field.ErrorList {
	return append(rules.Required(v.Driver, path.Child("driver")), rules.FlexOptions(v.Options, path.Child("options"))...)
}

func validateAzureFile(v *corev1.AzureFileVolumeSource, path *field.Path) field.ErrorList {
	return append(rules.Required(v.SecretName, path.Child("secretName")), rules.Required(v.ShareName, path.Child("shareName"))...)
}

func validateStorageOS(v *corev1.StorageOSVolumeSource, path *field.Path) (errs field.ErrorList) {
	if v.VolumeName == "" {
		errs = append(errs, field.Required(path.Child("volumeName"), ""))
	} else {
		errs = append(errs, rules.Label(v.VolumeName, path.Child("volumeName"))...)
	}
	if v.VolumeNamespace != "" {
		errs = append(errs, rules.Label(v.VolumeNamespace, path.Child("volumeNamespace"))...)
	}
	return append(errs, validateSecretRef(v.SecretRef, path)...)
}

func validateScaleIO(v *corev1.ScaleIOVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.Required(v.Gateway, path.Child("gateway"))
	errs = append(errs, rules.Required(v.System, path.Child("system"))...)
	return append(errs, rules.Required(v.VolumeName, path.Child("volumeName"))...)
}

func validateCSI(v *corev1.CSIVolumeSource, path *field.Path) field.ErrorList {
	errs := rules.CSIDriverName(v.Driver, path.Child("driver"))
	switch ref := v.NodePublishSecretRef; {
	case ref == nil:
	case ref.Name == "":
		errs = append(errs, field.Required(path.Child("nodePublishSecretRef", "name"), ""))
	default:
		errs = append(errs, rules.Invalid(ref.Name, path.Child("name"), apivalidation.NameIsDNSSubdomain(ref.Name, false))...)
	}
	return errs
}

func validateEphemeral(v *corev1.EphemeralVolumeSource, path *field.Path) field.ErrorList {
	at := path.Child("volumeClaimTemplate")
	template := v.VolumeClaimTemplate
	if template == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := rules.TemplateMeta(&template.ObjectMeta, at.Child("metadata"))
	return append(errs, rules.ClaimSpec(&template.Spec, at.Child("spec"), rules.ClaimOptions{})...)
}

func (c *checker) checkImage(v *corev1.ImageVolumeSource, path *field.Path) {
	if c.pod {
		c.add(rules.Required(v.Reference, path.Child("reference"))...)
	}
	c.add(validatePullPolicy(v.PullPolicy, path.Child("pullPolicy"))...)
}

func (c *checker) checkDownwardAPI(v *corev1.DownwardAPIVolumeSource, path *field.Path) {
	c.add(validateMode(v.DefaultMode, path.Child("defaultMode"))...)
	for i := range v.Items {
		c.checkDownwardFile(&v.Items[i], path)
	}
}

func (c *checker) checkDownwardFile(file *corev1.DownwardAPIVolumeFile, path *field.Path) {
	c.add(rules.Required(file.Path, path.Child("path"))...)
	c.add(rules.RelativeFile(file.Path, path.Child("path"))...)
	switch {
	case file.FieldRef != nil:
		c.checkFieldRef(file.FieldRef, volumeFields, path.Child("fieldRef"))
		if file.ResourceFieldRef != nil {
			c.add(field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case file.ResourceFieldRef != nil:
		c.checkResourceFieldRef(file.ResourceFieldRef, true, path.Child("resourceFieldRef"))
	default:
		c.add(field.Required(path, "one of fieldRef and resourceFieldRef is required"))
	}
	c.add(validateMode(file.Mode, path.Child("mode"))...)
}

// checkProjected validates a volume that combines several sources. Trust bundles and pod
// certificates are not validated: only objects of other servers have them.
func (c *checker) checkProjected(v *corev1.ProjectedVolumeSource, path *field.Path) {
	c.add(validateMode(v.DefaultMode, path.Child("defaultMode"))...)
	used := sets.New[string]()
	use := func(file, name string) {
		if file != "" && used.Has(file) {
			c.add(field.Invalid(path, name, "conflicting duplicate paths"))
		}
		used.Insert(file)
	}
	files := func(name string, items []corev1.KeyToPath, path *field.Path) {
		c.add(rules.Required(name, path.Child("name"))...)
		for i := range items {
			c.add(validateFile(&items[i], path.Child("items").Index(i))...)
			use(items[i].Path, name)
		}
	}
	for i, s := range v.Sources {
		at, sources := path.Child("sources").Index(i), 0
		if s.Secret != nil {
			sources++
			files(s.Secret.Name, s.Secret.Items, at.Child("secret"))
		}
		if s.ConfigMap != nil {
			sources++
			files(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap"))
		}
		if s.DownwardAPI != nil {
			sources++
			for j := range s.DownwardAPI.Items {
				file := &s.DownwardAPI.Items[j]
				c.checkDownwardFile(file, at.Child("downwardAPI"))
				use(file.Path, file.Path)
			}
		}
		if s.ServiceAccountToken != nil {
			sources++
			c.checkToken(s.ServiceAccountToken, path, at.Child("serviceAccountToken", "expirationSeconds"))
		}
		if sources > 1 {
			c.add(field.Forbidden(at, "may not specify more than 1 volume type per source"))
		}
	}
}

func (c *checker) checkToken(token *corev1.ServiceAccountTokenProjection, volume, expiration *field.Path) {
	const (
		minSeconds = 10 * 60
		maxSeconds = 1 << 32
	)
	var seconds int64
	if token.ExpirationSeconds != nil {
		seconds = *token.ExpirationSeconds
	}
	if seconds < minSeconds {
		c.add(field.Invalid(expiration, seconds, "may not specify a duration less than 10 minutes"))
	}
	if seconds > maxSeconds {
		c.add(field.Invalid(expiration, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if token.Path == "" {
		c.add(field.Required(volume.Child("path"), ""))
	} else if !c.tokenPaths {
		c.add(rules.RelativeFile(token.Path, volume.Child("path"))...)
	}
}
