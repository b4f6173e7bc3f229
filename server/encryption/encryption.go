// Package encryption encrypts stored values as kube-apiserver does: with the same
// configuration file, the same providers and the same stored format.
//
// The providers are those of k8s.io/apiserver: aesgcm, aescbc, secretbox, identity, and KMS
// plugins on unix sockets. The first provider of a resource encrypts. Values of the others can
// be read, but are stale: they are encrypted again when they are written, even if the object
// has not changed. The key in etcd is authenticated together with the value, so that values
// cannot be exchanged.
//
// Without a configuration, values are not encrypted, and encrypted ones cannot be read.
package encryption

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/klog/v2"

	"espalier.dev/kinds"
	"espalier.dev/server/keys"
)

const (
	// startTimeout is the time that Open waits for KMS plugins, and startPoll the interval of
	// checks.
	startTimeout = 30 * time.Second
	startPoll    = 100 * time.Millisecond
	// DefaultPoll is the default interval of checks whether the configuration has changed.
	DefaultPoll = time.Minute
)

// Config configures Encryption.
type Config struct {
	// File is the path of the configuration. Empty means none.
	File string
	// Reload follows changes of the file.
	Reload bool
	// Poll is the interval of checks for changes and of the KMS plugins; zero means
	// DefaultPoll.
	Poll time.Duration
	// Root is the root of the keys of objects.
	Root keys.Root
	// Changed is called after the configuration has changed. It decrypts all values anew that
	// are in memory. Nil does nothing.
	Changed func(context.Context) error
	// Retry is called when values could not be decrypted and all KMS plugins work. It tries
	// again to decrypt these. Nil does nothing.
	Retry func(context.Context)
}

// Encryption encrypts and decrypts the values below a prefix. It is safe for concurrent use.
type Encryption struct {
	config Config
	id     string // for metrics
	// lifetime ends with Close. It ends the goroutines of the providers.
	lifetime context.Context
	stop     context.CancelFunc
	current  atomic.Pointer[providers]
	// failed is set when a value could not be decrypted.
	failed atomic.Bool
}

// providers are the providers of one state of the configuration.
type providers struct {
	transformers value.ResourceTransformers
	cache        sync.Map // of value.Transformer, by resource
	hash         string
	checks       []healthz.HealthChecker
	// close closes the connections to KMS plugins, grace is the time that requests may take.
	close context.CancelFunc
	grace time.Duration
}

// Open reads the configuration and waits for its KMS plugins. The caller must call Close.
func Open(ctx context.Context, c Config) (*Encryption, error) {
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if c.Changed == nil {
		c.Changed = func(context.Context) error { return nil }
	}
	if c.Retry == nil {
		c.Retry = func(context.Context) {}
	}
	e := &Encryption{config: c, id: uuid.NewString()}
	e.lifetime, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	p, err := e.load()
	if err == nil {
		err = p.await(ctx)
	}
	if err != nil {
		e.stop()
		return nil, err
	}
	e.current.Store(p)
	return e, nil
}

// Close closes the connections to KMS plugins.
func (e *Encryption) Close() { e.stop() }

// load reads the configuration.
func (e *Encryption) load() (*providers, error) {
	if e.config.File == "" {
		return &providers{transformers: encryptionconfig.StaticTransformers{}, close: func() {}}, nil
	}
	ctx, cancel := context.WithCancel(e.lifetime)
	c, err := encryptionconfig.LoadEncryptionConfig(ctx, e.config.File, e.config.Reload, e.id)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("read the encryption configuration %s: %w", e.config.File, err)
	}
	metrics.RecordEncryptionConfigLastConfigInfo(e.id, c.EncryptionFileContentHash)
	return &providers{
		transformers: encryptionconfig.StaticTransformers(c.Transformers),
		hash:         c.EncryptionFileContentHash, checks: c.HealthChecks, close: cancel, grace: c.KMSCloseGracePeriod,
	}, nil
}

// transformer returns the transformer of a resource.
func (p *providers) transformer(r runtimeschema.GroupResource) value.Transformer {
	if t, ok := p.cache.Load(r); ok {
		return t.(value.Transformer)
	}
	t, _ := p.cache.LoadOrStore(r, p.transformers.TransformerForResource(r))
	return t.(value.Transformer)
}

// check returns an error if a KMS plugin does not work.
func (p *providers) check(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	for _, check := range p.checks {
		if err := check.Check(req); err != nil {
			return fmt.Errorf("a KMS plugin of the encryption configuration does not work: %w", err)
		}
	}
	return nil
}

// await waits until all KMS plugins work.
func (p *providers) await(ctx context.Context) error {
	timeout, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := p.check(timeout)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(startPoll):
		case <-timeout.Done():
			return err
		}
	}
}

