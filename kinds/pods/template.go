package pods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// Template validates a template of pods.
func Template(template *corev1.PodTemplateSpec, path *field.Path, opts Options) field.ErrorList {
	errs := metav1validation.ValidateLabels(template.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	errs = append(errs, Annotations(template.Annotations, &template.Spec, path.Child("annotations"), opts)...)
	errs = append(errs, validateSpec(&template.Spec, nil, path.Child("spec"), opts)...)
	errs = append(errs, validateProfileAnnotations(&template.ObjectMeta, &template.Spec, false, path.Child("spec"))...)
	if len(template.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ReplicaTemplate validates the template of a controller that keeps a number of pods running.
// owner is the kind in errors.
func ReplicaTemplate(template *corev1.PodTemplateSpec, selector labels.Selector, owner string,
	path *field.Path, opts Options) (errs field.ErrorList) {
	if template == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	errs = append(errs, SelectedLabels(template, selector, path)...)
	errs = append(errs, Template(template, path, opts)...)
	return append(errs, EndlessPods(template, owner, path)...)
}

// SelectedLabels rejects templates whose pods the controller would not find.
func SelectedLabels(template *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	if selector.Matches(labels.Set(template.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`")}
}

// EndlessPods rejects templates of pods that end.
func EndlessPods(template *corev1.PodTemplateSpec, owner string, path *field.Path) field.ErrorList {
	errs := rules.Enum(template.Spec.RestartPolicy, path.Child("spec", "restartPolicy"), corev1.RestartPolicyAlways)
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"),
			"activeDeadlineSeconds in "+owner+" is not Supported"))
	}
	return errs
}

func preparePodTemplate(t, old *corev1.PodTemplate) {
	if old == nil {
		t.Generation = 1
		PrepareTemplate(&t.Template, nil)
		return
	}
	PrepareTemplate(&t.Template, &old.Template)
	if !apiequality.Semantic.DeepEqual(t.Template, old.Template) {
		t.Generation = old.Generation + 1
	}
}

func validatePodTemplate(t, old *corev1.PodTemplate) field.ErrorList {
	path := field.NewPath("template")
	if old == nil {
		errs := rules.ObjectMeta(&t.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata)
		return append(errs, Template(&t.Template, path, Options{})...)
	}
	errs := rules.ObjectMetaUpdate(&t.ObjectMeta, &old.ObjectMeta, metadata)
	return append(errs, Template(&t.Template, path, TemplateOptions(&old.Template))...)
}

// Replication controllers.

func defaultController(rc *corev1.ReplicationController) {
	rules.SetDefaultPointer(&rc.Spec.Replicas, 1)
	template := rc.Spec.Template
	if template == nil {
		return
	}
	if template.Labels != nil {
		if len(rc.Spec.Selector) == 0 {
			rc.Spec.Selector = template.Labels
		}
		if len(rc.Labels) == 0 {
			rc.Labels = template.Labels
		}
	}
	DefaultTemplate(template)
}

func prepareController(rc, old *corev1.ReplicationController) {
	var before *corev1.PodTemplateSpec
	if old == nil {
		rc.Status = corev1.ReplicationControllerStatus{}
		rc.Generation = 1
	} else {
		old.Status.DeepCopyInto(&rc.Status)
		before = old.Spec.Template
	}
	if rc.Spec.Template != nil {
		PrepareTemplate(rc.Spec.Template, before)
	}
	if old != nil && !apiequality.Semantic.DeepEqual(rc.Spec, old.Spec) {
		rc.Generation = old.Generation + 1
	}
}

func validateController(rc, old *corev1.ReplicationController) (errs field.ErrorList) {
	var opts Options
	if old == nil {
		errs = rules.ObjectMetaWithName(&rc.ObjectMeta, true, rules.LongName, metadata)
	} else {
		opts = TemplateOptions(old.Spec.Template)
		errs = rules.ObjectMetaUpdate(&rc.ObjectMeta, &old.ObjectMeta, metadata)
	}
	spec := &rc.Spec
	errs = append(errs, rules.Nonnegative(spec.MinReadySeconds, specPath.Child("minReadySeconds"))...)
	if len(spec.Selector) == 0 {
		errs = append(errs, field.Required(specPath.Child("selector"), ""))
	}
	if spec.Replicas == nil {
		errs = append(errs, field.Required(specPath.Child("replicas"), ""))
	} else {
		errs = append(errs, rules.Nonnegative(*spec.Replicas, specPath.Child("replicas"))...)
	}
	errs = append(errs, ReplicaTemplate(spec.Template, labels.SelectorFromSet(spec.Selector),
		"ReplicationController", specPath.Child("template"), opts)...)
	if old != nil {
		errs = append(errs, validateNonConvertible(rc, old)...)
	}
	return errs
}

// validateNonConvertible rejects changes of fields that were written by another version of the
// API and are kept in annotations.
func validateNonConvertible(rc, old *corev1.ReplicationController) (errs field.ErrorList) {
	for _, key := range rules.Keys(old.Annotations) {
		if !strings.HasPrefix(key, corev1.NonConvertibleAnnotationPrefix) || strings.Count(key, "/") != 1 {
			continue
		}
		_, name, _ := strings.Cut(key, "/")
		if !strings.Contains(name, "selector") {
			errs = append(errs, &field.Error{Type: field.ErrorTypeNotFound,
				BadValue: old.Annotations[key], Field: name, Detail: "unknown non-convertible field"})
		} else if !apiequality.Semantic.DeepEqual(rc.Spec.Selector, old.Spec.Selector) {
			errs = append(errs, field.Invalid(specPath.Child("selector"), rc.Spec.Selector, "cannot update non-convertible selector"))
		}
	}
	return errs
}

func prepareControllerStatus(rc, old *corev1.ReplicationController) {
	old.Spec.DeepCopyInto(&rc.Spec)
}

func validateControllerStatus(rc, old *corev1.ReplicationController) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&rc.ObjectMeta, &old.ObjectMeta, metadata)
	s := &rc.Status
	errs = append(errs, rules.Nonnegative(s.Replicas, statusPath.Child("replicas"))...)
	errs = append(errs, rules.Nonnegative(s.FullyLabeledReplicas, statusPath.Child("fullyLabeledReplicas"))...)
	errs = append(errs, rules.Nonnegative(s.ReadyReplicas, statusPath.Child("readyReplicas"))...)
	errs = append(errs, rules.Nonnegative(s.AvailableReplicas, statusPath.Child("availableReplicas"))...)
	errs = append(errs, rules.Nonnegative(s.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, AtMost(s.FullyLabeledReplicas, s.Replicas, "status.replicas", statusPath.Child("fullyLabeledReplicas"))...)
	errs = append(errs, AtMost(s.ReadyReplicas, s.Replicas, "status.replicas", statusPath.Child("readyReplicas"))...)
	errs = append(errs, AtMost(s.AvailableReplicas, s.Replicas, "status.replicas", statusPath.Child("availableReplicas"))...)
	return append(errs, AtMost(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas", statusPath.Child("availableReplicas"))...)
}

// AtMost rejects numbers in the status of a controller above that of another field.
func AtMost(value, most int32, name string, path *field.Path) field.ErrorList {
	if value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "cannot be greater than "+name)}
}
