package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// monitors returns the source of the metric of etcd's size. That of k8s.io/apiserver connects
// to etcd on its own and waits until it can, so that there would be no metrics at all while
// etcd does not answer.
func (db *database) monitors() ([]metrics.Monitor, error) {
	endpoints := db.client.Endpoints()
	if db.memory != nil {
		endpoints = []string{""} // its client has none, and needs none
	}
	return []metrics.Monitor{monitor{db.client, endpoints}}, nil
}

// spaceMetrics tell how much space etcd has. They are set whenever its size is read.
type spaceMetrics struct {
	quota, full *basemetrics.Gauge
}

// space registers the metrics on first use, because the registry is global.
var space = sync.OnceValue(func() *spaceMetrics {
	m := &spaceMetrics{
		quota: basemetrics.NewGauge(&basemetrics.GaugeOpts{
			Name: "espalier_etcd_quota_bytes", StabilityLevel: basemetrics.ALPHA,
			Help: "Size at which etcd rejects writes, or 0 if it does not tell: etcd 3.6 does.",
		}),
		full: basemetrics.NewGauge(&basemetrics.GaugeOpts{
			Name: "espalier_etcd_full", StabilityLevel: basemetrics.ALPHA,
			Help: "1 while etcd rejects writes because it has no space left.",
		}),
	}
	legacyregistry.MustRegister(m.quota, m.full)
	return m
})

func (m *spaceMetrics) set(status *clientv3.StatusResponse) {
	m.quota.Set(float64(status.DbSizeQuota))
	full := 0.0
	if hasNoSpace(status) {
		full = 1
	}
	m.full.Set(full)
}

// hasNoSpace reports whether etcd rejects writes.
func hasNoSpace(status *clientv3.StatusResponse) bool {
	return slices.ContainsFunc(status.Errors, func(alarm string) bool { return strings.Contains(alarm, "NOSPACE") })
}

// monitor asks etcd for its size.
type monitor struct {
	client    *clientv3.Client
	endpoints []string
}

// Monitor returns the size according to the first member that answers. ctx limits the time for
// all of them.
func (m monitor) Monitor(ctx context.Context) (metrics.StorageMetrics, error) {
	var errs []error
	for _, endpoint := range m.endpoints {
		status, err := m.client.Status(ctx, endpoint)
		if err == nil {
			space().set(status)
			return metrics.StorageMetrics{Size: status.DbSize}, nil
		}
		errs = append(errs, err)
	}
	return metrics.StorageMetrics{}, errors.Join(errs...)
}

// Close does nothing: the server closes the client.
func (m monitor) Close() error { return nil }
