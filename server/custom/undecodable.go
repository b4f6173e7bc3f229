package custom

import (
	"sync"
	"sync/atomic"
	"time"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// undecodableLog counts and logs the stored values of a resource that cannot be decoded. A list
// or watch that would include one fails with an error that names its key.
type undecodableLog struct {
	resource runtimeschema.GroupResource
	logged   atomic.Int64 // in nanoseconds since 1970
}

// undecodableLogInterval limits the log messages for one resource, because its cache retries.
const undecodableLogInterval = time.Minute

func (u *undecodableLog) found(err error) {
	undecodableValues().WithLabelValues(u.resource.Group, u.resource.Resource).Inc()
	now, last := time.Now().UnixNano(), u.logged.Load()
	if now-last > int64(undecodableLogInterval) && u.logged.CompareAndSwap(last, now) {
		klog.ErrorS(err, "A stored value cannot be decoded: lists that include it fail with an error that names its key. "+
			"Delete it with the option ignoreStoreReadErrorWithClusterBreakingPotential if it is lost", "resource", u.resource)
	}
}

// undecodableValues registers the metric on first use, because the registry is global.
var undecodableValues = sync.OnceValue(func() *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "espalier_undecodable_values_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of times that a stored value could not be decoded, by group and resource.",
	}, []string{"group", "resource"})
	legacyregistry.MustRegister(c)
	return c
})
