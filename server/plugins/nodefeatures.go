package plugins

import (
	"context"
	"strings"

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
	pod, old, err := changedPod(a)
	if pod == nil || err != nil {
		return err
	}
	framework := nodedeclaredfeatures.DefaultFramework
	needed, err := framework.InferForPodUpdate(
		&nodedeclaredfeatures.PodInfo{Spec: &old.Spec, Status: &old.Status},
		&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, p.version)
	if err != nil {
		return forbidden(a, "failed to infer pod capability requirements: %w", err)
	}
	if needed.IsEmpty() {
		return nil
	}
	node, err := nodeOf(ctx, p.objects, a, pod)
	if err != nil {
		return err
	}
	result, err := framework.MatchNode(needed, node)
	if err != nil {
		return forbidden(a, "failed to match pod requirements against node %q: %w", node.Name, err)
	}
	if !result.IsMatch {
		return forbidden(a, "pod update requires features %s which are not available on node %q",
			strings.Join(result.UnsatisfiedRequirements, ", "), node.Name)
	}
	return nil
}
