package builtin

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"espalier.dev/kinds"
	"espalier.dev/kinds/services"
	"espalier.dev/server/builtin/bootstrap"
	"espalier.dev/server/fence"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// addresses are the IPAddresses of the cluster IPs of services.
//
// The transaction that writes a service creates and deletes its IPAddress, so that they never
// contradict each other, whichever server writes and wherever it crashes. Watches need a separate
// revision for each object of a resource: the second IPAddress of a service with two IP families has a
// transaction of its own, after that of the service, as both have if the data is in kine. What a crash
// leaves in between, and what clients or other programs change, an [AddressRepair] repairs.
// Allocation does not depend on that: an IP is taken if a service has it, or if there is an IPAddress.
type addresses struct {
	handler  *Handler
	resource *kinds.Resource
	services keys.Prefix
	prefix   keys.Prefix
	ranges   keys.Prefix

	// fields are the fields that a new IPAddress has, for its manager.
	mu     sync.Mutex
	fields *metav1.FieldsV1
}

// newAddresses returns nil if no version of IPAddress is served: then there are none.
func newAddresses(h *Handler) *addresses {
	root := keys.Root(h.objects.Prefix())
	a := &addresses{handler: h, resource: h.stored[networkingv1.SchemeGroupVersion.WithKind("IPAddress")],
		services: root.Builtin(corev1.Resource("services")),
		prefix:   root.Builtin(networkingv1.Resource("ipaddresses")),
		ranges:   root.Builtin(networkingv1.Resource("servicecidrs")),
	}
	if a.resource == nil || !slices.ContainsFunc(h.Served(), func(r *kinds.Resource) bool { return r.GroupResource() == a.resource.GroupResource() }) {
		return nil
	}
	return a
}

func (a *addresses) key(ip netip.Addr) string { return a.prefix.Key("", ip.String()) }

// get returns the IPAddress of an IP, or nil if there is none, and its entry. An IPAddress that cannot be
// read has an entry only.
func (a *addresses) get(ip netip.Addr) (*networkingv1.IPAddress, *store.Entry) {
	entry := a.handler.objects.Get(a.key(ip))
	if entry == nil {
		return nil, nil
	}
	obj, err := a.handler.Decode(a.resource.GroupResource(), entry)
	if err != nil {
		return nil, entry
	}
	address, _ := obj.(*networkingv1.IPAddress)
	return address, entry
}

// stored returns what the allocation for a service depends on beside the services.
func (a *addresses) stored(s *store.Snapshot, svc *corev1.Service) (out services.Stored) {
	if a == nil {
		return out
	}
	out.HasAddress = func(ip netip.Addr) bool { return s.Get(a.key(ip)) != nil && !a.belongsTo(ip, svc.Namespace, svc.Name) }
	out.Ranges = sync.OnceValue(func() []netip.Prefix { return a.prefixes(s) })
	return out
}

// belongsTo reports whether there is an IPAddress of an IP that the allocator has created for a service. If
// the service does not have the IP, a crash has left the IPAddress.
func (a *addresses) belongsTo(ip netip.Addr, namespace, name string) bool {
	address, _ := a.get(ip)
	if address == nil || !services.IsLabeled(address) {
		return false
	}
	ofNamespace, ofName, ok := services.ParentService(address)
	return ok && ofNamespace == namespace && ofName == name
}

// prefixes returns the ranges of the stored ServiceCIDRs.
func (a *addresses) prefixes(s *store.Snapshot) (all []netip.Prefix) {
	for e := range s.Range(string(a.ranges), "") {
		if obj, err := a.handler.Decode(networkingv1.Resource("servicecidrs"), e); err == nil {
			all = append(all, services.Prefixes(obj.(*networkingv1.ServiceCIDR))...)
		}
	}
	return all
}

// value returns a new IPAddress as it is stored.
func (a *addresses) value(ctx context.Context, ip netip.Addr, namespace, name string) ([]byte, error) {
	e, err := a.handler.endpoint(a.resource)
	if err != nil {
		return nil, err
	}
	obj := services.NewAddress(ip, namespace, name)
	if err := a.manage(obj); err != nil {
		return nil, err
	}
	return e.encodeNew(apirequest.WithNamespace(ctx, metav1.NamespaceNone), obj)
}

// manage sets the managed fields of a new IPAddress. All have the same fields.
func (a *addresses) manage(obj *networkingv1.IPAddress) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	version := networkingv1.SchemeGroupVersion.String()
	if a.fields == nil {
		if err := bootstrap.SetManager(bootstrap.Manager, obj, &networkingv1.IPAddress{}, version, nil); err != nil {
			return err
		}
		a.fields = obj.ManagedFields[0].FieldsV1
		return nil
	}
	now := metav1.Now()
	obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: bootstrap.Manager, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: version, Time: &now, FieldsType: "FieldsV1", FieldsV1: a.fields}}
	return nil
}

