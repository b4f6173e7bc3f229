// Package volumes has the rules of persistent volumes and their claims.
package volumes

import (
	"fmt"
	"path"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of persistent volumes and their claims by the plural names of their
// resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"persistentvolumes": volumes(), "persistentvolumeclaims": claims()}
}

func volumes() kind.Rules {
	return kind.Rules{
		Default: kind.On(func(pv *corev1.PersistentVolume) {
			rules.SetDefault(&pv.Status.Phase, corev1.VolumePending)
			setSpecDefaults(&pv.Spec)
		}),
		Main: kind.Write{
			Prepare:  kind.Change(prepareVolume),
			Validate: kind.Check(validateVolume),
			Warnings: kind.Warn(func(pv, _ *corev1.PersistentVolume) []string { return volumeWarnings(pv) }),
			Reset:    []string{"status"},
		},
		Status: &kind.Write{
			Prepare: kind.Change(prepareVolumeStatus),
			Validate: kind.Check(func(pv, old *corev1.PersistentVolume) field.ErrorList {
				return statusMeta(&pv.ObjectMeta, &old.ObjectMeta)
			}),
			Reset: []string{"spec"},
		},
	}
}

func setSpecDefaults(spec *corev1.PersistentVolumeSpec) {
	rules.SetDefault(&spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	rules.SetDefaultPointer(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	SetInlineDefaults(spec)
}

// SetInlineDefaults fills in the defaults of a spec that is part of another object.
func SetInlineDefaults(spec *corev1.PersistentVolumeSpec) {
	rules.RoundUp(spec.Capacity)
	setSourceDefaults(&spec.PersistentVolumeSource)
}

func prepareVolume(pv, old *corev1.PersistentVolume) {
	if old != nil {
		pv.Status = old.Status
		return
	}
	pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: new(metav1.Now())}
}

// prepareVolumeStatus sets the time of a new phase, unless the client has set it.
func prepareVolumeStatus(pv, old *corev1.PersistentVolume) {
	pv.Spec = old.Spec
	status, before := &pv.Status, &old.Status
	switch {
	case status.Phase == before.Phase && status.LastPhaseTransitionTime == nil:
		status.LastPhaseTransitionTime = before.LastPhaseTransitionTime
	case status.Phase != before.Phase && (status.LastPhaseTransitionTime == nil ||
		status.LastPhaseTransitionTime.Equal(before.LastPhaseTransitionTime)):
		status.LastPhaseTransitionTime = new(metav1.Now())
	}
}

// statusMeta validates the metadata of an update of the status. Kube-apiserver reports a missing
// resourceVersion twice.
func statusMeta(meta, old *metav1.ObjectMeta) field.ErrorList {
	errs := rules.ObjectMetaUpdate(meta, old, field.NewPath("metadata"))
	return append(errs, rules.Required(meta.ResourceVersion, field.NewPath("resourceVersion"))...)
}

func validateVolume(pv, old *corev1.PersistentVolume) field.ErrorList {
	invalidValues := old != nil && hasInvalidValues(old.Spec.NodeAffinity)
	errs := rules.ObjectMeta(&pv.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, Spec(&pv.Spec, pv.Name, false, invalidValues, field.NewPath("spec"))...)
	once := errs[:len(errs):len(errs)]
	errs = append(errs, mountOptions(pv)...)
	if old == nil {
		return errs
	}
	// Kube-apiserver validates the object twice.
	errs = append(errs, once...)
	return append(errs, validateVolumeChange(pv, old)...)
}

func hasInvalidValues(affinity *corev1.VolumeNodeAffinity) bool {
	return affinity != nil && affinity.Required != nil && rules.HasInvalidNodeSelectorValues(affinity.Required.NodeSelectorTerms)
}

func validateVolumeChange(pv, old *corev1.PersistentVolume) (errs field.ErrorList) {
	source, before := pv.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if source.CSI != nil && before.CSI != nil && before.CSI.ControllerExpandSecretRef == nil {
		// It may be set later.
		source.CSI = source.CSI.DeepCopy()
		source.CSI.ControllerExpandSecretRef = nil
	}
	if !apiequality.Semantic.DeepEqual(source, before) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v",
				diff.Diff(rules.Internal(before), rules.Internal(source)))))
	}
	errs = append(errs, rules.Immutable(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil && !sameAffinity(pv.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), rules.Internal(pv.Spec.NodeAffinity),
			"field is immutable, except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && pv.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"),
			"update from non-nil value to nil is forbidden"))
	}
	return errs
}

