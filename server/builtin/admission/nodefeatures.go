package admission

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-helpers/nodedeclaredfeatures"
)

// nodeFeatures rejects updates of running pods that need features that their nodes do not declare.
type nodeFeatures struct {
	*admission.Handler
	objects Lister
	version *version.Version
}

var _ admission.ValidationInterface = &nodeFeatures{}

func newNodeFeatures(objects Lister, v *version.Version) *nodeFeatures {
	return &nodeFeatures{admission.NewHandler(admission.Update), objects, v}
}

// Validate implements admission.ValidationInterface.
func (p *nodeFeatures) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != pods || a.GetSubresource() != "" && a.GetSubresource() != "resize" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return errors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok {
		return errors.NewBadRequest(fmt.Sprintf("expected an old pod but got a %T", a.GetOldObject()))
	}
	if old.Generation == pod.Generation {
		return nil // the spec has not changed
	}
	framework := nodedeclaredfeatures.DefaultFramework
	needed, err := framework.InferForPodUpdate(
		&nodedeclaredfeatures.PodInfo{Spec: &old.Spec, Status: &old.Status}, &nodedeclaredfeatures.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, p.version)
	if err != nil {
		return forbidden(a, "failed to infer pod capability requirements: %w", err)
	}
	if needed.IsEmpty() {
		return nil
	}
	node, err := get[*corev1.Node](ctx, p.objects, nodes, "", pod.Spec.NodeName)
	switch {
	case errors.IsNotFound(err):
		return forbidden(a, "node %q not found", pod.Spec.NodeName)
	case err != nil:
		return forbidden(a, "failed to get node %q: %w", pod.Spec.NodeName, err)
	}
	result, err := framework.MatchNode(needed, node)
	if err != nil {
		return forbidden(a, "failed to match pod requirements against node %q: %w", node.Name, err)
	}
	if !result.IsMatch {
		return forbidden(a, "pod update requires features %s which are not available on node %q", strings.Join(result.UnsatisfiedRequirements, ", "), node.Name)
	}
	return nil
}
