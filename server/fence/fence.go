// Package fence ties custom resources to their CRD in etcd: no object is created
// once its CRD is being deleted, and none is left when the CRD is gone.
//
// A CRD has a fence: a key outside the prefix of the resources, named after the
// CRD's UID, that is Active or Terminating. Every transaction that writes a CRD writes
// its fence too, and the one that deletes a CRD deletes its fence, so that the two never
// contradict each other, whichever server writes and wherever it crashes. Every
// transaction that creates an object compares the fence with Active, and every
// transaction that changes one requires that the fence exists. Therefore:
//
//   - When a CRD is marked as deleted, no later transaction creates an object of it: not
//     one of a request that was admitted before, not one of another server, not one of a
//     request that was abandoned after a timeout.
//   - [Fences.Sweep] then sees all objects there will ever be. When it finds none left,
//     the CRD can go.
//   - A request that was decoded with the schema of a CRD that has since been replaced by
//     one of the same name cannot write: the fence is that of another UID.
//
// Servers that share an etcd are registered there as long as they follow the changes of CRDs. Every
// transaction that writes an object requires the registration of its server: one that was paused does not
// write with the schemas of the time before.
//
// The fence is separate from the CRD because every write of the CRD's status changes its
// revision.
//
// CRDs that another program has written, such as kube-apiserver, have no fence until
// [Fences.Adopt] creates it.
//
// Namespaces have fences in the same way: no object is created in a namespace that is being
// deleted. Their fences are named after them, because a name is all that a key has.
//
// The fences are compared in the transactions of writes, by a [store.Writer].
package fence

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic"

	"espalier.dev/server/backend"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// The states of a fence.
const (
	active      = "Active"
	terminating = "Terminating"
)

// Fences manages the fences of the CRDs below a prefix, and the storage that checks them.
type Fences struct {
	client *clientv3.Client
	// root is that of the objects. Fences are never below it.
	root        keys.Root
	backend     *backend.Backend
	intact      func(error) bool
	transformer store.Transformer
	stop        func()
	store       *store.Store
	// lifecycle requires that the namespaces of created objects exist.
	lifecycle bool
	// single is set if a transaction can write only one object.
	single bool
	// registration returns the key that writes of custom resources require. Nil means none.
	registration func() string
	// namespaceDecoder returns the decoder of namespaces.
	namespaceDecoder func() runtime.Decoder
}

// Config configures Fences.
type Config struct {
	// Client is the connection to etcd that all resources share.
	Client *clientv3.Client
	// Root is the root of the keys of objects.
	Root keys.Root
	// Store has all resources in memory. Without it, there are no storages.
	Store *store.Store
	// Compaction is the interval of compaction of etcd. Zero disables it.
	Compaction time.Duration
	// Intact reports whether a decoding error is not about the stored object, for example
	// because a conversion webhook fails. Such an object is not corrupt, and cannot be
	// deleted as a corrupt one.
	Intact func(error) bool
	// Lifecycle requires that the namespaces of created objects exist. Without it, only those
	// that are being deleted reject objects.
	Lifecycle bool
	// Single is set if a transaction can write only one object, as with kine.
	Single bool
	// Registration returns the key of this server in etcd, without which it must not write custom resources.
	// Nil means that there is none, because there are no other servers.
	Registration func() string
	// Transformer decrypts and encrypts stored values. Nil means that they are not encrypted.
	Transformer store.Transformer
}

// New returns new Fences. The caller must call Close.
func New(c Config) *Fences {
	f := &Fences{
		client: c.Client, root: c.Root, intact: c.Intact, transformer: c.Transformer, stop: func() {},
		store: c.Store, lifecycle: c.Lifecycle, single: c.Single, registration: c.Registration, namespaceDecoder: sync.OnceValue(newNamespaceDecoder),
	}
	var compacted func() int64
	if c.Compaction != 0 {
		compacted, f.stop = startCompactor(c.Client, c.Compaction)
	}
	if c.Store != nil {
		f.backend = backend.New(c.Store, compacted)
	}
	return f
}

