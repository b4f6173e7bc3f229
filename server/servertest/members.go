package servertest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"espalier.dev/server"
)

// Members starts an etcd cluster of three members on loopback addresses and returns their
// URLs. Another process can take an address before its member listens: then it tries others.
func Members(t testing.TB) []string {
	t.Helper()
	for range 10 {
		urls, err := tryMembers(t)
		if err == nil {
			return urls
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	t.Fatal("no free addresses for etcd")
	return nil
}

func tryMembers(t testing.TB) (urls []string, err error) {
	t.Helper()
	free := func() url.URL {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		return url.URL{Scheme: "http", Host: l.Addr().String()}
	}
	const members = 3
	configs := make([]*embed.Config, members)
	var cluster []string
	for i := range configs {
		c := embed.NewConfig()
		c.Name = fmt.Sprint("member", i)
		c.Dir = filepath.Join(t.TempDir(), "etcd")
		c.LogLevel = "panic"
		c.UnsafeNoFsync = true
		c.ListenClientUrls, c.ListenPeerUrls = []url.URL{free()}, []url.URL{free()}
		c.AdvertiseClientUrls, c.AdvertisePeerUrls = c.ListenClientUrls, c.ListenPeerUrls
		cluster = append(cluster, c.Name+"="+c.AdvertisePeerUrls[0].String())
		configs[i] = c
	}
	var running []*embed.Etcd
	for _, c := range configs {
		c.InitialCluster = strings.Join(cluster, ",")
		e, err := embed.StartEtcd(c)
		if err != nil {
			for _, e := range running {
				e.Close()
			}
			return nil, err
		}
		running = append(running, e)
		urls = append(urls, c.AdvertiseClientUrls[0].String())
	}
	for _, e := range running {
		t.Cleanup(e.Close)
		select {
		case <-e.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("etcd does not start")
		}
	}
	return urls, nil
}

// ShareEtcd returns options for a server on an external etcd.
func ShareEtcd(t testing.TB, urls []string) *server.Options {
	t.Helper()
	o := EtcdOptions(t)
	o.Etcd.URLs = urls
	return o
}
