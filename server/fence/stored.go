package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Stored is a CRD as stored in etcd, whether it can be decoded or not.
type Stored struct {
	Name string
	// Value is the decrypted value, or nil if it cannot be decrypted. Deleted is set if the CRD
	// was deleted.
	Value   []byte
	Deleted bool
	// Revision is the revision of the last change.
	Revision int64
}

// DefinitionKey returns the key of a CRD in etcd.
func (f *Fences) DefinitionKey(name string) string { return f.prefix(f.definitions) + name }

// stored returns the CRD of a key.
func (f *Fences) stored(ctx context.Context, kv *mvccpb.KeyValue, deleted bool) Stored {
	s := Stored{Name: strings.TrimPrefix(string(kv.Key), f.prefix(f.definitions)), Deleted: deleted, Revision: kv.ModRevision}
	if !deleted {
		if value, err := f.decrypt(ctx, string(kv.Key), kv.Value); err == nil {
			s.Value = value
		}
	}
	return s
}

// ListDefinitions calls each for all stored CRDs at one revision, and returns that revision.
func (f *Fences) ListDefinitions(ctx context.Context, each func(Stored)) (revision int64, err error) {
	prefix := f.prefix(f.definitions)
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from, more := prefix, true; more; {
		page, err := f.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return 0, fmt.Errorf("list the stored CRDs: %w", err)
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		for _, kv := range page.Kvs {
			from = string(kv.Key) + "\x00"
			each(f.stored(ctx, kv, false))
		}
		more = page.More
	}
	return revision, nil
}

// WatchDefinitions calls each for all changes of stored CRDs after a revision, in order. It
// returns when ctx ends or the watch fails, always with an error.
func (f *Fences) WatchDefinitions(ctx context.Context, after int64, each func(Stored)) (err error) {
	prefix := f.prefix(f.definitions)
	// A separate stream does not wait for other watches.
	watcher := clientv3.NewWatcher(f.client)
	defer func() { err = errors.Join(err, watcher.Close()) }()
	for resp := range watcher.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch the stored CRDs: %w", err)
		}
		for _, e := range resp.Events {
			each(f.stored(ctx, e.Kv, e.Type == clientv3.EventTypeDelete))
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.New("watch the stored CRDs: the watch has ended")
}
