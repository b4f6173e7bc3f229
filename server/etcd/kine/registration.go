package kine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"espalier.dev/server/keys"
)

// ErrTaken is returned when another server is registered.
var ErrTaken = errors.New("another server uses this data in kine, which supports one server only, because it has no transactions that compare several keys: " +
	"stop the other server, or set another --etcd-prefix; if it has crashed, start again after its --server-lease-duration, or in its --data-dir; " +
	"for several servers, use etcd")

// ErrLost is the reason why a server stops that could not renew its registration in time.
var ErrLost = errors.New("the registration of this server in kine has expired, so another server may have used the data")

// leaveTime is the time that Close waits for kine to delete the registration.
const leaveTime = 2 * time.Second

// Registration is the registration of the only server on data in kine: a key that kine deletes
// when its lease has expired.
//
// A goroutine renews it from [Conn.Register] to [Registration.Close], which ends it. Every
// renewal writes the key again, because kine cannot renew a lease. The server measures the
// lease from before the renewal, and kine from after it. So the server knows first: if it
// cannot renew the registration for two thirds of the lease, it rejects all writes, and none
// that it has sent has a later deadline. A server whose registration is gone stops, because
// another one may have been there meanwhile: what it has in memory may be wrong. If kine is
// down, leases do not expire; they start anew when it is back.
//
// If the server crashes, others cannot start until the lease expires. Only the next server in
// the same data directory can, because the token of the registration is in a file there.
type Registration struct {
	client *clientv3.Client
	key    string
	token  string
	lease  time.Duration

	lost chan struct{}
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	revision int64
	until    time.Time // writes are allowed until then
}

// RegistrationConfig configures a registration.
type RegistrationConfig struct {
	// Client is the connection to kine, with the options of the Conn.
	Client *clientv3.Client
	// Root is the root of the keys of the data that only one server may use.
	Root keys.Root
	// Lease is the duration of the lease in whole seconds.
	Lease time.Duration
	// File is the path of a file that records the token for the next server in the same data
	// directory. No two servers may use the same file.
	File string
}

// Register registers this server, and allows writes. It returns [ErrTaken] if another server is
// registered. The caller must call Close.
func (c *Conn) Register(ctx context.Context, config RegistrationConfig) (*Registration, error) {
	r := &Registration{
		client: config.Client, token: uuid.NewString(), lease: config.Lease,
		key:  config.Root.OnlyServer(),
		lost: make(chan struct{}), done: make(chan struct{}),
	}
	previous, err := os.ReadFile(config.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the registration of the previous server: %w", err)
	}
	if err := r.take(ctx, strings.TrimSpace(string(previous))); err != nil {
		return nil, fmt.Errorf("register the server in kine: %w", err)
	}
	// Without the file, the next server would have to wait.
	if err := os.WriteFile(config.File, []byte(r.token), 0o600); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot record the registration of the server")
	}
	c.registration.Store(r)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	go r.run(running)
	return r, nil
}

// take creates the key, or replaces that of the previous server, whose token is given.
func (r *Registration) take(ctx context.Context, previous string) error {
	for {
		current, err := r.client.Get(ctx, r.key)
		if err != nil {
			return err
		}
		r.revision = 0
		if len(current.Kvs) > 0 {
			if token := string(current.Kvs[0].Value); token != previous && token != r.token {
				return ErrTaken
			}
			r.revision = current.Kvs[0].ModRevision
		}
		if err := r.renew(ctx); !errors.Is(err, ErrLost) {
			return err
		}
		// It has expired meanwhile, or another server was faster.
	}
}

// Lost returns a channel that is closed when another server may have used the data. A nil
// Registration is never lost.
func (r *Registration) Lost() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.lost
}

// Check returns an error while writes are rejected.
func (r *Registration) Check() error {
	_, err := r.deadline()
	return err
}

func (r *Registration) deadline() (time.Time, error) {
	if r == nil {
		return time.Time{}, errors.New("the server is not registered in kine")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !time.Now().Before(r.until) {
		return r.until, errors.New("the registration of the server in kine could not be renewed in time")
	}
	return r.until, nil
}

// limit returns the context of a write, which does not end with ctx.
func (r *Registration) limit(ctx context.Context) (context.Context, context.CancelFunc, error) {
	until, err := r.deadline()
	if err != nil {
		return nil, nil, status.Error(codes.Unavailable, err.Error())
	}
	// The next renewal waits for the write.
	if own := time.Now().Add(r.lease / 3); own.Before(until) {
		until = own
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	return ctx, cancel, nil
}

// run renews the registration.
func (r *Registration) run(ctx context.Context) {
	defer close(r.done)
	ticker := time.NewTicker(r.lease / 5)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Other errors are temporary, or become a lost registration.
		if errors.Is(r.renew(ctx), ErrLost) {
			close(r.lost)
			return
		}
	}
}

// renewalKey is the context key of writes of the registration itself.
type renewalKey struct{}

func isRenewal(ctx context.Context) bool { return ctx.Value(renewalKey{}) != nil }

// renew writes the key with a new lease. It returns ErrLost if the key is gone, or that of
// another server.
func (r *Registration) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, renewalKey{}, true), r.lease/3)
	defer cancel()
	grant, err := r.client.Grant(ctx, int64(r.lease/time.Second))
	if err != nil {
		return err
	}
	for {
		began := time.Now()
		resp, err := r.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(r.key), "=", r.revision)).
			Then(clientv3.OpPut(r.key, r.token, clientv3.WithLease(grant.ID))).
			Else(clientv3.OpGet(r.key)).
			Commit()
		if err != nil {
			return err
		}
		if resp.Succeeded {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.revision, r.until = resp.Header.Revision, began.Add(r.lease*2/3)
			return nil
		}
		kvs := resp.Responses[0].GetResponseRange().GetKvs()
		if len(kvs) == 0 || string(kvs[0].Value) != r.token {
			return ErrLost
		}
		r.revision = kvs[0].ModRevision // an earlier renewal was stored without an answer
	}
}

// Close deletes the registration, so that another server can start. All writes must have ended.
func (r *Registration) Close() {
	r.stop()
	<-r.done
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), renewalKey{}, true), leaveTime)
	defer cancel()
	// If this fails, the registration expires.
	_, _ = r.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(r.key), "=", r.revision)).Then(clientv3.OpDelete(r.key)).Commit()
}
