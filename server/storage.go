package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/backend"
	"espalier.dev/server/custom"
	"espalier.dev/server/encryption"
	"espalier.dev/server/etcd"
	"espalier.dev/server/etcd/kine"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/fence"
	"espalier.dev/server/keys"
	"espalier.dev/server/peers"
	"espalier.dev/server/plugins"
	"espalier.dev/store"
)

// database is the etcd of a server.
type database struct {
	endpoints etcd.Endpoints
	client    *clientv3.Client
	root      keys.Root
	member    *etcd.Member // nil if the etcd is external or in memory
	memory    *memory.DB   // nil unless the etcd is in memory
	lent      bool         // the memory is that of the options
	fences    *fence.Fences
	store     *store.Store
	// encryption encrypts the stored resources.
	encryption *encryption.Encryption
	peers      *peers.Peers // nil if no other server can use the data
	// loaded is the revision of the state file, or zero.
	loaded int64
	// unrecorded is set if the semantics could not be recorded at the start, for lack of space.
	unrecorded bool
	// created is set if the semantics were recorded by this server.
	created bool
	// registration is that of the only server on data in kine, and nil with etcd.
	registration *kine.Registration
	// guard notices that the data was replaced. It is nil unless the etcd is external, and not kine:
	// there, the registration gets lost with the data.
	guard *guard
}

// openDatabase starts the embedded etcd, or connects to the external one.
func openDatabase(ctx context.Context, o *Options) (*database, error) {
	db := &database{endpoints: o.Etcd, root: keys.NewRoot(o.EtcdPrefix)}
	err := db.connect(ctx, o)
	if err != nil {
		db.close()
		return nil, err
	}
	client := db.client
	// First of all: data of a newer release must not change.
	if err := db.checkFormat(ctx); err != nil {
		db.close()
		return nil, err
	}
	if db.endpoints.Kine.Detected() {
		if db.registration, err = db.endpoints.Kine.Register(ctx, kine.RegistrationConfig{
			Client: client, Root: db.root, Lease: o.ServerLease, File: filepath.Join(o.DataDir, "kine-registration"),
		}); err != nil {
			db.close()
			return nil, err
		}
		klog.FromContext(ctx).Info("The data is in kine: no other server can use it")
	}
	var opened atomic.Pointer[store.Store]
	if db.encryption, err = encryption.Open(ctx, encryption.Config{
		File: o.EncryptionProviderConfig, Reload: o.EncryptionProviderConfigReload, Poll: o.encryptionPoll, Root: db.root,
		Changed: func(ctx context.Context) error {
			if s := opened.Load(); s != nil {
				// All values are decrypted anew, because some may have to be encrypted anew.
				return s.Renew(ctx)
			}
			return nil
		},
		Retry: func(ctx context.Context) {
			if s := opened.Load(); s != nil {
				s.Retry(ctx)
			}
		},
	}); err != nil {
		db.close()
		return nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	if o.past() == 0 {
		err = db.recordSemantics(ctx, o.Semantics)
	}
	switch {
	case backend.IsFull(err):
		klog.FromContext(ctx).Error(err, "The server starts, and tries again", "advice", db.advice())
		db.unrecorded = true
	case err != nil:
		db.close()
		return nil, err
	}
	if db.store, err = db.openStore(ctx, o.origin); err != nil {
		db.close()
		return nil, err
	}
	opened.Store(db.store)
	compaction := o.EtcdCompactionInterval
	if db.registration != nil || o.History == HistoryAll {
		compaction = 0 // kine compacts on its own
	}
	var registration func() string
	if len(o.Etcd.URLs) > 0 && db.registration == nil {
		db.peers = peers.New(peers.Config{
			Client: client, Root: db.root, Lease: o.ServerLease, File: filepath.Join(o.DataDir, "server-lease"),
		})
		registration = db.peers.Registration
	}
	db.fences = fence.New(fence.Config{
		Client:       client,
		Root:         db.root,
		Store:        db.store,
		Compaction:   compaction,
		Intact:       custom.IsConversionError,
		Lifecycle:    o.admits(plugins.Find("NamespaceLifecycle")),
		Single:       db.registration != nil,
		Transformer:  db.encryption,
		Registration: registration,
	})
	db.report(ctx, o)
	return db, nil
}

// report logs whether the server has found data, and with which semantics. That it has found none may be
// a surprise: a volume may not be mounted, or the prefix may be another one.
func (db *database) report(ctx context.Context, o *Options) {
	log := klog.FromContext(ctx)
	if !db.created {
		log.Info("The data has the schema semantics of this server", "semantics", o.Semantics.String())
		return
	}
	place := []any{"semantics", o.Semantics.String(), "prefix", db.root.Path()}
	switch {
	case db.memory != nil:
	case db.member != nil:
		place = append(place, "dir", o.etcdDir())
	default:
		place = append(place, "etcd", db.endpoints.URLs)
	}
	log.Info("No data found: the server creates new data", place...)
}

// warnOfMissingData logs that a data directory has the certificates of an earlier server, but not its
// data.
func warnOfMissingData(ctx context.Context, o *Options) {
	if o.Storage == StorageMemory || len(o.Etcd.URLs) > 0 || etcd.HasData(o.etcdDir()) {
		return
	}
	if _, err := os.Stat(filepath.Join(o.DataDir, "pki", "admin.crt")); err != nil {
		return
	}
	// Structured logs have no level for warnings.
	klog.FromContext(ctx).Error(errNoEtcd, "The server starts without objects: if it had some, stop it, and check that the volume of its data is mounted",
		"etcd", o.etcdDir(), "certificates", filepath.Join(o.DataDir, "pki"))
}

// errNoEtcd is what is wrong with a data directory that has certificates and no data.
var errNoEtcd = errors.New("the data directory has certificates of an earlier start, but no etcd")

// errUnencrypted is what is wrong with a configuration of resources that do not exist.
var errUnencrypted = errors.New("--encryption-provider-config has resources that do not exist")

// warnOfUnencrypted logs the resources of the encryption configuration that do not exist.
func (db *database) warnOfUnencrypted(ctx context.Context, crds *crd.Catalog) {
	unknown, err := db.encryption.Unknown(func(r runtimeschema.GroupResource) bool {
		if r.Resource == "" {
			return len(crds.Group(r.Group)) > 0
		}
		return crds.Get(r.String()) != nil
	})
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "Cannot check the resources of the encryption configuration")
	case len(unknown) > 0:
		// Structured logs have no level for warnings.
		klog.FromContext(ctx).Error(errUnencrypted, "Nothing is encrypted for these resources: check their names (plural.group), or create their CRDs", "resources", unknown)
	}
}

