package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"espalier.dev/internal/jsonx"
)

// metadata holds the fields that deletion needs. The rest of the object may be unreadable.
type metadata struct {
	UID               types.UID `json:"uid"`
	Generation        int64     `json:"generation"`
	DeletionTimestamp *string   `json:"deletionTimestamp"`
	Finalizers        []string  `json:"finalizers"`
}

func readMetadata(value []byte) (metadata, error) {
	if start, end, n, err := jsonx.Member(value, "metadata"); err == nil && n == 1 {
		var m metadata
		err := kjson.UnmarshalCaseSensitivePreserveInts(value[start:end], &m)
		return m, err
	}
	var obj struct {
		Metadata metadata `json:"metadata"`
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(value, &obj)
	return obj.Metadata, err
}

const (
	// pageSize is the number of values per read. A value can be as large as etcd allows.
	pageSize = 64
	// sweepWorkers is the number of concurrent deletions. Each has its own transaction,
	// because watches require a separate revision for each object.
	sweepWorkers = 8
)

// Sweep deletes the objects of a CRD by their keys, whatever their content, and returns how
// many are left and the name of the first of them. It marks objects with finalizers as
// deleted and leaves them to their controllers. It treats an object whose metadata cannot be
// read as one without finalizers. An object that cannot be decrypted is not deleted. An object
// that cannot be deleted does not keep the others.
//
// Sweep does nothing unless the CRD's fence is Terminating, so it never touches the objects of
// another CRD of the same name. If the fence is Terminating, a result of zero is final.
func (f *Fences) Sweep(ctx context.Context, r runtimeschema.GroupResource, uid types.UID) (left int64, name string, err error) {
	prefix := string(f.root.Custom(r))
	end := clientv3.GetPrefixRangeEnd(prefix)
	var failed failures
	for from, more := prefix, true; more; {
		page, err := f.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return 0, "", fmt.Errorf("could not list instances: %w", err)
		}
		workers := errgroup.Group{}
		workers.SetLimit(sweepWorkers)
		for _, kv := range page.Kvs {
			from = string(kv.Key) + "\x00"
			workers.Go(func() error {
				if err := f.remove(ctx, kv, f.key(uid)); err != nil {
					failed.add(strings.TrimPrefix(string(kv.Key), prefix), err)
				}
				return nil
			})
		}
		_ = workers.Wait() // failed has the errors
		more = page.More
	}
	if err := failed.err(); err != nil {
		return 0, "", fmt.Errorf("could not issue all deletes: %w", err)
	}
	rest, err := f.client.Get(ctx, prefix, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return 0, "", fmt.Errorf("could not list instances: %w", err)
	}
	if len(rest.Kvs) > 0 {
		name = strings.TrimPrefix(string(rest.Kvs[0].Key), prefix)
	}
	return rest.Count, name, nil
}

// failures collects the errors of objects. It keeps the first of them, because there may be
// many.
type failures struct {
	mu    sync.Mutex
	count int
	first error
}

func (f *failures) add(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; f.first == nil {
		f.first = fmt.Errorf("%s: %w", name, err)
	}
}

func (f *failures) err() error {
	if f.count > 1 {
		return fmt.Errorf("%d objects, the first is %w", f.count, f.first)
	}
	return f.first
}

// remove deletes an object or marks it as deleted. If the object has changed since it was
// read, it is left to the next sweep.
func (f *Fences) remove(ctx context.Context, kv *mvccpb.KeyValue, fence string) error {
	key := string(kv.Key)
	stored, err := f.decrypt(ctx, key, kv.Value)
	if err != nil {
		// It may have finalizers, and the key may be available again later.
		return err
	}
	m, err := readMetadata(stored)
	if err != nil || len(m.Finalizers) == 0 {
		return f.replace(ctx, kv, clientv3.OpDelete(key), fence)
	}
	if m.DeletionTimestamp != nil {
		return nil
	}
	for _, drop := range [][]string{nil, {"managedFields"}} {
		var value []byte
		if value, err = markDeleted(stored, m, drop...); err != nil {
			return fmt.Errorf("mark as deleted: %w", err)
		}
		if value, err = f.encrypt(ctx, key, value); err != nil {
			return fmt.Errorf("mark as deleted: %w", err)
		}
		if err = f.replace(ctx, kv, clientv3.OpPut(key, string(value)), fence); !errors.Is(err, rpctypes.ErrRequestTooLarge) {
			break
		}
		// The object was stored just below the limit. Only the owners of fields can be spared.
	}
	return err
}

// replace applies an operation to an object if it has not changed, and if its CRD is being
// deleted.
func (f *Fences) replace(ctx context.Context, kv *mvccpb.KeyValue, op clientv3.Op, fence string) error {
	_, err := f.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision),
			clientv3.Compare(clientv3.Value(fence), "=", terminating)).
		Then(op).
		Commit()
	return err
}

// markDeleted returns an object with finalizers as a client's deletion would leave it, without
// the fields of metadata in drop.
func markDeleted(value []byte, m metadata, drop ...string) ([]byte, error) {
	obj := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &obj); err != nil {
		return nil, err
	}
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata is not an object")
	}
	meta["deletionTimestamp"] = metav1.NewTime(time.Now()).UTC().Format(time.RFC3339)
	meta["deletionGracePeriodSeconds"] = 0
	if m.Generation > 0 {
		meta["generation"] = m.Generation + 1
	}
	for _, name := range drop {
		delete(meta, name)
	}
	return json.Marshal(obj)
}
