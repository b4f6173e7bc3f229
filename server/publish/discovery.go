package publish

import (
	"cmp"
	"crypto/sha512"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	apidiscoveryconversion "k8s.io/apiserver/pkg/apis/apidiscovery/v2"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/klog/v2"

	"espalier.dev/crd"
	"espalier.dev/server/served"
)

// codecs encode the lists: the old ones and the aggregated one.
type codecs struct {
	legacy, aggregated serializer.CodecFactory
}

func newCodecs(legacy serializer.CodecFactory) codecs {
	all := runtime.NewScheme()
	utilruntime.Must(apidiscoveryv2.AddToScheme(all))
	utilruntime.Must(apidiscoveryv2beta1.AddToScheme(all))
	utilruntime.Must(apidiscoveryconversion.RegisterConversions(all))
	return codecs{legacy: legacy, aggregated: serializer.NewCodecFactory(all)}
}

// coreV1 is the only version of the core group.
var coreV1 = runtimeschema.GroupVersion{Version: "v1"}

// groupVersion holds the resources of a group and version.
type groupVersion struct {
	runtimeschema.GroupVersion
	// served are the resources in the order of their names, fixed ones first.
	served []*served.Description
	// hash is the hash of the OpenAPI document.
	hash func() (string, error)
	// remote is set if another server serves it. Then there is no more than that.
	remote *RemoteVersion
}

// group is a group and its versions, the preferred one first.
type group struct {
	name     string
	versions []*groupVersion
	// entry is the entry of the aggregated list, and text the same as JSON.
	entry func() apidiscoveryv2.APIGroupDiscovery
	text  func() (*entryText, error)
}

// snapshot is the published view of a catalog.
type snapshot struct {
	publisher *Publisher
	catalog   *crd.Catalog
	// groups are the groups of fixed resources in their order, then the others by name.
	groups        []*group
	builtinGroups int
	// fixed are the groups of fixed resources, with the core group.
	fixed  []*group
	byName map[runtimeschema.GroupVersion]*groupVersion

	// remote are the versions of other servers, replaced the groups with such versions, and listed all
	// groups in the order of lists.
	remote   *Remote
	replaced map[string]*group
	listed   []*group

	// core is the core group. It exists even if it is empty, because kubectl needs its
	// version v1 to read files with a List of objects.
	core *group

	root, coreRoot http.Handler

	v3Root func() (*v3Root, error)
	v2     func() (*document, error)
}

// newSnapshot returns the snapshot of a catalog. It shares the groups that have not changed
// with the previous snapshot, which may be nil.
func newSnapshot(p *Publisher, catalog *crd.Catalog, remote *Remote, previous *snapshot) *snapshot {
	s := &snapshot{publisher: p, catalog: catalog, byName: map[runtimeschema.GroupVersion]*groupVersion{}}
	fixed := map[string][]*crd.Definition{} // by group
	isBuiltin := map[string]bool{}
	var names []string
	for _, b := range p.config.Fixed {
		d := b.Definition
		if fixed[d.Group()] == nil {
			names = append(names, d.Group())
		}
		fixed[d.Group()] = append(fixed[d.Group()], d)
		isBuiltin[d.Name()] = true
	}
	for _, name := range names {
		if previous != nil && catalog.SameGroup(previous.catalog, name) {
			if i := slices.IndexFunc(previous.fixed, func(g *group) bool { return g.name == name }); i >= 0 {
				s.add(previous.fixed[i])
				continue
			}
		}
		definitions := fixed[name]
		for _, d := range catalog.Group(name) {
			if !isBuiltin[d.Name()] {
				definitions = append(definitions, d)
			}
		}
		s.add(p.newGroup(name, definitions))
	}
	s.fixed = slices.Clone(s.groups)
	s.builtinGroups = len(s.groups)
	for _, name := range catalog.Groups() {
		if fixed[name] != nil {
			continue
		}
		var g *group
		if previous != nil && catalog.SameGroup(previous.catalog, name) {
			g = previous.group(name)
		}
		if g == nil {
			g = p.newGroup(name, catalog.Group(name))
		}
		s.add(g)
	}
	s.core = p.newGroup("", nil)
	s.core.versions = []*groupVersion{p.newGroupVersion(coreV1)}
	if i := slices.IndexFunc(s.groups, func(g *group) bool { return g.name == "" }); i >= 0 {
		s.core = s.groups[i]
		s.groups = slices.Delete(s.groups, i, i+1)
		if i < s.builtinGroups {
			s.builtinGroups--
		}
	}
	s.addRemote(remote)
	legacy := discovery.NewRootAPIsHandler(s.addresses(), p.codecs.legacy)
	for _, g := range s.listed {
		legacy.AddGroup(g.legacy())
	}
	s.root = s.newRoot(legacy, s.listed)
	s.coreRoot = s.newRoot(discovery.NewLegacyRootAPIHandler(s.addresses(), p.codecs.legacy, "/api"), []*group{s.core})
	s.v3Root = sync.OnceValues(s.newV3Root)
	s.v2 = sync.OnceValues(s.newV2)
	return s
}

