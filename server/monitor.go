package server

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
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
			return metrics.StorageMetrics{Size: status.DbSize}, nil
		}
		errs = append(errs, err)
	}
	return metrics.StorageMetrics{}, errors.Join(errs...)
}

// Close does nothing: the server closes the client.
func (m monitor) Close() error { return nil }
