package plugins

import (
	"context"
	goerrors "errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-helpers/resource"
)

// podResize rejects new resources for a running pod that its node can never provide.
type podResize struct {
	*admission.Handler
	objects Lister
}

var _ admission.ValidationInterface = &podResize{}

func newPodResize(objects Lister) *podResize {
	return &podResize{admission.NewHandler(admission.Update), objects}
}

// Validate implements admission.ValidationInterface.
func (p *podResize) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetOperation() != admission.Update || a.GetResource().GroupResource() != pods || a.GetSubresource() != "resize" {
		return nil
	}
	pod, _, err := changedPod(a)
	if pod == nil || err != nil {
		return err
	}
	node, err := nodeOf(ctx, p.objects, a, pod)
	if err != nil {
		return err
	}
	if system, ok := node.Labels[corev1.LabelOSStable]; ok && system != "linux" {
		return withCause(forbidden(a, "pod resize is only supported on linux nodes, node %q is %q", node.Name, system), "UnsupportedPlatform")
	}
	if missing := exceeding(pod, node.Status.Allocatable); len(missing) > 0 {
		return withCause(forbidden(a, "node didn't have enough allocatable resources: %s", strings.Join(missing, "; ")), "NodeCapacity")
	}
	return nil
}

// exceeding lists the resources of which a pod requests more than a node has.
func exceeding(pod *corev1.Pod, allocatable corev1.ResourceList) (texts []string) {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	if cpu := requests[corev1.ResourceCPU]; cpu.Cmp(*allocatable.Cpu()) > 0 {
		texts = append(texts, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), allocatable.Cpu().MilliValue()))
	}
	if memory := requests[corev1.ResourceMemory]; memory.Cmp(*allocatable.Memory()) > 0 {
		texts = append(texts, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), allocatable.Memory().Value()))
	}
	return texts
}

// withCause adds a cause to an error.
func withCause(err error, cause metav1.CauseType) error {
	if status := (*errors.StatusError)(nil); goerrors.As(err, &status) && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}

// changedPod returns the pod of an update and its old state, or nil if it is not on a node or its
// spec has not changed.
func changedPod(a admission.Attributes) (pod, old *corev1.Pod, err error) {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil, nil, errors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	if pod.Spec.NodeName == "" {
		return nil, nil, nil
	}
	if old, ok = a.GetOldObject().(*corev1.Pod); !ok {
		return nil, nil, errors.NewBadRequest(fmt.Sprintf("expected an old pod but got a %T", a.GetOldObject()))
	}
	if old.Generation == pod.Generation {
		return nil, nil, nil
	}
	return pod, old, nil
}

// nodeOf returns the node of a pod, or the error of the request.
func nodeOf(ctx context.Context, objects Lister, a admission.Attributes, pod *corev1.Pod) (*corev1.Node, error) {
	node, err := get[*corev1.Node](ctx, objects, nodes, "", pod.Spec.NodeName)
	switch {
	case errors.IsNotFound(err):
		return nil, forbidden(a, "node %q not found", pod.Spec.NodeName)
	case err != nil:
		return nil, forbidden(a, "failed to get node %q: %w", pod.Spec.NodeName, err)
	}
	return node, nil
}
