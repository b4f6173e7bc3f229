package rules

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ClaimOptions are the rules of persistent volume claims that an update need not follow, because
// the old object does not follow them either.
type ClaimOptions struct {
	InvalidSelectorValues bool
	InvalidDataSources    bool
}

// DefaultClaimSpec fills in the defaults of the spec of a persistent volume claim.
func DefaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	SetDefaultPointer(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUp(spec.Resources.Limits)
	RoundUp(spec.Resources.Requests)
}

// ClaimSpec validates the spec of a persistent volume claim.
func ClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path, opts ClaimOptions) (errs field.ErrorList) {
	modes := path.Child("accessModes")
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(modes, "at least 1 access mode is required"))
	}
	if spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector,
			metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: opts.InvalidSelectorValues},
			path.Child("selector"))...)
	}
	errs = append(errs, AccessModes(spec.AccessModes, modes)...)

	storage := path.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(storage, ""))
	} else {
		errs = append(errs, PositiveQuantity(size, storage)...)
	}
	if class := spec.StorageClassName; class != nil && *class != "" {
		errs = append(errs, Invalid(*class, path.Child("storageClassName"), apivalidation.NameIsDNSSubdomain(*class, false))...)
	}
	if spec.VolumeMode != nil {
		errs = append(errs, Enum(*spec.VolumeMode, path.Child("volumeMode"),
			corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	errs = append(errs, dataSources(spec, path, opts)...)
	if class := spec.VolumeAttributesClassName; class != nil && *class != "" {
		errs = append(errs, Invalid(*class, path.Child("volumeAttributesClassName"), apivalidation.NameIsDNSSubdomain(*class, false))...)
	}
	return errs
}

// AccessModes validates the access modes of a persistent volume or a claim.
func AccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) (errs field.ErrorList) {
	single, shared := false, false
	for _, mode := range modes {
		unsupported := Enum(mode, path, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		errs = append(errs, unsupported...)
		if mode == corev1.ReadWriteOncePod {
			single = true
		} else if len(unsupported) == 0 {
			shared = true
		}
	}
	if single && shared {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

// dataSources validates what the volume of a claim is filled with: a local reference, which is
// the older field, and one that may have a namespace.
func dataSources(spec *corev1.PersistentVolumeClaimSpec, path *field.Path, opts ClaimOptions) (errs field.ErrorList) {
	local, ref := spec.DataSource, spec.DataSourceRef
	if local != nil {
		errs = append(errs, dataSource(local.APIGroup, local.Kind, local.Name, path.Child("dataSource"), opts)...)
	}
	if ref == nil {
		return errs
	}
	refPath := path.Child("dataSourceRef")
	errs = append(errs, dataSource(ref.APIGroup, ref.Kind, ref.Name, refPath, opts)...)
	otherNamespace := ref.Namespace != nil && *ref.Namespace != ""
	if otherNamespace {
		errs = append(errs, Invalid(*ref.Namespace, refPath.Child("namespace"),
			apivalidation.ValidateNamespaceName(*ref.Namespace, false))...)
	}
	switch {
	case local == nil:
	case otherNamespace:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
	case !reflect.DeepEqual(local.APIGroup, ref.APIGroup) || local.Kind != ref.Kind || local.Name != ref.Name:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
	}
	return errs
}

func dataSource(apiGroup *string, kind, name string, path *field.Path, opts ClaimOptions) field.ErrorList {
	errs := Required(name, path.Child("name"))
	errs = append(errs, Required(kind, path.Child("kind"))...)
	group := ""
	if apiGroup != nil {
		group = *apiGroup
	}
	switch {
	case group == "" && kind != "PersistentVolumeClaim":
		errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	case group != "" && !opts.InvalidDataSources:
		errs = append(errs, Invalid(group, path.Child("apiGroup"), validation.IsDNS1123Subdomain(group))...)
	}
	return errs
}
