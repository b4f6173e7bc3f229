package servertest

import (
	"net/http"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/schema"
	"espalier.dev/server"
	"espalier.dev/server/keys"
)

// Running is a server with its options and the client of an administrator.
type Running struct {
	testing.TB
	*server.Server
	Options *server.Options
	Client  *http.Client
	connect sync.Once
	etcd    *clientv3.Client
}

// Run starts a server and stops it at the end of the test.
func Run(t testing.TB, o *server.Options) *Running {
	t.Helper()
	return Use(t, Start(t, o), o)
}

// Use returns a running server, which the caller stops.
func Use(t testing.TB, s *server.Server, o *server.Options) *Running {
	t.Helper()
	return &Running{TB: t, Server: s, Options: o, Client: Client(t, s, nil)}
}

// Serve starts a server with the admission plugins that are on by default, as users start it. It stops at
// the end of the test.
func Serve(t testing.TB, sem schema.Semantics, set ...func(*server.Options)) *Running {
	t.Helper()
	o := Options(t)
	o.Semantics, o.DisableAdmissionPlugins = sem, nil
	for _, f := range set {
		f(o)
	}
	return Run(t, o)
}

// Etcd returns a client of the etcd of the server, see [Etcd].
func (r *Running) Etcd() *clientv3.Client {
	r.Helper()
	r.connect.Do(func() { r.etcd = Etcd(r, r.Options) })
	return r.etcd
}

// Must sends a request, checks the status of the response, and returns its body.
func (r *Running) Must(code int, method, path, body string) string {
	r.Helper()
	got, text := Exchange(r, r.Client, method, r.URL()+path, body)
	if got != code {
		r.Fatalf("%s %s: %d instead of %d: %.1000s", method, path, got, code, text)
	}
	return text
}

// Stored returns the stored value of a key below the prefix of the server.
func (r *Running) Stored(key string) string {
	r.Helper()
	resp, err := r.Etcd().Get(r.Context(), keys.NewRoot(r.Options.EtcdPrefix).Join(key))
	if err != nil || len(resp.Kvs) != 1 {
		r.Fatal(key, resp, err)
	}
	return string(resp.Kvs[0].Value)
}