// stableLabels returns the names that replaced those of labels of nodes.
func stableLabels() map[string]string {
	return map[string]string{
		corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
		corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
		corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
		"beta.kubernetes.io/os":             corev1.LabelOSStable,
		"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	}
}

// sameAffinity reports whether an affinity is the old one, except for stable names of labels.
func sameAffinity(affinity, old *corev1.VolumeNodeAffinity) bool {
	if affinity == nil || affinity.Required == nil || old.Required == nil {
		return apiequality.Semantic.DeepEqual(affinity, old)
	}
	old = old.DeepCopy()
	stable := stableLabels()
	for i := range old.Required.NodeSelectorTerms {
		if i >= len(affinity.Required.NodeSelectorTerms) {
			return false
		}
		term, before := affinity.Required.NodeSelectorTerms[i], old.Required.NodeSelectorTerms[i]
		for _, lists := range [][2][]corev1.NodeSelectorRequirement{{term.MatchExpressions,
			before.MatchExpressions}, {term.MatchFields, before.MatchFields}} {
			for j := range min(len(lists[0]), len(lists[1])) {
				if key := lists[0][j].Key; stable[lists[1][j].Key] == key {
					lists[1][j].Key = key
				}
			}
		}
	}
	return apiequality.Semantic.DeepEqual(affinity, old)
}

// mountOptions rejects the annotation for volumes that do not support it.
func mountOptions(pv *corev1.PersistentVolume) field.ErrorList {
	s := pv.Spec.PersistentVolumeSource
	for _, supported := range []any{s.GCEPersistentDisk, s.AWSElasticBlockStore, s.Glusterfs,
		s.NFS, s.RBD, s.Quobyte, s.ISCSI, s.Cinder, s.CephFS,
		s.AzureFile, s.VsphereVolume, s.AzureDisk, s.PhotonPersistentDisk} {
		if !reflect.ValueOf(supported).IsNil() {
			return nil
		}
	}
	if _, ok := pv.Annotations[corev1.MountOptionAnnotation]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations",
			corev1.MountOptionAnnotation), "may not specify mount options for this volume type")}
	}
	return nil
}

