package tokens

import (
	"context"
	"slices"
	"sync"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// pollInterval is the interval of checks of the files, in addition to the events of the file system.
const pollInterval = time.Minute

// Run reads the keys again when their files change, until ctx ends. If one of them cannot be read, all
// keys stay as they are: the error is logged and counted.
func (k *Keys) Run(ctx context.Context) error {
	paths := slices.Clone(k.files.Verify)
	if k.files.Sign != "" {
		paths = append(paths, k.files.Sign)
	} else {
		paths = append(paths, k.files.Dir)
	}
	logger := klog.FromContext(ctx).WithName("service-account-keys")
	var watches sync.WaitGroup
	for _, path := range paths {
		watches.Go(func() {
			filesystem.WatchUntil(ctx, pollInterval, path, func() { k.reload(logger) }, func(err error) {
				logger.Error(err, "Cannot watch the keys of service account tokens", "path", path)
			})
		})
	}
	watches.Wait()
	return nil
}

// reload reads the keys, and uses them if they have changed.
func (k *Keys) reload(logger klog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	const create = false
	set, err := k.files.read(create)
	if err != nil {
		reloads().WithLabelValues("failure").Inc()
		if k.failure != err.Error() {
			logger.Error(err, "Cannot reload the keys of service account tokens: the previous ones stay in use")
		}
		k.failure = err.Error()
		return
	}
	k.failure = ""
	if set.equal(k.current.Load()) {
		return
	}
	k.current.Store(set)
	reloads().WithLabelValues("success").Inc()
	logger.Info("Reloaded the keys of service account tokens", "signing", set.public[0].KeyID, "keys", len(set.public))
}

// equal reports whether two sets have the same keys, in the same order.
func (k *keySet) equal(other *keySet) bool {
	return slices.EqualFunc(k.public, other.public, func(a, b jose.JSONWebKey) bool { return a.KeyID == b.KeyID })
}

// reloads counts reloads of keys. It is registered on first use, because the registry is global.
var reloads = sync.OnceValue(func() *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "espalier_service_account_key_reloads_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of times that the keys of service account tokens were read again after a change of their files, by status: success or failure.",
	}, []string{"status"})
	legacyregistry.MustRegister(c)
	for _, status := range []string{"success", "failure"} {
		c.WithLabelValues(status)
	}
	return c
})
