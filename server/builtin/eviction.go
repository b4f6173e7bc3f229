package builtin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/util/retry"
)

// evictionREST deletes a pod if its disruption budget allows it.
type evictionREST struct {
	handler *Handler
	pods    *endpoint
}

var (
	_ rest.NamedCreater         = &evictionREST{}
	_ rest.GroupVersionAcceptor = &evictionREST{}
)

// New returns an empty Eviction.
func (r *evictionREST) New() runtime.Object { return &policyv1.Eviction{} }

// Destroy does nothing: the store belongs to the pods.
func (r *evictionREST) Destroy() {}

// AcceptsGroupVersion reports whether an Eviction may have a version. Old clients send v1beta1.
func (r *evictionREST) AcceptsGroupVersion(gv runtimeschema.GroupVersion) bool {
	return gv == policyv1.SchemeGroupVersion || gv == policyv1beta1.SchemeGroupVersion
}

// Create evicts the pod of that name.
func (r *evictionREST) Create(ctx context.Context, name string, obj runtime.Object,
	validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	eviction, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
	}
	if name != eviction.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	options, err := deleteOptions(eviction, o)
	if err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, eviction.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	pod, err := r.evictIgnoring(ctx, name, options)
	if err != nil {
		return nil, err
	}
	if pod != nil {
		if err := r.evict(ctx, pod, options); err != nil {
			return nil, err
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// deleteOptions returns the options for the deletion of the pod: those in the Eviction, and
// whether the request is a dry run.
func deleteOptions(e *policyv1.Eviction, o *metav1.CreateOptions) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if e.DeleteOptions != nil {
		options = e.DeleteOptions
	}
	if unsafe := options.IgnoreStoreReadErrorWithClusterBreakingPotential; unsafe != nil && *unsafe {
		return nil, apierrors.NewInvalid(policyv1.SchemeGroupVersion.WithKind("Eviction").GroupKind(), e.Name,
			field.ErrorList{field.Invalid(
				field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true,
				"can not be set for pod eviction, try after removing the option")})
	}
	switch {
	case len(options.DryRun) == 0:
		options.DryRun = o.DryRun
	case len(o.DryRun) > 0 && !slices.Equal(options.DryRun, o.DryRun):
		return nil, fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", o.DryRun, options.DryRun)
	}
	return options, nil
}

// evictionRetry is how long an eviction is repeated because of other writes.
func evictionRetry() wait.Backoff {
	return wait.Backoff{Steps: 20, Duration: 500 * time.Millisecond, Factor: 1, Jitter: 0.1}
}

// evictIgnoring evicts a pod whose eviction disrupts nothing, whatever its budgets are. It
// returns the pod if that is another one.
func (r *evictionREST) evictIgnoring(ctx context.Context, name string, options *metav1.DeleteOptions) (pod *corev1.Pod, err error) {
	failed := false // a precondition, which does not change
	again := func(err error) bool { return apierrors.IsConflict(err) && !failed && !hasVersion(options) }
	err = retry.OnError(evictionRetry(), again, func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		found, err := r.pods.store.Get(ctx, name, &metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod = found.(*corev1.Pod); counts(pod) {
			return nil
		}
		if err := meets(pod, options.Preconditions); err != nil {
			failed = true
			return err
		}
		exactly := options
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil && !hasVersion(options) {
			exactly = atVersion(options, pod.ResourceVersion) // it may begin to run
		}
		if err := r.delete(ctx, name, exactly); err != nil {
			return err
		}
		pod = nil
		return nil
	})
	return pod, err
}

// counts reports whether the eviction of a pod disrupts anything.
func counts(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded &&
		pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodPending
}

// evict evicts a pod if its budget allows it.
func (r *evictionREST) evict(ctx context.Context, pod *corev1.Pod, options *metav1.DeleteOptions) error {
	budgets, err := r.handler.endpoint(r.handler.resources[policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")])
	if err != nil {
		return err
	}
	b, err := budgetOf(ctx, budgets, pod)
	if err != nil {
		return err
	}
	if b == nil {
		return r.delete(ctx, pod.Name, options)
	}
	if !unhealthy(b, pod) {
		if err := disrupt(ctx, budgets, b.Name, pod, dryrun.IsDryRun(options.DryRun)); err != nil {
			return err
		}
		return r.delete(ctx, pod.Name, options)
	}
	// It must not have become healthy since.
	err = r.delete(ctx, pod.Name, atVersion(options, pod.ResourceVersion))
	if apierrors.IsConflict(err) && !hasVersion(options) {
		return processing(b)
	}
	return err
}

// budgetOf returns the budget of a pod, or nil if it has none.
func budgetOf(ctx context.Context, budgets *endpoint, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	listed, err := budgets.store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found *policyv1.PodDisruptionBudget
	all := listed.(*policyv1.PodDisruptionBudgetList).Items
	for i := range all {
		b := &all[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Namespace != pod.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if found != nil {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
			}}
		}
		found = b
	}
	return found, nil
}

// unhealthy reports whether a pod is not ready, and its budget allows evicting it for that reason.
func unhealthy(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return false
	}
	if policy := b.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// disrupt counts a disruption against a budget, or returns an error if the budget does not allow
// one.
func disrupt(ctx context.Context, budgets *endpoint, name string, pod *corev1.Pod, dry bool) error {
	err := retry.RetryOnConflict(evictionRetry(), func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, _, err := budgets.subresources["status"].patcher.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil,
			func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
				return allow(old.DeepCopyObject().(*policyv1.PodDisruptionBudget), pod)
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: dryRun(dry)})
		return err
	})
	if wait.Interrupted(err) { // the time of the request is over
		return apierrors.NewTimeoutError(fmt.Sprintf("couldn't update PodDisruptionBudget %q in time", name), 10)
	}
	return err
}

