package kinds

import (
	"maps"
	"reflect"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/kinds/apiregistration"
	"espalier.dev/kinds/apps"
	"espalier.dev/kinds/autoscaling"
	"espalier.dev/kinds/batch"
	"espalier.dev/kinds/certificates"
	"espalier.dev/kinds/coordination"
	"espalier.dev/kinds/core"
	"espalier.dev/kinds/discovery"
	"espalier.dev/kinds/events"
	"espalier.dev/kinds/flowcontrol"
	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/networking"
	"espalier.dev/kinds/node"
	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/policy"
	"espalier.dev/kinds/rbac"
	"espalier.dev/kinds/resource"
	"espalier.dev/kinds/scheduling"
	"espalier.dev/kinds/storage"
)

// CEL compiles the expressions in objects of Kubernetes' own kinds. Package espalier.dev/kinds/cel
// implements it.
type CEL interface {
	admissionregistration.CEL
	resource.CEL
	// Together returns a function to call for the expressions of one object. It returns an error as soon as one of them, or
	// all of them together, would take too long to compile.
	Together() func(expression string) error
}

// byGroup returns the rules of kinds, by group. They are made when they are first used.
func byGroup(cel CEL) map[string]func() map[string]kind.Rules {
	return map[string]func() map[string]kind.Rules{
		"": func() map[string]kind.Rules {
			all := core.Rules()
			maps.Copy(all, pods.Rules())
			return all
		},
		"events.k8s.io":                events.Rules,
		"admissionregistration.k8s.io": func() map[string]kind.Rules { return boundExpressions(cel, admissionregistration.Rules(cel)) },
		"apiregistration.k8s.io":       apiregistration.Rules,
		"apps":                         apps.Rules,
		"autoscaling":                  autoscaling.Rules,
		"batch":                        batch.Rules,
		"flowcontrol.apiserver.k8s.io": flowcontrol.Rules,
		"networking.k8s.io":            networking.Rules,
		"policy":                       policy.Rules,
		"resource.k8s.io":              func() map[string]kind.Rules { return boundExpressions(cel, resource.Rules(cel)) },
		"certificates.k8s.io":          certificates.Rules,
		"coordination.k8s.io":          coordination.Rules,
		"discovery.k8s.io":             discovery.Rules,
		"node.k8s.io":                  node.Rules,
		"rbac.authorization.k8s.io":    rbac.Rules,
		"scheduling.k8s.io":            scheduling.Rules,
		"storage.k8s.io":               storage.Rules,
	}
}

// Rules returns a function that returns the rules of a resource. They apply to objects of the kind
// that is stored. cel compiles the expressions of webhooks, policies and device selectors; if it is nil,
// they are not compiled.
func Rules(cel CEL) func(*Resource) kind.Rules {
	made := map[string]func() map[string]kind.Rules{}
	for group, f := range byGroup(cel) {
		made[group] = sync.OnceValue(f)
	}
	return func(r *Resource) kind.Rules {
		if f := made[r.Group]; f != nil {
			if rules, ok := f()[r.Plural]; ok {
				return rules
			}
		}
		return Plain(r)
	}
}

// conversions returns the conversions between kinds that are stored and others, by the Go type
// of what is converted.
func conversions() map[reflect.Type]conversion {
	core, v1 := corev1.SchemeGroupVersion, eventsv1.SchemeGroupVersion
	return map[reflect.Type]conversion{
		reflect.TypeFor[*policyv1beta1.Eviction](): {policyv1.SchemeGroupVersion.WithKind("Eviction"),
			func(obj runtime.Object) runtime.Object {
				in := obj.(*policyv1beta1.Eviction)
				return &policyv1.Eviction{ObjectMeta: in.ObjectMeta, DeleteOptions: in.DeleteOptions}
			}},
		reflect.TypeFor[*eventsv1.Event](): {core.WithKind("Event"), func(obj runtime.Object) runtime.Object {
			return events.FromV1(obj.(*eventsv1.Event))
		}},
		reflect.TypeFor[*corev1.Event](): {v1.WithKind("Event"), func(obj runtime.Object) runtime.Object {
			return events.ToV1(obj.(*corev1.Event))
		}},
		reflect.TypeFor[*corev1.EventList](): {v1.WithKind("EventList"), func(obj runtime.Object) runtime.Object {
			in := obj.(*corev1.EventList)
			out := &eventsv1.EventList{ListMeta: in.ListMeta, Items: make([]eventsv1.Event, len(in.Items))}
			for i := range in.Items {
				out.Items[i] = *events.ToV1(&in.Items[i])
			}
			return out
		}},
		reflect.TypeFor[*autoscalingv1.HorizontalPodAutoscaler](): {autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), func(obj runtime.Object) runtime.Object {
			return autoscaling.FromV1(obj.(*autoscalingv1.HorizontalPodAutoscaler))
		}},
		reflect.TypeFor[*autoscalingv2.HorizontalPodAutoscaler](): {autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), func(obj runtime.Object) runtime.Object {
			return autoscaling.ToV1(obj.(*autoscalingv2.HorizontalPodAutoscaler))
		}},
		reflect.TypeFor[*autoscalingv2.HorizontalPodAutoscalerList](): {autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscalerList"), func(obj runtime.Object) runtime.Object {
			in := obj.(*autoscalingv2.HorizontalPodAutoscalerList)
			out := &autoscalingv1.HorizontalPodAutoscalerList{ListMeta: in.ListMeta,
				Items: make([]autoscalingv1.HorizontalPodAutoscaler, len(in.Items))}
			for i := range in.Items {
				out.Items[i] = *autoscaling.ToV1(&in.Items[i])
				out.Items[i].TypeMeta = metav1.TypeMeta{} // the list says it
			}
			return out
		}},
	}
}
