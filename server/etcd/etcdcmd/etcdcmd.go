// Package etcdcmd is the program etcd: the real one, with its command line, but tuned for a
// single member that starts and stops often. With the flags of envtest it starts the member
// itself, because only then can it elect the member at once.
package etcdcmd

import (
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// segment is the size of a file of the write-ahead log. etcd preallocates two of them, and its
// default of 64 MB each is a lot for a small database.
const segment = 16 << 20

// Main runs etcd with the arguments of the process, the first of which is the name of the
// program. It ends the process.
func Main(args []string) {
	wal.SegmentSizeBytes = segment
	if c := simple(args, os.Environ()); c != nil {
		run(c)
	}
	etcdmain.Main(withDefaults(args, os.LookupEnv))
}

// fast returns the flags of fast elections: a member without peers need not wait for any. With
// etcd's own defaults, it elects itself up to a second after it starts.
func fast() []string { return []string{"--heartbeat-interval=10", "--election-timeout=50"} }

// withDefaults adds the flags of fast elections, unless the flags or the environment have one of
// them, because the values depend on each other.
func withDefaults(args []string, environ func(string) (string, bool)) []string {
	if len(args) == 0 || len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		return args // another command, such as grpc-proxy
	}
	for _, flag := range fast() {
		name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		if _, ok := environ("ETCD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); ok {
			return args
		}
		if slices.ContainsFunc(args[1:], func(arg string) bool {
			given, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			return strings.HasPrefix(arg, "-") && given == name
		}) {
			return args
		}
	}
	return slices.Concat(args[:1], fast(), args[1:])
}
