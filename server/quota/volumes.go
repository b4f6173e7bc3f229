package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-helpers/storage/volume"
)

const (
	countClaims corev1.ResourceName = "count/persistentvolumeclaims"
	// ofClass is between the name of a storage class and what is limited for its claims.
	ofClass corev1.ResourceName = ".storageclass.storage.k8s.io/"
)

// claims returns the evaluator of persistent volume claims.
func claims() *evaluator {
	return &evaluator{
		resource: schema.GroupResource{Resource: "persistentvolumeclaims"}, matches: ofClaims, usage: claimUsage, scope: claimInScope,
		handles: func(a admission.Attributes) bool {
			update := a.GetOperation() == admission.Update
			return a.GetSubresource() == "" && (update || a.GetOperation() == admission.Create) || a.GetSubresource() == "status" && update
		},
	}
}

func ofClaims(name corev1.ResourceName) bool {
	limited := func(name string) bool {
		return name == string(corev1.ResourcePersistentVolumeClaims) || name == string(corev1.ResourceRequestsStorage)
	}
	_, of, ok := strings.Cut(string(name), string(ofClass))
	return name == countClaims || limited(string(name)) || ok && limited(of)
}

func claimUsage(obj runtime.Object) (corev1.ResourceList, error) {
	claim, err := as[*corev1.PersistentVolumeClaim](obj)
	if err != nil {
		return nil, err
	}
	used := corev1.ResourceList{countClaims: whole(1), corev1.ResourcePersistentVolumeClaims: whole(1)}
	if q, ok := claimSize(claim); ok {
		used[corev1.ResourceRequestsStorage] = q
	}
	if class := volume.GetPersistentVolumeClaimClass(claim); class != "" {
		for _, name := range []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage} {
			if q, ok := used[name]; ok {
				used[corev1.ResourceName(class)+ofClass+name] = q
			}
		}
	}
	return used, nil
}

// claimSize returns what a claim requests, or what it has been given if that is more, in whole
// bytes.
func claimSize(claim *corev1.PersistentVolumeClaim) (size resource.Quantity, ok bool) {
	if size, ok = claim.Spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		return size, false
	}
	size = roundUp(size)
	if given, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && given.Cmp(size) > 0 {
		size = roundUp(given)
	}
	return size, true
}

// roundUp rounds a quantity up to a whole number.
func roundUp(q resource.Quantity) resource.Quantity {
	rounded := q.DeepCopy()
	if rounded.RoundUp(0) {
		return q // it keeps its notation
	}
	return rounded
}

func claimInScope(s corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	claim, err := as[*corev1.PersistentVolumeClaim](obj)
	if err != nil || s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, err
	}
	return selects(s, attributeClasses(claim)...)
}

// attributeClasses returns the volume attributes classes that a claim has or will have.
func attributeClasses(claim *corev1.PersistentVolumeClaim) (classes []string) {
	for _, name := range []*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
		if name != nil {
			classes = append(classes, *name)
		}
	}
	if m := claim.Status.ModifyVolumeStatus; m != nil {
		classes = append(classes, m.TargetVolumeAttributesClassName)
	}
	return slices.DeleteFunc(classes, func(name string) bool { return name == "" })
}