// The maximum sizes of the history in memory, in bytes.
const (
	maxHistory    = 256 << 20
	maxAllHistory = 4 << 30
)

// connect starts the etcd, unless it is external, and connects to it.
func (db *database) connect(ctx context.Context, o *Options) (err error) {
	switch {
	case o.Storage == StorageMemory && o.Memory != nil:
		db.memory, db.lent = o.Memory, true
		db.client = db.memory.Client()
		return nil
	case o.Storage == StorageMemory:
		c := memory.Config{Origin: originOf, MaxHistory: cmp.Or(o.MaxHistory, maxHistory)}
		if o.History == HistoryAll {
			c.MaxHistory = cmp.Or(o.MaxHistory, maxAllHistory)
			c.Compacted = func(revision int64) {
				klog.FromContext(ctx).Info("The history has reached its maximum size: the older half of it is removed",
					"maxBytes", c.MaxHistory, "oldestRevision", revision)
			}
		}
		switch {
		case o.origin != nil:
			c.State = o.origin.state
		case o.StateFile != "":
			if c.State, err = o.loadState(ctx); err != nil {
				return err
			}
			db.loaded = c.State.Revision()
		case !o.Ephemeral:
			// Clients of an earlier server may still watch: its revisions have to be older than all of
			// this one, so that they list again.
			c.Revision = time.Now().UnixMilli()
		}
		db.memory = memory.Open(c)
		db.client = db.memory.Client()
		return nil
	case len(o.Etcd.URLs) == 0:
		if db.member, err = etcd.Start(ctx, etcd.Config{
			Dir:           o.etcdDir(),
			Quota:         o.EtcdQuota,
			UnsafeNoFsync: o.Ephemeral,
		}); err != nil {
			return err
		}
		db.endpoints.URLs = []string{db.member.Endpoint()}
	default:
		db.endpoints.Kine = kine.New(keys.Fences)
		db.guard = newGuard()
		db.endpoints.Interceptor = db.guard.intercept
	}
	db.client, err = etcd.Connect(ctx, db.endpoints)
	return err
}

