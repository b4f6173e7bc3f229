package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/server/keys"
)

// ErrTerminating is returned when an object is created while its CRD is being deleted.
var ErrTerminating = errors.New("create not allowed while custom resource definition is terminating")

// objects writes the objects of a CRD to etcd if its fence allows it, and that of the namespace.
type objects struct {
	kubernetes.Interface
	kv         clientv3.KV
	fences     *Fences
	fence      string
	resource   runtimeschema.GroupResource
	namespaced bool
	// registration is that of [Config].
	registration func() string
}

// OptimisticPut creates an object (if expectedRevision is 0) or updates it. A CRD or namespace
// that is being deleted allows updates, so that finalizers can be removed. Deletions need no
// fence, because they leave nothing behind.
func (o *objects) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64,
	opts kubernetes.PutOptions) (resp kubernetes.PutResponse, err error) {
	var namespace *within
	fence := clientv3.Compare(clientv3.CreateRevision(o.fence), ">", 0)
	if expectedRevision == 0 {
		fence = clientv3.Compare(clientv3.Value(o.fence), "=", active)
		if o.namespaced {
			n := o.fences.in(o.fences.root.Custom(o.resource), key)
			namespace = &n
		}
	}
	for {
		conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision), fence}
		otherwise := []clientv3.Op{clientv3.OpGet(o.fence), clientv3.OpGet(key)}
		if o.registration != nil {
			server := o.registration()
			conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(server), ">", 0))
			otherwise = append([]clientv3.Op{clientv3.OpGet(server)}, otherwise...)
		}
		if namespace != nil {
			conditions = append(conditions, namespace.condition())
			otherwise = append(otherwise, clientv3.OpGet(namespace.fence))
		}
		txn, err := o.kv.Txn(ctx).
			If(conditions...).
			Then(clientv3.OpPut(key, string(value), clientv3.WithLease(opts.LeaseID))).
			Else(otherwise...).
			Commit()
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		resp.Succeeded, resp.Revision = txn.Succeeded, txn.Header.Revision
		if txn.Succeeded {
			return resp, nil
		}
		if o.registration != nil {
			if first(txn.Responses[0]) == nil {
				return kubernetes.PutResponse{}, errUnregistered()
			}
			txn.Responses = txn.Responses[1:]
		}
		found, name := first(txn.Responses[0]), keys.Name(key)
		switch {
		case found == nil:
			verb := "update"
			if expectedRevision == 0 {
				verb = "create"
			}
			return kubernetes.PutResponse{}, apierrors.NewGenericServerResponse(http.StatusNotFound, verb, o.resource, name, "", 0, true)
		case expectedRevision == 0 && string(found.Value) != active:
			return kubernetes.PutResponse{}, apierrors.NewForbidden(o.resource, name, ErrTerminating)
		}
		again := false
		if namespace != nil {
			if again, err = namespace.rejected(first(txn.Responses[2]), o.resource, name); err != nil {
				return kubernetes.PutResponse{}, err
			}
		}
		if resp.KV = first(txn.Responses[1]); resp.KV != nil || !again {
			return resp, nil
		}
	}
}

// errUnregistered returns the error of a write of a server that may not know the newest CRDs.
func errUnregistered() error {
	err := apierrors.NewServiceUnavailable("the server has lost its registration in etcd and may not know the newest CRDs: try again later")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}

// definitions writes CRDs to etcd together with their fences.
type definitions struct {
	kubernetes.Interface
	kv     clientv3.KV
	fences *Fences
}

const (
	// maxRequest is the default limit of etcd for a request, in bytes.
	maxRequest = 1.5 * 1024 * 1024
	// reserve is the part of it that clients cannot use for a CRD. The server needs it for
	// the status, and to mark the CRD as deleted.
	reserve = 64 * 1024
)

type reservedKey struct{}

// WithReserve returns a context for writes of the server itself, which may use the space that
// is reserved for them in a stored CRD.
func WithReserve(ctx context.Context) context.Context {
	return context.WithValue(ctx, reservedKey{}, true)
}

// checkSize returns an error if a client writes a CRD that leaves no space for the status. A
// CRD that is being deleted only becomes smaller.
func checkSize(ctx context.Context, value []byte, m metadata) error {
	if own, _ := ctx.Value(reservedKey{}).(bool); own || m.DeletionTimestamp != nil || len(value) <= maxRequest-reserve {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the CRD has %d bytes as stored, and may have %d: shorten its descriptions, or split it", len(value), int(maxRequest-reserve)))
}

// OptimisticPut writes a CRD, and the fence that its state requires.
func (d *definitions) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64,
	opts kubernetes.PutOptions) (resp kubernetes.PutResponse, err error) {
	m, err := d.fences.metadata(ctx, key, value)
	if err != nil {
		return kubernetes.PutResponse{}, fmt.Errorf("write the CRD %s: %w", keys.Name(key), err)
	}
	if err := checkSize(ctx, value, m); err != nil {
		return kubernetes.PutResponse{}, err
	}
	var otherwise []clientv3.Op
	if opts.GetOnFailure {
		otherwise = append(otherwise, clientv3.OpGet(key))
	}
	txn, err := d.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision)).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(opts.LeaseID)),
			clientv3.OpPut(d.fences.key(m.UID), state(m.DeletionTimestamp != nil))).
		Else(otherwise...).
		Commit()
	if err != nil {
		return kubernetes.PutResponse{}, err
	}
	resp.Succeeded, resp.Revision = txn.Succeeded, txn.Header.Revision
	if opts.GetOnFailure { // a write has no value
		resp.KV = first(txn.Responses[0])
	}
	return resp, nil
}

// OptimisticDelete deletes a CRD and its fence.
func (d *definitions) OptimisticDelete(ctx context.Context, key string, expectedRevision int64,
	opts kubernetes.DeleteOptions) (resp kubernetes.DeleteResponse, err error) {
	current, err := d.Get(ctx, key, kubernetes.GetOptions{})
	if err != nil {
		return kubernetes.DeleteResponse{}, err
	}
	// If the CRD is gone or has changed, the transaction fails.
	deletions := []clientv3.Op{clientv3.OpDelete(key)}
	if m, err := d.fences.metadata(ctx, key, current.KV.GetValue()); err == nil {
		deletions = append(deletions, clientv3.OpDelete(d.fences.key(m.UID)))
	}
	var otherwise []clientv3.Op
	if opts.GetOnFailure {
		otherwise = append(otherwise, clientv3.OpGet(key))
	}
	txn, err := d.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision)).
		Then(deletions...).
		Else(otherwise...).
		Commit()
	if err != nil {
		return kubernetes.DeleteResponse{}, err
	}
	resp.Succeeded, resp.Revision = txn.Succeeded, txn.Header.Revision
	if opts.GetOnFailure { // a write has no value
		resp.KV = first(txn.Responses[0])
	}
	return resp, nil
}

// first returns the first result of a Get in a transaction, or nil.
func first(r *pb.ResponseOp) *mvccpb.KeyValue {
	if kvs := r.GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}
