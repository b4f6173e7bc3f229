package builtin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/util/retry"
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
func (r *bindingREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
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
	err = r.store.Storage.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, &preconditions, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
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
func (r *unnamedBindingREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
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
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	return pod, nil
}

// evictionREST deletes a pod if its disruption budget allows it.
type evictionREST struct {
	handler *Handler
	pods    *endpoint
}

var _ rest.NamedCreater = &evictionREST{}

// New returns an empty Eviction.
func (r *evictionREST) New() runtime.Object { return &policyv1.Eviction{} }

// Destroy does nothing: the store belongs to the pods.
func (r *evictionREST) Destroy() {}

// Create evicts the pod of that name.
func (r *evictionREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	eviction, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
	}
	if name != eviction.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	options := eviction.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if validate != nil {
		if err := validate(ctx, eviction.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	found, err := r.pods.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := found.(*corev1.Pod)
	if counts(pod) {
		if err := r.disrupt(ctx, pod, dryrun.IsDryRun(options.DryRun)); err != nil {
			return nil, err
		}
	}
	if _, _, err := r.pods.store.Delete(ctx, name, rest.ValidateAllObjectFunc, options.DeepCopy()); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// counts reports whether the eviction of a pod disrupts anything.
func counts(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodPending
}

// disrupt counts a disruption against the budget of a pod, or returns an error if the budget
// does not allow one.
func (r *evictionREST) disrupt(ctx context.Context, pod *corev1.Pod, dry bool) error {
	budgets, err := r.handler.endpoint(r.handler.resources[policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")])
	if err != nil {
		return err
	}
	listed, err := budgets.store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	var matching []policyv1.PodDisruptionBudget
	for _, b := range listed.(*policyv1.PodDisruptionBudgetList).Items {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, b)
		}
	}
	switch len(matching) {
	case 0:
		return nil
	case 1:
	default:
		return apierrors.NewGenericServerResponse(http.StatusInternalServerError, "create", corev1.Resource("pods/eviction"), pod.Name,
			"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", 0, true)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		status := budgets.subresources["status"].patcher
		_, _, err := status.Update(ctx, matching[0].Name, rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			return allow(old.DeepCopyObject().(*policyv1.PodDisruptionBudget), pod)
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: dryRun(dry)})
		return err
	})
}

// maxDisrupted limits the pods whose disruption is not yet seen by the controller of budgets.
const maxDisrupted = 2000

// allow returns the budget after one more disruption.
func allow(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	refuse := func(seconds int32, details string) error {
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", int(seconds))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: details})
		return err
	}
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return nil, refuse(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed < 0:
		return nil, apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name, fmt.Errorf("pdb disruptions allowed is negative"))
	case len(b.Status.DisruptedPods) > maxDisrupted:
		return nil, apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name, fmt.Errorf("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case b.Status.DisruptionsAllowed == 0:
		return nil, refuse(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy))
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod.Name] = metav1.Now()
	return b, nil
}

func dryRun(dry bool) []string {
	if dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}
