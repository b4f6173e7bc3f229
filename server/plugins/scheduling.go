package plugins

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"espalier.dev/kinds/rules"
)

// antiAffinity rejects pods that keep others away from more than their node.
type antiAffinity struct{ *admission.Handler }

var _ admission.ValidationInterface = antiAffinity{}

func newAntiAffinity() antiAffinity {
	return antiAffinity{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements admission.ValidationInterface.
func (antiAffinity) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, pods) {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return errors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname {
			return errors.NewForbidden(pods, pod.Name,
				fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed",
					term.TopologyKey, corev1.LabelHostname))
		}
	}
	return nil
}

// extendedToleration lets pods tolerate the taints of nodes that have the extended resources that
// they request.
type extendedToleration struct{ *admission.Handler }

var _ admission.MutationInterface = extendedToleration{}

func newExtendedToleration() extendedToleration {
	return extendedToleration{admission.NewHandler(admission.Create, admission.Update)}
}

// Admit implements admission.MutationInterface.
func (extendedToleration) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, pods) {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return errors.NewBadRequest(fmt.Sprintf("expected *core.Pod but got %T", a.GetObject()))
	}
	names := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			if rules.IsExtendedResource(name) {
				names[string(name)] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		setToleration(&pod.Spec, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

// setToleration adds a toleration, in the place of those for the same taints.
func setToleration(spec *corev1.PodSpec, t corev1.Toleration) {
	var all []corev1.Toleration
	found := false
	for _, other := range spec.Tolerations {
		if t.MatchToleration(&other) {
			if equality.Semantic.DeepEqual(t, other) {
				return
			}
			found = true
			other = t
		}
		all = append(all, other)
	}
	if !found {
		all = append(all, t)
	}
	spec.Tolerations = all
}

// topology gives pods the labels for the zone and the region of their node.
type topology struct {
	*admission.Handler
	objects Lister
}

var _ admission.MutationInterface = &topology{}

func newTopology(objects Lister) *topology {
	return &topology{admission.NewHandler(admission.Create), objects}
}

// Admit implements admission.MutationInterface.
func (p *topology) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != pods {
		return nil
	}
	var name string
	var labels *map[string]string
	switch a.GetSubresource() {
	case "":
		pod, ok := a.GetObject().(*corev1.Pod)
		if !ok {
			return fmt.Errorf("expected Pod but got %T", a.GetObject())
		}
		name, labels = pod.Spec.NodeName, &pod.Labels
	case "binding":
		binding, ok := a.GetObject().(*corev1.Binding)
		if !ok {
			return fmt.Errorf("expected Binding but got %s", a.GetKind().Kind)
		}
		if binding.Target.Kind == "Node" {
			name, labels = binding.Target.Name, &binding.Labels
		}
	}
	if name == "" {
		return nil
	}
	node, err := get[*corev1.Node](ctx, p.objects, nodes, "", name)
	if errors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := node.Labels[key]; ok {
			if *labels == nil {
				*labels = map[string]string{}
			}
			(*labels)[key] = value
		}
	}
	return nil
}
