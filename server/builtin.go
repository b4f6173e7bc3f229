package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/klog/v2"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/services"
	"espalier.dev/server/builtin"
	"espalier.dev/server/builtin/bootstrap"
	"espalier.dev/server/definitions"
	"espalier.dev/server/publish"
	"espalier.dev/server/rbac"
	"espalier.dev/server/rbac/policy"
	"espalier.dev/server/reviews"
	"espalier.dev/server/storage"
)

// installBuiltin installs Kubernetes' own resources, and returns how they are published.
func installBuiltin(f foundation) (*builtin.Handler, []publish.Builtin, error) {
	allocator, err := services.NewAllocator(f.options.ServiceClusterIPRange, f.options.ServiceNodePortRange)
	if err != nil {
		return nil, nil, err
	}
	served, missing, err := kinds.Served(f.options.RuntimeConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("--runtime-config: %w", err)
	}
	if len(missing) > 0 {
		klog.InfoS("This server does not have these APIs of --runtime-config", "apis", strings.Join(missing, " "))
	}
	h := builtin.New(builtin.Config{
		Served: served,
		Storage: func(r *kinds.Resource) generic.RESTOptionsGetter {
			if r.Group == "" && r.Plural == "namespaces" {
				return f.fences.Namespaces(f.storage)
			}
			return f.fences.Builtin(f.storage, r.GroupResource(), r.Namespaced)
		},
		Rules:       kinds.Rules(cel.New()),
		Admission:   f.admission,
		Authorizer:  f.authorizer,
		Guard:       rbac.NewGuard(f.roles, f.authorizer, rbac.Parameters{Resource: f.objects.resource, Get: f.objects.stored}).Wrap,
		Codecs:      f.codecs,
		Objects:     f.store,
		InNamespace: f.fences.InNamespace,
		Reviews: (&reviews.Config{
			Authorizer: f.authorizer, Rules: f.config.RuleResolver,
			Authenticator: f.config.Authentication.Authenticator, Audiences: f.config.Authentication.APIAudiences,
		}).Storages(),
		Services:            allocator,
		Tokens:              f.authentication.Requests(),
		EventTTL:            f.options.EventTTL,
		MinWatch:            time.Duration(f.config.MinRequestTimeout) * time.Second,
		MaxRequestBodyBytes: f.config.MaxRequestBodyBytes,
	})
	f.objects.Handler = h
	definitions, err := builtin.Definitions(served)
	if err != nil {
		return nil, nil, err
	}
	var published []publish.Builtin
	for _, d := range definitions {
		published = append(published, publish.Builtin{Definition: d, Describe: h.Describe})
	}
	config, err := f.firstObjects(allocator)
	if err != nil {
		return nil, nil, err
	}
	f.controllers.add(newBootstrap(f, h, config))
	return h, published, nil
}

// firstObjects returns the values of this server that its first objects have.
func (f *foundation) firstObjects(a *services.Allocator) (*bootstrap.Config, error) {
	c := &bootstrap.Config{Port: int32(f.port), ClientCA: string(f.clientCA())}
	for _, text := range a.Ranges() {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		c.ServiceRange = append(c.ServiceRange, prefix)
	}
	c.Address = advertised(f.options)
	return c, nil
}

// advertised returns the address in the endpoints of the server. It is not valid if there is none:
// as in kube-apiserver, endpoints have no loopback address.
func advertised(o *Options) netip.Addr {
	ip := net.ParseIP(o.AdvertiseAddress)
	if ip == nil || ip.IsUnspecified() {
		ip = net.ParseIP(o.BindAddress)
		if ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
			ip, _ = utilnet.ChooseHostInterface() // a host without a network has none
		}
	}
	if address, ok := netip.AddrFromSlice(ip); ok && !address.Unmap().IsLoopback() {
		return address.Unmap()
	}
	return netip.Addr{}
}

// restoreInterval is the time between two searches for first objects that were deleted, as in
// kube-apiserver.
const restoreInterval = 10 * time.Second

// newBootstrap returns the controller that creates the objects that always exist. The server is
// not ready before it has, unless etcd has no space for them. Afterwards it creates those again
// that somebody deletes: a plain `kubectl delete all --all` deletes the Service of the server.
func newBootstrap(f foundation, h *builtin.Handler, config *bootstrap.Config) controller {
	done := make(chan struct{})
	ready := sync.OnceFunc(func() { close(done) })
	complete := false
	return controller{name: "bootstrap", synced: done, run: func(ctx context.Context) error {
		select {
		case <-f.store.Loaded():
		case <-ctx.Done():
			return nil
		}
		first := func() error {
			if err := f.fences.AdoptNamespaces(ctx); err != nil {
				return err
			}
			var roles []policy.Object
			if f.rbac {
				defaults, err := policy.Default()
				if err != nil {
					return err
				}
				roles = defaults.Objects()
			}
			if err := h.Bootstrap(ctx, config, roles); err != nil {
				return fmt.Errorf("create the first objects: %w", err)
			}
			return nil
		}
		if !complete {
			err := first()
			if storage.IsFull(err) {
				klog.FromContext(ctx).Error(err, "The server starts without some of the objects that always exist, and creates them when there is space")
				ready()
				err = untilSpace(ctx, first)
			}
			if err != nil {
				return err
			}
			complete = true
			ready()
		}
		tick := time.NewTicker(restoreInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			if err := h.Restore(ctx, config); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Failed to create the first objects again")
			}
		}
	}}
}

// objects reads stored objects for admission, whose plugins are made before the handler.
type objects struct {
	*builtin.Handler
	// definitions has the CRDs.
	definitions *definitions.Definitions
}

// stored returns a stored object.
func (o *objects) stored(ctx context.Context, r runtimeschema.GroupResource, namespace, name string) (runtime.Object, error) {
	return o.Get(ctx, r, namespace, name)
}

// resource returns the resource of a kind, and reports whether it is namespaced and exists.
func (o *objects) resource(gvk runtimeschema.GroupVersionKind) (r runtimeschema.GroupResource, namespaced, found bool) {
	if r := kinds.ByKind(gvk); r != nil {
		return r.GroupResource(), r.Namespaced, true
	}
	d := o.definitions.Builtin().Definition
	if d.Storage().GroupVersionKind() != gvk {
		v := o.definitions.Catalog().Kind(gvk)
		if v == nil {
			return r, false, false
		}
		d = v.Definition()
	}
	return d.GroupResource(), d.Namespaced(), true
}
