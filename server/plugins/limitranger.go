package plugins

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"

	"espalier.dev/kinds/rules"
)

// limitRanger gives containers the default requests and limits of the limit ranges in their
// namespace, and rejects pods and claims that exceed them.
type limitRanger struct {
	*admission.Handler
	objects Lister
}

var (
	_ admission.MutationInterface   = &limitRanger{}
	_ admission.ValidationInterface = &limitRanger{}
)

func newLimitRanger(objects Lister) *limitRanger {
	return &limitRanger{admission.NewHandler(admission.Create, admission.Update), objects}
}

// ranges returns the limit ranges that apply to a request: new pods, resized pods, and claims.
func (p *limitRanger) ranges(ctx context.Context, a admission.Attributes) ([]*corev1.LimitRange, error) {
	update := a.GetOperation() == admission.Update
	resized := update && a.GetSubresource() == "resize" && a.GetResource().GroupResource() == pods
	if !resized && (!handles(a, pods) || update) && !handles(a, claims) {
		return nil, nil
	}
	if old, ok := a.GetOldObject().(metav1.Object); ok && old != nil && old.GetDeletionTimestamp() != nil {
		// Finalizers can be removed from objects that no longer fit.
		return nil, nil
	}
	ranges, err := list[*corev1.LimitRange](ctx, p.objects, limitRanges, a.GetNamespace())
	if err != nil {
		return nil, forbidden(a, "unable to %s %v at this time because there was an error enforcing limit ranges", a.GetOperation(),
			a.GetResource())
	}
	return ranges, nil
}

// Admit implements admission.MutationInterface.
func (p *limitRanger) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != pods {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil
	}
	ranges, err := p.ranges(ctx, a)
	for _, r := range ranges {
		setDefaults(pod, r)
	}
	return err
}

// setDefaults sets the requests and limits of containers that have none.
func setDefaults(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range r.Spec.Limits {
		if item.Type == corev1.LimitTypeContainer {
			merge(requests, item.DefaultRequest)
			merge(limits, item.Default)
		}
	}
	var notes []string
	set := func(kind string, c *corev1.Container) {
		for _, part := range []struct {
			name     string
			defaults corev1.ResourceList
			list     *corev1.ResourceList
		}{
			{"request", requests, &c.Resources.Requests},
			{"limit", limits, &c.Resources.Limits},
		} {
			if *part.list == nil {
				*part.list = corev1.ResourceList{}
			}
			var names []string
			for _, name := range rules.Keys(part.defaults) {
				if _, ok := (*part.list)[name]; !ok {
					(*part.list)[name] = part.defaults[name].DeepCopy()
					names = append(names, string(name))
				}
			}
			if len(names) > 0 {
				notes = append(notes, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), part.name, kind, c.Name))
			}
		}
	}
	for i := range pod.Spec.Containers {
		set("container", &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		set("init container", &pod.Spec.InitContainers[i])
	}
	if len(notes) > 0 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "kubernetes.io/limit-ranger", "LimitRanger plugin set: "+strings.Join(notes, "; "))
	}
}

// merge copies the quantities of a list to another one.
func merge(to, from corev1.ResourceList) {
	for name, q := range from {
		to[name] = q.DeepCopy()
	}
}

// Validate implements admission.ValidationInterface.
func (p *limitRanger) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ranges, err := p.ranges(ctx, a)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		var errs []error
		for _, item := range r.Spec.Limits {
			switch obj := a.GetObject().(type) {
			case *corev1.Pod:
				errs = append(errs, validatePod(obj, item)...)
			case *corev1.PersistentVolumeClaim:
				errs = append(errs, validateClaim(obj, item)...)
			}
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

func validatePod(pod *corev1.Pod, item corev1.LimitRangeItem) (errs []error) {
	switch item.Type {
	case corev1.LimitTypeContainer:
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			errs = append(errs, validateResources(item, c.Resources.Requests, c.Resources.Limits)...)
		}
	case corev1.LimitTypePod:
		requests := podResources(pod, func(r corev1.ResourceRequirements) corev1.ResourceList { return r.Requests })
		limits := podResources(pod, func(r corev1.ResourceRequirements) corev1.ResourceList { return r.Limits })
		errs = validateResources(item, requests, limits)
	}
	return errs
}

