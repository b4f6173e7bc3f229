package etcd

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pings counts the frames of a client on its way to a member.
type pings struct {
	// sent counts the pings of the client, answered its answers to those of the member, and data its
	// frames with data.
	sent, answered, data atomic.Int64
}

// count reads the frames of a client until the connection ends.
func (p *pings) count(r io.Reader) {
	in := bufio.NewReader(r)
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := in.Discard(len(preface)); err != nil {
		return
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		const data, ping, ack = 0, 6, 1
		switch kind, flags := head[3], head[4]; {
		case kind == data:
			p.data.Add(1)
		case kind == ping && flags&ack != 0:
			p.answered.Add(1)
		case kind == ping:
			p.sent.Add(1)
		}
		if _, err := in.Discard(int(binary.BigEndian.Uint32(head[:4]) >> 8)); err != nil {
			return
		}
	}
}

// watchClient returns an address that leads to that of a member, and counts what clients send there.
func watchClient(t *testing.T, endpoint string) (address string, _ *pings) {
	t.Helper()
	p := &pings{}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); tasks.Wait() })
	tasks.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			member, err := net.Dial("unix", strings.TrimPrefix(endpoint, "unix://"))
			if err != nil {
				_ = client.Close()
				return
			}
			frames, copied := io.Pipe()
			tasks.Go(func() { p.count(frames) })
			tasks.Go(func() {
				_, _ = io.Copy(io.MultiWriter(member, copied), client)
				_ = copied.Close()
				_ = member.Close()
			})
			tasks.Go(func() {
				_, _ = io.Copy(client, member)
				_ = client.Close()
			})
		}
	})
	return "unix://" + path, p
}

// TestPings checks that client and member do not measure the connection with every request.
func TestPings(t *testing.T) {
	t.Parallel()
	m := startMember(t, Config{Dir: filepath.Join(t.TempDir(), "etcd")})
	address, p := watchClient(t, m.Endpoint())
	c := connect(t, address)
	events := c.Watch(t.Context(), "k", clientv3.WithPrefix())
	for i := range 100 {
		if _, err := c.Put(t.Context(), fmt.Sprint("k", i), strings.Repeat("x", 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < 100; {
		select {
		case resp := <-events:
			n += len(resp.Events)
		case <-t.Context().Done():
			t.Fatal("events are missing")
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := p.data.Load(); n < 100 {
		t.Errorf("the client has sent %d frames with data, want 100 or more", n)
	}
	if sent, answered := p.sent.Load(), p.answered.Load(); sent > 0 || answered > 0 {
		t.Errorf("the client has sent %d pings and has answered %d", sent, answered)
	}
}
