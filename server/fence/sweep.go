package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// metadata holds the fields that deletion needs. The rest of the object may be unreadable.
type metadata struct {
	UID               types.UID `json:"uid"`
	Generation        int64     `json:"generation"`
	DeletionTimestamp *string   `json:"deletionTimestamp"`
	Finalizers        []string  `json:"finalizers"`
}

func readMetadata(value []byte) (metadata, error) {
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
// read as one without finalizers.
//
// Sweep does nothing unless the CRD's fence is Terminating, so it never touches the objects of
// another CRD of the same name. If the fence is Terminating, a result of zero is final.
func (f *Fences) Sweep(ctx context.Context, r runtimeschema.GroupResource, uid types.UID) (left int64, name string, err error) {
	prefix := f.prefix(r)
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from, more := prefix, true; more; {
		page, err := f.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return 0, "", fmt.Errorf("could not list instances: %w", err)
		}
		workers, ctx := errgroup.WithContext(ctx)
		workers.SetLimit(sweepWorkers)
		for _, kv := range page.Kvs {
			from = string(kv.Key) + "\x00"
			workers.Go(func() error { return f.remove(ctx, kv, f.key(uid)) })
		}
		if err := workers.Wait(); err != nil {
			return 0, "", fmt.Errorf("could not issue all deletes: %w", err)
		}
		more = page.More
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

// remove deletes an object or marks it as deleted. If the object has changed since it was
// read, it is left to the next sweep.
func (f *Fences) remove(ctx context.Context, kv *mvccpb.KeyValue, fence string) error {
	key := string(kv.Key)
	op := clientv3.OpDelete(key)
	if m, err := readMetadata(kv.Value); err == nil && len(m.Finalizers) > 0 {
		if m.DeletionTimestamp != nil {
			return nil
		}
		value, err := markDeleted(kv.Value, m)
		if err != nil {
			return fmt.Errorf("mark %s as deleted: %w", key, err)
		}
		op = clientv3.OpPut(key, string(value))
	}
	_, err := f.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision), clientv3.Compare(clientv3.Value(fence), "=", terminating)).
		Then(op).
		Commit()
	return err
}

// markDeleted returns an object with finalizers as a client's deletion would leave it.
func markDeleted(value []byte, m metadata) ([]byte, error) {
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
	return json.Marshal(obj)
}
