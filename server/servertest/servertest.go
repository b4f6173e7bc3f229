// Package servertest has what the tests of package server and of the packages below it share:
// servers with the options of a test, clients and requests, an etcd with several servers
// ([Cluster]), and scripts of requests and their answers ([Script]).
//
// Package espaliertest is for users: it starts servers with the flags of the command line. This
// one gives tests the options of package server, the data in etcd, and restarts on the same data.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"espalier.dev/analysis/lint"
	"espalier.dev/espaliertest"
	"espalier.dev/server"
	"espalier.dev/server/etcd"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/etcd/memory"
)

// CRDs is the path of the CRDs.
const CRDs = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// Options returns options for a server in its own directory. Its objects are in memory until the test
// ends, also if it stops and starts again, or in an embedded etcd if tests use it [etcdtest.Everywhere].
func Options(t testing.TB) *server.Options {
	t.Helper()
	o := EtcdOptions(t)
	if !etcdtest.Everywhere() {
		o.Storage = server.StorageMemory
		o.Memory = memory.Open(memory.Config{MaxHistory: 256 << 20})
		t.Cleanup(o.Memory.Close)
	}
	return o
}

// Store returns the option of espaliertest for servers that keep their objects as those of [Options] do.
func Store() espaliertest.Option {
	if etcdtest.Everywhere() {
		return espaliertest.WithEtcd()
	}
	return espaliertest.WithFlags()
}

// EtcdOptions is like [Options] for tests of what depends on etcd: its objects always are in an
// embedded one.
func EtcdOptions(t testing.TB) *server.Options {
	t.Helper()
	o := server.NewOptions()
	o.DataDir = filepath.Join(t.TempDir(), "data")
	o.SecurePort = 0
	o.Ephemeral = true
	o.Warnings = lint.Warnings
	// Tests of custom resources use namespaces that do not exist.
	o.DisableAdmissionPlugins = []string{"NamespaceLifecycle", "ServiceAccount"}
	return o
}

// TryStart starts a server, which the caller stops.
func TryStart(t testing.TB, o *server.Options) (*server.Server, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return server.Start(ctx, o)
}

// Start starts a server and stops it at the end of the test.
func Start(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	s, err := TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// StartFails checks that a server fails to start, with an error that contains the parts, and that
// it leaves no kubeconfig.
func StartFails(t testing.TB, o *server.Options, parts ...string) {
	t.Helper()
	s, err := TryStart(t, o)
	if err == nil {
		_ = s.Stop()
		t.Error("it started")
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
	kubeconfig := o.KubeconfigOut
	if kubeconfig == "" {
		kubeconfig = filepath.Join(o.DataDir, "kubeconfig")
	}
	if _, err := os.Stat(kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a kubeconfig: %v", err)
	}
}

// Etcd returns a client of the etcd of a running server, or of its store in memory, which has the same
// API.
func Etcd(t testing.TB, o *server.Options) *clientv3.Client {
	t.Helper()
	if o.Storage == server.StorageMemory {
		c := o.Memory.Client()
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	endpoints := o.Etcd
	if len(endpoints.URLs) == 0 {
		endpoint, err := etcd.RunningEndpoint(filepath.Join(o.DataDir, "etcd"))
		if err != nil {
			t.Fatal(err)
		}
		endpoints.URLs = []string{endpoint}
	}
	c, err := etcd.Connect(t.Context(), endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Client returns a client of the server with the credentials of a configuration; nil means
// the administrator's.
func Client(t testing.TB, s *server.Server, c *rest.Config) *http.Client {
	t.Helper()
	if c == nil {
		var err error
		if c, err = s.ClientConfig(); err != nil {
			t.Fatal(err)
		}
	}
	// Connections from client-go's cache would outlive the test.
	tlsConfig, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	rt, err := rest.HTTPWrappersForConfig(c, transport)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: rt, Timeout: time.Minute}
}

// Clientset returns a typed client with the credentials of a configuration; nil means the
// administrator's. media is the type of content that it sends and accepts.
func Clientset(t testing.TB, s *server.Server, c *rest.Config, media string) *kubernetes.Clientset {
	t.Helper()
	if c == nil {
		var err error
		if c, err = s.ClientConfig(); err != nil {
			t.Fatal(err)
		}
	}
	c = rest.CopyConfig(c)
	c.QPS, c.ContentType, c.AcceptContentTypes = -1, media, media
	set, err := kubernetes.NewForConfigAndClient(c, Client(t, s, c))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Anonymous returns a configuration without credentials.
func Anonymous(t testing.TB, s *server.Server) *rest.Config {
	t.Helper()
	c, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return rest.AnonymousClientConfig(c)
}

// User returns the configuration of a user.
func User(t testing.TB, s *server.Server, name string, groups ...string) *rest.Config {
	t.Helper()
	c, err := s.UserConfig(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Bind binds a cluster role to a user, in a namespace or, if that is empty, everywhere.
func Bind(t testing.TB, admin kubernetes.Interface, role, user, namespace string) {
	t.Helper()
	m := metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", role, user)}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	var err error
	if namespace == "" {
		b := &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects}
		_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), b, metav1.CreateOptions{})
	} else {
		b := &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects}
		_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), b, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns the status and the body of a response.
func Get(t testing.TB, s *server.Server, c *http.Client, path string) (int, string) {
	t.Helper()
	resp, err := c.Get(s.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Exchange sends JSON, a merge patch if the method is PATCH, and returns the status and the body
// of the response.
func Exchange(t testing.TB, c *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Eventually retries until try succeeds or a timeout expires.
func Eventually(t testing.TB, try func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ThingCRD returns a CRD of the kind Thing, with cluster scope, in a group of its own.
func ThingCRD(group string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.%[1]s"},
"spec":{"group":"%[1]s","scope":"Cluster","names":{"plural":"things","kind":"Thing"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, group)
}
