package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server"
	"espalier.dev/server/keys"
	"espalier.dev/server/servertest"
)

// fullServer is a server that is restarted while its etcd is full.
type fullServer struct {
	*testing.T
	options *server.Options
	*server.Server
	client *http.Client
	// stored is the number of config maps.
	stored int
}

const (
	configMaps = "/api/v1/namespaces/default/configmaps"
	// small is the path of a config map that exists all the time.
	small = configMaps + "/small"
)

// restart starts the server, after it has stopped it.
func (f *fullServer) restart() {
	f.Helper()
	f.stop()
	s, err := servertest.TryStart(f, f.options)
	if err != nil {
		f.Fatal(err)
	}
	f.Server, f.client = s, servertest.Client(f, s, nil)
}

func (f *fullServer) stop() {
	f.Helper()
	if f.Server == nil {
		return
	}
	f.client.CloseIdleConnections()
	if err := f.Stop(); err != nil {
		f.Fatal(err)
	}
	f.Server = nil
}

// must sends a request.
func (f *fullServer) must(code int, method, path, body string) string {
	f.Helper()
	got, text := servertest.Exchange(f, f.client, method, f.URL()+path, body)
	if got != code {
		f.Fatalf("%s %s: %d instead of %d: %.1000s", method, path, got, code, text)
	}
	return text
}

// fill creates config maps until etcd is full, and returns the message. The server may find more
// space by itself, until all of it is in use.
func (f *fullServer) fill() (message string) {
	f.Helper()
	for full := false; !full; {
		message = f.fillOnce()
		servertest.Eventually(f, func() error {
			code, text := servertest.Exchange(f, f.client, http.MethodGet, f.URL()+"/readyz/etcd-space", "")
			if full = strings.Contains(text, "All of the space is in use"); !full && code != http.StatusOK {
				return errNotYet
			}
			return nil
		})
	}
	return message
}

// fillOnce creates config maps until one is rejected.
func (f *fullServer) fillOnce() (message string) {
	f.Helper()
	value := strings.Repeat("x", 900<<10)
	for {
		name := fmt.Sprintf("large-%d", f.stored)
		code, text := servertest.Exchange(f, f.client, http.MethodPost, f.URL()+configMaps, `{"metadata":{"name":"`+name+`"},"data":{"x":"`+value+`"}}`)
		switch code {
		case http.StatusCreated:
			f.stored++
		case http.StatusInsufficientStorage:
			if got, _ := servertest.Exchange(f, f.client, http.MethodGet, f.URL()+configMaps+"/"+name, ""); got == http.StatusOK {
				f.stored++ // it was the one that reached the quota
			}
			return text
		default:
			f.Fatalf("create: %d: %s", code, text)
		}
	}
}

// isFull checks that the server answers reads, rejects writes, and says so.
func (f *fullServer) isFull() {
	f.Helper()
	f.must(http.StatusOK, http.MethodGet, small, "")
	f.must(http.StatusOK, http.MethodGet, "/apis/full.example.com/v1/things/a", "")
	if list := f.must(http.StatusOK, http.MethodGet, configMaps, ""); strings.Count(list, `"name":"large-`) != f.stored {
		f.Errorf("there are %d config maps, not %d", strings.Count(list, `"name":"large-`), f.stored)
	}
	f.must(http.StatusInsufficientStorage, http.MethodPost, configMaps, `{"metadata":{"name":"another"}}`)
	f.must(http.StatusInsufficientStorage, http.MethodPost, "/apis/full.example.com/v1/things", `{"apiVersion":"full.example.com/v1","kind":"Thing","metadata":{"name":"b"}}`)
	f.must(http.StatusOK, http.MethodGet, "/readyz", "")
	f.must(http.StatusOK, http.MethodGet, "/livez", "")
	if text := f.must(http.StatusOK, http.MethodGet, "/readyz?verbose", ""); !strings.Contains(text, "\n[!]etcd-space: ") {
		f.Errorf("readyz does not report it: %s", text)
	}
	if text := f.must(http.StatusInternalServerError, http.MethodGet, "/readyz/etcd-space", ""); !strings.Contains(text, "no space left") {
		f.Errorf("the check says %s", text)
	}
}

