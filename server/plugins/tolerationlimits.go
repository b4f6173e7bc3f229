package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	podrules "espalier.dev/kinds/pods"
)

// tolerationRestriction gives pods the default tolerations of their namespace, and limits the
// tolerations that pods of a namespace can have.
type tolerationRestriction struct {
	*admission.Handler
	objects Lister
	// For namespaces that have none of their own.
	defaults, allowed []corev1.Toleration
}

var (
	_ admission.MutationInterface   = &tolerationRestriction{}
	_ admission.ValidationInterface = &tolerationRestriction{}
)

// The annotations of a namespace with tolerations.
const (
	defaultTolerations = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedTolerations = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

func newTolerationRestriction(objects Lister, configuration []byte) (*tolerationRestriction, error) {
	var c struct {
		Default   []corev1.Toleration `json:"default"`
		Whitelist []corev1.Toleration `json:"whitelist"`
	}
	if err := configure(configuration, "podtolerationrestriction.admission.k8s.io/v1alpha1", &c); err != nil {
		return nil, err
	}
	path := field.NewPath("podtolerationrestriction")
	errs := append(podrules.ValidateTolerations(c.Default, path.Child("default")),
		podrules.ValidateTolerations(c.Whitelist, path.Child("whitelist"))...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("invalid config: %v", errs)
	}
	return &tolerationRestriction{admission.NewHandler(admission.Create, admission.Update), objects, c.Default, c.Whitelist}, nil
}

// annotated returns the tolerations in an annotation of a namespace. They are nil if it has no
// such annotation.
func (p *tolerationRestriction) annotated(ctx context.Context, namespace, key string) ([]corev1.Toleration, error) {
	ns, err := get[*corev1.Namespace](ctx, p.objects, namespaces, "", namespace)
	if err != nil && !errors.IsNotFound(err) {
		err = errors.NewInternalError(err)
	}
	if err != nil {
		return nil, err
	}
	text, ok := ns.Annotations[key]
	if !ok {
		return nil, nil
	}
	all := []corev1.Toleration{}
	if text != "" {
		err = json.Unmarshal([]byte(text), &all)
	}
	if all == nil {
		all = []corev1.Toleration{}
	}
	return all, err
}

// Admit implements admission.MutationInterface.
func (p *tolerationRestriction) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || !handles(a, pods) {
		return nil
	}
	var more []corev1.Toleration
	if a.GetOperation() == admission.Create {
		given, err := p.annotated(ctx, a.GetNamespace(), defaultTolerations)
		if err != nil {
			return err
		}
		if given == nil {
			given = p.defaults
		}
		more = slices.Clone(given)
	}
	class := pod.Status.QOSClass
	if class == "" {
		class = podrules.QOSClass(&pod.Spec)
	}
	if class != corev1.PodQOSBestEffort {
		more = append(more, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure,
			Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	if len(more) > 0 {
		pod.Spec.Tolerations = mergeTolerations(slices.Concat(pod.Spec.Tolerations, more))
	}
	return p.Validate(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (p *tolerationRestriction) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || !handles(a, pods) || len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	allowed, err := p.annotated(ctx, a.GetNamespace(), allowedTolerations)
	if err != nil {
		return err
	}
	scope := "namespace"
	if allowed == nil {
		allowed, scope = p.allowed, "cluster"
	}
	for _, t := range pod.Spec.Tolerations {
		if len(allowed) > 0 && !slices.ContainsFunc(allowed, func(other corev1.Toleration) bool { return includes(other, t) }) {
			return fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope)
		}
	}
	return nil
}
