package services

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Begin prepares a service for a write, before the rules of kind.Rules: it keeps allocated
// values that the client has left out, and proposes values for those that are missing. old is
// nil for a create. stored is only read if values are taken. Begin
// reports whether the write takes values. Its errors are those of kube-apiserver.
func (a *Allocator) Begin(svc, old *corev1.Service, stored Stored) (takes bool, err error) {
	if old, err = a.complete(svc, old); err != nil {
		return false, err
	}
	w := &write{allocator: a, svc: svc, old: old, stored: stored}
	if err := w.clusterIPs(); err != nil {
		return false, err
	}
	if err := w.nodePorts(); err != nil {
		return false, err
	}
	if err := w.healthCheck(); err != nil {
		return false, err
	}
	return w.taken != nil, nil
}

// complete keeps allocated values that the client has left out, and sets the IP families. It
// returns the old service with what it has when it is read.
func (a *Allocator) complete(svc, old *corev1.Service) (*corev1.Service, error) {
	if old != nil {
		old = old.DeepCopy()
		a.DefaultOnRead(old)
		keepAllocated(svc, old)
	}
	syncClusterIPs(svc, old)
	if errs := a.initFamilies(svc, old); len(errs) > 0 {
		return old, invalid(svc, errs...)
	}
	return old, nil
}

// Complete does to a service what happens before the rules in a cluster with both IP families, but
// allocates nothing. It changes old, if there is one, to what a client reads. The rules need a
// port for the health check: release removes the one that Complete has set.
func Complete(svc, old *corev1.Service) (release func(), err error) {
	a := &Allocator{families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}}
	before, err := a.complete(svc, old)
	if old != nil {
		*old = *before
	}
	release = func() {}
	if err == nil && needsHealthCheck(svc) && svc.Spec.HealthCheckNodePort == 0 {
		const port = 30000
		svc.Spec.HealthCheckNodePort = port
		release = func() { svc.Spec.HealthCheckNodePort = 0 }
	}
	if err == nil && old != nil && needsHealthCheck(old) && old.Spec.HealthCheckNodePort == 0 {
		old.Spec.HealthCheckNodePort = svc.Spec.HealthCheckNodePort
	}
	return release, err
}

func invalid(svc *corev1.Service, errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, svc.Name, errs)
}

// write is one write of a service.
type write struct {
	allocator *Allocator
	svc, old  *corev1.Service
	stored    Stored
	// taken is nil until the write takes its first value.
	taken *taken
}

func (w *write) used() *taken {
	if w.taken == nil {
		w.taken = &taken{ips: map[netip.Addr]bool{}, ports: map[int32]bool{}, isAddress: w.stored.HasAddress}
		for svc := range w.stored.Services {
			w.taken.add(svc)
		}
	}
	return w.taken
}

// clusterIPs takes the cluster IPs that the service needs and does not have yet.
func (w *write) clusterIPs() error {
	spec := &w.svc.Spec
	have := 0
	switch {
	case isExternalName(w.svc), len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone:
		return nil
	case w.old == nil || isExternalName(w.old):
	case unchangedDualStack(w.svc, w.old):
		return nil
	case len(w.old.Spec.ClusterIPs) > 0 && w.old.Spec.ClusterIPs[0] == corev1.ClusterIPNone:
		return nil
	case len(w.old.Spec.IPFamilies) == 1 && len(spec.IPFamilies) == 2:
		have = 1
	default:
		return nil
	}
	ips := slices.Clone(spec.ClusterIPs)
	for i, family := range spec.IPFamilies {
		if i >= len(ips) {
			ips = append(ips, "")
		}
		if i < have {
			continue
		}
		ip, err := w.allocator.takeIP(w.used(), w.ranges(family), ips[i])
		switch {
		case err == errFull:
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", w.svc.Name, err))
		case err != nil:
			return invalid(w.svc, field.Invalid(field.NewPath("spec", "clusterIPs"), ips, fmt.Sprintf("failed to allocate IP %v: %v", ips[i], err)))
		}
		ips[i] = ip
	}
	spec.ClusterIPs = ips
	if len(ips) > 0 {
		spec.ClusterIP = ips[0]
	}
	return nil
}

