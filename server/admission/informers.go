package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/policies"
)

// The plugins of k8s.io/apiserver want informers and a client. The types in this file are as
// much of them as the plugins use. A call of any other method of
// the embedded interfaces, which are nil, would panic.

// factory makes informers that never change: their objects are those at the time of the call.
type factory struct {
	informers.SharedInformerFactory
	namespaces corelisters.NamespaceLister
	// objects are the configurations.
	objects cache.Indexer
}

// newIndexer returns objects by their names.
func newIndexer[T any](objects []T) (cache.Indexer, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, obj := range objects {
		if err := indexer.Add(obj); err != nil {
			return nil, err
		}
	}
	return indexer, nil
}

func (f *factory) Core() core.Interface { return coreGroup{f: f} }
func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionGroup{f: f}
}

type coreGroup struct {
	core.Interface
	f *factory
}

func (g coreGroup) V1() coreinformers.Interface { return coreV1{f: g.f} }

type coreV1 struct {
	coreinformers.Interface
	f *factory
}

func (g coreV1) Namespaces() coreinformers.TypedNamespaceInformer {
	return namespaceInformer{f: g.f}
}

type namespaceInformer struct {
	coreinformers.TypedNamespaceInformer
	f *factory
}

func (i namespaceInformer) Informer() cache.SharedIndexInformer { return synced{} }
func (i namespaceInformer) Lister() corelisters.NamespaceLister { return i.f.namespaces }

type admissionGroup struct {
	admissionregistration.Interface
	f *factory
}

func (g admissionGroup) V1() admissioninformers.Interface { return admissionV1{objects: g.f.objects} }

type admissionV1 struct {
	admissioninformers.Interface
	objects cache.Indexer
}

func (g admissionV1) MutatingWebhookConfigurations() admissioninformers.TypedMutatingWebhookConfigurationInformer {
	return mutatingInformer{objects: g.objects}
}

func (g admissionV1) ValidatingWebhookConfigurations() admissioninformers.TypedValidatingWebhookConfigurationInformer {
	return validatingInformer{objects: g.objects}
}

type mutatingInformer struct {
	admissioninformers.TypedMutatingWebhookConfigurationInformer
	objects cache.Indexer
}

func (i mutatingInformer) Informer() cache.SharedIndexInformer { return synced{} }
func (i mutatingInformer) Lister() admissionlisters.MutatingWebhookConfigurationLister {
	return admissionlisters.NewMutatingWebhookConfigurationLister(i.objects)
}

type validatingInformer struct {
	admissioninformers.TypedValidatingWebhookConfigurationInformer
	objects cache.Indexer
}

func (i validatingInformer) Informer() cache.SharedIndexInformer { return synced{} }
func (i validatingInformer) Lister() admissionlisters.ValidatingWebhookConfigurationLister {
	return admissionlisters.NewValidatingWebhookConfigurationLister(i.objects)
}

// synced is an informer that has always synced and has no events.
type synced struct{ cache.SharedIndexInformer }

func (synced) HasSynced() bool { return true }

func (synced) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return registered{}, nil
}

type registered struct {
	cache.ResourceEventHandlerRegistration
}

func (registered) HasSynced() bool { return true }

// namespaceLister returns the namespaces in memory. The plugins ask the client for one that it does
// not have.
type namespaceLister struct {
	corelisters.NamespaceLister
	n policies.Namespaces
}

func (l namespaceLister) Get(name string) (*corev1.Namespace, error) { return l.n.Get(name) }

func (l namespaceLister) List(labels.Selector) ([]*corev1.Namespace, error) {
	return nil, apierrors.NewMethodNotSupported(policies.NamespaceResource(), "list")
}

// client reads namespaces.
type client struct {
	kubernetes.Interface
	n policies.Namespaces
}

func (c client) CoreV1() typedcore.CoreV1Interface { return coreClient{n: c.n} }

type coreClient struct {
	typedcore.CoreV1Interface
	n policies.Namespaces
}

func (c coreClient) Namespaces() typedcore.NamespaceInterface { return namespaceClient{n: c.n} }

type namespaceClient struct {
	typedcore.NamespaceInterface
	n policies.Namespaces
}

func (c namespaceClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return c.n.Read(ctx, name)
}