// hasSpace waits until writes are accepted.
func (f *fullServer) hasSpace() {
	f.Helper()
	servertest.Eventually(f, func() error {
		code, text := servertest.Exchange(f, f.client, http.MethodPatch, f.URL()+small, `{"data":{"a":"`+fmt.Sprint(f.stored)+`"}}`)
		if code != http.StatusOK {
			return fmt.Errorf("%d: %s", code, text)
		}
		return nil
	})
	f.must(http.StatusOK, http.MethodGet, "/readyz/etcd-space", "")
	if text := f.must(http.StatusOK, http.MethodGet, "/readyz?verbose", ""); strings.Contains(text, "[!]") {
		f.Error(text)
	}
}

// deleteSome deletes large config maps.
func (f *fullServer) deleteSome(n int) {
	f.Helper()
	for ; n > 0; n-- {
		f.stored--
		f.must(http.StatusOK, http.MethodDelete, fmt.Sprintf("%s/large-%d", configMaps, f.stored), "")
	}
}

// forget deletes keys of etcd that a starting server writes if they are missing. A full etcd still
// deletes them.
func (f *fullServer) forget() {
	f.Helper()
	for _, key := range []string{
		keys.NewRoot(f.options.EtcdPrefix).Semantics(), "espalier.dev/fences/",
		"/registry/services/specs/default/kubernetes", "/registry/namespaces/kube-public", "/registry/clusterroles/view",
	} {
		if _, err := servertest.Etcd(f, f.options).Delete(f.Context(), key, clientv3.WithPrefix()); err != nil {
			f.Fatal(err)
		}
	}
}

// remembers waits until the missing keys are written.
func (f *fullServer) remembers() {
	f.Helper()
	for _, path := range []string{"/api/v1/namespaces/default/services/kubernetes", "/api/v1/namespaces/kube-public", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"} {
		servertest.Eventually(f, func() error {
			if code, text := servertest.Exchange(f, f.client, http.MethodGet, f.URL()+path, ""); code != http.StatusOK {
				return fmt.Errorf("GET %s: %d: %s", path, code, text)
			}
			return nil
		})
	}
	servertest.Eventually(f, func() error {
		key := keys.NewRoot(f.options.EtcdPrefix).Semantics()
		if resp, err := servertest.Etcd(f, f.options).Get(f.Context(), key); err != nil || len(resp.Kvs) != 1 {
			return errors.Join(errNotYet, err)
		}
		return nil
	})
	const things = "/apis/full.example.com/v1/things"
	servertest.Eventually(f, func() error { // the CRD has its fence again
		code, text := servertest.Exchange(f, f.client, http.MethodPost, f.URL()+things, `{"apiVersion":"full.example.com/v1","kind":"Thing","metadata":{"name":"b"}}`)
		if code != http.StatusCreated {
			return fmt.Errorf("create: %d: %s", code, text)
		}
		return nil
	})
	f.must(http.StatusOK, http.MethodDelete, things+"/b", "")
	f.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/kube-public/configmaps", `{"metadata":{"generateName":"a-"}}`)
}

// newFullServer starts a server with some objects.
func newFullServer(t *testing.T, o *server.Options) *fullServer {
	t.Helper()
	o.DisableAdmissionPlugins = []string{"ServiceAccount"}
	f := &fullServer{T: t, options: o}
	t.Cleanup(f.stop)
	f.restart()
	f.must(http.StatusCreated, http.MethodPost, configMaps, `{"metadata":{"name":"small"}}`)
	f.must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("full.example.com"))
	f.must(http.StatusCreated, http.MethodPost, "/apis/full.example.com/v1/things", `{"apiVersion":"full.example.com/v1","kind":"Thing","metadata":{"name":"a"}}`)
	return f
}

