package peers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
)

// revokeTimeout is the time that a stopping server waits for etcd to delete its registration,
// which would expire otherwise.
const revokeTimeout = 2 * time.Second

// errLost is the end of a session whose lease has expired.
var errLost = errors.New("the lease has expired")

// errReplaced is the end of a session when the data of etcd was replaced by older data, because
// the view of the other servers is outdated.
var errReplaced = errors.New("the data of etcd was replaced by older data")

// Run registers the server when its catalog is loaded, and publishes its progress. It returns
// when ctx ends, after it has revoked the lease, or when the lease is lost: call it again to
// register again. It starts no goroutines besides those of the etcd client, which end with it.
func (p *Peers) Run(ctx context.Context) error {
	if err := p.loaded(ctx); err != nil {
		return nil // ctx has ended
	}
	p.revokePrevious(ctx)
	session, cancel := context.WithCancel(ctx)
	defer cancel()
	lease, progress, err := p.register(session)
	for errors.Is(err, rpctypes.ErrNoSpace) {
		if err = p.wait(session, err); err == nil {
			lease, progress, err = p.register(session)
		}
	}
	if err != nil {
		p.mu.Lock()
		p.full = false // it is not known any more
		p.mu.Unlock()
		return err
	}
	defer p.leave(ctx, lease)
	err = p.follow(session, lease, progress)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// loaded waits until the catalog is loaded. Others would wait in vain for a server that is
// starting.
func (p *Peers) loaded(ctx context.Context) error {
	for {
		p.mu.Lock()
		progress, changed := p.progress, p.changed
		p.mu.Unlock()
		if progress > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Peers) keyOf(lease clientv3.LeaseID) string {
	return p.servers + strconv.FormatInt(int64(lease), 16)
}

// register gets a lease and creates the key of this server. In the same transaction it reads
// which servers there are, and the newest CRD. The second result is the progress that it registers.
func (p *Peers) register(ctx context.Context) (clientv3.LeaseID, int64, error) {
	timeout, cancel := context.WithTimeout(ctx, p.lease)
	defer cancel()
	grant, err := p.client.Grant(timeout, int64(p.lease/time.Second))
	if err != nil {
		return 0, 0, fmt.Errorf("register the server in etcd: %w", err)
	}
	p.record(ctx, grant.ID)
	p.mu.Lock()
	progress := p.progress
	p.mu.Unlock()
	key := p.keyOf(grant.ID)
	newest := append(clientv3.WithLastRev(), clientv3.WithKeysOnly())
	resp, err := p.client.Txn(timeout).Then(
		clientv3.OpPut(key, strconv.FormatInt(progress, 10), clientv3.WithLease(grant.ID)),
		clientv3.OpGet(p.servers, clientv3.WithPrefix()),
		clientv3.OpGet(p.crds, append(newest, clientv3.WithPrefix())...),
	).Commit()
	if err != nil {
		p.revoke(ctx, grant.ID) // the key may exist
		return 0, 0, fmt.Errorf("register the server in etcd: %w", err)
	}
	p.mu.Lock()
	p.key, p.full, p.required, p.revision = key, false, 0, 0
	for _, kv := range resp.Responses[2].GetResponseRange().GetKvs() {
		p.required = kv.ModRevision
	}
	p.mu.Unlock()
	p.replace(resp.Header.Revision, resp.Responses[1].GetResponseRange().GetKvs())
	klog.FromContext(ctx).V(2).Info("Registered the server in etcd", "key", key)
	return grant.ID, progress, nil
}

// fullRetry is the time between attempts to register while etcd has no space left.
const fullRetry = time.Second

// wait waits before the next attempt to register, because etcd has no space left. Until then, the
// server is ready if its catalog has all CRDs.
func (p *Peers) wait(ctx context.Context, reason error) error {
	timeout, cancel := context.WithTimeout(ctx, p.lease)
	defer cancel()
	newest, err := p.client.Get(timeout, p.crds, append(clientv3.WithLastRev(), clientv3.WithKeysOnly(), clientv3.WithPrefix())...)
	if err != nil {
		return fmt.Errorf("register the server in etcd: %w", err)
	}
	p.mu.Lock()
	if !p.full {
		klog.FromContext(ctx).Error(reason, "The server is not registered until etcd has space")
	}
	p.full, p.required = true, 0
	for _, kv := range newest.Kvs {
		p.required = kv.ModRevision
	}
	p.notify()
	p.mu.Unlock()
	select {
	case <-time.After(fullRetry):
	case <-ctx.Done():
	}
	return nil
}

// follow keeps the lease alive, follows the other servers, and publishes the progress of this
// one, until ctx ends or the lease is lost. last is the progress that was registered.
func (p *Peers) follow(ctx context.Context, lease clientv3.LeaseID, last int64) error {
	alive, err := p.client.KeepAlive(ctx, lease)
	if err != nil {
		return fmt.Errorf("keep the server registered in etcd: %w", err)
	}
	p.mu.Lock()
	from := p.revision + 1
	p.mu.Unlock()
	watch := p.client.Watch(clientv3.WithRequireLeader(ctx), p.servers, clientv3.WithPrefix(), clientv3.WithRev(from))
	var published int64
	for {
		p.mu.Lock()
		progress, alone, changed := p.progress, len(p.others) == 0, p.changed
		p.mu.Unlock()
		if progress < last {
			return errReplaced
		}
		last = progress
		if progress > published && !alone {
			if err := p.publish(ctx, lease, progress); err != nil {
				return err
			}
			published = progress
			continue
		}
		select {
		case _, ok := <-alive:
			if !ok {
				return errLost
			}
		case resp, ok := <-watch:
			if !ok {
				return errors.New("the watch of the servers has ended")
			}
			if err := resp.Err(); err != nil {
				return fmt.Errorf("watch the servers of this etcd: %w", err)
			}
			p.apply(resp.Events)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// publish writes the progress of this server, if it still has its lease.
func (p *Peers) publish(ctx context.Context, lease clientv3.LeaseID, progress int64) error {
	ctx, cancel := context.WithTimeout(ctx, p.lease)
	defer cancel()
	key := p.keyOf(lease)
	resp, err := p.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).
		Then(clientv3.OpPut(key, strconv.FormatInt(progress, 10), clientv3.WithLease(lease))).
		Commit()
	if err != nil {
		return fmt.Errorf("publish the progress of the server: %w", err)
	}
	if !resp.Succeeded {
		return errLost
	}
	return nil
}

// leave ends a registration.
func (p *Peers) leave(ctx context.Context, lease clientv3.LeaseID) {
	p.mu.Lock()
	p.key = ""
	p.notify()
	p.mu.Unlock()
	p.revoke(ctx, lease)
}

// revoke deletes a lease and its key. It also works when ctx has ended.
func (p *Peers) revoke(ctx context.Context, lease clientv3.LeaseID) {
	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if _, err := p.client.Revoke(timeout, lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		klog.FromContext(ctx).Error(err, "Cannot revoke the lease of a server: it expires", "after", p.lease)
	}
}

// record writes the lease to the file. Without the file, the next server waits until the lease
// expires if this one crashes.
func (p *Peers) record(ctx context.Context, lease clientv3.LeaseID) {
	if err := os.WriteFile(p.file, []byte(strconv.FormatInt(int64(lease), 16)), 0o600); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot record the lease of the server")
	}
}

// revokePrevious revokes the lease of the last server in this data directory, which no longer
// runs. In a copied directory it may be that of a live server, which then registers again.
func (p *Peers) revokePrevious(ctx context.Context) {
	text, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		var lease int64
		if lease, err = strconv.ParseInt(strings.TrimSpace(string(text)), 16, 64); err == nil {
			p.revoke(ctx, clientv3.LeaseID(lease))
			return
		}
	}
	klog.FromContext(ctx).Error(err, "Cannot read the lease of the previous server")
}

// replace sets the view of the other servers at a revision, unless it is newer already.
func (p *Peers) replace(revision int64, kvs []*mvccpb.KeyValue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision < p.revision {
		return
	}
	p.revision = revision
	others := make(map[string]*peer, len(kvs))
	for _, kv := range kvs {
		if key := string(kv.Key); key != p.key {
			others[key] = p.seen(key, parse(kv.Value))
		}
	}
	p.others = others
	p.notify()
}

// apply applies the events of a watch that the view does not have.
func (p *Peers) apply(events []*clientv3.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		key := string(e.Kv.Key)
		if e.Kv.ModRevision <= p.revision || key == p.key {
			continue
		}
		if e.Type == clientv3.EventTypeDelete {
			delete(p.others, key)
		} else {
			p.others[key] = p.seen(key, parse(e.Kv.Value))
		}
	}
	if n := len(events); n > 0 {
		p.revision = max(p.revision, events[n-1].Kv.ModRevision)
	}
	p.notify()
}

// seen returns the peer with a key. A peer that has made progress is not lagging.
func (p *Peers) seen(key string, progress int64) *peer {
	if old := p.others[key]; old != nil && old.progress == progress {
		return old
	}
	return &peer{progress: progress}
}
