// Package etcd runs one etcd member inside the process: the database of a server that
// was given none.
//
// The member is reached through a unix socket in a directory that only its owner can
// enter, and through nothing else: a TCP port would be a door around authentication
// and authorization. It has no peers, so it listens for none, and its clock ticks
// quickly, so that it has elected itself a few milliseconds after it starts.
//
// History is compacted by the clients, as with any etcd that a Kubernetes-style server
// uses: they know how far back they promise to remember. The member sees to itself
// when its space runs out, see [Config.Quota].
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"k8s.io/klog/v2"
)

const (
	// DefaultQuota is what etcd recommends as the most for a normal deployment.
	DefaultQuota = 8 << 30

	// A member without peers has nobody to wait for.
	tick     = 10 * time.Millisecond
	election = 50 * time.Millisecond

	// The name and the address of a member are kept in its data; nobody dials the
	// address.
	memberName = "espalier"
	peerURL    = "unix://peer.invalid"

	startTimeout = 30 * time.Second

	// segment is the size of a file of the log that etcd writes before its database.
	// It makes two of them at once, and 64 MB each is a lot for a small database.
	segment = 16 << 20
)

// Config says what member to run.
type Config struct {
	// Dir holds the data. It is made if it does not exist.
	Dir string
	// Quota is the size in bytes that the database may grow to; zero means
	// DefaultQuota. At the quota, etcd rejects writes until somebody makes room. The
	// member makes the room itself: it forgets all history, gives back what that
	// frees, and accepts writes again.
	Quota int64
	// UnsafeNoFsync does not wait for the disk. What was written survives the end of
	// the process, but not a crash of the machine: for tests.
	UnsafeNoFsync bool
}

// setSegment sets the size of the log's files, a variable of etcd's.
var setSegment = sync.OnceFunc(func() { wal.SegmentSizeBytes = segment })

// Member is a running etcd.
type Member struct {
	etcd     *embed.Etcd
	dir      string
	free     func(dir string) (bytes uint64, ok bool)
	endpoint string
	quota    int64
	// sockets is a directory of the member's own for its socket, or empty.
	sockets string

	starting  atomic.Bool
	closing   atomic.Bool
	cancel    context.CancelFunc
	keeper    sync.WaitGroup
	closeOnce sync.Once
}

// Start runs a member and returns when it serves requests.
func Start(ctx context.Context, c Config) (*Member, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the directory of etcd: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of etcd: %w", err)
	}
	// The directory may have been there, open to others.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("close the directory of etcd to others: %w", err)
	}
	m := &Member{dir: dir, quota: c.Quota, free: freeBytes}
	if m.quota == 0 {
		m.quota = DefaultQuota
	}
	socket, err := m.socketPath(dir)
	if err != nil {
		return nil, err
	}
	m.endpoint = "unix://" + socket

	if err := m.roomToStart(); err != nil {
		m.removeSockets()
		return nil, err
	}
	setSegment()
	if err := m.launch(m.config(c, socket)); err != nil {
		m.removeSockets()
		return nil, explain(dir, err)
	}
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-m.etcd.Server.ReadyNotify():
	case <-m.etcd.Server.StopNotify():
		err = errors.New("it stopped while starting")
	case <-timeout.C:
		err = fmt.Errorf("it was not ready after %v", startTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		m.closing.Store(true)
		m.etcd.Close()
		m.removeSockets()
		return nil, explain(dir, err)
	}

	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel = cancel
	m.keeper.Go(func() { m.keepSpace(keep) })
	return m, nil
}

// roomToStart reports whether there is room on the disk for a new database. With one that
// is there, a full disk is no reason not to start: it can be read, and be made smaller.
func (m *Member) roomToStart() error {
	if _, err := os.Stat(filepath.Join(m.dir, "member")); err == nil {
		return nil
	}
	if free, ok := m.free(m.dir); ok && free < 2*reserve {
		return fmt.Errorf("the disk of %s is full: %d MB are free, a new database needs %d MB", m.dir, free>>20, 2*reserve>>20)
	}
	return nil
}

// launch starts etcd. Where it panics in the course of that, on data that is damaged, or
// a disk that is full, that is an error.
func (m *Member) launch(c *embed.Config) (err error) {
	m.starting.Store(true)
	defer m.starting.Store(false)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it gave up (%v): is the data damaged, or the disk full?", r)
		}
	}()
	m.etcd, err = embed.StartEtcd(c)
	return err
}

// config returns the configuration of a single member that listens on a socket.
func (m *Member) config(c Config, socket string) *embed.Config {
	ec := embed.NewConfig()
	ec.Name = memberName
	ec.Dir = m.dir
	ec.ListenPeerUrls = nil
	peer, err := url.Parse(peerURL)
	if err != nil {
		panic(err) // a constant
	}
	ec.AdvertisePeerUrls = []url.URL{*peer}
	ec.InitialCluster = ec.InitialClusterFromName(ec.Name)
	client := url.URL{Scheme: "unix", Path: socket}
	ec.ListenClientUrls = []url.URL{client}
	ec.AdvertiseClientUrls = []url.URL{client}
	ec.TickMs = uint(tick.Milliseconds())
	ec.ElectionMs = uint(election.Milliseconds())
	ec.QuotaBackendBytes = m.quota
	ec.UnsafeNoFsync = c.UnsafeNoFsync
	ec.EnableGRPCGateway = false
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(klog.Background().WithName("etcd"), &m.closing, &m.starting))
	return ec
}

// explain says what the errors of etcd mean that users can do something about.
func explain(dir string, err error) error {
	return fmt.Errorf("start etcd in %s: %w", dir, err)
}

// Endpoint returns the address for clients.
func (m *Member) Endpoint() string { return m.endpoint }

// Stopped is closed when the member has stopped, whether asked to or not.
func (m *Member) Stopped() <-chan struct{} { return m.etcd.Server.StopNotify() }

// Close stops the member when the requests that it has accepted are answered. Clients
// should be closed before: it waits some seconds for those that are not.
func (m *Member) Close() {
	m.closeOnce.Do(func() {
		m.closing.Store(true)
		m.cancel()
		m.keeper.Wait()
		m.etcd.Close()
		m.removeSockets()
	})
}

// maxSocketPath is how long the path of a unix socket may be on all systems.
const maxSocketPath = 100

// socketPath returns where the socket goes: beside the data, or, if that path is too
// long for a socket, in a directory of its own.
func (m *Member) socketPath(dir string) (string, error) {
	if path := filepath.Join(dir, "client.sock"); len(path) <= maxSocketPath {
		return path, nil
	}
	own, err := os.MkdirTemp("", "espalier-") // mode 0700
	if err != nil {
		return "", fmt.Errorf("make a directory for the socket of etcd: %w", err)
	}
	m.sockets = own
	path := filepath.Join(own, "client.sock")
	if len(path) > maxSocketPath {
		m.removeSockets()
		return "", fmt.Errorf("the path %s is too long for a unix socket; use a shorter directory for data or for temporary files", path)
	}
	return path, nil
}

func (m *Member) removeSockets() {
	if m.sockets != "" {
		// What is left of it is an empty directory for the system to clean.
		_ = os.RemoveAll(m.sockets)
	}
}
