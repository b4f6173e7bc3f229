package compliance

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/crd/compliance"
)

// metricsOfScans are metrics of scanners. Servers in one process share them. Only CRDs with
// objects have series, and only kinds of problems that occur.
type metricsOfScans struct {
	objects, failing *metrics.GaugeVec
	duration         *metrics.Histogram
}

// scanMetrics registers the metrics on first use, because the registry is global.
var scanMetrics = sync.OnceValue(func() *metricsOfScans {
	m := &metricsOfScans{
		objects: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "espalier_stored_objects", Help: "Number of stored objects that were inspected, by CRD.", StabilityLevel: metrics.ALPHA,
		}, []string{"crd"}),
		failing: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "espalier_noncompliant_objects",
			Help: "Number of stored objects that do not comply with their CRD, by CRD and kind of problem. An object with problems of several kinds is counted for each.", StabilityLevel: metrics.ALPHA,
		}, []string{"crd", "kind"}),
		duration: metrics.NewHistogram(&metrics.HistogramOpts{
			Name: "espalier_compliance_scan_duration_seconds",
			Help: "Time spent on inspecting the stored objects of one CRD, without pauses.", StabilityLevel: metrics.ALPHA,
			Buckets: metrics.ExponentialBuckets(0.001, 4, 10),
		}),
	}
	legacyregistry.MustRegister(m.objects, m.failing, m.duration)
	return m
})

// set sets the numbers of a CRD.
func (m *metricsOfScans) set(crd string, c compliance.Counts) {
	if c.Objects == 0 {
		m.forget(crd)
		return
	}
	m.objects.WithLabelValues(crd).Set(float64(c.Objects))
	for _, k := range compliance.Kinds() {
		if n := c.Of[k]; n > 0 {
			m.failing.WithLabelValues(crd, k.String()).Set(float64(n))
		} else {
			m.failing.DeleteLabelValues(crd, k.String())
		}
	}
}

// forget removes the series of a CRD.
func (m *metricsOfScans) forget(crd string) {
	m.objects.DeleteLabelValues(crd)
	for _, k := range compliance.Kinds() {
		m.failing.DeleteLabelValues(crd, k.String())
	}
}

// scanned observes the duration of a scan.
func (m *metricsOfScans) scanned(d time.Duration) { m.duration.Observe(d.Seconds()) }
