package builtin

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// bindingREST assigns a pod to a node.
type bindingREST struct{ store *registry.Store }

var (
	_ rest.NamedCreater                   = &bindingREST{}
	_ rest.SubresourceObjectMetaPreserver = &bindingREST{}
)

// New returns an empty Binding.
func (r *bindingREST) New() runtime.Object { return &corev1.Binding{} }

// Destroy does nothing: the store belongs to the pods.
func (r *bindingREST) Destroy() {}

// Create assigns the pod of that name to the node that the Binding names.
func (r *bindingREST) Create(ctx context.Context, name string, obj runtime.Object,
	validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
	}
	if name != b.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	var errs field.ErrorList
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if validate != nil {
		if err := validate(ctx, b.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.assign(ctx, b, dryrun.IsDryRun(o.DryRun)); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the UID and the resource version
// of a Binding, which are preconditions.
func (r *bindingREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// assign assigns the pod of a Binding to a node. It is the only write that may do so, and it is
// not validated like other updates.
func (r *bindingREST) assign(ctx context.Context, b *corev1.Binding, dry bool) error {
	key, err := r.store.KeyFunc(ctx, b.Name)
	if err != nil {
		return err
	}
	var preconditions storage.Preconditions
	if b.UID != "" {
		preconditions.UID = &b.UID
	}
	if b.ResourceVersion != "" {
		preconditions.ResourceVersion = &b.ResourceVersion
	}
	err = r.store.Storage.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, &preconditions,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			return assign(obj.(*corev1.Pod), b)
		}), dry, nil)
	if err == nil {
		return nil
	}
	err = storeerr.InterpretUpdateError(storeerr.InterpretGetError(err, corev1.Resource("pods"), b.Name), corev1.Resource("pods"), b.Name)
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		err = apierrors.NewConflict(corev1.Resource("pods/binding"), b.Name, err)
	}
	return err
}

// unnamedBindingREST assigns the pod that the Binding itself names to a node.
type unnamedBindingREST struct{ bindingREST }

var _ rest.Creater = &unnamedBindingREST{}

// Create assigns the pod with the name of the Binding.
func (r *unnamedBindingREST) Create(ctx context.Context, obj runtime.Object,
	validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("incorrect type: %T", obj))
	}
	return r.bindingREST.Create(ctx, b.Name, obj, validate, o)
}

// assign assigns a pod to the node of a Binding.
func assign(pod *corev1.Pod, b *corev1.Binding) (*corev1.Pod, error) {
	switch {
	case pod.DeletionTimestamp != nil:
		return nil, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return nil, fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) != 0:
		return nil, fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName, pod.Status.NominatedNodeName = b.Target.Name, ""
	for key, value := range b.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	for key, value := range b.Labels {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			if c.Status != corev1.ConditionTrue {
				c.Status, c.LastTransitionTime = corev1.ConditionTrue, metav1.Now()
			}
			c.Reason, c.Message = "", ""
			return pod, nil
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled,
		Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	return pod, nil
}
