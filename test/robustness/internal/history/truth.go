// Package history records what clients of a server and its etcd have seen, and checks that
// the two agree.
package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Object is what the checks compare of an object.
type Object struct {
	// Revision is the resourceVersion.
	Revision int64
	// Value is spec.value, which is unique to the request that wrote it.
	Value string
	UID   string
	Color string // the label color
	// Digest covers the whole object except apiVersion and resourceVersion.
	Digest string
}

// ParseObject reads an object. The key is NAMESPACE/NAME.
func ParseObject(data []byte) (key string, o Object, err error) {
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return "", Object{}, err
	}
	return parseTree(tree)
}

func parseTree(tree map[string]any) (key string, o Object, err error) {
	meta, ok := tree["metadata"].(map[string]any)
	if !ok {
		return "", Object{}, errors.New("an object without metadata")
	}
	spec, _ := tree["spec"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	o.Value, _ = spec["value"].(string)
	o.UID, _ = meta["uid"].(string)
	o.Color, _ = labels["color"].(string)
	if version, ok := meta["resourceVersion"].(string); ok {
		if _, err := fmt.Sscan(version, &o.Revision); err != nil {
			return "", Object{}, fmt.Errorf("resourceVersion %q: %w", version, err)
		}
	}
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	delete(tree, "apiVersion")
	delete(meta, "resourceVersion")
	data, err := json.Marshal(tree)
	if err != nil {
		return "", Object{}, err
	}
	sum := sha256.Sum256(data)
	o.Digest = hex.EncodeToString(sum[:8])
	return namespace + "/" + name, o, nil
}

// Change is a revision in which etcd created, changed or deleted an object.
type Change struct {
	Revision int64
	Key      string
	// Before and After are the object. They are nil if there is none.
	Before, After *Object
	// At is when the change was recorded, which is after it happened.
	At time.Duration
}

// Truth is the recorded history of a set of objects in etcd. Index i is the state after the
// first i changes.
type Truth struct {
	Changes []Change
	// Sweeps are the times at which requests were sent that delete all objects.
	Sweeps  []time.Duration
	states  []map[string]Object
	initial map[string]Object
}

// NewTruth returns the truth of changes, ordered by revision, of objects that did not exist before.
func NewTruth(changes []Change) *Truth {
	t := &Truth{Changes: changes}
	t.build()
	return t
}

// IndexAt returns the index of the state at a revision.
func (t *Truth) IndexAt(revision int64) int {
	i, found := slices.BinarySearchFunc(t.Changes, revision, func(c Change, r int64) int { return cmp.Compare(c.Revision, r) })
	if found {
		i++
	}
	return i
}

// State returns the objects at an index. The map is shared.
func (t *Truth) State(index int) map[string]Object { return t.states[index] }

// build computes the states.
func (t *Truth) build() {
	t.states = []map[string]Object{t.initial}
	for _, c := range t.Changes {
		next := maps.Clone(t.states[len(t.states)-1])
		if next == nil {
			next = map[string]Object{}
		}
		if c.After == nil {
			delete(next, c.Key)
		} else {
			next[c.Key] = *c.After
		}
		t.states = append(t.states, next)
	}
}

// Collector records the changes below a prefix of etcd. It owns a goroutine, which ends when
// Finish is called or when the context ends.
type Collector struct {
	prefix string
	client *clientv3.Client
	clock  func() time.Duration
	ctx    context.Context // of the watch
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	truth Truth
	seen  int64 // all changes up to here are recorded
	err   error
}

// Collect starts to record. The caller must not compact revisions that have not been seen.
func Collect(ctx context.Context, client *clientv3.Client, prefix string, clock func() time.Duration) (*Collector, error) {
	resp, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	c := &Collector{prefix: prefix, client: client, clock: clock, done: make(chan struct{}), seen: resp.Header.Revision}
	c.truth.initial = map[string]Object{}
	for _, kv := range resp.Kvs {
		o, err := c.object(kv)
		if err != nil {
			return nil, err
		}
		c.truth.initial[c.key(kv)] = *o
	}
	ctx, cancel := context.WithCancel(ctx)
	c.ctx, c.cancel = ctx, cancel
	// WithRequireLeader is not set: during a partition the watch waits, and loses nothing.
	watch := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(resp.Header.Revision+1))
	go func() {
		defer close(c.done)
		for resp := range watch {
			c.record(resp)
		}
	}()
	return c, nil
}

func (c *Collector) key(kv *mvccpb.KeyValue) string {
	return strings.TrimPrefix(string(kv.Key), c.prefix)
}

func (c *Collector) object(kv *mvccpb.KeyValue) (*Object, error) {
	key, o, err := ParseObject(kv.Value)
	if err != nil {
		return nil, fmt.Errorf("the value of %s: %w", kv.Key, err)
	}
	if key != c.key(kv) {
		return nil, fmt.Errorf("the key %s has the object %s", kv.Key, key)
	}
	o.Revision = kv.ModRevision
	return &o, nil
}

func (c *Collector) record(resp clientv3.WatchResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := resp.Err(); err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	if resp.IsProgressNotify() {
		c.seen = max(c.seen, resp.Header.Revision)
	}
	for _, e := range resp.Events {
		change := Change{Revision: e.Kv.ModRevision, Key: c.key(e.Kv), At: c.clock()}
		var err1, err2 error
		if e.Type == clientv3.EventTypePut {
			change.After, err1 = c.object(e.Kv)
		}
		if e.PrevKv != nil {
			change.Before, err2 = c.object(e.PrevKv)
		}
		if n := len(c.truth.Changes); n > 0 && c.truth.Changes[n-1].Revision >= change.Revision {
			// A client that has seen only one of them could not resume its watch.
			err2 = errors.Join(err2, fmt.Errorf("revision %d changes %s and another object", change.Revision, change.Key))
		}
		c.err = errors.Join(c.err, err1, err2)
		c.truth.Changes = append(c.truth.Changes, change)
		c.seen = change.Revision
	}
}

// Sweep records that a request is sent which deletes all objects.
func (c *Collector) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.truth.Sweeps = append(c.truth.Sweeps, c.clock())
}

// Sync waits until all changes up to a revision are recorded.
func (c *Collector) Sync(ctx context.Context, revision int64) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		c.mu.Lock()
		seen, err := c.seen, c.err
		c.mu.Unlock()
		if seen >= revision || err != nil {
			return err
		}
		// The answer is a message on the watch. If none comes, the next request may reach
		// another member.
		_ = c.client.RequestProgress(c.ctx)
		select {
		case <-ctx.Done():
			return fmt.Errorf("etcd's watch is at revision %d instead of %d: %w", seen, revision, ctx.Err())
		case <-tick.C:
		}
	}
}

// Finish stops to record and returns the history.
func (c *Collector) Finish() (*Truth, error) {
	c.cancel()
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	c.truth.build()
	return &c.truth, c.err
}
