package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

func claims() kind.Rules {
	return kind.Rules{
		Default: kind.On(func(pvc *corev1.PersistentVolumeClaim) {
			rules.SetDefault(&pvc.Status.Phase, corev1.ClaimPending)
			rules.DefaultClaimSpec(&pvc.Spec)
			rules.RoundUp(pvc.Status.Capacity)
			rules.RoundUp(pvc.Status.AllocatedResources)
		}),
		Main: kind.Write{
			Prepare:  kind.Change(prepareClaim),
			Validate: kind.Check(validateClaim),
			Warnings: kind.Warn(func(pvc, _ *corev1.PersistentVolumeClaim) []string { return claimWarnings(pvc) }),
			Reset:    []string{"status"},
		},
		Status: &kind.Write{
			Prepare:  kind.Change(func(pvc, old *corev1.PersistentVolumeClaim) { pvc.Spec = old.Spec }),
			Validate: kind.Check(validateClaimStatus),
			Reset:    []string{"spec"},
		},
	}
}

func prepareClaim(pvc, old *corev1.PersistentVolumeClaim) {
	if old == nil {
		pvc.Status = corev1.PersistentVolumeClaimStatus{}
		dropDataSources(&pvc.Spec, &corev1.PersistentVolumeClaimSpec{})
	} else {
		pvc.Status = old.Status
		dropDataSources(&pvc.Spec, &old.Spec)
	}
	syncDataSources(&pvc.Spec)
}

// dropDataSources drops sources in other namespaces, which are off by default, and sources other
// than volumes and snapshots in the older field, which only dataSourceRef may have.
func dropDataSources(spec, old *corev1.PersistentVolumeClaimSpec) {
	if ref := spec.DataSourceRef; ref != nil && ref.Namespace != nil && *ref.Namespace != "" && old.DataSourceRef == nil {
		spec.DataSourceRef = nil
	}
	if old.DataSource == nil && old.DataSourceRef == nil && spec.DataSourceRef == nil && !isVolumeOrSnapshot(spec.DataSource) {
		spec.DataSource = nil
	}
}

func isVolumeOrSnapshot(source *corev1.TypedLocalObjectReference) bool {
	if source == nil {
		return false
	}
	group := ""
	if source.APIGroup != nil {
		group = *source.APIGroup
	}
	return source.Kind == "PersistentVolumeClaim" && group == "" || source.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

// syncDataSources sets the one of the two fields that is empty.
func syncDataSources(spec *corev1.PersistentVolumeClaimSpec) {
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{Kind: source.Kind, Name: source.Name}
		if source.APIGroup != nil {
			spec.DataSourceRef.APIGroup = new(*source.APIGroup)
		}
	case source == nil && ref != nil && (ref.Namespace == nil || *ref.Namespace == ""):
		spec.DataSource = &corev1.TypedLocalObjectReference{Kind: ref.Kind, Name: ref.Name}
		if ref.APIGroup != nil {
			spec.DataSource.APIGroup = new(*ref.APIGroup)
		}
	}
}

