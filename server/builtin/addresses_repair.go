package builtin

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/klog/v2"

	"espalier.dev/kinds/services"
	"espalier.dev/server/fence"
	"espalier.dev/server/follow"
	"espalier.dev/store"
)

// addressGrace is the time after which an IPAddress of the allocator without a service is deleted:
// kube-apiserver creates it before the service.
const addressGrace = time.Minute

// errYoung is returned for an IPAddress without a service that is too young to be deleted.
var errYoung = errors.New("the service of the IPAddress may still be created")

// AddressRepair creates missing IPAddresses of cluster IPs, and deletes those without a service, as
// kube-apiserver's repair controller does. The follower's goroutine writes the index; see
// [follow.Follower].
type AddressRepair struct {
	addresses *addresses
	follower  *follow.Follower
	// owners are the keys of the services that have an IP, ips the IPs of a service by its key.
	owners map[netip.Addr]map[string]bool
	ips    map[string][]netip.Addr
}

// NewAddressRepair returns an AddressRepair. It returns nil if there are no IPAddresses.
func (h *Handler) NewAddressRepair() *AddressRepair {
	a := h.addresses()
	if a == nil {
		return nil
	}
	r := &AddressRepair{addresses: a}
	r.follower = follow.New(follow.Config{Store: h.objects, Reset: r.reset, Take: r.take, Handle: r.handle})
	return r
}

// Run repairs until ctx or the store ends.
func (r *AddressRepair) Run(ctx context.Context) error { return r.follower.Run(ctx) }

func (r *AddressRepair) reset(s *store.Snapshot) {
	r.owners, r.ips = map[netip.Addr]map[string]bool{}, map[string][]netip.Addr{}
	for e := range s.Range(string(r.addresses.services), "") {
		r.put(e.Key, e)
	}
	r.lookAll()
	for e := range s.Range(string(r.addresses.prefix), "") {
		r.lookAt(e.Key)
	}
}

func (r *AddressRepair) take(e *store.Event) {
	switch key := e.Key(); {
	case r.addresses.services.Has(key):
		for _, ip := range r.put(key, e.Entry) {
			r.look(ip)
		}
	case r.addresses.prefix.Has(key):
		r.lookAt(key)
	case r.addresses.ranges.Has(key):
		r.lookAll()
	}
}

// put takes in a service, or its deletion, and returns the IPs that it has, and those that it had.
func (r *AddressRepair) put(key string, e *store.Entry) []netip.Addr {
	old := r.ips[key]
	delete(r.ips, key)
	for _, ip := range old {
		if delete(r.owners[ip], key); len(r.owners[ip]) == 0 {
			delete(r.owners, ip)
		}
	}
	svc := r.service(e)
	if svc == nil {
		return old
	}
	ips := services.ClusterIPs(svc)
	for _, ip := range ips {
		if r.owners[ip] == nil {
			r.owners[ip] = map[string]bool{}
		}
		r.owners[ip][key] = true
	}
	if len(ips) > 0 {
		r.ips[key] = ips
	}
	return slices.Concat(old, ips)
}

// service decodes a service. It returns nil for one that cannot be read, and for none.
func (r *AddressRepair) service(e *store.Entry) *corev1.Service {
	if e == nil {
		return nil
	}
	obj, err := r.addresses.handler.Decode(corev1.Resource("services"), e)
	if err != nil {
		return nil
	}
	svc, _ := obj.(*corev1.Service)
	return svc
}

func (r *AddressRepair) lookAll() {
	for ip := range r.owners {
		r.look(ip)
	}
}

// lookAt looks at the IPAddress with a key.
func (r *AddressRepair) lookAt(key string) {
	_, name, _ := r.addresses.prefix.Cut(key)
	if ip, err := netip.ParseAddr(name); err == nil {
		r.look(ip)
	}
}

// look puts an IP into the queue if there is something to repair.
func (r *AddressRepair) look(ip netip.Addr) {
	address, entry := r.addresses.get(ip)
	if !r.isCorrect(ip, address, entry) {
		r.follower.Add(ip.String())
	}
}

// isCorrect reports whether address, the IPAddress of an IP, stored as entry, is that of a service that has the IP, or whether
// neither exists. IPAddresses that the allocator has not created are correct if no service has the IP.
func (r *AddressRepair) isCorrect(ip netip.Addr, address *networkingv1.IPAddress, entry *store.Entry) bool {
	owners := r.owners[ip]
	switch {
	case entry == nil:
		return len(owners) == 0
	case address == nil:
		return true // it cannot be read
	case len(owners) == 0:
		return !services.IsAllocated(address)
	}
	namespace, name, ok := services.ParentService(address)
	return ok && services.IsLabeled(address) && owners[r.addresses.services.Key(namespace, name)]
}

// handle repairs the IPAddress of an IP. What it deletes because it is wrong, it creates when it sees
// the deletion.
func (r *AddressRepair) handle(ctx context.Context, item string) error {
	ip, err := netip.ParseAddr(item)
	if err != nil {
		return err
	}
	// It is read once: it may be deleted at any time.
	address, entry := r.addresses.get(ip)
	if r.isCorrect(ip, address, entry) {
		return nil
	}
	owners := slices.Sorted(maps.Keys(r.owners[ip]))
	switch {
	case len(owners) == 0:
		return r.release(ctx, ip, address, entry)
	case !r.inRange(ip):
		return nil // as in kube-apiserver; it is looked at again when there is a new range
	}
	service := r.addresses.handler.objects.Get(owners[0])
	svc := r.service(service)
	if svc == nil || !slices.Contains(services.ClusterIPs(svc), ip) {
		return nil // it is looked at again
	}
	change := fence.Change{Key: r.addresses.key(ip)}
	if entry != nil {
		change.Revision = entry.Revision
	} else if change.Value, err = r.addresses.value(ctx, ip, svc.Namespace, svc.Name); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Repairing the IPAddress of a service", "ip", item, "service", klog.KObj(svc), "wrong", entry != nil)
	_, err = r.addresses.handler.config.Commit(ctx, change, owners[0], service.Revision)
	return err
}

// release deletes an IPAddress that no service has.
func (r *AddressRepair) release(ctx context.Context, ip netip.Addr, address *networkingv1.IPAddress, entry *store.Entry) error {
	namespace, name, ok := services.ParentService(address)
	parent, revision := r.addresses.services.Key(namespace, name), int64(0)
	if ok {
		e := r.addresses.handler.objects.Get(parent)
		if e != nil {
			revision = e.Revision
		}
		svc := r.service(e)
		if svc != nil && slices.Contains(services.ClusterIPs(svc), ip) {
			return nil // it is newer than the index
		}
		// A service that is about to get its IP may exist.
		waits := svc == nil || svc.Spec.Type == corev1.ServiceTypeExternalName
		if waits && time.Since(address.CreationTimestamp.Time) < addressGrace {
			return errYoung
		}
	} else {
		parent = entry.Key + "/" // nothing has this key
	}
	klog.FromContext(ctx).V(2).Info("Deleting an IPAddress without a service", "ip", address.Name)
	_, err := r.addresses.handler.config.Commit(ctx, fence.Change{Key: entry.Key, Revision: entry.Revision}, parent, revision)
	return err
}

// inRange reports whether an IP can be allocated.
func (r *AddressRepair) inRange(ip netip.Addr) bool {
	contains := func(p netip.Prefix) bool { return p.Contains(ip) }
	h := r.addresses.handler
	return slices.ContainsFunc(h.config.Services.Prefixes(), contains) ||
		slices.ContainsFunc(r.addresses.prefixes(h.objects.Snapshot()), contains)
}
