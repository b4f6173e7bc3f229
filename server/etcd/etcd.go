// Package etcd runs a single etcd member in the process, for a server without an external
// etcd.
//
// The member listens only on a unix socket in a directory that only its owner can enter: a
// TCP port would bypass authentication and authorization. It has no peers, so it does not
// listen for any, and elects itself as soon as it has started.
//
// Clients compact the history, as with every etcd of a Kubernetes API server, because they
// know how much history they need. If space runs out, the member frees some, see
// [Config.Quota].
package etcd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
)

const (
	// DefaultQuota is the maximum that etcd recommends for normal deployments.
	DefaultQuota = 8 << 30

	// tick is that of etcd by default. Every tick wakes the process, so a faster clock costs CPU
	// time when idle. No election waits for it, see [Elect].
	tick     = 100 * time.Millisecond
	election = 5 * tick

	// The name and the address of a member are stored in its data. The address is never
	// dialed.
	memberName = "espalier"
	peerURL    = "unix://peer.invalid"

	startTimeout = 30 * time.Second

	// segment is the size of a file of etcd's write-ahead log. etcd preallocates two of them,
	// and its default of 64 MB each is a lot for a small database.
	segment = 16 << 20
)

// Config configures a member.
type Config struct {
	// Dir is the data directory. It is created if it does not exist.
	Dir string
	// Quota is the maximum size of the database in bytes; zero means DefaultQuota. At the
	// quota, etcd rejects writes. The member then compacts all history, returns the freed
	// space to the file system, and accepts writes again.
	Quota int64
	// UnsafeNoFsync does not wait for the disk. Writes survive the end of the process, but
	// not a crash of the machine. For tests only.
	UnsafeNoFsync bool
}

// setSegment sets the size of the log files, a global variable of etcd.
var setSegment = sync.OnceFunc(func() { wal.SegmentSizeBytes = segment })

// Member is a running etcd member.
type Member struct {
	etcd     *embed.Etcd
	dir      string
	free     func(dir string) (bytes uint64, ok bool)
	endpoint string
	quota    int64
	// sockets is a separate directory for the socket, or empty.
	sockets string

	// inUse is the revision at which all space of the database was in use.
	inUse atomic.Int64

	probe     probe
	starting  atomic.Bool
	closing   atomic.Bool
	cancel    context.CancelFunc
	keeper    sync.WaitGroup
	closeOnce sync.Once
}

// Start starts a member and returns when it serves requests.
func Start(ctx context.Context, c Config) (*Member, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve the etcd directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the etcd directory: %w", err)
	}
	// An existing directory may be open to other users.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("restrict the etcd directory to its owner: %w", err)
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
	if err := checkFiles(dir); err != nil {
		m.removeSockets()
		return nil, explain(dir, err)
	}
	if err := checkWriter(dir); err != nil {
		m.removeSockets()
		return nil, explain(dir, err)
	}
	setSegment()
	if err := m.launch(m.config(c, socket)); err != nil {
		m.removeSockets()
		return nil, explain(dir, err)
	}
	if err := m.await(ctx); err != nil {
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

// await returns when the member serves requests.
func (m *Member) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("etcd was not ready after %v", startTimeout))
	defer cancel()
	return elect(ctx, m.etcd.Server, &m.probe)
}

// roomToStart returns an error if the disk has too little space for a new database. An
// existing database starts on a full disk, too: it can be read, and objects can be deleted.
func (m *Member) roomToStart() error {
	if HasData(m.dir) {
		return nil
	}
	if free, ok := m.free(m.dir); ok && free < 2*reserve {
		return fmt.Errorf("the disk of %s is full: a new database needs %d MB, only %d MB are free", m.dir, 2*reserve>>20, free>>20)
	}
	return nil
}

// HasData reports whether a directory has the data of a member.
func HasData(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "member"))
	return err == nil
}

// launch starts etcd. If etcd panics, because data is damaged or the disk is full, launch
// returns an error.
func (m *Member) launch(c *embed.Config) (err error) {
	m.starting.Store(true)
	defer m.starting.Store(false)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("etcd panicked (%v): if the disk is not full, the data is damaged: %s", r, restoreAdvice)
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
	ec.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow)}
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(klog.Background().WithName("etcd"), &m.closing, &m.starting, &m.probe))
	return ec
}

// explain adds the data directory to an error of etcd.
func explain(dir string, err error) error {
	return fmt.Errorf("start etcd in %s: %w", dir, err)
}

// Endpoint returns the address for clients.
func (m *Member) Endpoint() string { return m.endpoint }

// Stopped returns a channel that is closed when the member has stopped for any reason.
func (m *Member) Stopped() <-chan struct{} { return m.etcd.Server.StopNotify() }

// Close stops the member after it has answered the accepted requests. Close clients first: it
// waits some seconds for those that are still connected.
func (m *Member) Close() {
	m.closeOnce.Do(func() {
		m.closing.Store(true)
		m.cancel()
		m.keeper.Wait()
		m.etcd.Close()
		m.removeSockets()
	})
}

// maxSocketPath is the maximum length of a unix socket's path on all systems.
const maxSocketPath = 100

// socketName is the name of the socket. If the socket is in a separate directory,
// socketPathName is the file in the data directory that has its path.
const (
	socketName     = "client.sock"
	socketPathName = "client.sock.path"
)

// RunningEndpoint returns the address of the member that another process runs in a directory.
func RunningEndpoint(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve the etcd directory: %w", err)
	}
	socket := filepath.Join(dir, socketName)
	if len(socket) > maxSocketPath {
		text, err := os.ReadFile(filepath.Join(dir, socketPathName))
		if err != nil {
			return "", fmt.Errorf("find the socket of etcd: %w", err)
		}
		socket = string(text)
	}
	return "unix://" + socket, nil
}

// socketPath returns the path of the socket: in the data directory, or, if that path is too
// long for a socket, in a separate directory.
func (m *Member) socketPath(dir string) (string, error) {
	if path := filepath.Join(dir, socketName); len(path) <= maxSocketPath {
		return path, nil
	}
	own, err := os.MkdirTemp("", "espalier-") // mode 0700
	if err != nil {
		return "", fmt.Errorf("create a directory for the etcd socket: %w", err)
	}
	m.sockets = own
	path := filepath.Join(own, socketName)
	if len(path) > maxSocketPath {
		m.removeSockets()
		return "", fmt.Errorf("the path %s is too long for a unix socket: use a shorter path for the data directory or for temporary files", path)
	}
	if err := os.WriteFile(filepath.Join(dir, socketPathName), []byte(path), 0o600); err != nil {
		m.removeSockets()
		return "", fmt.Errorf("record the path of the etcd socket: %w", err)
	}
	return path, nil
}

func (m *Member) removeSockets() {
	if m.sockets != "" {
		// If this fails, an empty directory is left for the system to clean up.
		_ = os.RemoveAll(m.sockets)
		_ = os.Remove(filepath.Join(m.dir, socketPathName))
	}
}