// claimOptions returns the rules that a stored claim need not follow.
func claimOptions(old *corev1.PersistentVolumeClaim) (opts rules.ClaimOptions) {
	if old == nil {
		return opts
	}
	source, ref := old.Spec.DataSource, old.Spec.DataSourceRef
	opts.InvalidDataSources = source != nil && source.APIGroup != nil || ref != nil && ref.APIGroup != nil
	opts.InvalidSelectorValues = len(metav1validation.ValidateLabelSelector(old.Spec.Selector,
		metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
	return opts
}

func validateClaim(pvc, old *corev1.PersistentVolumeClaim) (errs field.ErrorList) {
	meta := field.NewPath("metadata")
	if old != nil {
		// Objects of older versions have one of the two fields.
		old = old.DeepCopy()
		syncDataSources(&old.Spec)
		errs = rules.ObjectMetaUpdate(&pvc.ObjectMeta, &old.ObjectMeta, meta)
	}
	errs = append(errs, rules.ObjectMeta(&pvc.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)...)
	errs = append(errs, rules.ClaimSpec(&pvc.Spec, field.NewPath("spec"), claimOptions(old))...)
	if old != nil {
		errs = append(errs, validateClaimChange(pvc, old)...)
	}
	return errs
}

// validateClaimChange validates changes of the spec. A claim may get its volume and its class
// once, and a bound claim another size and another class of attributes.
func validateClaimChange(pvc, old *corev1.PersistentVolumeClaim) (errs field.ErrorList) {
	path := field.NewPath("spec")
	storage, attributes := path.Child("resources", "requests", "storage"), path.Child("volumeAttributesClassName")
	spec, before := pvc.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = spec.VolumeName
	}
	class, wasAnnotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	annotation, isAnnotated := pvc.Annotations[corev1.BetaStorageClassAnnotation]
	firstClass := before.StorageClassName == nil && spec.StorageClassName != nil && (!wasAnnotated || *spec.StorageClassName == class)
	if firstClass {
		spec.StorageClassName = nil
	}
	moved := firstClass && wasAnnotated && (!isAnnotated || annotation == class)
	if !moved && annotation != class {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations",
			corev1.BetaStorageClassAnnotation), annotation, apivalidation.FieldImmutableErrorMsg))
	}
	if pvc.Status.Phase == corev1.ClaimBound {
		if spec.Resources.Requests != nil {
			spec.Resources.Requests[corev1.ResourceStorage] = old.Spec.Resources.Requests[corev1.ResourceStorage]
		}
		spec.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(spec, before) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v",
			diff.Diff(rules.Internal(*before), rules.Internal(*spec)))))
	}
	size, oldSize, capacity := pvc.Spec.Resources.Requests[corev1.ResourceStorage],
		old.Spec.Resources.Requests[corev1.ResourceStorage], old.Status.Capacity[corev1.ResourceStorage]
	if size.Cmp(oldSize) < 0 && size.Cmp(capacity) <= 0 {
		errs = append(errs, field.Forbidden(storage, "field can not be less than status.capacity"))
	}
	errs = append(errs, rules.Immutable(pvc.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	name := pvc.Spec.VolumeAttributesClassName
	if old.Status.CurrentVolumeAttributesClassName != nil && !apiequality.Semantic.DeepEqual(name, old.Spec.VolumeAttributesClassName) {
		switch {
		case name == nil:
			errs = append(errs, field.Forbidden(attributes,
				"update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
		case *name == "":
			errs = append(errs, field.Forbidden(attributes,
				"update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"))
		}
	}
	return errs
}

func validateClaimStatus(pvc, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := statusMeta(&pvc.ObjectMeta, &old.ObjectMeta)
	if len(pvc.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(field.NewPath("Spec", "accessModes"), ""))
	}
	status := field.NewPath("status")
	for _, name := range rules.Keys(pvc.Status.Capacity) {
		errs = append(errs, basicQuantity(pvc.Status.Capacity[name], status.Child("capacity").Key(string(name)))...)
	}
	path := status.Child("allocatedResourceStatuses")
	for _, name := range rules.Keys(pvc.Status.AllocatedResourceStatuses) {
		errs = append(errs, claimResource(name, path)...)
		switch pvc.Status.AllocatedResourceStatuses[name] {
		case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizePending,
			corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		default:
			// Kube-apiserver shows the name of the resource instead of its status.
			errs = append(errs, field.NotSupported(path, name, []corev1.ClaimResourceStatus{
				corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
				corev1.PersistentVolumeClaimNodeResizeInProgress,
				corev1.PersistentVolumeClaimNodeResizeInfeasible, corev1.PersistentVolumeClaimNodeResizePending,
			}))
		}
	}
	path = status.Child("allocatedResources")
	for _, name := range rules.Keys(pvc.Status.AllocatedResources) {
		if invalid := claimResource(name, path); len(invalid) > 0 {
			errs = append(errs, invalid...)
			continue
		}
		value := pvc.Status.AllocatedResources[name]
		if invalid := basicQuantity(value, path.Key(string(name))); len(invalid) > 0 {
			errs = append(errs, invalid...)
		} else {
			errs = append(errs, rules.ResourceQuantity(corev1.ResourceStorage, value, path.Key(string(name)))...)
		}
	}
	return errs
}

// claimResource validates the name of a resource of a claim: storage, or one with a domain.
func claimResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := rules.Invalid(string(name), path, validation.IsQualifiedName(string(name))); len(errs) > 0 {
		return errs
	}
	if rules.IsNativeResource(name) {
		return rules.Enum(name, path, corev1.ResourceStorage)
	}
	return nil
}

func claimWarnings(pvc *corev1.PersistentVolumeClaim) (out []string) {
	if _, ok := pvc.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		out = append(out, fmt.Sprintf(`%s: deprecated since v1.8; use "storageClassName" attribute instead`,
			field.NewPath("metadata", "annotations").Key(corev1.BetaStorageClassAnnotation)))
	}
	return append(out, ClaimSpecWarnings(&pvc.Spec, field.NewPath("spec"))...)
}

// ClaimSpecWarnings returns warnings about fractions of a byte in the spec of a claim.
func ClaimSpecWarnings(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) (out []string) {
	for _, list := range []struct {
		name  string
		value resource.Quantity
	}{
		{"requests", spec.Resources.Requests[corev1.ResourceStorage]},
		{"limits", spec.Resources.Limits[corev1.ResourceStorage]},
	} {
		if list.value.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				path.Child("resources", list.name).Key("storage"), list.value.String()))
		}
	}
	return out
}