// add adds a group, unless it is nil or empty.
func (s *snapshot) add(g *group) {
	if g == nil || len(g.versions) == 0 {
		return
	}
	s.groups = append(s.groups, g)
	for _, v := range g.versions {
		s.byName[v.GroupVersion] = v
	}
}

// group returns the group of that name, or nil.
func (s *snapshot) group(name string) *group {
	i, ok := slices.BinarySearchFunc(s.groups[s.builtinGroups:], name,
		func(g *group, name string) int { return strings.Compare(g.name, name) })
	if !ok {
		return nil
	}
	return s.groups[s.builtinGroups+i]
}

// newGroup returns the group of some CRDs: their served versions.
func (p *Publisher) newGroup(name string, definitions []*crd.Definition) *group {
	g := &group{name: name}
	byVersion := map[string]*groupVersion{}
	for _, d := range definitions {
		if !d.Established() {
			continue
		}
		for _, v := range d.Versions() {
			if !v.Served() {
				continue
			}
			in := byVersion[v.Name()]
			if in == nil {
				in = p.newGroupVersion(v.GroupVersionKind().GroupVersion())
				byVersion[v.Name()] = in
				g.versions = append(g.versions, in)
			}
			in.served = append(in.served, p.describe(v))
		}
	}
	slices.SortFunc(g.versions, func(a, b *groupVersion) int {
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	p.setEntry(g)
	return g
}

// setEntry makes a group ready for the aggregated list.
func (p *Publisher) setEntry(g *group) {
	g.entry = sync.OnceValue(g.aggregated)
	g.text = sync.OnceValues(func() (*entryText, error) { return g.newEntryText(p.entries.pack) })
}

func (p *Publisher) newGroupVersion(gv runtimeschema.GroupVersion) *groupVersion {
	out := &groupVersion{GroupVersion: gv}
	out.hash = sync.OnceValues(func() (string, error) { return p.hashOf(out) })
	return out
}

// discovery returns the handler for a path below /apis, or nil. parts are the segments of the
// path.
func (s *snapshot) discovery(parts []string) http.Handler {
	switch len(parts) {
	case 0:
		return s.root
	case 1:
		if g := s.replaced[parts[0]]; g != nil {
			return discovery.NewAPIGroupHandler(s.publisher.codecs.legacy, g.legacy())
		}
		for _, g := range s.groups[:s.builtinGroups] {
			if g.name == parts[0] {
				return discovery.NewAPIGroupHandler(s.publisher.codecs.legacy, g.legacy())
			}
		}
		if g := s.group(parts[0]); g != nil {
			return discovery.NewAPIGroupHandler(s.publisher.codecs.legacy, g.legacy())
		}
	case 2:
		if parts[0] == "" { // the core group is below /api
			return nil
		}
		if gv := s.byName[runtimeschema.GroupVersion{Group: parts[0], Version: parts[1]}]; gv != nil {
			return s.version(gv)
		}
	}
	return nil
}

// coreDiscovery returns the handler for a path below /api, or nil. parts are the segments of
// the path.
func (s *snapshot) coreDiscovery(parts []string) http.Handler {
	switch {
	case len(parts) == 0:
		return s.coreRoot
	case len(parts) == 1 && parts[0] == coreV1.Version:
		return s.version(s.core.versions[0])
	}
	return nil
}

// version returns the handler that lists the resources of a version.
func (s *snapshot) version(gv *groupVersion) http.Handler {
	return discovery.NewAPIVersionHandler(s.publisher.codecs.legacy, gv.GroupVersion, discovery.APIResourceListerFunc(gv.resources))
}

// newRoot returns the handler of /apis or /api: the old list of groups, or the aggregated
// list if the client asks for it.
func (s *snapshot) newRoot(legacy http.Handler, groups []*group) http.Handler {
	once := sync.OnceValues(func() (*aggregatedList, error) { return newAggregatedList(s.publisher.codecs.aggregated, groups) })
	return aggregated.WrapAggregatedDiscoveryToHandler(legacy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The wrapper passes only requests for the aggregated list.
		list, err := once()
		if err != nil {
			klog.ErrorS(err, "Cannot write the aggregated discovery document")
			http.Error(w, "discovery is not available", http.StatusInternalServerError)
			return
		}
		list.ServeHTTP(w, r)
	}), nil)
}

