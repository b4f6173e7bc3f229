package custom

import (
	"bytes"
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	serverrest "espalier.dev/server/rest"
)

// indexDeleter is a storage that deletes objects without finalizers in one transaction, without
// reading them first. It leaves all other deletions to the storage of k8s.io/apiserver.
type indexDeleter struct {
	rest.StandardStorage
	endpoint *endpoint
}

// Delete deletes an object.
func (d indexDeleter) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if status, done, err := d.endpoint.deleteIndexed(ctx, name, validate, o); done {
		return status, err == nil, err
	}
	return d.StandardStorage.Delete(ctx, name, validate, o)
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (d indexDeleter) GetCorruptObjDeleter() rest.GracefulDeleter {
	return serverrest.CorruptDeleter(d.StandardStorage)
}

// addsFinalizer reports whether a deletion adds a finalizer for the garbage collector.
func addsFinalizer(o *metav1.DeleteOptions) bool {
	//lint:ignore SA1019 clients may set the deprecated field
	if orphan := o.OrphanDependents; orphan != nil {
		return *orphan
	}
	return o.PropagationPolicy != nil && *o.PropagationPolicy != metav1.DeletePropagationBackground
}

// deleteIndexed deletes an object in the state that it has in the index, and reports whether
// it could. Objects of custom resources have no grace period, so a finalizer is all that can
// delay a deletion: if the index is outdated, the transaction fails, and nothing is done.
func (e *endpoint) deleteIndexed(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (_ *metav1.Status, done bool, _ error) {
	if e.reader == nil || o == nil || o.Preconditions != nil || dryrun.IsDryRun(o.DryRun) || !isSegment(name) || addsFinalizer(o) {
		return nil, false, nil
	}
	key, err := e.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, nil
	}
	entry := e.reader.store.Get(e.reader.key(apirequest.NamespaceValue(ctx), name))
	if entry == nil || entry.Err != nil || bytes.Contains(entry.Value, []byte(`"finalizers"`)) ||
		bytes.Contains(entry.Value, []byte(`"deletionTimestamp"`)) {
		return nil, false, nil
	}
	version := strconv.FormatInt(entry.Revision, 10)
	obj := e.kind.New()
	err = e.store.Storage.Storage.Delete(ctx, key, obj, &storage.Preconditions{ResourceVersion: &version},
		storage.ValidateObjectFunc(validate), nil, storage.DeleteOptions{})
	if storage.IsInvalidObj(err) || storage.IsNotFound(err) {
		return nil, false, nil // it has changed
	}
	gr := e.store.DefaultQualifiedResource
	if err != nil {
		return nil, true, storeerrors.InterpretDeleteError(err, gr, name)
	}
	deleted := obj.(*unstructured.Unstructured)
	return &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: deleted.GetName(),
		Group: gr.Group, Kind: gr.Resource, UID: deleted.GetUID()}}, true, nil
}
