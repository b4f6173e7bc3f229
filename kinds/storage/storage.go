// Package storage has the rules of the kinds of the group storage.k8s.io.
package storage

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
	"espalier.dev/kinds/volumes"
)

// maxText limits the sizes of parameters and metadata.
const maxText = 256 * 1024

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"storageclasses": {
			Default: kind.On(func(c *storagev1.StorageClass) {
				rules.SetDefaultPointer(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
				rules.SetDefaultPointer(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
			}),
			Main: kind.Write{
				Validate: kind.Check(validateStorageClass),
				Warnings: kind.Warn(func(c, _ *storagev1.StorageClass) []string { return storageClassWarnings(c) }),
			},
		},
		"volumeattributesclasses": {Main: kind.Write{Validate: kind.Check(validateAttributesClass)}},
		"volumeattachments":       volumeAttachments(),
		"csidrivers":              csiDrivers(),
		"csinodes":                {Conditional: true, Main: kind.Write{Validate: kind.Check(validateCSINode)}},
		"csistoragecapacities": {Conditional: true,
			Main: kind.Write{Validate: kind.Check(validateCapacity), Warnings: kind.Warn(capacityWarnings)}},
	}
}

func validateMeta(meta *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	return rules.ObjectMeta(meta, namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

func validateChange(meta, old *metav1.ObjectMeta) field.ErrorList {
	return rules.ObjectMetaUpdate(meta, old, field.NewPath("metadata"))
}

func validateStorageClass(c, old *storagev1.StorageClass) field.ErrorList {
	reclaim, binding := field.NewPath("reclaimPolicy"), field.NewPath("volumeBindingMode")
	errs := validateMeta(&c.ObjectMeta, false)
	errs = append(errs, provisioner(c.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, parameters(c.Parameters, field.NewPath("parameters"))...)
	if c.ReclaimPolicy != nil && *c.ReclaimPolicy != "" {
		errs = append(errs, rules.Enum(*c.ReclaimPolicy, reclaim,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	if c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(binding, ""))
	} else {
		errs = append(errs, rules.Enum(*c.VolumeBindingMode, binding,
			storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	errs = append(errs, allowedTopologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
	if old == nil {
		return errs
	}
	errs = append(errs, validateChange(&c.ObjectMeta, &old.ObjectMeta)...)
	errs = append(errs, rules.Immutable(c.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, rules.Immutable(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, rules.Immutable(c.ReclaimPolicy, old.ReclaimPolicy, reclaim)...)
	return append(errs, rules.Immutable(c.VolumeBindingMode, old.VolumeBindingMode, binding)...)
}

func provisioner(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return rules.QualifiedName(strings.ToLower(name), path)
}

func parameters(params map[string]string, path *field.Path) (errs field.ErrorList) {
	const maxKeys = 512
	if len(params) > maxKeys {
		return field.ErrorList{field.TooLong(path, "", maxKeys)}
	}
	if _, ok := params[""]; ok {
		errs = append(errs, field.Invalid(path, "", "field can not be empty."))
	}
	return append(errs, limited(params, path)...)
}

// limited validates the size of a map.
func limited(m map[string]string, path *field.Path) field.ErrorList {
	size := 0
	for key, value := range m {
		size += len(key) + len(value)
	}
	if size > maxText {
		return field.ErrorList{field.TooLong(path, "", maxText)}
	}
	return nil
}

func allowedTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) (errs field.ErrorList) {
	var seen []map[string]sets.Set[string]
	for i, term := range terms {
		keys, invalid := topologyTerm(term, path.Index(i).Child("matchLabelExpressions"))
		errs = append(errs, invalid...)
		if len(keys) == 0 {
			// Kube-apiserver compares a term without expressions with as many empty ones as there
			// are terms.
			for range terms {
				errs = append(errs, field.Duplicate(path.Index(i).Child("matchLabelExpressions"), ""))
			}
		}
		for _, other := range seen {
			if reflect.DeepEqual(keys, other) {
				errs = append(errs, field.Duplicate(path.Index(i).Child("matchLabelExpressions"), ""))
			}
		}
		seen = append(seen, keys)
	}
	return errs
}

func topologyTerm(term corev1.TopologySelectorTerm, path *field.Path) (keys map[string]sets.Set[string], errs field.ErrorList) {
	keys = map[string]sets.Set[string]{}
	for i, expression := range term.MatchLabelExpressions {
		at := path.Index(i)
		values := sets.Set[string]{}
		if len(expression.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), ""))
		}
		for j, value := range expression.Values {
			if values.Has(value) {
				errs = append(errs, field.Duplicate(at.Child("values").Index(j), value))
			}
			values.Insert(value)
		}
		errs = append(errs, metav1validation.ValidateLabelName(expression.Key, at.Child("key"))...)
		if _, ok := keys[expression.Key]; ok {
			errs = append(errs, field.Duplicate(at.Child("key"), expression.Key))
		}
		keys[expression.Key] = values
	}
	return keys, errs
}

func storageClassWarnings(c *storagev1.StorageClass) (out []string) {
	for i, term := range c.AllowedTopologies {
		for j, expression := range term.MatchLabelExpressions {
			if message := rules.DeprecatedNodeLabel(expression.Key); message != "" {
				out = append(out, fmt.Sprintf("%s: %s",
					field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key"), message))
			}
		}
	}
	return out
}

func validateAttributesClass(c, old *storagev1.VolumeAttributesClass) (errs field.ErrorList) {
	driver, params := field.NewPath("driverName"), field.NewPath("parameters")
	if old != nil {
		errs = validateChange(&c.ObjectMeta, &old.ObjectMeta)
		if c.DriverName != old.DriverName {
			errs = append(errs, field.Forbidden(driver, "updates to driverName are forbidden."))
		}
		if !reflect.DeepEqual(c.Parameters, old.Parameters) {
			errs = append(errs, field.Forbidden(params, "updates to parameters are forbidden."))
		}
	}
	errs = append(errs, validateMeta(&c.ObjectMeta, false)...)
	errs = append(errs, provisioner(c.DriverName, driver)...)
	errs = append(errs, parameters(c.Parameters, params)...)
	if len(c.Parameters) == 0 {
		errs = append(errs, field.Required(params, "must contain at least one key/value pair"))
	}
	return errs
}

func volumeAttachments() kind.Rules {
	return kind.Rules{
		Conditional: true,
		Default: kind.On(func(a *storagev1.VolumeAttachment) {
			if a.Spec.Source.InlineVolumeSpec != nil {
				volumes.SetInlineDefaults(a.Spec.Source.InlineVolumeSpec)
			}
		}),
		Main: kind.Write{
			Prepare: kind.Change(func(a, old *storagev1.VolumeAttachment) {
				a.Status = storagev1.VolumeAttachmentStatus{}
				if old != nil {
					a.Status = old.Status
				}
			}),
			Validate: kind.Check(validateAttachment),
			Reset:    []string{"status"},
		},
		Status: &kind.Write{
			Prepare: kind.Change(func(a, old *storagev1.VolumeAttachment) {
				a.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&a.ObjectMeta, &old.ObjectMeta)
			}),
			Validate: kind.Check(validateAttachment),
			Reset:    []string{"metadata", "spec"},
		},
	}
}

func validateAttachment(a, old *storagev1.VolumeAttachment) field.ErrorList {
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	path, status := field.NewPath("spec"), field.NewPath("status")
	errs := validateMeta(&a.ObjectMeta, false)
	errs = append(errs, rules.CSIDriverName(a.Spec.Attacher, path.Child("attacher"))...)
	name, inline := a.Spec.Source.PersistentVolumeName, a.Spec.Source.InlineVolumeSpec
	switch source := path.Child("source"); {
	case name == nil && inline == nil:
		errs = append(errs, field.Required(source, one))
	case name != nil && inline != nil:
		errs = append(errs, field.Forbidden(source, one))
	case name != nil && *name == "":
		errs = append(errs, field.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	case inline != nil:
		errs = append(errs, volumes.Spec(inline, "", true, false, source.Child("inlineVolumeSpec"))...)
	}
	errs = append(errs, rules.Invalid(a.Spec.NodeName, path.Child("nodeName"), apivalidation.NameIsDNSSubdomain(a.Spec.NodeName, false))...)
	errs = append(errs, limited(a.Status.AttachmentMetadata, status.Child("attachmentMetadata"))...)
	errs = append(errs, volumeError(a.Status.AttachError, status.Child("attachError"))...)
	errs = append(errs, volumeError(a.Status.DetachError, status.Child("detachError"))...)
	if name != nil {
		errs = append(errs, rules.Invalid(*name, field.NewPath("spec.source.persistentVolumeName"),
			apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if old != nil {
		errs = append(errs, rules.Immutable(a.Spec, old.Spec, path)...)
	}
	return errs
}

func volumeError(e *storagev1.VolumeError, path *field.Path) (errs field.ErrorList) {
	if e == nil {
		return nil
	}
	if len(e.Message) > 1024 {
		// Kube-apiserver reports the limit of the metadata.
		errs = append(errs, field.TooLong(path.Child("message"), "", maxText))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(path.Child("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}

func validateCapacity(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	topology, class := field.NewPath("nodeTopology"), field.NewPath("storageClassName")
	options := metav1validation.LabelSelectorValidationOptions{}
	options.AllowInvalidLabelValueInSelector = old != nil && len(metav1validation.ValidateLabelSelector(old.NodeTopology, options, nil)) > 0
	errs := validateMeta(&c.ObjectMeta, true)
	errs = append(errs, metav1validation.ValidateLabelSelector(c.NodeTopology, options, topology)...)
	errs = append(errs, rules.Invalid(c.StorageClassName, class, apivalidation.NameIsDNSSubdomain(c.StorageClassName, false))...)
	if c.Capacity != nil {
		errs = append(errs, rules.NonnegativeQuantity(*c.Capacity, field.NewPath("capacity"))...)
	}
	if old == nil {
		return errs
	}
	errs = append(errs, validateChange(&c.ObjectMeta, &old.ObjectMeta)...)
	errs = append(errs, rules.Immutable(c.NodeTopology, old.NodeTopology, topology)...)
	return append(errs, rules.Immutable(c.StorageClassName, old.StorageClassName, class)...)
}

func capacityWarnings(c, _ *storagev1.CSIStorageCapacity) (out []string) {
	if c.NodeTopology == nil {
		return nil
	}
	path := field.NewPath("nodeTopology")
	for i, expression := range c.NodeTopology.MatchExpressions {
		if message := rules.DeprecatedNodeLabel(expression.Key); message != "" {
			out = append(out, fmt.Sprintf("%s: %s is %s", path.Child("matchExpressions").Index(i).Child("key"), expression.Key, message))
		}
	}
	for _, key := range rules.Keys(c.NodeTopology.MatchLabels) {
		if message := rules.DeprecatedNodeLabel(key); message != "" {
			out = append(out, fmt.Sprintf("%s: %s", path.Child("matchLabels", key), message))
		}
	}
	return out
}
