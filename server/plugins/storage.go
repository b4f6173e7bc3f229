package plugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// protection adds the finalizers that keep volumes, claims and attribute classes while they are in
// use.
type protection struct{ *admission.Handler }

var _ admission.MutationInterface = &protection{}

func newProtection() *protection { return &protection{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (p *protection) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	var finalizer string
	switch {
	case handles(a, volumes):
		finalizer = "kubernetes.io/pv-protection"
	case handles(a, claims):
		finalizer = "kubernetes.io/pvc-protection"
	case handles(a, attributes):
		finalizer = "kubernetes.io/vac-protection"
	default:
		return nil
	}
	obj, ok := a.GetObject().(metav1.Object)
	if ok && !slices.Contains(obj.GetFinalizers(), finalizer) {
		obj.SetFinalizers(append(obj.GetFinalizers(), finalizer))
	}
	return nil
}

// resize rejects claims that grow although their storage class does not allow it.
type resize struct {
	*admission.Handler
	objects Lister
}

var _ admission.ValidationInterface = &resize{}

func newResize(objects Lister) *resize {
	return &resize{admission.NewHandler(admission.Update), objects}
}

// Validate implements admission.ValidationInterface.
func (p *resize) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, claims) {
		return nil
	}
	claim, err := as[*corev1.PersistentVolumeClaim](a.GetObject())
	if err != nil {
		return err
	}
	old, err := as[*corev1.PersistentVolumeClaim](a.GetOldObject())
	if err != nil {
		return err
	}
	size, before := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case size.Cmp(before) <= 0:
		return nil
	case old.Status.Phase != corev1.ClaimBound:
		return forbidden(a, "Only bound persistent volume claims can be expanded")
	case !p.allowed(ctx, claim, old):
		return forbidden(a, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

func (p *resize) allowed(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) bool {
	name := className(claim)
	if name == "" || name != className(old) {
		return false
	}
	class, err := get[*storagev1.StorageClass](ctx, p.objects, storageClasses, "", name)
	return err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

// className returns the name of the storage class of a claim.
func className(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}
