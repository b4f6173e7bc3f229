package publish

import (
	"cmp"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Remote are the groups and versions that other servers serve. It never changes.
type Remote struct {
	Versions []RemoteVersion
}

// RemoteVersion is a group and version that another server serves.
type RemoteVersion struct {
	runtimeschema.GroupVersion
	// GroupPriority and VersionPriority determine the place in lists: the highest come first.
	GroupPriority, VersionPriority int32
	// Resources are its resources, as far as they are known.
	Resources []apidiscoveryv2.APIResourceDiscovery
	// Stale is set if they are not known at present.
	Stale bool
	// OpenAPI is the hash of its OpenAPI v3 document. It is empty if there is none.
	OpenAPI string
	// Swagger is its part of the OpenAPI v2 document, or nil.
	Swagger *RemoteSwagger
}

// addRemote adds the versions of other servers. They replace those of this one.
func (s *snapshot) addRemote(remote *Remote) {
	s.remote = remote
	s.listed = s.groups
	if remote == nil {
		return
	}
	s.replaced = map[string]*group{}
	for i := range remote.Versions {
		v := &remote.Versions[i]
		delete(s.byName, v.GroupVersion)
		s.replaced[v.Group] = s.withRemote(s.any(v.Group), v)
	}
	s.listed = slices.Clone(s.groups)
	for i, g := range s.listed {
		if other := s.replaced[g.name]; other != nil {
			s.listed[i] = other
		}
	}
	added := map[string]bool{}
	for i := range remote.Versions {
		name := remote.Versions[i].Group
		if added[name] || slices.ContainsFunc(s.groups, func(g *group) bool { return g.name == name }) {
			continue
		}
		added[name] = true
		g := s.replaced[name]
		at := slices.IndexFunc(s.listed, func(other *group) bool { return s.before(g, other) })
		if at < 0 {
			at = len(s.listed)
		}
		s.listed = slices.Insert(s.listed, at, g)
	}
}

// remoteVersions returns the versions of each group that other servers serve.
func (s *snapshot) remoteVersions() map[string][]string {
	versions := map[string][]string{}
	if s.remote != nil {
		for _, v := range s.remote.Versions {
			versions[v.Group] = append(versions[v.Group], v.Version)
		}
	}
	return versions
}

// any returns the group of that name, with the versions of other servers so far, or an empty one.
func (s *snapshot) any(name string) *group {
	if g := s.replaced[name]; g != nil {
		return g
	}
	if i := slices.IndexFunc(s.groups, func(g *group) bool { return g.name == name }); i >= 0 {
		return s.groups[i]
	}
	return &group{name: name}
}

// withRemote returns a group with a version of another server.
func (s *snapshot) withRemote(g *group, v *RemoteVersion) *group {
	out := &group{name: g.name}
	out.versions = slices.DeleteFunc(slices.Clone(g.versions), func(gv *groupVersion) bool { return gv.GroupVersion == v.GroupVersion })
	out.versions = append(out.versions, &groupVersion{GroupVersion: v.GroupVersion, remote: v})
	slices.SortStableFunc(out.versions, func(a, b *groupVersion) int {
		_, pa := s.priority(a)
		_, pb := s.priority(b)
		return cmp.Or(cmp.Compare(pb, pa), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	s.publisher.setEntry(out)
	return out
}

// priority returns the priorities of a group and of a version.
func (s *snapshot) priority(v *groupVersion) (group, version int32) {
	if v.remote != nil {
		return v.remote.GroupPriority, v.remote.VersionPriority
	}
	return s.publisher.config.Priority(v.GroupVersion)
}

// before reports whether a group comes before another one.
func (s *snapshot) before(g, other *group) bool {
	highest := func(g *group) (most int32) {
		for _, v := range g.versions {
			p, _ := s.priority(v)
			most = max(most, p)
		}
		return most
	}
	a, b := highest(g), highest(other)
	return a > b || a == b && g.name < other.name
}

// remoteEntry returns the entry of a version of another server in the aggregated list.
func (v *RemoteVersion) remoteEntry() apidiscoveryv2.APIVersionDiscovery {
	out := apidiscoveryv2.APIVersionDiscovery{Version: v.Version, Resources: v.Resources, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if v.Stale {
		out.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
	}
	return out
}