// openStore opens the store of all resources. If it begins with a copy, it returns when the store has
// everything that the etcd has.
func (db *database) openStore(ctx context.Context, from *origin) (*store.Store, error) {
	logger := klog.FromContext(ctx).WithName("store")
	var failing atomic.Bool
	var watcher clientv3.Watcher
	if db.memory != nil {
		watcher = db.memory.NewWatcher()
	}
	config := store.Config{
		Client:      db.client,
		Watcher:     watcher,
		Transformer: db.encryption,
		Prefix:      string(db.root),
		Advice:      db.advice,
		Failed: func(err error) {
			if err != nil && !failing.Swap(true) {
				logger.Error(err, "The connection to etcd fails: reads may be old, and watches wait")
			}
			if err == nil && failing.Swap(false) {
				logger.Info("The connection to etcd works again")
			}
		},
	}
	if from == nil || from.store == nil {
		return store.Open(config)
	}
	config.From = from.store
	s, err := store.Open(config)
	if err != nil {
		return nil, err
	}
	if err := s.Await(ctx, from.state.Revision()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// stopped returns a channel that is closed when the embedded etcd has stopped.
func (db *database) stopped() <-chan struct{} {
	if db.member == nil {
		return nil
	}
	return db.member.Stopped()
}

func (db *database) close() {
	if db.store != nil {
		db.store.Close()
	}
	if db.fences != nil {
		db.fences.Close()
	}
	if db.encryption != nil {
		db.encryption.Close()
	}
	if db.registration != nil {
		db.registration.Close()
	}
	if db.client != nil {
		_ = db.client.Close() // all requests are finished
	}
	if db.member != nil {
		db.member.Close()
	}
	if db.memory != nil && !db.lent {
		db.memory.Close()
	}
}

// checkFormat returns an error if a newer release has written the data in a format that this one
// does not read.
func (db *database) checkFormat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcd.ConnectTimeout)
	defer cancel()
	got, err := db.client.Get(ctx, db.root.Format())
	if err != nil {
		return fmt.Errorf("read the format of the data: %w", err)
	}
	for _, kv := range got.Kvs {
		if err := keys.CheckFormat(kv.Value); err != nil {
			return err
		}
	}
	return nil
}

// recordSemantics records the schema semantics with the data, unless it is. It returns an error if
// the data was written with other semantics, because its objects may be invalid or incomplete.
func (db *database) recordSemantics(ctx context.Context, sem schema.Semantics) error {
	ctx, cancel := context.WithTimeout(ctx, etcd.ConnectTimeout)
	defer cancel()
	key := db.root.Semantics()
	// A full etcd rejects transactions that could write, even if they would not.
	got, err := db.client.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read the semantics recorded in etcd: %w", err)
	}
	kvs := got.Kvs
	if len(kvs) == 0 {
		resp, err := db.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, sem.String())).
			Else(clientv3.OpGet(key)).
			Commit()
		if err != nil {
			return fmt.Errorf("record the semantics in etcd: %w", err)
		}
		if resp.Succeeded {
			db.created = true
			return nil
		}
		kvs = resp.Responses[0].GetResponseRange().GetKvs() // another server was faster
	}
	if len(kvs) != 1 {
		return fmt.Errorf("read the semantics recorded in etcd: the key %s has %d values", key, len(kvs))
	}
	if have := string(kvs[0].Value); have != sem.String() {
		return fmt.Errorf("the data was written with --semantics %s, and this server was started with --semantics %s: "+
			"start it with --semantics %s, or with other data (--data-dir, --etcd-prefix); "+
			"to move objects, apply their manifests to a server with the other semantics", have, sem, have)
	}
	return nil
}

// applyTo configures c to store resources in etcd: as JSON under kube-apiserver's keys. Package
// fence creates each storage; applyTo sets the common options.
func (db *database) applyTo(c *genericapiserver.Config, o *Options) error {
	config := storagebackend.NewDefaultConfig(db.root.Path(), unstructured.UnstructuredJSONScheme)
	config.Transport.ServerList = db.endpoints.URLs
	config.Transport.CertFile = db.endpoints.CertFile
	config.Transport.KeyFile = db.endpoints.KeyFile
	config.Transport.TrustedCAFile = db.endpoints.CAFile

	options := genericoptions.NewEtcdOptions(config)
	options.DeleteCollectionWorkers = o.DeleteCollectionWorkers
	// Foreground and orphaning deletion set finalizers, even if the garbage collector is switched
	// off: another one may run.
	options.EnableGarbageCollection = true
	options.SkipHealthEndpoints = true // etcdCheck uses the existing client
	if err := options.ApplyTo(c); err != nil {
		return fmt.Errorf("set up the storage: %w", err)
	}
	metrics.SetStorageMonitorGetter(db.monitors)
	space() // the metrics exist before they are read
	check := db.newCheck()
	c.AddHealthChecks(check.named("etcd"))
	c.AddReadyzChecks(check.named("etcd-readiness"))
	if db.registration != nil {
		c.AddReadyzChecks(healthz.NamedCheck("kine-registration", func(*http.Request) error { return db.registration.Check() }))
	}
	if o.EncryptionProviderConfig != "" {
		c.AddReadyzChecks(healthz.NamedCheck("kms-providers", db.encryption.Check))
	}
	return nil
}
