package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
)

// options are the options of a resource whose storage accesses etcd through a guard.
type options struct {
	generic.RESTOptionsGetter
	fences *Fences
	guard  func(*kubernetes.Client) kubernetes.Interface
}

func (o *options) GetRESTOptions(r runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.RESTOptionsGetter.GetRESTOptions(r, example)
	if err == nil {
		opts.Decorator = o.fences.decorate(o.guard)
	}
	return opts, err
}

// decorate returns the storage decorator of a resource: the store of k8s.io/apiserver on the
// shared connection, with a guard for its writes, behind a watch cache.
func (f *Fences) decorate(guard func(*kubernetes.Client) kubernetes.Interface) generic.StorageDecorator {
	return func(c *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		raw, closeRaw, err := f.store(c, guard, newFunc, newListFunc, resourcePrefix)
		if err != nil || !f.cached {
			return raw, closeRaw, err
		}
		ca, err := cacher.NewCacherFromConfig(cacher.Config{
			Storage:             raw,
			Versioner:           storage.APIObjectVersioner{},
			GroupResource:       c.GroupResource,
			EventsHistoryWindow: c.EventsHistoryWindow,
			ResourcePrefix:      resourcePrefix,
			KeyFunc:             keyFunc,
			NewFunc:             newFunc,
			NewListFunc:         newListFunc,
			GetAttrsFunc:        attributes,
			IndexerFuncs:        triggers,
			Indexers:            indexers,
			Codec:               c.Codec,
		})
		if err != nil {
			closeRaw()
			return nil, nil, fmt.Errorf("watch cache of %s: %w", c.GroupResource, err)
		}
		delegator := cacher.NewCacheDelegator(ca, raw)
		return delegator, sync.OnceFunc(func() {
			delegator.Stop()
			ca.Stop()
			closeRaw()
		}), nil
	}
}

// store returns the store of one resource. It has its own watch stream, so that events of
// other resources do not delay it.
func (f *Fences) store(c *storagebackend.ConfigForResource, guard func(*kubernetes.Client) kubernetes.Interface, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	view := clientv3.NewCtxClient(f.client.Ctx())
	view.KV, view.Watcher = etcd3.NewETCDLatencyTracker(f.client.KV), clientv3.NewWatcher(f.client)
	client := &kubernetes.Client{Client: view}
	client.Kubernetes = guard(client)

	transformer := c.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	decoder := etcd3.NewDefaultDecoder(c.Codec, versioner)
	unsafeDeletion := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if unsafeDeletion {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = &intactDecoder{Decoder: etcd3.WithCorruptObjErrorHandlingDecoder(decoder), intact: f.intact}
	}
	s, err := etcd3.New(client, f.compactor, c.Codec, newFunc, newListFunc, c.Prefix, resourcePrefix, c.GroupResource, transformer, c.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		_ = view.Close() // it only returns that it is closed
		return nil, nil, fmt.Errorf("store of %s: %w", c.GroupResource, err)
	}
	destroy := sync.OnceFunc(func() {
		s.Close()
		_ = view.Close() // it only returns that it is closed
	})
	if unsafeDeletion {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(s, c.GroupResource), destroy, nil
	}
	return s, destroy, nil
}

// intactDecoder returns errors that are not about the stored object unchanged. The decoder of
// k8s.io/apiserver reports every object as corrupt that it fails to decode.
type intactDecoder struct {
	etcd3.Decoder
	intact func(error) bool
}

func (d *intactDecoder) Decode(value []byte, into runtime.Object, revision int64) error {
	return d.unwrap(d.Decoder.Decode(value, into, revision))
}

func (d *intactDecoder) DecodeListItem(ctx context.Context, value []byte, revision uint64, newItem func() runtime.Object) (runtime.Object, error) {
	obj, err := d.Decoder.DecodeListItem(ctx, value, revision, newItem)
	return obj, d.unwrap(err)
}

func (d *intactDecoder) unwrap(err error) error {
	if err != nil && d.intact != nil && d.intact(err) {
		if cause := errors.Unwrap(err); cause != nil {
			return cause
		}
	}
	return err
}
