package kinds

import (
	"slices"
	"strings"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource names one version of a built-in resource.
type Resource struct {
	Group, Version   string
	Kind             string
	Plural, Singular string
	ShortNames       []string
	Categories       []string
	Namespaced       bool
	// Stored is the kind that is stored, if that is another one: an event of events.k8s.io is
	// stored as one of the core group.
	Stored runtimeschema.GroupVersionKind
	// JSON is set if objects are stored as JSON, not as protobuf.
	JSON bool
	// Subresources are the endpoints below an object.
	Subresources []Subresource
	// ReturnsDeleted makes the response of a deletion the object, not a Status.
	ReturnsDeleted bool
	// Orphans makes orphaning the default policy of deletions.
	Orphans bool
	// Deprecated is a warning for all requests.
	Deprecated string
	// KeepsCollection is set if the resource has no deletecollection.
	KeepsCollection bool
	// CreateOnly is set if objects are created and answered, but not stored.
	CreateOnly bool
	// Optional is set if the version is only served if --runtime-config enables it.
	Optional bool
}

// Subresource names an endpoint below an object.
type Subresource struct {
	Name string
	// Kind is the kind of what is read and written; that of the resource, if it is empty.
	Kind  runtimeschema.GroupVersionKind
	Verbs []string
}

// GroupVersionKind returns the kind of the objects.
func (r *Resource) GroupVersionKind() runtimeschema.GroupVersionKind {
	return runtimeschema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// GroupResource returns the name of the resource without its version.
func (r *Resource) GroupResource() runtimeschema.GroupResource {
	return runtimeschema.GroupResource{Group: r.Group, Resource: r.Plural}
}

// GroupVersionResource returns the name of the resource.
func (r *Resource) GroupVersionResource() runtimeschema.GroupVersionResource {
	return runtimeschema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// IsStored reports whether objects are stored as what they are: not as another kind, and not
// only answered.
func (r *Resource) IsStored() bool { return r.Stored.Kind == "" && !r.CreateOnly }

// StoredKind returns the kind that is stored.
func (r *Resource) StoredKind() runtimeschema.GroupVersionKind {
	if r.Stored.Kind != "" {
		return r.Stored
	}
	return r.GroupVersionKind()
}

// IsEvent reports whether the stored objects are events.
func (r *Resource) IsEvent() bool {
	stored := r.StoredKind()
	return stored.Group == "" && stored.Kind == "Event"
}

// Verbs returns the verbs of the resource.
func (r *Resource) Verbs() []string {
	if r.CreateOnly {
		return []string{"create"}
	}
	if r.KeepsCollection {
		return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// Subresource returns the subresource of that name, or nil.
func (r *Resource) Subresource(name string) *Subresource {
	i := slices.IndexFunc(r.Subresources, func(s Subresource) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Subresources[i]
}

// group is the resources of a group and version.
type group struct {
	name, version string
	resources     []Resource
}

var (
	readWrite = []string{"get", "patch", "update"}
	all       = []string{"all"}
	extension = []string{"api-extensions"}
	status    = Subresource{Name: "status", Verbs: readWrite}
	scaled    = Subresource{Name: "scale", Kind: runtimeschema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		Verbs: readWrite}
)

// unavailable returns a subresource that needs a kubelet.
func unavailable(name, kind string, verbs ...string) Subresource {
	return Subresource{Name: name, Kind: runtimeschema.GroupVersionKind{Version: "v1", Kind: kind}, Verbs: verbs}
}

// Resources lists the built-in resources that are served by default: the groups in the order of
// discovery, and in each the resources by name.
func Resources() []*Resource {
	return slices.DeleteFunc(All(), func(r *Resource) bool { return r.Optional })
}

// All lists all resources, including those that are not served by default. The caller must not
// change them.
func All() []*Resource { return slices.Clone(table()) }

var table = sync.OnceValue(newTable)

func newTable() []*Resource {
	proxied := []string{"create", "delete", "get", "patch", "update"}
	groups := []group{
		{"", "v1", []Resource{
			{Kind: "Binding", Namespaced: true, CreateOnly: true},
			{Kind: "ConfigMap", Namespaced: true, ShortNames: []string{"cm"}},
			{Kind: "Endpoints", Namespaced: true, Singular: "endpoints", ShortNames: []string{"ep"},
				Deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"},
			{Kind: "Event", Namespaced: true, ShortNames: []string{"ev"}},
			{Kind: "LimitRange", Namespaced: true, ShortNames: []string{"limits"}},
			{Kind: "Namespace", ShortNames: []string{"ns"}, KeepsCollection: true,
				Subresources: []Subresource{{Name: "finalize", Verbs: []string{"update"}}, status}},
			{Kind: "Node", ShortNames: []string{"no"},
				Subresources: []Subresource{unavailable("proxy", "NodeProxyOptions", proxied...), status}},
			{Kind: "PersistentVolumeClaim", Namespaced: true, ShortNames: []string{"pvc"},
				Subresources: []Subresource{status}, ReturnsDeleted: true},
			{Kind: "PersistentVolume", ShortNames: []string{"pv"}, Subresources: []Subresource{status}, ReturnsDeleted: true},
			{Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}, Categories: all, ReturnsDeleted: true, Subresources: []Subresource{
				unavailable("attach", "PodAttachOptions", "create", "get"),
				{Name: "binding", Kind: runtimeschema.GroupVersionKind{Version: "v1", Kind: "Binding"}, Verbs: []string{"create"}},
				{Name: "ephemeralcontainers", Verbs: readWrite},
				{Name: "eviction", Kind: runtimeschema.GroupVersionKind{Group: "policy",
					Version: "v1", Kind: "Eviction"}, Verbs: []string{"create"}},
				unavailable("exec", "PodExecOptions", "create", "get"),
				unavailable("log", "Pod", "get"),
				unavailable("portforward", "PodPortForwardOptions", "create", "get"),
				unavailable("proxy", "PodProxyOptions", proxied...),
				{Name: "resize", Verbs: readWrite}, status,
			}},
			{Kind: "PodTemplate", Namespaced: true, ReturnsDeleted: true},
			{Kind: "ReplicationController", Namespaced: true, ShortNames: []string{"rc"}, Categories: all, Orphans: true,
				Subresources: []Subresource{scaled, status}},
			{Kind: "ResourceQuota", Namespaced: true, ShortNames: []string{"quota"},
				Subresources: []Subresource{status}, ReturnsDeleted: true},
			{Kind: "Secret", Namespaced: true},
			{Kind: "ServiceAccount", Namespaced: true, ShortNames: []string{"sa"}, ReturnsDeleted: true,
				Subresources: []Subresource{{Name: "token", Kind: runtimeschema.GroupVersionKind{Group: "authentication.k8s.io",
					Version: "v1", Kind: "TokenRequest"}, Verbs: []string{"create"}}}},
			{Kind: "Service", Namespaced: true, ShortNames: []string{"svc"}, Categories: all, ReturnsDeleted: true,
				Subresources: []Subresource{unavailable("proxy", "ServiceProxyOptions", proxied...), status}},
		}},
		{"apiregistration.k8s.io", "v1", []Resource{
			{Kind: "APIService", Categories: extension, JSON: true, Subresources: []Subresource{status}},
		}},
		{"apps", "v1", []Resource{
			{Kind: "ControllerRevision", Namespaced: true},
			{Kind: "DaemonSet", Namespaced: true, ShortNames: []string{"ds"}, Categories: all, Subresources: []Subresource{status}},
			{Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"},
				Categories: all, Subresources: []Subresource{scaled, status}},
			{Kind: "ReplicaSet", Namespaced: true, ShortNames: []string{"rs"}, Categories: all,
				Subresources: []Subresource{scaled, status}},
			{Kind: "StatefulSet", Namespaced: true, ShortNames: []string{"sts"},
				Categories: all, Subresources: []Subresource{scaled, status}},
		}},
		{"events.k8s.io", "v1", []Resource{
			{Kind: "Event", Namespaced: true, ShortNames: []string{"ev"},
				Stored: runtimeschema.GroupVersionKind{Version: "v1", Kind: "Event"}},
		}},
		{"authentication.k8s.io", "v1", []Resource{{Kind: "SelfSubjectReview", CreateOnly: true}, {Kind: "TokenReview", CreateOnly: true}}},
		{"authorization.k8s.io", "v1", []Resource{
			{Kind: "LocalSubjectAccessReview", Namespaced: true, CreateOnly: true}, {Kind: "SelfSubjectAccessReview", CreateOnly: true},
			{Kind: "SelfSubjectRulesReview", CreateOnly: true}, {Kind: "SubjectAccessReview", CreateOnly: true},
		}},
		{"autoscaling", "v2", []Resource{
			{Kind: "HorizontalPodAutoscaler", Namespaced: true, ShortNames: []string{"hpa"},
				Categories: all, Subresources: []Subresource{status}},
		}},
		{"autoscaling", "v1", []Resource{
			{Kind: "HorizontalPodAutoscaler", Namespaced: true, ShortNames: []string{"hpa"},
				Categories: all, Subresources: []Subresource{status},
				Stored: runtimeschema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}},
		}},
		{"batch", "v1", []Resource{
			{Kind: "CronJob", Namespaced: true, ShortNames: []string{"cj"}, Categories: all, Subresources: []Subresource{status}},
			{Kind: "Job", Namespaced: true, Categories: all, Subresources: []Subresource{status}, Orphans: true},
		}},
		{"certificates.k8s.io", "v1", []Resource{
			{Kind: "CertificateSigningRequest", ShortNames: []string{"csr"},
				Subresources: []Subresource{{Name: "approval", Verbs: readWrite}, status}},
		}},
		{"networking.k8s.io", "v1", []Resource{
			{Kind: "IngressClass"},
			{Kind: "Ingress", Namespaced: true, ShortNames: []string{"ing"}, Subresources: []Subresource{status}},
			{Kind: "IPAddress", ShortNames: []string{"ip"}},
			{Kind: "NetworkPolicy", Namespaced: true, ShortNames: []string{"netpol"}},
			{Kind: "ServiceCIDR", Subresources: []Subresource{status}},
		}},
		{"networking.k8s.io", "v1beta1", []Resource{
			{Kind: "IPAddress", ShortNames: []string{"ip"}, Optional: true},
			{Kind: "ServiceCIDR", Subresources: []Subresource{status}, Optional: true},
		}},
		{"policy", "v1", []Resource{
			{Kind: "PodDisruptionBudget", Namespaced: true, ShortNames: []string{"pdb"}, Subresources: []Subresource{status}},
		}},
		{"rbac.authorization.k8s.io", "v1", []Resource{
			{Kind: "ClusterRoleBinding"}, {Kind: "ClusterRole"}, {Kind: "RoleBinding", Namespaced: true}, {Kind: "Role", Namespaced: true},
		}},
		{"storage.k8s.io", "v1", []Resource{
			{Kind: "CSIDriver", ReturnsDeleted: true}, {Kind: "CSINode", ReturnsDeleted: true},
			{Kind: "CSIStorageCapacity", Namespaced: true},
			{Kind: "StorageClass", ShortNames: []string{"sc"}, ReturnsDeleted: true},
			{Kind: "VolumeAttachment", Subresources: []Subresource{status}, ReturnsDeleted: true},
			{Kind: "VolumeAttributesClass", ShortNames: []string{"vac"}, ReturnsDeleted: true},
		}},
		{"storage.k8s.io", "v1beta1", []Resource{{Kind: "VolumeAttributesClass",
			ShortNames: []string{"vac"}, ReturnsDeleted: true, Optional: true}}},
		{"admissionregistration.k8s.io", "v1", []Resource{
			{Kind: "MutatingAdmissionPolicy", Categories: extension}, {Kind: "MutatingAdmissionPolicyBinding", Categories: extension},
			{Kind: "MutatingWebhookConfiguration", Categories: extension},
			{Kind: "ValidatingAdmissionPolicy", Categories: extension, Subresources: []Subresource{status}},
			{Kind: "ValidatingAdmissionPolicyBinding", Categories: extension},
			{Kind: "ValidatingWebhookConfiguration", Categories: extension},
		}},
		{"admissionregistration.k8s.io", "v1beta1", []Resource{
			{Kind: "MutatingAdmissionPolicy", Categories: extension, Optional: true},
			{Kind: "MutatingAdmissionPolicyBinding", Categories: extension, Optional: true},
		}},
		{"admissionregistration.k8s.io", "v1alpha1", []Resource{
			{Kind: "MutatingAdmissionPolicy", Categories: extension, Optional: true},
			{Kind: "MutatingAdmissionPolicyBinding", Categories: extension, Optional: true},
		}},
		{"scheduling.k8s.io", "v1", []Resource{{Kind: "PriorityClass", ShortNames: []string{"pc"}}}},
		{"coordination.k8s.io", "v1", []Resource{{Kind: "Lease", Namespaced: true}}},
		{"node.k8s.io", "v1", []Resource{{Kind: "RuntimeClass"}}},
		{"discovery.k8s.io", "v1", []Resource{{Kind: "EndpointSlice", Namespaced: true}}},
		{"resource.k8s.io", "v1", []Resource{
			{Kind: "DeviceClass", ReturnsDeleted: true}, {Kind: "ResourceClaim", Namespaced: true,
				Subresources: []Subresource{status}, ReturnsDeleted: true},
			{Kind: "ResourceClaimTemplate", Namespaced: true, ReturnsDeleted: true}, {Kind: "ResourceSlice", ReturnsDeleted: true},
		}},
		{"resource.k8s.io", "v1beta2", []Resource{
			{Kind: "DeviceClass", ReturnsDeleted: true, Optional: true},
			{Kind: "ResourceClaim", Namespaced: true, Subresources: []Subresource{status}, ReturnsDeleted: true, Optional: true},
			{Kind: "ResourceClaimTemplate", Namespaced: true, ReturnsDeleted: true, Optional: true},
			{Kind: "ResourceSlice", ReturnsDeleted: true, Optional: true},
		}},
		{"resource.k8s.io", "v1beta1", []Resource{
			{Kind: "DeviceClass", ReturnsDeleted: true, Optional: true},
			{Kind: "ResourceClaim", Namespaced: true, Subresources: []Subresource{status}, ReturnsDeleted: true, Optional: true},
			{Kind: "ResourceClaimTemplate", Namespaced: true, ReturnsDeleted: true, Optional: true},
			{Kind: "ResourceSlice", ReturnsDeleted: true, Optional: true},
		}},
		{"flowcontrol.apiserver.k8s.io", "v1", []Resource{
			{Kind: "FlowSchema", Subresources: []Subresource{status}},
			{Kind: "PriorityLevelConfiguration", Subresources: []Subresource{status}},
		}},
	}
	var out []*Resource
	for _, g := range groups {
		for i := range g.resources {
			r := &g.resources[i]
			r.Group, r.Version = g.name, g.version
			if r.Singular == "" {
				r.Singular = strings.ToLower(r.Kind)
			}
			r.Plural = plural(r.Singular)
			if r.Optional { // all of them are stored as v1
				r.Stored = runtimeschema.GroupVersionKind{Group: r.Group, Version: "v1", Kind: r.Kind}
			}
			out = append(out, r)
		}
	}
	return out
}

// byKind are the resources that are served by default, by their kind.
var byKind = sync.OnceValue(func() map[runtimeschema.GroupVersionKind]*Resource {
	out := map[runtimeschema.GroupVersionKind]*Resource{}
	for _, r := range Resources() {
		out[r.GroupVersionKind()] = r
	}
	return out
})

// ByKind returns the resource of a kind that is served by default, or nil.
func ByKind(gvk runtimeschema.GroupVersionKind) *Resource { return byKind()[gvk] }

// plural returns the plural of the name of a kind.
func plural(singular string) string {
	switch {
	case strings.HasSuffix(singular, "endpoints"):
		return singular
	case strings.HasSuffix(singular, "s"):
		return singular + "es"
	case strings.HasSuffix(singular, "y"):
		return strings.TrimSuffix(singular, "y") + "ies"
	}
	return singular + "s"
}
