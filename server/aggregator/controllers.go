package aggregator

import (
	"context"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	localstatus "k8s.io/kube-aggregator/pkg/controllers/status/local"
	statusmetrics "k8s.io/kube-aggregator/pkg/controllers/status/metrics"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
)

// workers is the number of workers of each controller, as in kube-apiserver.
const workers = 5

// availability has the metrics of API services. All servers in a process share them.
var availability = sync.OnceValues(func() (*statusmetrics.Metrics, error) {
	m := statusmetrics.New()
	return m, m.Register(legacyregistry.Register, legacyregistry.CustomRegister)
})

// RunControllers runs kube-aggregator's controllers from the time when they are needed until ctx ends.
// It owns the goroutines of the informers, of the discovery of other servers and of the controllers:
// all of them get ctx, and RunControllers waits for them, except for the workers of the controllers, which
// end after the request that they are sending.
func (a *Aggregator) RunControllers(ctx context.Context) error {
	select {
	case <-a.wanted:
	case <-ctx.Done():
		return nil
	}
	client, done, err := a.loopbackClient()
	if err != nil {
		return err
	}
	defer done()
	set, err := clientset.NewForConfigAndClient(a.config.Loopback, client)
	if err != nil {
		return err
	}
	counts, err := availability()
	if err != nil {
		return err
	}
	services := newServiceInformer(set)
	auto := autoregister.NewAutoRegisterController(services, set.ApiregistrationV1())
	status, err := localstatus.New(services, set.ApiregistrationV1(), counts)
	if err != nil {
		return err
	}
	registrar := newRegistrar(auto, a.config.Own)

	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { services.informer.RunWithContext(ctx) })
	a.crds.take()
	registrar.replaceAll(a.config.Catalog())
	names := registrar.names()
	group.Go(func() { auto.Run(workers, ctx.Done()) })
	group.Go(func() { status.Run(workers, ctx.Done()) })
	group.Go(func() { a.awaitStored(ctx, names) })
	group.Go(func() { a.discovery.run(ctx) })
	failed := make(chan error, 1)
	group.Go(func() { failed <- a.checkBackends(ctx, client, set, services, counts) })
	for {
		select {
		case err := <-failed:
			return err
		case <-a.crds.wake:
			changed, all := a.crds.take()
			if all {
				registrar.replaceAll(a.config.Catalog())
			}
			for name := range changed {
				registrar.update(a.config.Catalog(), name)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// awaitStored waits until API services are stored.
func (a *Aggregator) awaitStored(ctx context.Context, names []string) {
	for {
		t := a.table.Load()
		missing := false
		for _, name := range names {
			_, ok := t.names[name]
			missing = missing || !ok
		}
		if !missing {
			a.complete()
			return
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			return
		}
	}
}

// loopbackClient returns a client of the server to itself, whose connections end with done.
func (a *Aggregator) loopbackClient() (c *http.Client, done func(), err error) {
	config := a.config.Loopback
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, nil, err
	}
	t := &http.Transport{TLSClientConfig: tlsConfig, DialContext: config.Dial, ForceAttemptHTTP2: true}
	rt, err := rest.HTTPWrappersForConfig(config, t)
	if err != nil {
		return nil, nil, err
	}
	return &http.Client{Transport: rt}, t.CloseIdleConnections, nil
}

// checkBackends runs the controller that checks the servers of API services, from the first such API
// service on: only it needs all services and their endpoints.
func (a *Aggregator) checkBackends(ctx context.Context, client *http.Client, set clientset.Interface, services *serviceInformer,
	counts *statusmetrics.Metrics) error {
	select {
	case <-a.foreign:
	case <-ctx.Done():
		return nil
	}
	core, err := kubernetes.NewForConfigAndClient(a.config.Loopback, client)
	if err != nil {
		return err
	}
	places := &placeInformer{a: a, informer: coreinformers.NewServiceInformer(core, metav1.NamespaceAll, 0, namespaceIndex())}
	slices := &sliceInformer{discoveryinformers.NewEndpointSliceInformer(core, metav1.NamespaceAll, 0, namespaceIndex())}
	checks, err := remote.New(services, places, slices, set.ApiregistrationV1(), a.dial, a.config.Certificate, a.config.Services, counts)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() { places.informer.RunWithContext(ctx) })
	group.Go(func() { slices.informer.RunWithContext(ctx) })
	group.Go(func() { checks.Run(workers, ctx.Done()) })
	group.Wait()
	return nil
}

// resync is the interval in which API services are looked at again, as in kube-apiserver.
const resync = 5 * time.Minute

func namespaceIndex() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

// serviceInformer has the API services.
type serviceInformer struct{ informer cache.SharedIndexInformer }

func newServiceInformer(set clientset.Interface) *serviceInformer {
	return &serviceInformer{informers.NewAPIServiceInformer(set, resync, cache.Indexers{})}
}

func (s *serviceInformer) Informer() cache.SharedIndexInformer { return s.informer }

func (s *serviceInformer) Lister() listers.APIServiceLister {
	return listers.NewAPIServiceLister(s.informer.GetIndexer())
}

// sliceInformer has the endpoint slices.
type sliceInformer struct{ informer cache.SharedIndexInformer }

func (s *sliceInformer) Informer() cache.SharedIndexInformer { return s.informer }

func (s *sliceInformer) Lister() discoverylisters.EndpointSliceLister {
	return discoverylisters.NewEndpointSliceLister(s.informer.GetIndexer())
}

// placeInformer has the services, and those that are elsewhere.
type placeInformer struct {
	a        *Aggregator
	informer cache.SharedIndexInformer
}

func (p *placeInformer) Informer() cache.SharedIndexInformer { return p.informer }

func (p *placeInformer) Lister() corelisters.ServiceLister {
	return &placeLister{corelisters.NewServiceLister(p.informer.GetIndexer()), p.a}
}

type placeLister struct {
	corelisters.ServiceLister
	a *Aggregator
}

func (p *placeLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return &namespacePlaces{p.ServiceLister.Services(namespace), p.a, namespace}
}

type namespacePlaces struct {
	corelisters.ServiceNamespaceLister
	a         *Aggregator
	namespace string
}

// Get returns a service. One that is elsewhere is like one with an external name, whose endpoints are not
// stored either.
func (p *namespacePlaces) Get(name string) (*corev1.Service, error) {
	if p.a.config.Elsewhere[name+"."+p.namespace] != nil {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}, nil
	}
	return p.ServiceNamespaceLister.Get(name)
}
