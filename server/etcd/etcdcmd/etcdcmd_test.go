package etcdcmd

import (
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
