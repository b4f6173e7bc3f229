package etcdcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefaults(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, test := range []struct {
		args    string
		environ func(string) (string, bool)
		want    string
	}{
		{args: "etcd", want: "etcd --heartbeat-interval=10 --election-timeout=50"},
		{args: "etcd --data-dir d", want: "etcd --heartbeat-interval=10 --election-timeout=50 --data-dir d"},
		{args: "etcd --data-dir d -election-timeout 500", want: "etcd --data-dir d -election-timeout 500"},
		{args: "etcd --heartbeat-interval=20", want: "etcd --heartbeat-interval=20"},
		{args: "etcd --data-dir=election-timeout", want: "etcd --heartbeat-interval=10 --election-timeout=50 --data-dir=election-timeout"},
		{args: "etcd grpc-proxy start", want: "etcd grpc-proxy start"},
		{args: "etcd", environ: func(name string) (string, bool) { return "100", name == "ETCD_ELECTION_TIMEOUT" }, want: "etcd"},
	} {
		environ := test.environ
		if environ == nil {
			environ = none
		}
		if got := strings.Join(withDefaults(strings.Fields(test.args), environ), " "); got != test.want {
			t.Errorf("%s becomes %s, not %s", test.args, got, test.want)
		}
	}
}

func TestSimple(t *testing.T) {
	dir := t.TempDir()
	const urls = " --advertise-client-urls=http://127.0.0.1:2379 --listen-client-urls=http://127.0.0.1:2379 --listen-peer-urls=http://127.0.0.1:0"
	foreign := filepath.Join(dir, "foreign")
	if err := os.MkdirAll(filepath.Join(foreign, "proxy"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, args string
		environ    []string
		want       bool
	}{
		{name: "envtest", args: "--data-dir=" + dir + "/new --unsafe-no-fsync=true" + urls, want: true},
		{name: "another form", args: "-data-dir " + dir + "/new" + urls, want: true},
		{name: "another variable", args: "--data-dir=" + dir + "/new" + urls, environ: []string{"HOME=/"}, want: true},
		{name: "the environment", args: "--data-dir=" + dir + "/new" + urls, environ: []string{"ETCD_NAME=a"}},
		{name: "another flag", args: "--data-dir=" + dir + "/new --name=a" + urls},
		{name: "a flag without a value", args: "--data-dir"},
		{name: "a command", args: "grpc-proxy start"},
		{name: "an argument", args: "--data-dir=" + dir + "/new" + urls + " more"},
		{name: "no URL", args: "--data-dir=" + dir + "/new"},
		{name: "no directory", args: urls},
		{name: "another directory", args: "--data-dir=" + foreign + urls},
		{name: "two URLs", args: "--data-dir=" + dir + "/new" + urls + " --listen-client-urls=http://127.0.0.1:1,http://127.0.0.1:2"},
		{name: "TLS", args: "--data-dir=" + dir + "/new" + urls + " --listen-client-urls=https://127.0.0.1:1"},
		{name: "not a URL", args: "--data-dir=" + dir + "/new" + urls + " --listen-client-urls=127.0.0.1:1"},
		{name: "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := simple(append([]string{"etcd"}, strings.Fields(test.args)...), test.environ)
			if (c != nil) != test.want {
				t.Fatalf("got %v", c)
			}
			if c == nil {
				return
			}
			if c.Dir != dir+"/new" || len(c.ListenClientUrls) != 1 || c.ListenClientUrls[0].Host != "127.0.0.1:2379" || c.ListenPeerUrls[0].Host != "127.0.0.1:0" {
				t.Errorf("got %+v", c)
			}
			if c.UnsafeNoFsync != strings.Contains(test.args, "no-fsync") {
				t.Errorf("unsafe-no-fsync is %v", c.UnsafeNoFsync)
			}
		})
	}
}