// maxDisrupted limits the pods whose disruption is not yet seen by the controller of budgets.
const maxDisrupted = 2000

// rejection returns the error of an eviction that a budget does not allow.
func rejection(seconds int, details string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: details})
	return err
}

// processing returns the error of an eviction that may be allowed later.
func processing(b *policyv1.PodDisruptionBudget) error {
	return rejection(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
}

// allow returns the budget after one more disruption.
func allow(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return nil, processing(b)
	case b.Status.DisruptionsAllowed < 0:
		return nil, apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name,
			fmt.Errorf("pdb disruptions allowed is negative"))
	case len(b.Status.DisruptedPods) > maxDisrupted:
		return nil, apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name,
			fmt.Errorf("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case b.Status.DisruptionsAllowed == 0:
		return nil, rejection(0, reason(b))
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.InsufficientPodsReason, ObservedGeneration: b.Status.ObservedGeneration,
		})
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod.Name] = metav1.Now()
	return b, nil
}

// reason returns why a budget allows no disruption.
func reason(b *policyv1.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	explained := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case explained && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case b.Status.CurrentHealthy <= b.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	case explained:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason, c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}

// delete records the eviction in the status of a pod, and deletes it.
func (r *evictionREST) delete(ctx context.Context, name string, options *metav1.DeleteOptions) error {
	if !dryrun.IsDryRun(options.DryRun) {
		obj, _, err := r.pods.subresources["status"].patcher.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil,
			func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
				pod := old.DeepCopyObject().(*corev1.Pod)
				if err := meets(pod, options.Preconditions); err != nil {
					return nil, err
				}
				setTarget(&pod.Status)
				return pod, nil
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		if hasVersion(options) {
			options = atVersion(options, obj.(*corev1.Pod).ResourceVersion)
		}
	}
	_, _, err := r.pods.store.Delete(ctx, name, rest.ValidateAllObjectFunc, options.DeepCopy())
	return err
}

// meets returns an error if a pod does not meet the preconditions of its deletion.
func meets(pod *corev1.Pod, p *metav1.Preconditions) error {
	pods := runtimeschema.GroupResource{Resource: "Pod"}
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != "" && *p.UID != pod.UID:
		return apierrors.NewConflict(pods, pod.Name,
			fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, pod.UID))
	case p.ResourceVersion != nil && *p.ResourceVersion != "" && *p.ResourceVersion != pod.ResourceVersion:
		return apierrors.NewConflict(pods, pod.Name,
			fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, pod.ResourceVersion))
	}
	return nil
}

// setTarget sets the condition of a pod that is being evicted.
func setTarget(s *corev1.PodStatus) {
	target := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
		Message: "Eviction API: evicting", LastTransitionTime: metav1.Now(),
	}
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == target.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, target)
		return
	}
	if s.Conditions[i].Status == target.Status {
		target.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = target
}

// hasVersion reports whether a deletion is for one resource version.
func hasVersion(o *metav1.DeleteOptions) bool {
	return o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
}

// atVersion returns the options for the deletion of one resource version.
func atVersion(o *metav1.DeleteOptions, version string) *metav1.DeleteOptions {
	out := o.DeepCopy()
	if out.Preconditions == nil {
		out.Preconditions = &metav1.Preconditions{}
	}
	out.Preconditions.ResourceVersion = &version
	return out
}

func dryRun(dry bool) []string {
	if dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}
