package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// memberVariable is the environment variable with the configuration of an etcd member. If it
// is set, the test binary is that member.
const memberVariable = "ROBUSTNESS_ETCD_MEMBER"

// memberConfig configures the process of a member.
type memberConfig struct {
	Name, Dir, PeerURL, Cluster string
	Quota                       int64
}

// Main runs an etcd member if the process was started as one, and never returns then. The
// main function of tests calls it first.
func Main() {
	text := os.Getenv(memberVariable)
	if text == "" {
		return
	}
	var c memberConfig
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = runMember(c)
	}
	fmt.Fprintln(os.Stderr, "etcd:", err)
	os.Exit(1)
}

// runMember runs a member until it fails.
func runMember(c memberConfig) error {
	ec := embed.NewConfig()
	ec.Name, ec.Dir = c.Name, filepath.Join(c.Dir, "data")
	peer, err := url.Parse(c.PeerURL)
	if err != nil {
		return err
	}
	client := url.URL{Scheme: "unix", Path: clientSocket(c.Dir)}
	ec.ListenClientUrls = []url.URL{client}
	ec.AdvertiseClientUrls = []url.URL{client}
	ec.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: peerSocket(c.Dir)}} // etcd reads no path here
	ec.AdvertisePeerUrls = []url.URL{*peer}
	ec.InitialCluster = c.Cluster
	ec.QuotaBackendBytes = c.Quota
	// The page cache survives the death of the process, which is all that happens here.
	ec.UnsafeNoFsync = true
	ec.PreVote = true
	ec.LogLevel = "warn"
	for _, socket := range []string{clientSocket(c.Dir), peerSocket(c.Dir)} {
		if err := os.RemoveAll(socket); err != nil { // a killed member leaves it
			return err
		}
	}
	etcd, err := embed.StartEtcd(ec)
	if err != nil {
		return err
	}
	return <-etcd.Err()
}

func clientSocket(dir string) string { return filepath.Join(dir, "c.sock") }
func peerSocket(dir string) string   { return filepath.Join(dir, "p.sock") }

// Member is an etcd member. It is a process of its own.
type Member struct {
	*process
	// peer is between the other members and the member.
	peer *Proxy
	dir  string
	id   string // as in X-Server-From; set when the cluster has started
}

// Kill kills the member.
func (m *Member) Kill() { m.kill() }

// Start starts the member again.
func (m *Member) Start() { m.start() }

// Pause stops the member from running until Resume.
func (m *Member) Pause() { m.signal(syscall.SIGSTOP) }

// Resume continues a paused member.
func (m *Member) Resume() { m.signal(syscall.SIGCONT) }

// Etcd is an etcd cluster.
type Etcd struct {
	Members []*Member
	// Client is connected to all members directly, without proxies.
	Client *clientv3.Client
}

// StartEtcd starts a cluster and waits until it has a leader. A quota of zero is etcd's
// default.
func StartEtcd(t testing.TB, dir string, size int, quota int64) *Etcd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e := &Etcd{}
	var cluster, endpoints []string
	for i := range size {
		dir := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m := &Member{dir: dir, peer: NewProxy(t, peerSocket(dir), true)}
		e.Members = append(e.Members, m)
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, m.peer.URL()))
		endpoints = append(endpoints, "unix://"+clientSocket(dir))
	}
	for i, m := range e.Members {
		config, err := json.Marshal(memberConfig{
			Name: fmt.Sprintf("m%d", i), Dir: m.dir, PeerURL: m.peer.URL(),
			Cluster: strings.Join(cluster, ","), Quota: quota,
		})
		if err != nil {
			t.Fatal(err)
		}
		m.process = newProcess(t, fmt.Sprintf("etcd member %d", i), filepath.Join(m.dir, "log"), func() *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), memberVariable+"="+string(config))
			return cmd
		})
		m.start()
	}
	e.Client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.identify(ctx); err != nil {
		t.Fatalf("etcd does not start: %v\n%s", err, tail(filepath.Join(e.Members[0].dir, "log")))
	}
	return e
}

// identify waits for a leader and learns the IDs of the members.
func (e *Etcd) identify(ctx context.Context) error {
	var err error
	for ctx.Err() == nil {
		if _, err = e.Client.Get(ctx, "/"); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	list, err := e.Client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, info := range list.Members {
		for _, m := range e.Members {
			if len(info.PeerURLs) > 0 && info.PeerURLs[0] == m.peer.URL() {
				m.id = strconv.FormatUint(info.ID, 16)
			}
		}
	}
	return nil
}

// Links returns proxies to all members, for the connections of one client.
func (e *Etcd) Links(t testing.TB) (out []*Proxy) {
	for _, m := range e.Members {
		out = append(out, NewProxy(t, clientSocket(m.dir), false))
	}
	return out
}

// URLs returns the addresses of proxies, separated by commas.
func URLs(links []*Proxy) string {
	var urls []string
	for _, p := range links {
		urls = append(urls, p.URL())
	}
	return strings.Join(urls, ",")
}

// Dial returns a client of the member alone.
func (m *Member) Dial() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + clientSocket(m.dir)}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// Leader returns the member that its own status reports as the leader.
func (e *Etcd) Leader(ctx context.Context) (*Member, error) {
	for _, m := range e.Members {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		status, err := e.Client.Status(ctx, "unix://"+clientSocket(m.dir))
		cancel()
		if err == nil && status.Leader == status.Header.MemberId {
			return m, nil
		}
	}
	return nil, errors.New("no member is the leader")
}

// Isolate separates a member from the other members in both directions, or connects it again.
func (e *Etcd) Isolate(m *Member, link Link) {
	m.peer.Set(link)
	for _, other := range e.Members {
		if other != m {
			other.peer.SetFrom(m.id, link)
		}
	}
}

// Revision returns the current revision, by a linearizable read.
func (e *Etcd) Revision(ctx context.Context) (int64, error) {
	resp, err := e.Client.Get(ctx, "/")
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}
