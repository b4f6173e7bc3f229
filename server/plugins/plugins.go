// Package plugins has the admission plugins, and the one table of their order. Webhooks, policies
// and resource quotas are in packages of their own.
//
// Objects of Kubernetes' own kinds have the Go types of k8s.io/api, in the version that is stored.
package plugins

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server/ids"
	"espalier.dev/server/quota"
)

// Lister reads objects from the store of the server. The plugins do not change them. The namespace
// of a resource without namespaces is empty.
type Lister interface {
	// Get returns an object. The error of an object that does not exist is a NotFound error.
	Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (runtime.Object, error)
	// List returns all objects of a resource in a namespace, in the order of their names.
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]runtime.Object, error)
}

// Config has what plugins need.
type Config struct {
	Objects    Lister
	Authorizer authorizer.Authorizer
	// Configuration is the content of the part of --admission-control-config-file for the plugin,
	// or empty.
	Configuration []byte
	// CreateNamespace creates a namespace, unless it exists.
	CreateNamespace func(ctx context.Context, name string) error
	// Resource returns the resource of a kind, and reports whether it is namespaced and exists.
	Resource func(schema.GroupVersionKind) (r schema.GroupResource, namespaced, found bool)
	// Version is the version of Kubernetes that the server has or emulates.
	Version *version.Version
	// Quota is for resource quotas.
	Quota quota.Config
	// IDs makes names. Nil means random ones.
	IDs *ids.Source
	// Dynamic returns the plugin of a name whose configurations are stored objects.
	Dynamic func(name string, configuration []byte) (admission.Interface, error)
}

// Plugin is a plugin with its name in kube-apiserver's flags.
type Plugin struct {
	Name string
	// Optional plugins run only if they are enabled by name.
	Optional bool
	// New returns the plugin. It returns an error if its configuration is invalid. It is nil for a
	// plugin of kube-apiserver that this server does not have.
	New func(Config) (admission.Interface, error)
}

// All returns kube-apiserver's plugins, in the order in which it calls them.
func All() []Plugin {
	return []Plugin{
		{"AlwaysAdmit", true, plain(newAlwaysAdmit)},
		{"NamespaceAutoProvision", true, func(c Config) (admission.Interface,
			error) {
			return newProvision(c.Objects, c.CreateNamespace), nil
		}},
		{"NamespaceLifecycle", false, reading(newLifecycle)},
		{"NamespaceExists", true, reading(newExists)},
		{"LimitPodHardAntiAffinityTopology", true, plain(newAntiAffinity)},
		{"LimitRanger", false, reading(newLimitRanger)},
		{"ServiceAccount", false, func(c Config) (admission.Interface, error) { return newServiceAccount(c.Objects, c.IDs), nil }},
		{"NodeRestriction", true, nil},
		{"TaintNodesByCondition", false, plain(newNodeTaint)},
		{"AlwaysPullImages", true, plain(newPull)},
		{"ImagePolicyWebhook", true, nil},
		{"PodSecurity", false, func(c Config) (admission.Interface, error) {
			return newPodSecurity(c.Objects, c.Configuration, c.Version)
		}},
		{"PodNodeSelector", true, func(c Config) (admission.Interface, error) { return newNodeSelector(c.Objects, c.Configuration) }},
		{"Priority", false, reading(newPriority)},
		{"DefaultTolerationSeconds", false, plain(newTolerations)},
		{"PodTolerationRestriction", true, func(c Config) (admission.Interface, error) {
			return newTolerationRestriction(c.Objects, c.Configuration)
		}},
		{"EventRateLimit", true, func(c Config) (admission.Interface, error) { return newEventRate(c.Configuration) }},
		{"ExtendedResourceToleration", true, plain(newExtendedToleration)},
		{"DefaultStorageClass", false, reading(newStorageClass)},
		{"StorageObjectInUseProtection", false, plain(newProtection)},
		{"PodGroupProtection", false, nil},
		{"OwnerReferencesPermissionEnforcement", true, func(c Config) (admission.Interface,
			error) {
			return newOwners(c.Authorizer, c.Resource), nil
		}},
		{"PersistentVolumeClaimResize", false, reading(newResize)},
		{"RuntimeClass", false, reading(newRuntimeClass)},
		{"CertificateApproval", false, authorizing(newApproval)},
		{"CertificateSigning", false, authorizing(newSigning)},
		{"ClusterTrustBundleAttest", false, nil},
		{"CertificateSubjectRestriction", false, plain(newSubject)},
		{"DefaultIngressClass", false, reading(newIngressClass)},
		{"DenyServiceExternalIPs", true, plain(newExternalIPs)},
		{"PodTopologyLabels", false, reading(newTopology)},
		{"PodGroupWorkloadExists", false, nil},
		{"NodeDeclaredFeatureValidator", false, func(c Config) (admission.Interface,
			error) {
			return newNodeFeatures(c.Objects, c.Version), nil
		}},
		{"JobValidation", false, nil},
		{"PodResizeValidator", false, reading(newPodResize)},
		dynamic("MutatingAdmissionPolicy"),
		dynamic("MutatingAdmissionWebhook"),
		dynamic("ValidatingAdmissionPolicy"),
		dynamic("ValidatingAdmissionWebhook"),
		{"ResourceQuota", false, func(c Config) (admission.Interface, error) {
			c.Quota.Configuration = c.Configuration
			return quota.NewAdmission(c.Quota)
		}},
		{"AlwaysDeny", true, plain(newAlwaysDeny)},
	}
}