// Spec validates the spec of a persistent volume. An inline spec is part of another object.
// invalidValues accepts values in the node affinity that no label can have.
func Spec(spec *corev1.PersistentVolumeSpec, name string, inline, invalidValues bool, at *field.Path) (errs field.ErrorList) {
	const notInline = "may not be specified in the context of inline volumes"
	if inline {
		if spec.ClaimRef != nil {
			errs = append(errs, field.Forbidden(at.Child("claimRef"), notInline))
		}
		if len(spec.Capacity) > 0 {
			errs = append(errs, field.Forbidden(at.Child("capacity"), notInline))
		}
		if spec.CSI == nil {
			errs = append(errs, field.Required(at.Child("csi"), "has to be specified in the context of inline volumes"))
		}
	}
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(at.Child("accessModes"), ""))
	}
	errs = append(errs, rules.AccessModes(spec.AccessModes, at.Child("accessModes"))...)
	if !inline {
		errs = append(errs, capacity(spec.Capacity, at.Child("capacity"))...)
	}
	reclaim := at.Child("persistentVolumeReclaimPolicy")
	switch policy := spec.PersistentVolumeReclaimPolicy; {
	case policy == "":
	case !inline:
		errs = append(errs, rules.Enum(policy, reclaim, corev1.PersistentVolumeReclaimDelete,
			corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	case policy != corev1.PersistentVolumeReclaimRetain:
		errs = append(errs, field.Forbidden(reclaim,
			fmt.Sprintf("may only be %s in the context of inline volumes", corev1.PersistentVolumeReclaimRetain)))
	}
	if affinity := at.Child("nodeAffinity"); spec.NodeAffinity != nil {
		switch {
		case inline:
			errs = append(errs, field.Forbidden(affinity, notInline))
		case spec.NodeAffinity.Required == nil:
			errs = append(errs, field.Required(affinity.Child("required"), "must specify required node constraints"))
		default:
			errs = append(errs, rules.NodeSelector(spec.NodeAffinity.Required, invalidValues, affinity.Child("required"))...)
		}
	}
	errs = append(errs, validateSources(spec, name, inline, at)...)
	if spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" &&
		spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(reclaim, "may not be 'recycle' for a hostPath mount of '/'"))
	}
	switch class := at.Child("storageClassName"); {
	case spec.StorageClassName == "":
	case inline:
		errs = append(errs, field.Forbidden(class, notInline))
	default:
		errs = append(errs, className(spec.StorageClassName, class)...)
	}
	switch mode := at.Child("volumeMode"); {
	case spec.VolumeMode == nil:
	case !inline:
		errs = append(errs, rules.Enum(*spec.VolumeMode, mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	case *spec.VolumeMode != corev1.PersistentVolumeFilesystem:
		errs = append(errs, field.Forbidden(mode,
			fmt.Sprintf("may not specify volumeMode other than %s in the context of inline volumes", corev1.PersistentVolumeFilesystem)))
	}
	if attributes := at.Child("volumeAttributesClassName"); spec.VolumeAttributesClassName != nil && !inline {
		if *spec.VolumeAttributesClassName == "" {
			errs = append(errs, field.Required(attributes, "an empty string is disallowed"))
		} else {
			errs = append(errs, className(*spec.VolumeAttributesClassName, attributes)...)
		}
		if spec.CSI == nil {
			errs = append(errs, field.Required(at.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
}

func className(name string, path *field.Path) field.ErrorList {
	return rules.Invalid(name, path, apivalidation.NameIsDNSSubdomain(name, false))
}

func capacity(list corev1.ResourceList, path *field.Path) (errs field.ErrorList) {
	if len(list) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if _, ok := list[corev1.ResourceStorage]; !ok || len(list) > 1 {
		errs = append(errs, field.NotSupported(path, rules.Internal(list), []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range rules.Keys(list) {
		errs = append(errs, basicQuantity(list[name], path.Key(string(name)))...)
		errs = append(errs, rules.PositiveQuantity(list[name], path.Key(string(name)))...)
	}
	return errs
}

func basicQuantity(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Value() < 0 {
		return field.ErrorList{field.Invalid(path, q.Value(), "must be a valid resource quantity")}
	}
	return nil
}

// validateSources validates that there is one source. Flex volumes do not count as a second one.
func validateSources(spec *corev1.PersistentVolumeSpec, name string, inline bool, path *field.Path) (errs field.ErrorList) {
	list := sources(&spec.PersistentVolumeSource, name)
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "must specify a volume type")}
	}
	for i, s := range list {
		if i > 0 && s.field != "flexVolume" {
			errs = append(errs, field.Forbidden(path.Child(s.field), "may not specify more than 1 volume type"))
			continue
		}
		errs = append(errs, s.check(path.Child(s.path))...)
		if s.field == localField && (inline || spec.NodeAffinity == nil) {
			errs = append(errs, field.Required(path.Child("nodeAffinity"), "Local volume requires node affinity"))
		}
	}
	return errs
}

func volumeWarnings(pv *corev1.PersistentVolume) (out []string) {
	spec, path := &pv.Spec, field.NewPath("spec")
	for _, deprecated := range []struct{ key, message string }{
		{corev1.BetaStorageClassAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, ok := pv.Annotations[deprecated.key]; ok {
			out = append(out, fmt.Sprintf("%s: %s", field.NewPath("metadata", "annotations").Key(deprecated.key), deprecated.message))
		}
	}
	if spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out, fmt.Sprintf("%s: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.", path.Child("persistentVolumeReclaimPolicy")))
	}
	if spec.NodeAffinity != nil && spec.NodeAffinity.Required != nil {
		for i := range spec.NodeAffinity.Required.NodeSelectorTerms {
			out = append(out, rules.NodeSelectorTermWarnings(&spec.NodeAffinity.Required.NodeSelectorTerms[i],
				path.Child("nodeAffinity", "required", "nodeSelectorTerms").Index(i))...)
		}
	}
	for _, plugin := range []struct {
		used          bool
		name, message string
	}{
		{spec.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
		{spec.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{spec.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{spec.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
		{spec.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{spec.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if plugin.used {
			out = append(out, fmt.Sprintf("%s: %s", path.Child(plugin.name), plugin.message))
		}
	}
	return out
}