// Close stops compaction. It does not close the client.
func (f *Fences) Close() { f.stop() }

func (f *Fences) key(uid types.UID) string { return f.root.Fences() + string(uid) }

// Definitions returns the storage of CRDs, which maintains their fences.
func (f *Fences) Definitions(base generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return &options{RESTOptionsGetter: base, fences: f, guard: &definitions{Interface: f.etcd(), kv: f.client.KV, fences: f}}
}

// Objects returns the storage of the objects of a CRD, which checks its fence and those of
// namespaces.
func (f *Fences) Objects(base generic.RESTOptionsGetter, resource runtimeschema.GroupResource,
	uid types.UID, namespaced bool) generic.RESTOptionsGetter {
	return &options{RESTOptionsGetter: base, fences: f, guard: &objects{
		Interface: f.etcd(), kv: f.client.KV, fences: f, fence: f.key(uid), resource: resource, namespaced: namespaced,
		registration: f.registration,
	}}
}

// Prefixes returns the prefixes of the keys of all resources and their fences.
func (f *Fences) Prefixes() []string {
	return []string{string(f.root), f.root.Fences(), f.root.NamespaceFences()}
}

// OfDefinition reports whether a key is that of a CRD or of its fence.
func (f *Fences) OfDefinition(key string) bool {
	return f.root.CRDs().Has(key) || strings.HasPrefix(key, f.root.Fences())
}

// UIDs returns the UIDs of the CRDs that have a fence.
func (f *Fences) UIDs(ctx context.Context) (map[types.UID]bool, error) {
	resp, err := f.client.Get(ctx, f.root.Fences(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("list the fences of CRDs: %w", err)
	}
	uids := make(map[types.UID]bool, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		uids[types.UID(keys.Name(string(kv.Key)))] = true
	}
	return uids, nil
}

// Adopt creates the fence of a CRD in its state at a revision, in case a program without
// fences has written the CRD. It reports whether the CRD is still in that state. If not, the
// caller must adopt its newer state, unless the CRD is gone.
func (f *Fences) Adopt(ctx context.Context, name string, uid types.UID, revision uint64, deleting bool) (bool, error) {
	same := clientv3.Compare(clientv3.ModRevision(f.root.CRDs().Key("", name)), "=", int64(revision))
	// A full etcd rejects transactions that could write, even if they would not. Without a read, a member
	// of etcd compares its own data, which may be behind that of the others.
	resp, err := f.client.Txn(ctx).If(same, clientv3.Compare(clientv3.Value(f.key(uid)), "=", state(deleting))).
		Then(clientv3.OpGet(f.key(uid), clientv3.WithCountOnly())).Commit()
	if err == nil && !resp.Succeeded {
		resp, err = f.client.Txn(ctx).If(same).Then(clientv3.OpPut(f.key(uid), state(deleting))).Commit()
	}
	if err != nil {
		return false, fmt.Errorf("give the CRD %s a fence: %w", name, err)
	}
	return resp.Succeeded, nil
}

// decrypt returns the value of what is stored at a key.
func (f *Fences) decrypt(ctx context.Context, key string, data []byte) ([]byte, error) {
	if f.transformer == nil {
		return data, nil
	}
	value, _, err := f.transformer.FromStorage(ctx, key, data)
	return value, err
}

// encrypt returns what is stored for a value at a key.
func (f *Fences) encrypt(ctx context.Context, key string, value []byte) ([]byte, error) {
	if f.transformer == nil {
		return value, nil
	}
	return f.transformer.ToStorage(ctx, key, value)
}

// metadata reads the metadata of a stored object.
func (f *Fences) metadata(ctx context.Context, key string, data []byte) (metadata, error) {
	value, err := f.decrypt(ctx, key, data)
	if err != nil {
		return metadata{}, err
	}
	return readMetadata(value)
}

// state returns the state of a CRD's fence.
func state(deleting bool) string {
	if deleting {
		return terminating
	}
	return active
}