// ranges returns the ranges of an IP family: that of the server, and those of stored ServiceCIDRs.
func (w *write) ranges(family corev1.IPFamily) []addresses {
	own := w.allocator.ips[family]
	all := []addresses{own}
	if w.stored.Ranges == nil {
		return all
	}
	for _, prefix := range w.stored.Ranges() {
		if prefix == own.prefix || prefix.Addr().Is4() != own.prefix.Addr().Is4() {
			continue
		}
		if r, err := newAddresses(prefix); err == nil { // kube-apiserver ignores such a range, too
			all = append(all, r)
		}
	}
	return all
}

// nodePorts takes the node ports that the service needs and does not have yet.
func (w *write) nodePorts() error {
	spec := &w.svc.Spec
	if !usesNodePorts(w.svc) {
		return nil
	}
	var existing []int32
	if w.old != nil {
		existing = nodePorts(w.old)
	}
	allocate := spec.Type == corev1.ServiceTypeNodePort || value(spec.AllocateLoadBalancerNodePorts)
	// Ports with the same number and different protocols of a new service share a node port.
	shared := map[int32]int32{}
	own := map[int32]bool{}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.NodePort == 0 && !allocate {
			continue
		}
		if port.NodePort == 0 && w.old == nil {
			port.NodePort = shared[port.Port]
			if port.NodePort == 0 {
				port.NodePort = requestedPort(port.Port, spec.Ports)
			}
		}
		isOwn := port.NodePort == shared[port.Port]
		if w.old != nil {
			isOwn = own[port.NodePort] || slices.Contains(existing, port.NodePort)
		}
		if port.NodePort != 0 && isOwn {
			continue
		}
		number, err := w.allocator.takePort(w.used(), port.NodePort)
		switch {
		case err == errFull:
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
		case err != nil:
			return invalid(w.svc, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, err.Error()))
		}
		port.NodePort = number
		own[number] = true
		if shared[port.Port] == 0 {
			shared[port.Port] = number
		}
	}
	return nil
}

// requestedPort returns the node port that the client has set for another protocol of a port.
func requestedPort(port int32, ports []corev1.ServicePort) int32 {
	for _, other := range ports {
		if other.Port == port && other.NodePort != 0 {
			return other.NodePort
		}
	}
	return 0
}

// healthCheck takes a health check node port if the service has just begun to need one.
func (w *write) healthCheck() error {
	if !needsHealthCheck(w.svc) || w.old != nil && needsHealthCheck(w.old) {
		return nil
	}
	requested := w.svc.Spec.HealthCheckNodePort
	port, err := w.allocator.takePort(w.used(), requested)
	switch {
	case err != nil && requested != 0:
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %v", requested, err))
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %v", port, err))
	}
	w.svc.Spec.HealthCheckNodePort = port
	return nil
}

// keepAllocated sets allocated values that a client has left out, so that it can write the
// same manifest again.
func keepAllocated(svc, old *corev1.Service) {
	spec, before := &svc.Spec, &old.Spec
	if !isExternalName(old) && !isExternalName(svc) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = before.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 && len(before.ClusterIPs) > 0 {
			spec.ClusterIPs = slices.Clone(before.ClusterIPs)
		}
	}
	if hasNodePorts(old) && hasNodePorts(svc) {
		kept := map[int32]bool{}
		for _, port := range nodePorts(svc) {
			kept[port] = true
		}
		maps.DeleteFunc(kept, func(port int32, _ bool) bool { return !slices.Contains(nodePorts(old), port) })
		byName := map[string]int32{}
		for _, port := range before.Ports {
			byName[port.Name] = port.NodePort
		}
		for i := range spec.Ports {
			port := &spec.Ports[i]
			if number := byName[port.Name]; port.NodePort == 0 && !kept[number] {
				port.NodePort = number
			}
		}
	}
	if needsHealthCheck(old) && needsHealthCheck(svc) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = before.HealthCheckNodePort
	}
}

// hasNodePorts reports whether node ports are allocated for a service.
func hasNodePorts(svc *corev1.Service) bool {
	allocates := svc.Spec.AllocateLoadBalancerNodePorts
	return svc.Spec.Type == corev1.ServiceTypeNodePort || isLoadBalancer(svc) && (allocates == nil || *allocates)
}
