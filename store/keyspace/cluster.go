package keyspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The number of keys in a page: the first page, and the bounds for the next ones, which adapt to
// the size of the values so that a page has about pageBytes.
const (
	firstPage = 64
	maxPage   = 2000
	pageBytes = 4 << 20
)

// requestTimeout is the time that etcd has to answer one request. Its client waits forever for a
// cluster that is down.
const requestTimeout = 30 * time.Second

// Cluster reads a running etcd. It implements [Reader].
//
// All reads are at the revision of the first one. If etcd compacts it meanwhile, the rest is read
// at the newest revision: each key is still returned once, but not all values are of one moment.
type Cluster struct {
	client   *clientv3.Client
	revision atomic.Int64
	timeout  time.Duration
}

// NewCluster returns a Cluster, which owns the client.
func NewCluster(client *clientv3.Client) *Cluster {
	return &Cluster{client: client, timeout: requestTimeout}
}

// Close closes the client.
func (c *Cluster) Close() error { return c.client.Close() }

// get sends a request at the revision of the cluster.
func (c *Cluster) get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	for {
		at := c.revision.Load()
		limited, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("etcd did not answer within %v", c.timeout))
		resp, err := c.client.Get(limited, key, append(options, clientv3.WithRev(at))...)
		if cause := context.Cause(limited); err != nil && cause != nil && ctx.Err() == nil {
			err = cause
		}
		cancel()
		switch {
		case errors.Is(err, rpctypes.ErrCompacted) && at != 0:
			c.revision.CompareAndSwap(at, 0)
		case err != nil:
			return nil, err
		default:
			c.revision.CompareAndSwap(0, resp.Header.Revision)
			return resp, nil
		}
	}
}

// Get returns the entry of a key.
func (c *Cluster) Get(ctx context.Context, key string) (Entry, bool, error) {
	resp, err := c.get(ctx, key)
	if err != nil || len(resp.Kvs) == 0 {
		return Entry{}, false, err
	}
	kv := resp.Kvs[0]
	return Entry{Key: key, Value: kv.Value, Revision: kv.ModRevision}, true, nil
}

// Range returns the entries whose keys begin with a prefix, in the order of the keys. It reads
// one page at a time.
func (c *Cluster) Range(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		end := clientv3.GetPrefixRangeEnd(prefix)
		limit := int64(firstPage)
		// No key is empty, and etcd has another spelling for the smallest one.
		for from := cmp.Or(prefix, "\x00"); ; {
			page, err := c.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(limit))
			if err != nil {
				yield(Entry{}, err)
				return
			}
			size := 0
			for _, kv := range page.Kvs {
				size += len(kv.Value)
				if !yield(Entry{Key: string(kv.Key), Value: kv.Value, Revision: kv.ModRevision}, nil) {
					return
				}
			}
			if !page.More || len(page.Kvs) == 0 {
				return
			}
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
			limit = min(max(int64(pageBytes/(size/len(page.Kvs)+1)), 1), maxPage)
		}
	}
}
