package aggregator

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"espalier.dev/crd"
)

// The priorities of the groups and versions of CRDs, as in kube-apiserver.
const crdGroupPriority, crdVersionPriority = 1000, 100

// groupPriorities are the priorities of the groups of this server, as in kube-apiserver: those of
// clients decide which group a short name means.
var groupPriorities = map[string]int32{
	"apiregistration.k8s.io": 20001, // above what an API service may have
	"":                       18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
	"autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
	"rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
	"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
	"discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
	"internal.apiserver.k8s.io": 16000, "storagemigration.k8s.io": 15800,
}

// versionPriorities are the priorities of versions that are not those of most others with their name.
var versionPriorities = map[runtimeschema.GroupVersion]int32{
	{Version: "v1"}:                                              1,
	{Group: "autoscaling", Version: "v2"}:                        30,
	{Group: "autoscaling", Version: "v1"}:                        15,
	{Group: "events.k8s.io", Version: "v1beta1"}:                 5,
	{Group: "admissionregistration.k8s.io", Version: "v1beta1"}:  12,
	{Group: "admissionregistration.k8s.io", Version: "v1alpha1"}: 9,
	{Group: "coordination.k8s.io", Version: "v1beta1"}:           13,
	{Group: "coordination.k8s.io", Version: "v1alpha2"}:          12,
	{Group: "discovery.k8s.io", Version: "v1beta1"}:              12,
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}:       21,
	{Group: "internal.apiserver.k8s.io", Version: "v1alpha1"}:    9,
	{Group: "resource.k8s.io", Version: "v1"}:                    21,
	{Group: "resource.k8s.io", Version: "v1beta2"}:               15,
	{Group: "scheduling.k8s.io", Version: "v1alpha2"}:            2,
}

// stagePriorities are the priorities of most versions.
var stagePriorities = map[string]int32{"v1": 15, "v1beta1": 9, "v1alpha1": 1, "v1alpha3": 1}

// Priority returns the priorities of a group and version of this server. Those of CRDs have low ones.
func Priority(gv runtimeschema.GroupVersion) (group, version int32) {
	group, ok := groupPriorities[gv.Group]
	if !ok {
		return crdGroupPriority, crdVersionPriority
	}
	if version, ok = versionPriorities[gv]; ok {
		return group, version
	}
	if version, ok = stagePriorities[gv.Version]; ok {
		return group, version
	}
	return group, 9
}

// local returns the API service of a group and version of this server.
func local(gv runtimeschema.GroupVersion) *apiregistrationv1.APIService {
	group, version := Priority(gv)
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(gv)},
		Spec: apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version,
			GroupPriorityMinimum: group, VersionPriority: version},
	}
}

func serviceName(gv runtimeschema.GroupVersion) string { return gv.Version + "." + gv.Group }

// registrar tells the controller that stores API services which ones there are. One goroutine uses it.
type registrar struct {
	to autoregister.AutoAPIServiceRegistration
	// own are the groups and versions that no CRD defines.
	own map[runtimeschema.GroupVersion]bool
	// versions are those of each CRD, and users counts the CRDs of each group and version.
	versions map[string][]runtimeschema.GroupVersion
	users    map[runtimeschema.GroupVersion]int
}

func newRegistrar(to autoregister.AutoAPIServiceRegistration, own []runtimeschema.GroupVersion) *registrar {
	r := &registrar{to: to, own: map[runtimeschema.GroupVersion]bool{},
		versions: map[string][]runtimeschema.GroupVersion{}, users: map[runtimeschema.GroupVersion]int{}}
	for _, gv := range own {
		r.own[gv] = true
		if gv.Group != apiregistrationv1.GroupName { // as in kube-apiserver, it has none
			to.AddAPIServiceToSyncOnStart(local(gv))
		}
	}
	return r
}

// replaceAll registers all CRDs of a catalog, and no others.
func (r *registrar) replaceAll(c *crd.Catalog) {
	names := map[string]bool{}
	for _, d := range c.All() {
		names[d.Name()] = true
		r.update(c, d.Name())
	}
	for name := range r.versions {
		if !names[name] {
			r.update(c, name)
		}
	}
}

// update registers the versions of a CRD as they are in a catalog.
func (r *registrar) update(c *crd.Catalog, name string) {
	before := r.versions[name]
	var now []runtimeschema.GroupVersion
	if d := c.Get(name); d != nil {
		for _, v := range d.Versions() {
			if gv := v.GroupVersionKind().GroupVersion(); v.Served() && !r.own[gv] {
				now = append(now, gv)
			}
		}
	}
	for _, gv := range now {
		r.users[gv]++
		if r.users[gv] == 1 {
			r.to.AddAPIServiceToSync(local(gv))
		}
	}
	for _, gv := range before {
		r.users[gv]--
		if r.users[gv] == 0 {
			delete(r.users, gv)
			r.to.RemoveAPIServiceToSync(serviceName(gv))
		}
	}
	if now == nil {
		delete(r.versions, name)
	} else {
		r.versions[name] = now
	}
}

// names returns the names of all API services that are registered.
func (r *registrar) names() (all []string) {
	for gv := range r.own {
		if gv.Group != apiregistrationv1.GroupName {
			all = append(all, serviceName(gv))
		}
	}
	for gv := range r.users {
		all = append(all, serviceName(gv))
	}
	return all
}

// pending are CRDs that have to be looked at. It is safe for concurrent use.
type pending struct {
	wake chan struct{}

	mu    sync.Mutex
	all   bool
	names map[string]bool
}

// maxPending is the number of names from which on all CRDs are looked at: nobody may take them.
const maxPending = 1000

func newPending() *pending {
	return &pending{wake: make(chan struct{}, 1), all: true, names: map[string]bool{}}
}

// add adds CRDs. No names mean all of them.
func (p *pending) add(names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all {
		return // they have not been looked at
	}
	p.all = len(names) == 0 || len(p.names) > maxPending
	if p.all {
		clear(p.names)
	}
	for _, name := range names {
		if !p.all {
			p.names[name] = true
		}
	}
	select {
	case p.wake <- struct{}{}:
	default: // they will be looked at
	}
}

// take returns the CRDs to look at, or that all of them are.
func (p *pending) take() (names map[string]bool, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	names, all = p.names, p.all
	p.names, p.all = map[string]bool{}, false
	return names, all
}
