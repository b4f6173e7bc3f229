package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"espalier.dev/server/pki"
)

// startMember starts a member that is closed at the end of the test.
func startMember(t *testing.T, c Config) *Member {
	t.Helper()
	c.UnsafeNoFsync = true
	m, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func connect(t *testing.T, urls ...string) *clientv3.Client {
	t.Helper()
	c, err := Connect(t.Context(), Endpoints{URLs: urls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestMember(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	m := startMember(t, Config{Dir: dir})
	c := connect(t, m.Endpoint())
	if _, err := c.Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	m.Close()
	m.Close() // a second call does nothing
	<-m.Stopped()

	// The data outlives the member, even if the directory is renamed.
	moved := dir + "-moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	m = startMember(t, Config{Dir: moved})
	c = connect(t, m.Endpoint())
	resp, err := c.Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "value" {
		t.Errorf("got %v", resp.Kvs)
	}
}

// TestSocket checks that only the owner can reach the member, and that long paths work.
func TestSocket(t *testing.T) {
	for name, dir := range map[string]string{
		"short": "d",
		"long":  strings.Repeat("long/", 30),
	} {
		t.Run(name, func(t *testing.T) {
			m := startMember(t, Config{Dir: filepath.Join(t.TempDir(), dir)})
			socket, ok := strings.CutPrefix(m.Endpoint(), "unix://")
			if !ok {
				t.Fatalf("the endpoint is %s", m.Endpoint())
			}
			info, err := os.Stat(filepath.Dir(socket))
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode != 0o700 {
				t.Errorf("the directory of the socket has mode %o", mode)
			}
			if n := len(m.etcd.Clients) + len(m.etcd.Peers); n != 1 {
				t.Errorf("the member has %d listeners", n)
			}
			connect(t, m.Endpoint())
			m.Close()
			if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket is still there: %v", err)
			}
		})
	}
}

func TestStartErrors(t *testing.T) {
	t.Run("a file instead of a directory", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := Start(t.Context(), Config{Dir: file}); err == nil {
			m.Close()
			t.Error("it started")
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m, err := Start(ctx, Config{Dir: t.TempDir()})
		if err == nil {
			m.Close() // it started before the cancellation
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestSpace fills the database with history and checks that the member frees space.
func TestSpace(t *testing.T) {
	m := startMember(t, Config{Dir: t.TempDir(), Quota: 4 << 20})
	c := connect(t, m.Endpoint())
	value := strings.Repeat("x", 256<<10)
	put := func() error {
		_, err := c.Put(t.Context(), "key", value)
		return err
	}
	var err error
	for range 100 {
		if err = put(); err != nil {
			break
		}
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("the database did not fill up: %v", err)
	}
	deadline := time.Now().Add(time.Minute)
	for err != nil && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		err = put()
	}
	if err != nil {
		t.Errorf("still no room: %v", err)
	}
	resp, err := c.Get(t.Context(), "key")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != value {
		t.Errorf("the value is lost: %v, %v", resp.Kvs, err)
	}
}

// TestSpaceLive fills the database with live data: no space can be freed until something is
// deleted.
func TestSpaceLive(t *testing.T) {
	m := startMember(t, Config{Dir: t.TempDir(), Quota: 40 << 20})
	c := connect(t, m.Endpoint())
	m.cancel() // the test calls makeSpace instead of waiting
	m.keeper.Wait()
	value := strings.Repeat("x", 1<<20)
	var err error
	for i := range 100 {
		_, err = c.Put(t.Context(), fmt.Sprintf("%03d", i), value)
		m.etcd.Server.Backend().ForceCommit() // otherwise etcd does not know the size yet, and accepts more
		if errors.Is(err, rpctypes.ErrNoSpace) {
			err = m.makeSpace(t.Context(), &attempt{})
		}
		if err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "delete objects or raise the quota") {
		t.Fatalf("got %v", err)
	}
	if !m.outOfSpace() {
		t.Error("writes are accepted without free space")
	}
	if _, err := c.Delete(t.Context(), "00", clientv3.WithRange("030")); err != nil {
		t.Fatal(err)
	}
	if err := m.makeSpace(t.Context(), &attempt{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), "000", value); err != nil {
		t.Error(err)
	}
}

// TestDisk fills the disk: writes are rejected until there is space again.
func TestDisk(t *testing.T) {
	m := startMember(t, Config{Dir: t.TempDir()})
	c := connect(t, m.Endpoint())
	m.cancel()
	m.keeper.Wait()
	if _, err := c.Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	var free atomic.Uint64
	m.free = func(string) (uint64, bool) { return free.Load(), true }
	ctx, cancel := context.WithCancel(t.Context())
	var keeper sync.WaitGroup
	keeper.Go(func() { m.keepSpace(ctx) })
	t.Cleanup(func() {
		cancel()
		keeper.Wait()
	})
	until := func(what string, done func(err error) bool) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			_, err := c.Put(t.Context(), "key", "value")
			if done(err) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	until("writes to a full disk are accepted", func(err error) bool { return errors.Is(err, rpctypes.ErrNoSpace) })
	if _, err := c.Get(t.Context(), "key"); err != nil {
		t.Errorf("reads: %v", err)
	}
	free.Store(10 * reserve)
	until("writes are rejected although there is space", func(err error) bool { return err == nil })
}

// TestDiskDeleted fills the disk with objects: when they are deleted, their space is returned to the disk,
// and writes are accepted again.
func TestDiskDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for etcd")
	}
	m := startMember(t, Config{Dir: t.TempDir()})
	c := connect(t, m.Endpoint())
	m.cancel()
	m.keeper.Wait()
	value := strings.Repeat("x", 1<<20)
	for i := range 20 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("%03d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	b := m.etcd.Server.Backend()
	b.ForceCommit()
	// The disk is full until the database is smaller.
	before := b.Size()
	m.free = func(string) (uint64, bool) { return 2*reserve - 10<<20 + uint64(before-b.Size()), true }
	if err := m.alarm(t.Context(), pb.AlarmRequest_ACTIVATE); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var keeper sync.WaitGroup
	keeper.Go(func() { m.keepSpace(ctx) })
	t.Cleanup(func() {
		cancel()
		keeper.Wait()
	})
	if _, err := c.Put(t.Context(), "key", "value"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("a write to a full disk: %v", err)
	}
	if _, err := c.Delete(t.Context(), "0", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := c.Put(t.Context(), "key", "value")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the database has %d bytes, and had %d: %v", b.Size(), before, err)
		}
	}
}

// TestShrinkAgain checks that space is returned to the disk although the first attempt had not enough of it, and
// the database has not changed since.
func TestShrinkAgain(t *testing.T) {
	m := startMember(t, Config{Dir: t.TempDir()})
	c := connect(t, m.Endpoint())
	m.cancel()
	m.keeper.Wait()
	for range 20 {
		if _, err := c.Put(t.Context(), "key", strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	b := m.etcd.Server.Backend()
	b.ForceCommit()
	var free uint64 = shrinkReserve - 1
	m.free = func(string) (uint64, bool) { return free, true }
	before, last := b.Size(), attempt{}
	for _, step := range []struct {
		what    string
		free    uint64
		age     time.Duration
		smaller bool
	}{
		{"without space", shrinkReserve - 1, 0, false},
		{"soon after that", 10 * reserve, 0, false},
		{"a while after that", 10 * reserve, 2 * spaceBackoff, true},
	} {
		free = step.free
		last.shrinkFailed = last.shrinkFailed.Add(-step.age)
		m.tryShrink(t.Context(), &last)
		if smaller := b.Size() < before; smaller != step.smaller {
			t.Errorf("%s: the database has %d bytes, and had %d: %v", step.what, b.Size(), before, last.shrinkErr)
		}
	}
}

// TestStartGivesUp checks that etcd does not end the process when it cannot start.
func TestStartGivesUp(t *testing.T) {
	// A failed etcd may still create a file, so the removal of the directory may fail.
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := startMember(t, Config{Dir: dir})
	m.Close()
	wals, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(wals) == 0 {
		t.Fatal(wals, err)
	}
	if err := os.WriteFile(wals[0], []byte("this is not a log"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err = Start(t.Context(), Config{Dir: dir})
	if err == nil {
		m.Close()
	}
	wantError(t, err, "start etcd in "+dir)
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		_, err := Connect(t.Context(), Endpoints{URLs: []string{"http://127.0.0.1:1"}})
		wantError(t, err, "no etcd member can be reached", "http://127.0.0.1:1", "connection refused")
	})
	t.Run("somebody else", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(nil)
		defer s.Close()
		_, err := Connect(t.Context(), Endpoints{URLs: []string{s.URL}})
		wantError(t, err, "no etcd member can be reached", s.URL)
	})
	t.Run("two clusters", func(t *testing.T) {
		t.Parallel()
		a := startForeign(t, "a", nil)
		b := startForeign(t, "b", nil)
		_, err := Connect(t.Context(), Endpoints{URLs: []string{a, b}})
		wantError(t, err, a, b, "different etcd clusters")
	})
	t.Run("one of two is down", func(t *testing.T) {
		t.Parallel()
		m := startMember(t, Config{Dir: t.TempDir()})
		connect(t, m.Endpoint(), "unix:///nobody/there.sock")
	})
	t.Run("no certificate", func(t *testing.T) {
		_, err := Connect(t.Context(), Endpoints{URLs: []string{"https://127.0.0.1:1"}, CAFile: "missing.crt"})
		wantError(t, err, "certificates for etcd", "missing.crt")
	})
}

func TestConnectTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := pki.Ensure(pki.Config{Dir: dir, Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := startForeign(t, "tls", b)
	full := Endpoints{URLs: []string{endpoint}, CAFile: b.CA.CertFile, CertFile: b.Admin.CertFile, KeyFile: b.Admin.KeyFile}
	c, err := Connect(t.Context(), full)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()

	t.Run("without a client certificate", func(t *testing.T) {
		t.Parallel()
		_, err := Connect(t.Context(), Endpoints{URLs: []string{endpoint}, CAFile: b.CA.CertFile})
		wantError(t, err, "no etcd member can be reached", endpoint, // it closes the connection, possibly without a reason
			"set --etcd-certfile and --etcd-keyfile")
	})
	t.Run("with an expired client certificate", func(t *testing.T) {
		t.Parallel()
		then := time.Now().AddDate(-3, 0, 0)
		old, err := pki.Ensure(pki.Config{Dir: t.TempDir(), CACertFile: b.CA.CertFile, CAKeyFile: b.CA.KeyFile, Now: func() time.Time { return then }})
		if err != nil {
			t.Fatal(err)
		}
		e := full
		e.CertFile, e.KeyFile = old.Admin.CertFile, old.Admin.KeyFile
		_, err = Connect(t.Context(), e)
		wantError(t, err, "no etcd member can be reached", "the client certificate "+old.Admin.CertFile+" has expired on "+then.Add(365*24*time.Hour).UTC().Format("2006-01-02"))
	})
	t.Run("with a client certificate of another CA", func(t *testing.T) {
		t.Parallel()
		other, err := pki.Ensure(pki.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		e := full
		e.CertFile, e.KeyFile = other.Admin.CertFile, other.Admin.KeyFile
		_, err = Connect(t.Context(), e)
		wantError(t, err, "no etcd member can be reached", "check that etcd accepts the CA of "+other.Admin.CertFile)
	})
	t.Run("without https", func(t *testing.T) {
		t.Parallel()
		_, err := Connect(t.Context(), Endpoints{URLs: []string{"http" + strings.TrimPrefix(endpoint, "https")}})
		wantError(t, err, "no etcd member can be reached", "its URLs begin with https://")
	})
	t.Run("with another CA", func(t *testing.T) {
		t.Parallel()
		other, err := pki.Ensure(pki.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		e := full
		e.CAFile = other.CA.CertFile
		_, err = Connect(t.Context(), e)
		wantError(t, err, "no etcd member can be reached", "certificate signed by unknown authority")
	})
}

// startForeign runs an etcd outside of this package, with TLS if there are certificates, and
// returns its address.
func startForeign(t *testing.T, name string, certs *pki.Bundle) string {
	t.Helper()
	c := embed.NewConfig()
	c.Name = name
	c.Dir = t.TempDir()
	c.InitialClusterToken = name
	client := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	if certs != nil {
		client.Scheme = "https"
		c.ClientTLSInfo = transport.TLSInfo{
			CertFile: certs.Serving.CertFile, KeyFile: certs.Serving.KeyFile,
			TrustedCAFile: certs.CA.CertFile, ClientCertAuth: true,
		}
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{{Scheme: "unix", Host: name + ".invalid"}}
	c.InitialCluster = c.InitialClusterFromName(name)
	c.TickMs, c.ElectionMs = 10, 50
	c.UnsafeNoFsync = true
	c.LogLevel = "panic"
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return client.Scheme + "://" + e.Clients[0].Addr().String()
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not contain %q", err, p)
		}
	}
}
