package plugins

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// classObject is a class that can be the default one.
type classObject interface {
	runtime.Object
	metav1.Object
}

// defaultClass returns the newest class that one of the annotations marks as the default, the first
// by name if several are equally old, or nothing.
func defaultClass[T classObject](ctx context.Context, objects Lister, resource schema.GroupResource,
	annotations ...string) (name string, err error) {
	classes, err := list[T](ctx, objects, resource, "")
	if err != nil {
		return "", err
	}
	classes = slices.DeleteFunc(classes, func(c T) bool {
		return !slices.ContainsFunc(annotations, func(name string) bool { return c.GetAnnotations()[name] == "true" })
	})
	if len(classes) == 0 {
		return "", nil
	}
	return slices.MinFunc(classes, func(a, b T) int {
		if order := b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time); order != 0 {
			return order
		}
		return strings.Compare(a.GetName(), b.GetName())
	}).GetName(), nil
}

// storageClass sets the default class of new claims without a class.
type storageClass struct {
	*admission.Handler
	objects Lister
}

var _ admission.MutationInterface = &storageClass{}

func newStorageClass(objects Lister) *storageClass {
	return &storageClass{admission.NewHandler(admission.Create), objects}
}

// Admit implements admission.MutationInterface.
func (p *storageClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, claims) {
		return nil
	}
	claim, err := as[*corev1.PersistentVolumeClaim](a.GetObject())
	if err != nil {
		return err
	}
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok || claim.Spec.StorageClassName != nil {
		return nil
	}
	name, err := defaultClass[*storagev1.StorageClass](ctx, p.objects, storageClasses,
		"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if name != "" {
		claim.Spec.StorageClassName = &name
	}
	return nil
}

// ingressClass sets the default class of new ingresses without a class.
type ingressClass struct {
	*admission.Handler
	objects Lister
}

var _ admission.MutationInterface = &ingressClass{}

func newIngressClass(objects Lister) *ingressClass {
	return &ingressClass{admission.NewHandler(admission.Create), objects}
}

// Admit implements admission.MutationInterface.
func (p *ingressClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, ingresses) {
		return nil
	}
	ingress, err := as[*networkingv1.Ingress](a.GetObject())
	if err != nil {
		return err
	}
	if _, ok := ingress.Annotations["kubernetes.io/ingress.class"]; ok || ingress.Spec.IngressClassName != nil {
		return nil
	}
	name, err := defaultClass[*networkingv1.IngressClass](ctx, p.objects, ingressClasses, networkingv1.AnnotationIsDefaultIngressClass)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if name != "" {
		ingress.Spec.IngressClassName = &name
	}
	return nil
}
