package fence

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Change is a change of one key.
type Change struct {
	Key string
	// Revision is that of what is stored, or zero if nothing is.
	Revision int64
	// Value is what is to be stored. Nil means that the key is to be deleted.
	Value []byte
}

type attachedKey struct{}

// WithAttached returns a context for writes of namespaced built-in resources that make changes of
// other keys, in the same transaction. changes is called before each attempt. Data in kine cannot
// have such transactions: there, the changes are left out.
func WithAttached(ctx context.Context, changes func(context.Context) ([]Change, error)) context.Context {
	return context.WithValue(ctx, attachedKey{}, changes)
}

// Attaches reports whether [WithAttached] has an effect.
func (f *Fences) Attaches() bool { return !f.single }

// attachment is the part of a transaction that changes other keys.
type attachment struct {
	conditions    []clientv3.Cmp
	writes, reads []clientv3.Op
	revisions     []int64
}

// attached returns what belongs to the write of a request.
func (f *Fences) attached(ctx context.Context) (*attachment, error) {
	changes, _ := ctx.Value(attachedKey{}).(func(context.Context) ([]Change, error))
	if changes == nil || f.single {
		return &attachment{}, nil
	}
	list, err := changes(ctx)
	if err != nil {
		return nil, err
	}
	return f.attach(ctx, list...)
}

func (f *Fences) attach(ctx context.Context, changes ...Change) (*attachment, error) {
	a := &attachment{}
	for _, c := range changes {
		write := clientv3.OpDelete(c.Key)
		if c.Value != nil {
			value, err := f.encrypt(ctx, c.Key, c.Value)
			if err != nil {
				return nil, err
			}
			write = clientv3.OpPut(c.Key, string(value))
		}
		a.conditions = append(a.conditions, clientv3.Compare(clientv3.ModRevision(c.Key), "=", c.Revision))
		a.writes = append(a.writes, write)
		a.reads = append(a.reads, clientv3.OpGet(c.Key, clientv3.WithKeysOnly()))
		a.revisions = append(a.revisions, c.Revision)
	}
	return a, nil
}

// outdated reports whether one of the keys is not in its expected state. responses are those of a
// transaction that ends with the reads.
func (a *attachment) outdated(responses []*pb.ResponseOp) bool {
	responses = responses[len(responses)-len(a.reads):]
	for i, revision := range a.revisions {
		if first(responses[i]).GetModRevision() != revision {
			return true
		}
	}
	return false
}

// Commit makes a change if the object with a key still has a revision, where zero means that it does
// not exist. It reports whether it has made the change.
func (f *Fences) Commit(ctx context.Context, c Change, object string, revision int64) (bool, error) {
	a, err := f.attach(ctx, c)
	if err != nil {
		return false, err
	}
	conditions := append(a.conditions, clientv3.Compare(clientv3.ModRevision(object), "=", revision))
	resp, err := f.client.Txn(ctx).If(conditions...).Then(a.writes...).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}