// Find returns the plugin with a name, or one without a name if kube-apiserver has none.
func Find(name string) Plugin {
	for _, p := range All() {
		if p.Name == name {
			return p
		}
	}
	return Plugin{}
}

// plain makes a plugin that needs nothing.
func plain[T admission.Interface](f func() T) func(Config) (admission.Interface, error) {
	return func(Config) (admission.Interface, error) { return f(), nil }
}

// reading makes a plugin that reads stored objects.
func reading[T admission.Interface](f func(Lister) T) func(Config) (admission.Interface, error) {
	return func(c Config) (admission.Interface, error) { return f(c.Objects), nil }
}

// authorizing makes a plugin that asks what a user may do.
func authorizing[T admission.Interface](f func(authorizer.Authorizer) T) func(Config) (admission.Interface, error) {
	return func(c Config) (admission.Interface, error) { return f(c.Authorizer), nil }
}

// dynamic returns a plugin whose configurations are stored objects.
func dynamic(name string) Plugin {
	return Plugin{name, false, func(c Config) (admission.Interface, error) { return c.Dynamic(name, c.Configuration) }}
}

// The resources that the plugins handle or read.
var (
	namespaces      = schema.GroupResource{Resource: "namespaces"}
	nodes           = schema.GroupResource{Resource: "nodes"}
	pods            = schema.GroupResource{Resource: "pods"}
	limitRanges     = schema.GroupResource{Resource: "limitranges"}
	volumes         = schema.GroupResource{Resource: "persistentvolumes"}
	claims          = schema.GroupResource{Resource: "persistentvolumeclaims"}
	storageClasses  = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}
	attributes      = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}
	ingresses       = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	ingressClasses  = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingressclasses"}
	priorityClasses = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
	runtimeClasses  = schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	services        = schema.GroupResource{Resource: "services"}
	requests        = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
)

// handles reports whether a request is for a resource itself, not for a subresource.
func handles(a admission.Attributes, resource schema.GroupResource) bool {
	return a.GetSubresource() == "" && a.GetResource().GroupResource() == resource
}

// as returns an object of a request as its Go type.
func as[T runtime.Object](obj runtime.Object) (T, error) {
	t, ok := obj.(T)
	if !ok {
		return t, errors.NewInternalError(fmt.Errorf("expected %T but got %T", t, obj))
	}
	return t, nil
}

// get reads an object of a known type.
func get[T runtime.Object](ctx context.Context, objects Lister, resource schema.GroupResource, namespace, name string) (T, error) {
	obj, err := objects.Get(ctx, resource, namespace, name)
	if err != nil {
		return *new(T), err
	}
	return as[T](obj)
}

// list reads objects of a known type.
func list[T runtime.Object](ctx context.Context, objects Lister, resource schema.GroupResource, namespace string) ([]T, error) {
	all, err := objects.List(ctx, resource, namespace)
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(all))
	for _, obj := range all {
		t, err := as[T](obj)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// forbidden returns the error of a request that a plugin rejects.
func forbidden(a admission.Attributes, format string, args ...any) error {
	return admission.NewForbidden(a, fmt.Errorf(format, args...))
}
