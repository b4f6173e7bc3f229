package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

const countServices corev1.ResourceName = "count/services"

// services returns the evaluator of services, whose type can change.
func services() *evaluator {
	return &evaluator{
		resource: schema.GroupResource{Resource: "services"}, handles: writes, usage: serviceUsage,
		matches: func(name corev1.ResourceName) bool {
			switch name {
			case countServices, corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
				return true
			}
			return false
		},
	}
}

// writes reports whether a request creates or updates an object.
func writes(a admission.Attributes) bool {
	return a.GetSubresource() == "" && (a.GetOperation() == admission.Create || a.GetOperation() == admission.Update)
}

// serviceUsage measures a service. Its node ports may not be allocated yet, so those are counted
// that it will have.
func serviceUsage(obj runtime.Object) (corev1.ResourceList, error) {
	s, err := as[*corev1.Service](obj)
	if err != nil {
		return nil, err
	}
	var ports, balancers int64
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		allocate := s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts
		for _, p := range s.Spec.Ports {
			if allocate || p.NodePort != 0 {
				ports++
			}
		}
	}
	return corev1.ResourceList{
		countServices: whole(1), corev1.ResourceServices: whole(1),
		corev1.ResourceServicesNodePorts: whole(ports), corev1.ResourceServicesLoadBalancers: whole(balancers),
	}, nil
}