func validateClaim(claim *corev1.PersistentVolumeClaim, item corev1.LimitRangeItem) (errs []error) {
	if item.Type != corev1.LimitTypePersistentVolumeClaim {
		return nil
	}
	requests := claim.Spec.Resources.Requests
	for _, name := range rules.Keys(item.Min) {
		errs = appendError(errs, atLeast(item.Type, name, item.Min[name], requests, nil))
	}
	for _, name := range rules.Keys(item.Max) {
		errs = appendError(errs, requestAtMost(item.Type, name, item.Max[name], requests))
	}
	return errs
}

func validateResources(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) (errs []error) {
	for _, name := range rules.Keys(item.Min) {
		errs = appendError(errs, atLeast(item.Type, name, item.Min[name], requests, limits))
	}
	for _, name := range rules.Keys(item.Max) {
		errs = appendError(errs, atMost(item.Type, name, item.Max[name], requests, limits))
	}
	for _, name := range rules.Keys(item.MaxLimitRequestRatio) {
		errs = appendError(errs, ratioAtMost(item.Type, name, item.MaxLimitRequestRatio[name], requests, limits))
	}
	return errs
}

func appendError(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, err)
}

// values returns quantities as integers that can be compared: thousandths, unless one is too large.
func values(quantities ...resource.Quantity) []int64 {
	out := make([]int64, len(quantities))
	milli := true
	for i, q := range quantities {
		out[i] = q.Value()
		milli = milli && out[i] <= resource.MaxMilliValue
	}
	if milli {
		for i, q := range quantities {
			out[i] = q.MilliValue()
		}
	}
	return out
}

func atLeast(kind corev1.LimitType, name corev1.ResourceName, least resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	v := values(request, limit, least)
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, kind, least.String())
	case v[0] < v[2]:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, kind, least.String(), request.String())
	case limited && v[1] < v[2]:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, kind, least.String(), limit.String())
	}
	return nil
}

func requestAtMost(kind corev1.LimitType, name corev1.ResourceName, most resource.Quantity, requests corev1.ResourceList) error {
	request, requested := requests[name]
	v := values(request, most)
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, kind, most.String())
	case v[0] > v[1]:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, kind, most.String(), request.String())
	}
	return nil
}

func atMost(kind corev1.LimitType, name corev1.ResourceName, most resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	v := values(request, limit, most)
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, kind, most.String())
	case v[1] > v[2]:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, kind, most.String(), limit.String())
	case requested && v[0] > v[2]:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, kind, most.String(), request.String())
	}
	return nil
}

func ratioAtMost(kind corev1.LimitType, name corev1.ResourceName, most resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	v := values(request, limit, most)
	switch {
	case !requested || v[0] == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, kind,
			most.String())
	case !limited || v[1] == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, kind, most.String())
	}
	ratio, scaled, highest := float64(v[1])/float64(v[0]), float64(v[1])/float64(v[0]), float64(most.Value())
	if most.Value() <= resource.MaxMilliValue {
		scaled, highest = ratio*1000, float64(most.MilliValue())
	}
	if scaled > highest {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, kind, most.String(), ratio)
	}
	return nil
}

// podResources returns what all containers of a pod need together: the sum of those that run at the
// same time, or what an init container needs before that. Requests and limits of the pod itself
// replace those of CPU and memory.
func podResources(pod *corev1.Pod, part func(corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	total := corev1.ResourceList{}
	for _, c := range pod.Spec.Containers {
		add(total, part(c.Resources))
	}
	sidecars, initial := corev1.ResourceList{}, corev1.ResourceList{}
	for _, c := range pod.Spec.InitContainers {
		needed := corev1.ResourceList{}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(total, part(c.Resources))
			add(sidecars, part(c.Resources))
		} else {
			add(needed, part(c.Resources))
		}
		add(needed, sidecars)
		raise(initial, needed)
	}
	raise(total, initial)
	if pod.Spec.Resources != nil {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := part(*pod.Spec.Resources)[name]; ok {
				total[name] = q
			}
		}
	}
	return total
}

func add(to, from corev1.ResourceList) {
	for name, q := range from {
		sum := to[name].DeepCopy()
		if _, ok := to[name]; !ok {
			sum = q.DeepCopy()
		} else {
			sum.Add(q)
		}
		to[name] = sum
	}
}

// raise raises quantities to those of another list.
func raise(to, other corev1.ResourceList) {
	for name, q := range other {
		if have, ok := to[name]; !ok || q.Cmp(have) > 0 {
			to[name] = q.DeepCopy()
		}
	}
}
