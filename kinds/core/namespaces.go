package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

func namespaces() kind.Rules {
	return kind.Rules{
		Default: kind.On(func(ns *corev1.Namespace) {
			labelNamespace(ns)
			rules.SetDefault(&ns.Status.Phase, corev1.NamespaceActive)
		}),
		Main: kind.Write{
			Prepare:  kind.Change(prepareNamespace),
			Validate: kind.Check(validateNamespace),
			// A generated name is not known to Default.
			Canonicalize: kind.On(labelNamespace),
			Reset:        []string{"status"},
		},
		Status: &kind.Write{
			Prepare:      kind.Change(func(ns, old *corev1.Namespace) { ns.Spec = old.Spec }),
			Validate:     kind.Check(validateNamespaceStatus),
			Canonicalize: kind.On(labelNamespace),
			Reset:        []string{"spec"},
		},
		Subresources: map[string]kind.Write{"finalize": {
			Prepare:      kind.Change(func(ns, old *corev1.Namespace) { ns.Status = old.Status }),
			Validate:     kind.Check(validateFinalize),
			Canonicalize: kind.On(labelNamespace),
			Reset:        []string{"status"},
		}},
		Fields: func(obj kind.Object) fields.Set {
			return fields.Set{"status.phase": string(obj.(*corev1.Namespace).Status.Phase)}
		},
	}
}

// labelNamespace sets the label with the name of the namespace.
func labelNamespace(ns *corev1.Namespace) {
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func prepareNamespace(ns, old *corev1.Namespace) {
	if old != nil {
		ns.Spec.Finalizers = old.Spec.Finalizers
		ns.Status = old.Status
		return
	}
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func validateNamespace(ns, old *corev1.Namespace) field.ErrorList {
	errs := rules.ObjectMeta(&ns.ObjectMeta, false, apivalidation.ValidateNamespaceName, metadata())
	for _, name := range ns.Spec.Finalizers {
		errs = append(errs, rules.Finalizer(string(name), field.NewPath("spec", "finalizers"))...)
	}
	if old != nil {
		errs = append(errs, rules.ObjectMetaUpdate(&ns.ObjectMeta, &old.ObjectMeta, metadata())...)
	}
	return errs
}

func validateNamespaceStatus(ns, old *corev1.Namespace) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&ns.ObjectMeta, &old.ObjectMeta, metadata())
	path := field.NewPath("status", "Phase")
	switch deleted := !ns.DeletionTimestamp.IsZero(); {
	case !deleted && ns.Status.Phase != corev1.NamespaceActive:
		errs = append(errs, field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty"))
	case deleted && ns.Status.Phase != corev1.NamespaceTerminating:
		errs = append(errs, field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
	}
	return errs
}

func validateFinalize(ns, old *corev1.Namespace) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&ns.ObjectMeta, &old.ObjectMeta, metadata())
	for i, name := range ns.Spec.Finalizers {
		errs = append(errs, rules.Finalizer(string(name), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}