func (s *snapshot) addresses() discovery.Addresses {
	if a := s.publisher.config.Addresses; a != nil {
		return a
	}
	return noAddresses{}
}

// noAddresses is an empty set of addresses.
type noAddresses struct{}

// ServerAddressByClientCIDRs returns none.
func (noAddresses) ServerAddressByClientCIDRs(net.IP) []metav1.ServerAddressByClientCIDR { return nil }

// hash returns the text of an ETag.
func hash(text []byte) string { return fmt.Sprintf("%X", sha512.Sum512(text)) }

func (g *group) legacy() metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

func (g *group) aggregated() apidiscoveryv2.APIGroupDiscovery {
	out := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, v := range g.versions {
		if v.remote != nil {
			out.Versions = append(out.Versions, v.remote.remoteEntry())
			continue
		}
		resources := v.resources()
		for i := range resources {
			// In the old lists, an empty group and version means that of the list.
			r := &resources[i]
			r.Group, r.Version = cmp.Or(r.Group, v.Group), cmp.Or(r.Version, v.GroupVersion.Version)
		}
		list, err := endpoints.ConvertGroupVersionIntoToDiscovery(resources)
		if err != nil {
			// It fails for subresources whose scope differs from that of their resource.
			klog.ErrorS(err, "Cannot list the resources of a version", "groupVersion", v.GroupVersion)
			continue
		}
		out.Versions = append(out.Versions, apidiscoveryv2.APIVersionDiscovery{
			Version: v.Version, Resources: list, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
		})
	}
	return out
}

// resources returns the resources of a group and version, each followed by its subresources.
func (gv *groupVersion) resources() []metav1.APIResource {
	out := []metav1.APIResource{}
	for _, r := range gv.served {
		d := r.Definition()
		names := d.Names()
		resource := metav1.APIResource{
			Name:         names.Plural,
			SingularName: names.Singular,
			Namespaced:   d.Namespaced(),
			Kind:         names.Kind,
			Verbs:        r.Advertised(),
			ShortNames:   names.ShortNames,
			Categories:   names.Categories,
		}
		if storage := d.Storage(); r.Stored.Kind != "" {
			resource.StorageVersionHash = discovery.StorageVersionHash(r.Stored.Group, r.Stored.Version, r.Stored.Kind)
		} else if storage != nil && storage.Served() && !r.NotStored {
			resource.StorageVersionHash = discovery.StorageVersionHash(d.Group(), storage.Name(), names.Kind)
		}
		out = append(out, resource)
		for _, sub := range r.Subresources {
			listed := metav1.APIResource{Name: names.Plural + "/" + sub.Name,
				Namespaced: d.Namespaced(), Kind: sub.Kind.Kind, Verbs: sub.Verbs}
			if sub.Kind.GroupVersion() != gv.GroupVersion {
				listed.Group, listed.Version = sub.Kind.Group, sub.Kind.Version
			}
			out = append(out, listed)
		}
	}
	return out
}
