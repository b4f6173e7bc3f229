package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/api"
)

func trees(t *testing.T, c *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "trees"})
}

func tree(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Tree", "metadata": map[string]any{"name": name},
	}}
}

func TestErrors(t *testing.T) {
	t.Run("flags", func(t *testing.T) {
		for _, tt := range []struct{ flag, want string }{
			{"--unheard", "--unheard"},
			{"word", `"word" is not a flag`},
			{"--secure-port=-1", "--secure-port -1"},
		} {
			s, err := Run(WithFlags(tt.flag))
			if err == nil {
				_ = s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %q", tt.flag, err, tt.want)
			}
		}
	})
	s, err := Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Kubeconfig()); !os.IsNotExist(err) {
			t.Errorf("the directory is left behind: %v", err)
		}
	})
	write := func(t *testing.T, text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "crd.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const configMap = "apiVersion: v1\nkind: ConfigMap\n"
	for _, tt := range []struct {
		name   string
		source any
		want   string
	}{
		{"a file without CRDs", write(t, configMap), "crd.yaml: no CustomResourceDefinition found, only v1 ConfigMap"},
		{"bytes without CRDs", []byte(configMap), "no CustomResourceDefinition found, only v1 ConfigMap"},
		{"a file system without CRDs", fstest.MapFS{}, "no CustomResourceDefinition found"},
		{"a directory without CRDs", t.TempDir(), "no CustomResourceDefinition found"},
		{"another object", tree("t"), "only example.com/v1 Tree"},
		{"nil", nil, "the CRD is nil"},
		{"not YAML", write(t, "a: ["), "crd.yaml:1:"},
		{"invalid", []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\nspec: {group: example.com}\n"), "install a.example.com: "},
		{"missing", "testdata/missing", "read testdata/missing: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := installCRDs(t.Context(), s.config, []any{tt.source})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			got := failure(t, func(t testing.TB) { s.InstallCRDs(t, tt.source) })
			if want := fmt.Sprintf("install CRDs: %v", err); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	t.Run("Run", func(t *testing.T) {
		if _, err := Run(WithCRDs("testdata/missing")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("names taken", func(t *testing.T) {
		s.InstallCRDs(t, "testdata/crds")
		text, err := os.ReadFile("testdata/crds/crontabs.yaml")
		if err != nil {
			t.Fatal(err)
		}
		other := strings.Replace(strings.ReplaceAll(string(text), "plural: crontabs", "plural: others"), "name: crontabs.", "name: others.", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err = installCRDs(ctx, s.config, []any{[]byte(other)})
		if err == nil || !strings.Contains(err.Error(), "others.example.com is not served") || !strings.Contains(err.Error(), "is already in use") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("user", func(t *testing.T) {
		if got := failure(t, func(t testing.TB) { s.AddUser(t, "") }); !strings.Contains(got, "the name of the user is empty") {
			t.Errorf("got %q", got)
		}
	})
}

// failure returns the message with which f fails a test.
func failure(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.message
}

// recorder is a test that records why it fails.
type recorder struct {
	testing.TB
	message string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	goruntime.Goexit()
}

// TestSources installs the same CRD from every type of source.
func TestSources(t *testing.T) {
	text, err := os.ReadFile("testdata/crds/sub/list.json")
	if err != nil {
		t.Fatal(err)
	}
	var list unstructured.UnstructuredList
	if err := list.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	index := slices.IndexFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetName() == "trees.example.com" })
	u := &list.Items[index]
	var typed api.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &typed); err != nil {
		t.Fatal(err)
	}
	typed.APIVersion, typed.Kind, typed.ResourceVersion = "", "", "17"
	s := Start(t)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]any{
		"file":         "testdata/crds/sub/list.json",
		"directory":    "testdata/crds",
		"bytes":        text,
		"fs.FS":        os.DirFS("testdata"),
		"struct":       &typed,
		"unstructured": u,
	} {
		t.Run(name, func(t *testing.T) {
			s.InstallCRDs(t, source)
			if _, err := trees(t, s.Config()).Create(t.Context(), tree("a"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			// The next source installs the CRD while this one is being deleted.
			if err := client.Resource(crdResource("v1")).Delete(t.Context(), "trees.example.com", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestInstallConcurrently installs the same CRDs on a shared server from parallel tests.
func TestInstallConcurrently(t *testing.T) {
	s := Start(t)
	for i := range 16 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for range 3 {
				s.InstallCRDs(t, "testdata/crds")
			}
			name := fmt.Sprint("tree-", i)
			if _, err := trees(t, s.Config()).Create(t.Context(), tree(name), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAddUser checks the identity and the access of a user.
func TestAddUser(t *testing.T) {
	s := Start(t, WithCRDs("testdata/crds"))
	if _, err := trees(t, s.AddUser(t, "alice", "gardeners", "visitors")).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice"`) {
		t.Errorf("got %v, want alice to be forbidden", err)
	}
	if _, err := trees(t, s.AddUser(t, "root", "system:masters")).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// TestStorage checks what selects where objects are kept.
func TestStorage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts []Option
		etcd bool
	}{
		{"default", nil, false},
		{"WithEtcd", []Option{WithEtcd()}, true},
		{"storage", []Option{WithFlags("--storage=etcd")}, true},
		{"data", []Option{WithFlags("--data-dir=" + t.TempDir())}, true},
		{"quota", []Option{WithFlags("--quota-backend-bytes=100000000")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, append(c.opts, WithoutControllers())...)
			files, err := filepath.Glob(filepath.Join(filepath.Dir(s.Kubeconfig()), "etcd"))
			if err != nil || (len(files) > 0) != c.etcd {
				t.Errorf("etcd has %v, %v", files, err)
			}
			if c.etcd {
				return
			}
			// Stopped and started again, nothing is left. An etcd is not ignored.
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(filepath.Dir(s.Kubeconfig()), "etcd", "member"), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err = run(t.Context(), filepath.Dir(filepath.Dir(s.Kubeconfig())), nil)
			if err == nil || !strings.Contains(err.Error(), "has the data of an embedded etcd, which --storage memory would ignore") {
				t.Error(err)
			}
		})
	}
}

// BenchmarkStart measures how long a test waits for its server and for its end, and the heap that a
// running server needs beyond that of the process.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct {
		name    string
		options []Option
	}{{"memory", nil}, {"etcd", []Option{WithEtcd()}}} {
		b.Run(c.name, func(b *testing.B) {
			start := func() *Server {
				s, err := Run(c.options...)
				if err != nil {
					b.Fatal(err)
				}
				return s
			}
			stop := func(s *Server) {
				if err := s.Stop(); err != nil {
					b.Fatal(err)
				}
			}
			stop(start()) // what the process needs once
			var stopped time.Duration
			for b.Loop() {
				s := start()
				b.StopTimer()
				began := time.Now()
				stop(s)
				stopped += time.Since(began)
				b.StartTimer()
			}
			b.StopTimer()
			before := heap()
			const servers = 10
			var running []*Server
			for range servers {
				running = append(running, start())
			}
			grown := heap() - before
			for _, s := range running {
				stop(s)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "start-ms")
			b.ReportMetric(float64(stopped.Microseconds())/1000/float64(b.N), "stop-ms")
			b.ReportMetric(grown/servers/(1<<20), "heap-MB")
		})
	}
}

// heap returns the bytes of the heap that are in use.
func heap() float64 {
	goruntime.GC() // twice, because of what pools keep
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
