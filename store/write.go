package store

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// Writer executes the transactions of writes. It can add conditions and further writes to
// them. [kubernetes.Client] is one that adds nothing.
type Writer interface {
	OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64,
		opts kubernetes.PutOptions) (kubernetes.PutResponse, error)
	OptimisticDelete(ctx context.Context, key string, expectedRevision int64,
		opts kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error)
}

// Put writes a value if the revision of its entry is the expected one, where zero means that
// there is none. It reports the new revision if it has written, and otherwise the entry that
// is stored, or nil if there is none. The index has the value when it has the new revision.
// A nil Writer means no further conditions; lease zero means none.
func (s *Store) Put(ctx context.Context, w Writer, key string, value []byte, expected,
	lease int64) (revision int64, stored *Entry, err error) {
	if t := *s.transformer.Load(); t != nil {
		if value, err = t.ToStorage(ctx, key, value); err != nil {
			return 0, nil, err
		}
	}
	waiting, cancel := limited(ctx)
	defer cancel()
	resp, err := s.writer(w).OptimisticPut(waiting, key, value, expected,
		kubernetes.PutOptions{GetOnFailure: true, LeaseID: clientv3.LeaseID(lease)})
	if err != nil {
		return 0, nil, s.writeFailure(ctx, err, len(key)+len(value))
	}
	if resp.Succeeded {
		return resp.Revision, nil, nil
	}
	return 0, s.stored(ctx, resp.KV), nil
}

// Create writes values of keys that do not exist, all in one transaction. It reports false, and
// writes nothing, if one of the keys exists, or a condition is not met. etcd limits the number of
// keys and conditions, by default to 128.
func (s *Store) Create(ctx context.Context, values map[string][]byte, conditions ...clientv3.Cmp) (created bool, err error) {
	conditions, puts := slices.Clone(conditions), make([]clientv3.Op, 0, len(values))
	size := 0
	t := *s.transformer.Load()
	for key, value := range values {
		if t != nil {
			if value, err = t.ToStorage(ctx, key, value); err != nil {
				return false, err
			}
		}
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
		puts = append(puts, clientv3.OpPut(key, string(value)))
		size += len(key) + len(value)
	}
	waiting, cancel := limited(ctx)
	defer cancel()
	resp, err := s.client.Txn(waiting).If(conditions...).Then(puts...).Commit()
	if err != nil {
		return false, s.writeFailure(ctx, err, size)
	}
	return resp.Succeeded, nil
}

// Delete deletes a key if the revision of its entry is the expected one. Its results are those
// of Put.
func (s *Store) Delete(ctx context.Context, w Writer, key string, expected int64) (revision int64, stored *Entry, err error) {
	waiting, cancel := limited(ctx)
	defer cancel()
	resp, err := s.writer(w).OptimisticDelete(waiting, key, expected, kubernetes.DeleteOptions{GetOnFailure: true})
	if err != nil {
		return 0, nil, s.failure(ctx, err)
	}
	if resp.Succeeded {
		return resp.Revision, nil, nil
	}
	return 0, s.stored(ctx, resp.KV), nil
}

func (s *Store) writer(w Writer) Writer {
	if w != nil {
		return w
	}
	return kubernetesWriter(s.client)
}

// kubernetesWriter returns a Writer without further conditions.
func kubernetesWriter(c *clientv3.Client) Writer {
	k := &kubernetes.Client{Client: c}
	k.Kubernetes = k
	return k
}

func (s *Store) stored(ctx context.Context, kv *mvccpb.KeyValue) *Entry {
	if kv == nil {
		return nil
	}
	return s.entry(ctx, kv)
}
