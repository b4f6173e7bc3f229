package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"espalier.dev/server/etcd/memory"
)

// maxTxnOps is the maximum number of operations in a transaction, and maxTxnBytes that of bytes
// unless a value has more; etcd's own limits are 128, and 1.5 MiB.
const (
	maxTxnOps   = 100
	maxTxnBytes = 1 << 20
)

// Checkpoint is the stored data of a server at some time, which [Server.Reset] restores. It is
// safe for concurrent use.
type Checkpoint struct {
	mu   sync.Mutex
	data map[string]saved
	// state has the data of a server in memory until it is needed.
	state *memory.State
}

// saved is the value of a key, and the revision that wrote it.
type saved struct {
	value    string
	revision int64
}

// Checkpoint returns the stored data.
func (s *Server) Checkpoint(ctx context.Context) (*Checkpoint, error) {
	if s.db.registration != nil {
		return nil, errors.New("data in kine cannot be reset")
	}
	if s.db.memory != nil {
		return &Checkpoint{state: s.db.memory.State().Newest()}, nil
	}
	c := &Checkpoint{}
	return c, c.read(ctx, s.db.client, s.db.fences.Prefixes())
}

// read reads the data from etcd.
func (c *Checkpoint) read(ctx context.Context, client *clientv3.Client, prefixes []string) error {
	data := map[string]saved{}
	for _, prefix := range prefixes {
		resp, err := client.Get(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			return fmt.Errorf("read the stored objects: %w", err)
		}
		for _, kv := range resp.Kvs {
			data[string(kv.Key)] = saved{string(kv.Value), kv.ModRevision}
		}
	}
	c.data = data
	return nil
}

// load reads the data of a server in memory, unless it was read.
func (c *Checkpoint) load(ctx context.Context, prefixes []string) error {
	if c.data != nil {
		return nil
	}
	db := memory.Open(memory.Config{State: c.state})
	defer db.Close()
	client := db.Client()
	defer func() { _ = client.Close() }() // all requests are finished
	if err := c.read(ctx, client, prefixes); err != nil {
		return err
	}
	c.state = nil
	return nil
}

// Reset makes the stored data that of the checkpoint: other objects are deleted, whatever their
// finalizers are, and changed or deleted ones are as they were. Watches see the changes. With
// keepCRDs, the CRDs stay as they are.
//
// It returns when requests see the result. Clients should not write at the same time: what they
// write may be deleted or not. Controllers may: to them, objects are deleted as by any client.
func (s *Server) Reset(ctx context.Context, c *Checkpoint, keepCRDs bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(ctx, s.db.fences.Prefixes()); err != nil {
		return err
	}
	ctx = asController(ctx, "reset")
	var changes []change
	for _, prefix := range s.db.fences.Prefixes() {
		resp, err := s.db.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("read the stored objects: %w", err)
		}
		found := map[string]int64{}
		for _, kv := range resp.Kvs {
			key := string(kv.Key)
			found[key] = kv.ModRevision
			if _, ok := c.data[key]; !ok && kv.ModRevision == kv.CreateRevision && s.maintained(c, key) {
				if err := s.adopt(ctx, c, key); err != nil {
					return err
				}
			}
		}
		changes = append(changes, c.changes(prefix, found, func(key string) bool { return keepCRDs && s.db.fences.OfDefinition(key) })...)
	}
	return s.apply(ctx, c, changes)
}

// change is an operation that restores the checkpoint, and the keys that it writes.
type change struct {
	op   clientv3.Op
	keys []string
}

// changes returns the operations that make the keys below a prefix those of the checkpoint, apart
// from those to keep. found has the keys and the revisions that wrote them.
func (c *Checkpoint) changes(prefix string, found map[string]int64, keep func(string) bool) []change {
	all := maps.Clone(found)
	for key, s := range c.data {
		if _, ok := all[key]; !ok && strings.HasPrefix(key, prefix) {
			all[key] = s.revision
		}
	}
	var out []change
	var run []string // consecutive keys to delete
	end := func(next string) {
		if len(run) > 0 {
			out = append(out, change{clientv3.OpDelete(run[0], clientv3.WithRange(next)), run})
			run = nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		s, ok := c.data[key]
		switch {
		case keep(key):
			end(key)
		case !ok:
			run = append(run, key)
		default:
			end(key)
			if found[key] != s.revision {
				out = append(out, change{clientv3.OpPut(key, s.value), []string{key}})
			}
		}
	}
	end(clientv3.GetPrefixRangeEnd(prefix))
	return out
}

// batches returns changes in parts that etcd accepts as transactions.
func batches(changes []change) iter.Seq[[]change] {
	return func(yield func([]change) bool) {
		begin, bytes := 0, 0
		for i, ch := range changes {
			size := len(ch.op.KeyBytes()) + len(ch.op.ValueBytes())
			if i > begin && (i-begin == maxTxnOps || bytes+size > maxTxnBytes) {
				if !yield(changes[begin:i]) {
					return
				}
				begin, bytes = i, 0
			}
			bytes += size
		}
		if begin < len(changes) {
			yield(changes[begin:])
		}
	}
}

// apply applies changes, and waits until requests see them.
func (s *Server) apply(ctx context.Context, c *Checkpoint, changes []change) error {
	var last, definitions int64
	for batch := range batches(changes) {
		ops := make([]clientv3.Op, 0, len(batch))
		for _, ch := range batch {
			ops = append(ops, ch.op)
		}
		resp, err := s.db.client.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return fmt.Errorf("reset the stored objects: %w", err)
		}
		last = resp.Header.Revision
		for _, ch := range batch {
			for _, key := range ch.keys {
				if ch.op.IsPut() {
					c.data[key] = saved{c.data[key].value, last}
				}
				if s.db.root.CRDs().Has(key) {
					definitions = last
				}
			}
		}
	}
	if err := s.db.store.Await(ctx, last); err != nil {
		return err
	}
	return s.definitions.Await(ctx, definitions)
}

// maintained reports whether controllers keep an object in every namespace, and would create it
// again: requests that depend on it would fail until then.
func (s *Server) maintained(c *Checkpoint, key string) bool {
	for resource, kept := range map[string]string{"serviceaccounts": "default", "configmaps": "kube-root-ca.crt"} {
		if namespace, name, ok := s.db.root.Builtin(corev1.Resource(resource)).Cut(key); ok && name == kept {
			_, ok = c.data[s.db.root.Namespaces().Key("", namespace)]
			return ok
		}
	}
	return false
}

// adopt adds a key to the checkpoint, unless it was deleted meanwhile.
func (s *Server) adopt(ctx context.Context, c *Checkpoint, key string) error {
	resp, err := s.db.client.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read the stored objects: %w", err)
	}
	for _, kv := range resp.Kvs {
		c.data[key] = saved{string(kv.Value), kv.ModRevision}
	}
	return nil
}