// transition is the change of the cluster IPs of a service.
type transition struct {
	namespace, name string
	before, after   []netip.Addr
}

// change returns the change of an IPAddress that a transition needs, or nil if it needs none.
func (a *addresses) change(ctx context.Context, t *transition, ip netip.Addr) (*fence.Change, error) {
	had, has := slices.Contains(t.before, ip), slices.Contains(t.after, ip)
	exists := a.belongsTo(ip, t.namespace, t.name)
	switch {
	case had == has, has == exists:
		return nil, nil
	case has:
		value, err := a.value(ctx, ip, t.namespace, t.name)
		return &fence.Change{Key: a.key(ip), Value: value}, err
	}
	entry := a.handler.objects.Get(a.key(ip))
	if entry == nil {
		return nil, nil
	}
	return &fence.Change{Key: a.key(ip), Revision: entry.Revision}, nil
}

// attach returns a context for the write of a service. Its transaction has the first change of a
// transition.
func (a *addresses) attach(ctx context.Context, of func() *transition) context.Context {
	return fence.WithAttached(ctx, func(ctx context.Context) ([]fence.Change, error) {
		t := of()
		if t == nil {
			return nil, nil
		}
		for _, ip := range slices.Concat(t.after, t.before) {
			c, err := a.change(ctx, t, ip)
			if err != nil {
				return nil, err
			}
			if c != nil {
				return []fence.Change{*c}, nil
			}
		}
		return nil, nil
	})
}

// complete makes the other changes of a transition, after the service has been written. It has a
// revision, or zero if it was deleted. What fails is left to the repair.
func (a *addresses) complete(ctx context.Context, t *transition, revision int64) {
	if t == nil {
		return
	}
	ips := slices.Concat(t.after, t.before)
	if len(ips) < 2 && a.handler.config.Attaches {
		return
	}
	if _, err := a.handler.objects.Sync(ctx); err != nil {
		return
	}
	service := a.services.Key(t.namespace, t.name)
	for _, ip := range ips {
		c, err := a.change(ctx, t, ip)
		if err == nil && c != nil {
			_, err = a.handler.config.Commit(ctx, *c, service, revision)
		}
		if err != nil {
			klog.FromContext(ctx).V(2).Info("An IPAddress is left to the repair", "ip", ip.String(), "reason", err.Error())
		}
	}
}

// serviceWrites is the storage of services. Its writes create and delete IPAddresses.
type serviceWrites struct {
	storage.Interface
	addresses *addresses
}

// revisionOf returns the revision of a service.
func (w *serviceWrites) revisionOf(obj runtime.Object) int64 {
	version, err := w.Versioner().ObjectResourceVersion(obj)
	if err != nil {
		return 0
	}
	return int64(version)
}

// Create stores a new service.
func (w *serviceWrites) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return fmt.Errorf("%T is not a service", obj)
	}
	t := &transition{namespace: svc.Namespace, name: svc.Name, after: services.ClusterIPs(svc)}
	err := w.Interface.Create(w.addresses.attach(ctx, func() *transition { return t }), key, obj, out, ttl)
	if err == nil {
		w.addresses.complete(ctx, t, w.revisionOf(out))
	}
	return err
}

// GuaranteedUpdate changes a service.
func (w *serviceWrites) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	var t *transition // of the last attempt
	err := w.Interface.GuaranteedUpdate(w.addresses.attach(ctx, func() *transition { return t }), key, out, ignoreNotFound, preconditions,
		func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			t = nil
			old, ok := input.(*corev1.Service)
			if !ok {
				return nil, nil, fmt.Errorf("%T is not a service", input)
			}
			before := services.ClusterIPs(old)
			obj, ttl, err := update(input, meta)
			if svc, ok := obj.(*corev1.Service); ok && err == nil {
				t = &transition{namespace: svc.Namespace, name: svc.Name, before: before, after: services.ClusterIPs(svc)}
			}
			return obj, ttl, err
		}, cached)
	if err == nil && t != nil && !slices.Equal(t.before, t.after) {
		w.addresses.complete(ctx, t, w.revisionOf(out))
	}
	return err
}

// Delete deletes a service.
func (w *serviceWrites) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	var t *transition // of the last attempt
	err := w.Interface.Delete(w.addresses.attach(ctx, func() *transition { return t }), key, out, preconditions,
		func(ctx context.Context, obj runtime.Object) error {
			if svc, ok := obj.(*corev1.Service); ok {
				t = &transition{namespace: svc.Namespace, name: svc.Name, before: services.ClusterIPs(svc)}
			}
			return validate(ctx, obj)
		}, cached, opts)
	if err == nil {
		w.addresses.complete(ctx, t, 0)
	}
	return err
}
