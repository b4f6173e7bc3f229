// Package bootstrap lists the objects that exist on every server from the start, as
// kube-apiserver creates them.
package bootstrap

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"espalier.dev/kinds/kind"
)

// Config are the values of a server that its first objects have.
type Config struct {
	// ServiceRange is the range of cluster IPs; it may have two parts.
	ServiceRange []netip.Prefix
	// Address and Port are where pods reach the server. The address is invalid if there is
	// none that they could use.
	Address netip.Addr
	Port    int32
	// Trust is the data of the config map from which extension servers learn whom to believe.
	Trust map[string]string
}

// name is the name of the service of the server, and of what belongs to it.
const name = "kubernetes"

// Namespaces returns the namespaces that always exist.
func Namespaces() (all []kind.Object) {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return all
}

// Objects returns the other objects. Those that exist are not changed.
func (c *Config) Objects() []kind.Object {
	all := append(priorityClasses(), c.service(), c.Authentication(), tokenTracking())
	return append(all, c.serviceCIDR())
}

// serviceCIDR returns the range of cluster IPs. No controller has to prepare it, so it is ready.
func (c *Config) serviceCIDR() kind.Object {
	now := metav1.Now().Rfc3339Copy()
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, p := range c.ServiceRange {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, p.String())
	}
	cidr.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: now,
		Message: "Kubernetes default Service CIDR is ready",
	}}
	cidr.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubernetes-service-cidr-controller", Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: networkingv1.SchemeGroupVersion.String(), Time: &now, Subresource: "status",
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":` +
			`{".":{},"f:lastTransitionTime":{},"f:message":{},"f:status":{},"f:type":{}}}}}`)},
	}}
	return cidr
}

func priorityClasses() []kind.Object {
	class := func(name string, value int32, what string) kind.Object {
		return &schedulingv1.PriorityClass{
			ObjectMeta:  metav1.ObjectMeta{Name: name},
			Value:       value,
			Description: "Used for system critical pods that must " + what,
		}
	}
	const highestUser = 1_000_000_000
	return []kind.Object{
		class("system-node-critical", 2*highestUser+1000, "not be moved from their current node."),
		class("system-cluster-critical", 2*highestUser, "run in the cluster, but can be moved to another node if necessary."),
	}
}

// service returns the service of the server. It has the first address of the range.
func (c *Config) service() kind.Object {
	single := corev1.IPFamilyPolicySingleStack
	ip := c.ServiceRange[0].Masked().Addr().Next()
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"provider": name, "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip.String(), IPFamilyPolicy: &single,
			SessionAffinity: corev1.ServiceAffinityNone, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(c.Port)}},
		},
	}
}

func family(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// Authentication returns the config map by which extension servers learn how requests are
// authenticated.
func (c *Config) Authentication() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication", Namespace: metav1.NamespaceSystem},
		Data:       c.Trust,
	}
}

// tokenTracking returns the config map with the day from which on the use of tokens in secrets is
// recorded. The controller of Kubernetes that removes unused tokens needs it. The server accepts no
// tokens in secrets, so none of them is used.
func tokenTracking() kind.Object {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver-legacy-service-account-token-tracking", Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{"since": metav1.Now().UTC().Format(time.DateOnly)},
	}
}

// Endpoints returns where the service of the server is: they follow the address of the server.
// There are none if no pod could reach it.
func (c *Config) Endpoints() []kind.Object {
	if !c.Address.IsValid() {
		return nil
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault,
		Labels: map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}}
	slice := metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault,
		Labels: map[string]string{discoveryv1.LabelServiceName: name}}
	port, protocol, portName, ready := c.Port, corev1.ProtocolTCP, "https", true
	return []kind.Object{
		&corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: c.Address.String()}},
			Ports:     []corev1.EndpointPort{{Name: portName, Port: port, Protocol: protocol}},
		}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  slice,
			AddressType: discoveryv1.AddressType(family(c.Address)),
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{c.Address.String()},
				Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
			Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
		},
	}
}