// Check returns an error if a KMS plugin does not work.
func (e *Encryption) Check(req *http.Request) error { return e.current.Load().check(req.Context()) }

// Run follows changes of the configuration and the health of the KMS plugins until ctx ends.
// A changed configuration that is invalid has no effect. It starts no goroutines.
func (e *Encryption) Run(ctx context.Context) error {
	ticker := time.NewTicker(e.config.Poll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		// A value whose decryption fails again sets failed again.
		if e.current.Load().check(ctx) == nil && e.failed.Swap(false) {
			e.retry(ctx)
		}
		if !e.config.Reload {
			continue
		}
		changed, err := e.reload(ctx)
		switch {
		case err != nil:
			metrics.RecordEncryptionConfigAutomaticReloadFailure(e.id)
			klog.FromContext(ctx).Error(err, "The changed encryption configuration has no effect")
		case changed:
			e.failed.Store(false)
			if e.config.Changed(ctx) != nil {
				return nil // ctx has ended
			}
			// Clients that wait for the metric write all objects again. Now it is known which
			// values are stale.
			metrics.RecordEncryptionConfigAutomaticReloadSuccess(e.id, e.current.Load().hash)
			klog.FromContext(ctx).Info("The encryption configuration has changed", "file", e.config.File)
		}
	}
}

// retry limits the time of Retry, because each value may need an answer of a KMS plugin.
func (e *Encryption) retry(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(e.config.Poll, time.Second))
	defer cancel()
	e.config.Retry(ctx)
}

// reload reads the configuration if it has changed, and uses it when its KMS plugins work.
func (e *Encryption) reload(ctx context.Context) (bool, error) {
	old := e.current.Load()
	hash, err := encryptionconfig.GetEncryptionConfigHash(e.config.File)
	if err != nil || hash == old.hash {
		return false, err
	}
	next, err := e.load()
	if err != nil {
		return false, err
	}
	if err := next.check(ctx); err != nil {
		next.close()
		return false, err
	}
	e.current.Store(next)
	// Requests that use the old plugins finish. Close ends them earlier.
	time.AfterFunc(old.grace, old.close)
	return true, nil
}

// Ages reports whether a value can become stale while it is stored, for example when a KMS
// plugin changes its key.
func (e *Encryption) Ages() bool { return e.config.File != "" }

// ErrEncrypted is returned for an encrypted value if there is no configuration.
var ErrEncrypted = errors.New("the value is encrypted: set --encryption-provider-config")

// errKey is returned for a key that is not that of a resource.
var errKey = errors.New("not the key of a resource")

// Resource returns the resource of the object with a key, and an error if it is not the key of one.
func (e *Encryption) Resource(key string) (runtimeschema.GroupResource, error) {
	o, ok := e.config.Root.Parse(key)
	r := o.Resource
	if ok && r.Empty() {
		r, ok = resourceAt(o.Directory)
	}
	if !ok {
		return r, fmt.Errorf("%s: %w", key, errKey)
	}
	return r, nil
}

// directories are the built-in resources by the directory of their objects.
var directories = sync.OnceValue(func() map[string]runtimeschema.GroupResource {
	out := map[string]runtimeschema.GroupResource{}
	for _, r := range kinds.Resources() {
		if r.IsStored() {
			out[keys.BuiltinDirectory(r.GroupResource())] = r.GroupResource()
		}
	}
	return out
})

// resourceAt returns the built-in resource whose objects are in a directory; see package keys.
func resourceAt(directory string) (runtimeschema.GroupResource, bool) {
	r, ok := directories()[directory]
	return r, ok
}

// FromStorage decrypts a stored value. stale reports that it should be encrypted again.
func (e *Encryption) FromStorage(ctx context.Context, key string, data []byte) (plain []byte, stale bool, err error) {
	if e.config.File == "" {
		if keys.IsEncrypted(data) {
			return nil, false, fmt.Errorf("decrypt %s: %w", key, ErrEncrypted)
		}
		return data, false, nil
	}
	r, err := e.Resource(key)
	if err != nil {
		return nil, false, err
	}
	plain, stale, err = e.current.Load().transformer(r).TransformFromStorage(ctx, data, value.DefaultContext(key))
	if err != nil {
		e.failed.Store(true)
		return nil, false, fmt.Errorf("decrypt %s: %w", key, err)
	}
	return plain, stale, nil
}

// ToStorage encrypts a value.
func (e *Encryption) ToStorage(ctx context.Context, key string, plain []byte) ([]byte, error) {
	if e.config.File == "" {
		return plain, nil
	}
	r, err := e.Resource(key)
	if err != nil {
		return nil, err
	}
	data, err := e.current.Load().transformer(r).TransformToStorage(ctx, plain, value.DefaultContext(key))
	if err != nil {
		return nil, fmt.Errorf("encrypt %s: %w", key, err)
	}
	return data, nil
}