// TestFull fills the embedded etcd and restarts the server. It starts whether or not the keys of a
// start are missing, and accepts writes again by itself when objects are deleted or the quota is
// raised.
func TestFull(t *testing.T) {
	if testing.Short() {
		t.Skip("fills etcd several times")
	}
	t.Parallel()
	o := servertest.EtcdOptions(t)
	o.EtcdQuota = 16 << 20
	f := newFullServer(t, o)
	message := f.fill()
	if !strings.Contains(message, "larger --quota-backend-bytes") || strings.Contains(message, "etcdctl") {
		t.Errorf("the advice is not for the embedded etcd: %s", message)
	}
	f.isFull()
	for range 2 {
		f.restart()
		f.isFull()
	}
	// Keys of the start are missing.
	f.forget()
	f.restart()
	f.isFull()
	f.deleteSome(5)
	f.hasSpace()
	f.remembers()
	f.restart()
	f.hasSpace()

	// The quota is raised.
	f.fill()
	f.restart()
	f.isFull()
	o.EtcdQuota += o.EtcdQuota / 2
	f.restart()
	f.hasSpace()
	f.fill()
	f.isFull()

	// A CRD whose deletion has begun is deleted with its objects.
	f.deleteSome(5)
	f.hasSpace()
	f.must(http.StatusOK, http.MethodPatch, "/apis/full.example.com/v1/things/a", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	f.must(http.StatusOK, http.MethodDelete, servertest.CRDs+"/things.full.example.com", "")
	f.fill()
	f.restart()
	f.must(http.StatusOK, http.MethodPatch, "/apis/full.example.com/v1/things/a", `{"metadata":{"finalizers":null}}`)
	servertest.Eventually(t, func() error {
		if code, _ := servertest.Exchange(f, f.client, http.MethodGet, f.URL()+servertest.CRDs+"/things.full.example.com", ""); code != http.StatusNotFound {
			return errNotYet
		}
		return nil
	})
}

// TestFullExternal starts servers on an etcd whose alarm is set. They begin to work when an
// administrator clears it.
func TestFullExternal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three members of etcd, and the server several times")
	}
	t.Parallel()
	urls := servertest.Members(t)
	o := servertest.ShareEtcd(t, urls)
	o.SetPodQuarantine(time.Hour)
	f := newFullServer(t, o)
	admin, err := clientv3.New(clientv3.Config{Endpoints: urls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	alarm := func(action pb.AlarmRequest_AlarmAction) {
		t.Helper()
		status, err := admin.Status(t.Context(), urls[0])
		if err == nil {
			_, err = pb.NewMaintenanceClient(admin.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{Action: action, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const lost = "/api/v1/namespaces/default/pods/lost"
	f.must(http.StatusCreated, http.MethodPost, strings.TrimSuffix(lost, "/lost"), pod("lost", "nowhere", ""))
	alarm(pb.AlarmRequest_ACTIVATE)
	if message := f.must(http.StatusInsufficientStorage, http.MethodPost, configMaps, `{"metadata":{"name":"another"}}`); !strings.Contains(message, "etcdctl alarm disarm") {
		t.Errorf("the advice is not for an external etcd: %s", message)
	}
	f.isFull()
	f.options.SetPodQuarantine(100 * time.Millisecond)
	f.restart()
	f.isFull()
	// A pod without a node goes, although its phase cannot be written.
	servertest.Eventually(t, func() error {
		if code, text := servertest.Exchange(f, f.client, http.MethodGet, f.URL()+lost, ""); code != http.StatusNotFound {
			return fmt.Errorf("the pod is not deleted: %d: %s", code, text)
		}
		return nil
	})
	f.forget()
	f.restart()
	f.isFull()
	alarm(pb.AlarmRequest_DEACTIVATE)
	f.hasSpace()
	f.remembers()
	servertest.Eventually(t, func() error {
		if resp, err := admin.Get(t.Context(), "espalier.dev/servers/", clientv3.WithPrefix()); err != nil || len(resp.Kvs) != 1 {
			return fmt.Errorf("the server is not registered: %w", errors.Join(errNotYet, err))
		}
		return nil
	})
}
