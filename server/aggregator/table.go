package aggregator

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"

	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// resource is the resource of API services.
var resource = runtimeschema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

func (a *Aggregator) prefix() string {
	return string(keys.Root(a.config.Store.Prefix()).Builtin(resource))
}

// table has the stored API services. It never changes.
type table struct {
	// names are the names of all of them, with the revisions of their entries.
	names map[string]int64
	// unreadable are the names of those that cannot be read. They may be readable later, without a new revision: for
	// example when the plugin with the key is back.
	unreadable map[string]bool
	// backends are those of other servers, by group and version.
	backends map[runtimeschema.GroupVersion]*backend
	// changed is closed when there is a newer table.
	changed chan struct{}
}

// backend is another server as the one that serves a group and version. It never changes.
type backend struct {
	service  *apiregistrationv1.APIService
	revision int64
	// available reports whether requests are proxied.
	available bool
	// transport connects to the server. If it cannot be made, err is the reason.
	transport http.RoundTripper
	err       error
	cert, key []byte
}

func (b *backend) groupVersion() runtimeschema.GroupVersion {
	return runtimeschema.GroupVersion{Group: b.service.Spec.Group, Version: b.service.Spec.Version}
}

// port returns the port of the service. The API server stores the default, but another program may
// have written the object.
func (b *backend) port() int32 {
	if p := b.service.Spec.Service.Port; p != nil {
		return *p
	}
	return 443
}

// newTable returns the table of the stored API services. What has not changed is that of the old
// table, so that connections are used again.
func (a *Aggregator) newTable(s *store.Snapshot, old *table) *table {
	t := &table{names: map[string]int64{}, unreadable: map[string]bool{}, backends: map[runtimeschema.GroupVersion]*backend{}, changed: make(chan struct{})}
	cert, key := a.config.Certificate()
	for e := range s.Range(a.prefix(), "") {
		name := keys.Name(e.Key)
		t.names[name] = e.Revision
		if !strings.Contains(name, ".") {
			continue // another program has written it
		}
		gv := helper.APIServiceNameToGroupVersion(name)
		before := old.backends[gv]
		if before == nil && old.names[name] == e.Revision && !old.unreadable[name] {
			continue // it is known to be one of this server
		}
		if before != nil && before.revision == e.Revision && bytes.Equal(before.cert, cert) && bytes.Equal(before.key, key) {
			t.backends[gv] = before
			continue
		}
		obj, err := a.config.Objects.Decode(resource, e)
		if err != nil {
			t.unreadable[name] = true
			if !old.unreadable[name] {
				klog.ErrorS(err, "Cannot read an API service", "name", name)
			}
			continue
		}
		one, ok := obj.(*apiregistrationv1.APIService)
		if !ok || one.Spec.Service == nil || !proxied(one) {
			continue
		}
		b := &backend{service: one, revision: e.Revision, cert: cert, key: key,
			available: helper.IsAPIServiceConditionTrue(one, apiregistrationv1.Available)}
		// client-go returns the same transport for the same configuration.
		b.transport, b.err = transport.New(remote.BuildTransportConfig(a.dial, cert, key, one))
		t.backends[gv] = b
	}
	return t
}

// proxied reports whether an API service of another server has an effect. The core group is never that of
// another server, nor is that of API services, without which no other could be reached.
func proxied(s *apiregistrationv1.APIService) bool {
	return s.Spec.Group != "" && s.Spec.Group != apiregistrationv1.GroupName && s.Name == s.Spec.Version+"."+s.Spec.Group
}

// route returns the server for a path, or nil if it is this one.
func (t *table) route(path string) *backend {
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return nil
	}
	group, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return nil
	}
	version, _, _ := strings.Cut(rest, "/")
	return t.backends[runtimeschema.GroupVersion{Group: group, Version: version}]
}

// sorted returns the servers in the order of discovery.
func (t *table) sorted() []*backend {
	all := make([]*backend, 0, len(t.backends))
	for _, b := range t.backends {
		all = append(all, b)
	}
	slices.SortFunc(all, func(x, y *backend) int {
		a, b := &x.service.Spec, &y.service.Spec
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(b.VersionPriority, a.VersionPriority),
			version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	return all
}
