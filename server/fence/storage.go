package fence

import (
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/server/backend"
	"espalier.dev/store"
)

// options are the options of a resource whose storage writes through a guard.
type options struct {
	generic.RESTOptionsGetter
	fences *Fences
	guard  store.Writer
}

func (o *options) GetRESTOptions(r runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.RESTOptionsGetter.GetRESTOptions(r, example)
	if err == nil {
		opts.Decorator = o.fences.decorate(o.guard)
		// Counting would take a goroutine and metrics for each resource.
		opts.CountMetricPollPeriod = 0
	}
	return opts, err
}

// decorate returns the storage decorator of a resource: a storage on the shared store, with a
// guard for its writes. It holds nothing that has to be released.
func (f *Fences) decorate(guard store.Writer) generic.StorageDecorator {
	return func(c *storagebackend.ConfigForResource, resourcePrefix string,
		_ func(runtime.Object) (string, error), newFunc, _ func() runtime.Object,
		_ apistorage.AttrFunc, _ apistorage.IndexerFuncs, _ *cache.Indexers) (apistorage.Interface, factory.DestroyFunc, error) {
		return f.backend.New(backend.Config{
			Resource: c.GroupResource, Codec: c.Codec, Prefix: resourcePrefix, New: newFunc,
			Writer: guard, Intact: f.intact, UnlimitedAtZero: true,
		}), func() {}, nil
	}
}

// etcd returns the operations of the shared connection.
func (f *Fences) etcd() *kubernetes.Client {
	c := &kubernetes.Client{Client: f.client}
	c.Kubernetes = c
	return c
}
