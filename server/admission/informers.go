package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
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

	"espalier.dev/server/keys"
)

// The plugins of k8s.io/apiserver want informers and a client. The types in this file are as
// much of them as the plugins use, on the store of the server. A call of any other method of
// the embedded interfaces, which are nil, would panic.

// factory makes informers that never change: their objects are those at the time of the call.
// Its user makes a new plugin for each state of the configurations.
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

// namespaceReader reads namespaces.
type namespaceReader struct{ *Dynamic }

// lister returns the namespaces in memory. The plugins ask the client for one that it does not
// have.
func (r *namespaceReader) lister() corelisters.NamespaceLister { return namespaceLister{r: r} }

// client returns a client that reads namespaces.
func (r *namespaceReader) client() kubernetes.Interface { return client{r: r} }

func namespaceResource() runtimeschema.GroupResource {
	return runtimeschema.GroupResource{Resource: "namespaces"}
}

// asNamespace returns an object as a namespace.
func asNamespace(obj runtime.Object, err error) (*corev1.Namespace, error) {
	if err != nil {
		return nil, err
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, fmt.Errorf("%T is not a namespace", obj)
	}
	return ns, nil
}

type namespaceLister struct {
	corelisters.NamespaceLister
	r *namespaceReader
}

func (l namespaceLister) Get(name string) (*corev1.Namespace, error) {
	entry := l.r.config.Store.Get(keys.Root(l.r.config.Store.Prefix()).Namespaces().Key("", name))
	if entry == nil {
		return nil, apierrors.NewNotFound(namespaceResource(), name)
	}
	return asNamespace(l.r.config.Kinds.Decode(namespaceResource(), entry))
}

func (l namespaceLister) List(labels.Selector) ([]*corev1.Namespace, error) {
	return nil, apierrors.NewMethodNotSupported(namespaceResource(), "list")
}

type client struct {
	kubernetes.Interface
	r *namespaceReader
}

func (c client) CoreV1() typedcore.CoreV1Interface { return coreClient{r: c.r} }

type coreClient struct {
	typedcore.CoreV1Interface
	r *namespaceReader
}

func (c coreClient) Namespaces() typedcore.NamespaceInterface { return namespaceClient{r: c.r} }

type namespaceClient struct {
	typedcore.NamespaceInterface
	r *namespaceReader
}

func (c namespaceClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return asNamespace(c.r.config.Kinds.Get(ctx, namespaceResource(), "", name))
}
