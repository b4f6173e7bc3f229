package plugins

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"
)

// nodeSelector gives new pods the node selector of their namespace, and limits the node selectors
// that pods of a namespace can have.
type nodeSelector struct {
	*admission.Handler
	objects Lister
	// cluster has the selectors of the configuration: the default one, and those that limit the
	// pods of a namespace.
	cluster map[string]string
}

var (
	_ admission.MutationInterface   = &nodeSelector{}
	_ admission.ValidationInterface = &nodeSelector{}
)

// nodeSelectorAnnotation has the node selector of a namespace.
const nodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

func newNodeSelector(objects Lister, configuration []byte) (*nodeSelector, error) {
	var c struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := yaml.Unmarshal(configuration, &c); err != nil {
		return nil, err
	}
	return &nodeSelector{admission.NewHandler(admission.Create), objects, c.Selectors}, nil
}

// of returns the node selector of a namespace.
func (p *nodeSelector) of(ctx context.Context, name string) (labels.Set, error) {
	ns, err := get[*corev1.Namespace](ctx, p.objects, namespaces, "", name)
	if errors.IsNotFound(err) {
		return nil, errors.NewInternalError(fmt.Errorf("namespace %s does not exist", name))
	}
	if err != nil {
		return nil, errors.NewInternalError(err)
	}
	text, ok := ns.Annotations[nodeSelectorAnnotation]
	if !ok {
		text = p.cluster["clusterDefaultNodeSelector"]
	}
	return labels.ConvertSelectorToLabelsMap(text)
}

// check returns the pod of a request and the selector of its namespace. The pod is nil if the
// request is for another resource.
func (p *nodeSelector) check(ctx context.Context, a admission.Attributes) (*corev1.Pod, labels.Set, error) {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || !handles(a, pods) {
		return nil, nil, nil
	}
	selector, err := p.of(ctx, a.GetNamespace())
	if err != nil {
		return nil, nil, err
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return nil, nil, errors.NewForbidden(pods, pod.Name,
			fmt.Errorf("pod node label selector conflicts with its namespace node label selector"))
	}
	return pod, selector, nil
}

// Admit implements admission.MutationInterface.
func (p *nodeSelector) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod, selector, err := p.check(ctx, a)
	if pod == nil || err != nil {
		return err
	}
	pod.Spec.NodeSelector = labels.Merge(selector, pod.Spec.NodeSelector)
	return p.Validate(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (p *nodeSelector) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, _, err := p.check(ctx, a)
	if pod == nil || err != nil {
		return err
	}
	allowed, err := labels.ConvertSelectorToLabelsMap(p.cluster[a.GetNamespace()])
	if err != nil || len(allowed) == 0 {
		return err
	}
	for key, value := range pod.Spec.NodeSelector {
		if v, ok := allowed[key]; !ok || v != value {
			return errors.NewForbidden(pods, pod.Name, fmt.Errorf("pod node label selector labels conflict with its namespace whitelist"))
		}
	}
	return nil
}
