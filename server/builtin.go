package server

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/services"
	"espalier.dev/server/backend"
	"espalier.dev/server/builtin"
	"espalier.dev/server/builtin/bootstrap"
	"espalier.dev/server/definitions"
	"espalier.dev/server/reviews"
	"espalier.dev/server/roles"
	"espalier.dev/server/roles/defaults"
	"espalier.dev/store"
)

// newReader returns what reads the stored objects of Kubernetes' own kinds.
func newReader(o *Options, s *store.Store) (*builtin.Reader, error) {
	served, missing, err := kinds.Served(o.RuntimeConfig)
	if err != nil {
		return nil, fmt.Errorf("--runtime-config: %w", err)
	}
	if len(missing) > 0 {
		klog.InfoS("This server does not have these APIs of --runtime-config", "apis", strings.Join(missing, " "))
	}
	return builtin.NewReader(s, kinds.Rules(cel.New()), served), nil
}

// newKubernetes returns the handler of Kubernetes' own kinds.
func newKubernetes(f *foundation, defs *definitions.Definitions, a *services.Allocator, admit func() admission.Interface) *builtin.Handler {
	guard := roles.NewGuard(f.roles, f.authorizer, roles.Parameters{Resource: resourceOf(defs), Get: f.stored.Get})
	return builtin.New(builtin.Config{
		Reader: f.stored,
		Storage: func(r *kinds.Resource) generic.RESTOptionsGetter {
			if r.Group == "" && r.Plural == "namespaces" {
				return f.db.fences.Namespaces(f.config.RESTOptionsGetter)
			}
			return f.db.fences.Builtin(f.config.RESTOptionsGetter, r.GroupResource(), r.Namespaced)
		},
		Admission:  admit,
		Authorizer: f.authorizer,
		Guard: func(gr runtimeschema.GroupResource, s rest.StandardStorage) rest.StandardStorage {
			return f.compiling.Wrap(gr, guard.Wrap(gr, s))
		},
		Codecs:      f.codecs,
		Commit:      f.db.fences.Commit,
		Attaches:    f.db.fences.Attaches(),
		InNamespace: f.db.fences.InNamespace,
		Reviews: (&reviews.Config{
			Authorizer: f.authorizer, Rules: f.authorizer,
			Authenticator: f.config.Authentication.Authenticator, Audiences: f.config.Authentication.APIAudiences,
		}).Storages(),
		IDs:                 f.ids,
		Services:            a,
		Tokens:              f.authentication.Requests(),
		EventTTL:            f.options.EventTTL,
		MinWatch:            time.Duration(f.config.MinRequestTimeout) * time.Second,
		MaxRequestBodyBytes: f.config.MaxRequestBodyBytes,
	})
}

// resourceOf returns a function that returns the resource of a kind, and reports whether it is
// namespaced and exists.
func resourceOf(defs *definitions.Definitions) func(runtimeschema.GroupVersionKind) (r runtimeschema.GroupResource, namespaced,
	found bool) {
	return func(gvk runtimeschema.GroupVersionKind) (r runtimeschema.GroupResource, namespaced, found bool) {
		if r := kinds.ByKind(gvk); r != nil {
			return r.GroupResource(), r.Namespaced, true
		}
		d := defs.Resource().Definition
		if d.Storage().GroupVersionKind() != gvk {
			v := defs.Catalog().Kind(gvk)
			if v == nil {
				return r, false, false
			}
			d = v.Definition()
		}
		return d.GroupResource(), d.Namespaced(), true
	}
}

// firstObjects returns the values of this server that its first objects have.
func firstObjects(f *foundation, a *services.Allocator) (*bootstrap.Config, error) {
	data, err := trust(f)
	if err != nil {
		return nil, err
	}
	c := &bootstrap.Config{Port: int32(f.port), Trust: data}
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
// that somebody deletes: a plain `kubectl delete all --all` deletes the Service of the server. It adds CAs that
// the server gets while it runs to those that extension servers trust.
func newBootstrap(f *foundation, h *builtin.Handler, config *bootstrap.Config) controller {
	done := make(chan struct{})
	ready := sync.OnceFunc(func() { close(done) })
	complete := f.options.isFork() // they exist
	if complete {
		ready()
	}
	return controller{name: "bootstrap", synced: done, run: func(ctx context.Context) error {
		select {
		case <-f.db.store.Loaded():
		case <-ctx.Done():
			return nil
		}
		first := func() error {
			if err := f.db.fences.AdoptNamespaces(ctx); err != nil {
				return err
			}
			var roles []defaults.Object
			if f.authorizer.UsesRBAC() {
				all, err := defaults.New()
				if err != nil {
					return err
				}
				roles = all.Objects()
			}
			if err := h.Bootstrap(ctx, config, roles); err != nil {
				return fmt.Errorf("create the first objects: %w", err)
			}
			return nil
		}
		if !complete {
			err := first()
			if backend.IsFull(err) {
				klog.FromContext(ctx).Error(err,
					"The server starts without some of the objects that always exist, and creates them when there is space")
				ready()
				err = untilSpace(ctx, first)
			}
			if err != nil {
				return err
			}
			complete = true
			ready()
		}
		restore := h.NewRestorer(config)
		tick := time.NewTicker(restoreInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			// The CAs of the server may have changed. A new restorer looks at the config map again.
			if now, err := trust(f); err != nil {
				klog.ErrorS(err, "Cannot tell extension servers whom to trust")
			} else if !maps.Equal(now, config.Trust) {
				config.Trust, restore = now, h.NewRestorer(config)
			}
			if err := restore(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Failed to create the first objects again")
			}
		}
	}}
}
