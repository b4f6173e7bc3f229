package plugins

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// priority sets the priority of new pods from their priority class, and rejects a second default
// class.
type priority struct {
	*admission.Handler
	objects Lister
}

var (
	_ admission.MutationInterface   = &priority{}
	_ admission.ValidationInterface = &priority{}
)

func newPriority(objects Lister) *priority {
	return &priority{admission.NewHandler(admission.Create, admission.Update), objects}
}

// Admit implements admission.MutationInterface.
func (p *priority) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, pods) {
		return nil
	}
	pod, err := as[*corev1.Pod](a.GetObject())
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Create {
		return p.assign(ctx, a, &pod.Spec)
	}
	// Clients that do not know the fields do not remove them.
	old, err := as[*corev1.Pod](a.GetOldObject())
	if err != nil {
		return err
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
	return nil
}

func (p *priority) assign(ctx context.Context, a admission.Attributes, spec *corev1.PodSpec) error {
	class, err := p.class(ctx, a, spec.PriorityClassName)
	if err != nil {
		return err
	}
	spec.PriorityClassName = class.Name
	if spec.Priority != nil && *spec.Priority != class.Value {
		return forbidden(a, "the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *spec.Priority, class.Value)
	}
	spec.Priority = &class.Value
	if class.PreemptionPolicy == nil {
		return nil
	}
	if spec.PreemptionPolicy != nil && *spec.PreemptionPolicy != *class.PreemptionPolicy {
		return forbidden(a, "the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *spec.PreemptionPolicy, *class.PreemptionPolicy)
	}
	spec.PreemptionPolicy = class.PreemptionPolicy
	return nil
}

// class returns a copy of the class with the given name, or of the default class.
func (p *priority) class(ctx context.Context, a admission.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if name == "" {
		class, err := p.defaultClass(ctx)
		if err != nil {
			return nil, fmt.Errorf("error occurred while retrieving default priority class: %w", err)
		}
		if class == nil {
			return &schedulingv1.PriorityClass{PreemptionPolicy: new(corev1.PreemptLowerPriority)}, nil
		}
		return class.DeepCopy(), nil
	}
	class, err := get[*schedulingv1.PriorityClass](ctx, p.objects, priorityClasses, "", name)
	switch {
	case errors.IsNotFound(err):
		return nil, forbidden(a, "no PriorityClass with name %v was found", name)
	case err != nil:
		return nil, fmt.Errorf("failed to resolve PriorityClass with name %s: %w", name, err)
	}
	return class.DeepCopy(), nil
}

// defaultClass returns the default class, the one with the lowest value if there are several, or
// nil.
func (p *priority) defaultClass(ctx context.Context) (lowest *schedulingv1.PriorityClass, err error) {
	classes, err := list[*schedulingv1.PriorityClass](ctx, p.objects, priorityClasses, "")
	for _, c := range classes {
		if c.GlobalDefault && (lowest == nil || c.Value < lowest.Value) {
			lowest = c
		}
	}
	return lowest, err
}

// Validate implements admission.ValidationInterface.
func (p *priority) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, priorityClasses) {
		return nil
	}
	class, err := as[*schedulingv1.PriorityClass](a.GetObject())
	if err != nil || !class.GlobalDefault {
		return err
	}
	other, err := p.defaultClass(ctx)
	if err != nil {
		return fmt.Errorf("failed to get default priority class: %w", err)
	}
	if other != nil && (a.GetOperation() == admission.Create || other.Name != class.Name) {
		return forbidden(a, "PriorityClass %v is already marked as default. Only one default can exist", other.Name)
	}
	return nil
}
