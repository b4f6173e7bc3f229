// Package admission runs the admission webhooks and admission policies that users configure, for
// custom resources and for Kubernetes' own kinds.
//
// Package policies evaluates policies, and the plugins of k8s.io/apiserver call webhooks. They read the
// configurations from the store of the server, without a client and without informers: a configuration
// applies as soon as it is in the store. Nothing is built before the first configuration exists, and a request costs a
// lookup in the store for each kind of configuration if there is none.
package admission

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	"espalier.dev/crd"
	"espalier.dev/policies"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// Config configures the plugins.
type Config struct {
	// Store has the configurations in memory.
	Store *store.Store
	// Authorizer answers the questions of CEL expressions.
	Authorizer authorizer.UnconditionalAuthorizer
	// Guard wraps the client configurations for webhooks, and Services finds the address of a
	// webhook that is a service.
	Guard    webhookutil.AuthenticationInfoResolverWrapper
	Services webhookutil.ServiceResolver
	// NoCalls is set if no webhook can be called. Those with failurePolicy Ignore are then errors, too:
	// they would never be called.
	NoCalls bool
	// Kinds has Kubernetes' own kinds.
	Kinds Kinds
	// Storage returns the storage of a CRD's objects, in a version. The CRDs are those in Catalog.
	// The caller must call release when it is done.
	Storage func(d *crd.Definition, version string) (s rest.StandardStorage, release func(), err error)
	Catalog func() *crd.Catalog
	// Definition describes CRDs.
	Definition *crd.Definition
}

// Kinds has the stored objects of Kubernetes' own kinds.
type Kinds interface {
	Get(ctx context.Context, r runtimeschema.GroupResource, namespace, name string) (runtime.Object, error)
	List(ctx context.Context, r runtimeschema.GroupResource, namespace string) ([]runtime.Object, error)
	// Decode decodes a stored object of a resource.
	Decode(runtimeschema.GroupResource, *store.Entry) (runtime.Object, error)
	// Convert converts an object to another version of its kind.
	Convert(obj runtime.Object, to runtimeschema.GroupVersion) (runtime.Object, error)
	// Types returns the types that the kinds of a group are merged by.
	Types(group string) (managedfields.TypeConverter, error)
}

// Dynamic has the plugins whose configurations are stored objects.
type Dynamic struct {
	config Config

	mutating           *mutatingWebhooks
	validating         *validatingWebhooks
	mutatingPolicies   *mutatingPolicies
	validatingPolicies *validatingPolicies
}

// New returns the plugins.
func New(c Config) *Dynamic {
	d := &Dynamic{config: c}
	namespaces := &namespaceReader{d}
	d.mutating = newMutatingWebhooks(&c, namespaces,
		newStored[*admissionregistrationv1.MutatingWebhookConfiguration](d, "mutatingwebhookconfigurations"))
	d.validating = newValidatingWebhooks(&c, namespaces,
		newStored[*admissionregistrationv1.ValidatingWebhookConfiguration](d, "validatingwebhookconfigurations"))
	d.mutatingPolicies, d.validatingPolicies = newMutatingPolicies(d, namespaces), newValidatingPolicies(d, namespaces)
	return d
}

// Plugin returns the plugin with one of the names. configuration is its part of
// --admission-control-config-file, or empty.
func (d *Dynamic) Plugin(name string, configuration []byte) (admission.Interface, error) {
	switch name {
	case policies.MutatingPluginName:
		if !utilfeature.DefaultFeatureGate.Enabled(features.MutatingAdmissionPolicy) {
			return admission.NewHandler(), nil
		}
		return d.mutatingPolicies, d.mutatingPolicies.configure(configuration)
	case policies.ValidatingPluginName:
		return d.validatingPolicies, d.validatingPolicies.configure(configuration)
	case mutatingwebhook.PluginName:
		return d.mutating, d.mutating.configure(configuration)
	case validatingwebhook.PluginName:
		return d.validating, d.validating.configure(configuration)
	}
	return nil, fmt.Errorf("there is no plugin %q", name)
}

// newStored returns the stored objects of a resource of the group of configurations.
func newStored[T runtime.Object](d *Dynamic, resource string) *stored[T] {
	gr := runtimeschema.GroupResource{Group: admissionregistrationv1.GroupName, Resource: resource}
	return &stored[T]{store: d.config.Store, prefix: string(keys.Root(d.config.Store.Prefix()).Builtin(gr)),
		decode: func(e *store.Entry) (obj T, err error) {
			decoded, err := d.config.Kinds.Decode(gr, e)
			if err != nil {
				// Requests must not pass because a configuration is unreadable.
				return obj, apierrors.NewInternalError(fmt.Errorf("the stored object %s cannot be read, so requests cannot be admitted: delete it or restore it: %w", e.Key, err))
			}
			obj, ok := decoded.(T)
			if !ok {
				return obj, apierrors.NewInternalError(fmt.Errorf("%s is a %T", e.Key, decoded))
			}
			return obj, nil
		}}
}
