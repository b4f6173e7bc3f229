package espaliertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/schema"
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

// TestParallel runs servers at the same time: each has its own objects.
func TestParallel(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			sem := schema.Kubernetes
			if i%2 == 1 {
				sem = schema.KEP
			}
			s := Start(t, WithSemantics(sem), WithFlags("--watch-cache="+fmt.Sprint(i < 2)))
			if err := s.InstallCRDs("testdata/crds"); err != nil {
				t.Fatal(err)
			}
			if err := s.InstallCRDs("testdata/crds/crontabs.yaml"); err != nil {
				t.Fatal(err) // again is an update
			}
			name := fmt.Sprint("tree-", i)
			if _, err := trees(t, s.Config()).Create(t.Context(), tree(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
			if err != nil {
				t.Fatal(err)
			}
			list, err := trees(t, config).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != 1 || list.Items[0].GetName() != name {
				t.Errorf("got %v", list.Items)
			}
		})
	}
}

// TestStopWithWatch stops a server that somebody watches: the watch ends, and the
// server does not wait for its client.
func TestStopWithWatch(t *testing.T) {
	s := Start(t)
	if err := s.InstallCRDs("testdata/crds"); err != nil {
		t.Fatal(err)
	}
	w, err := trees(t, s.Config()).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop() }()
	timeout := time.After(30 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-w.ResultChan():
		case <-timeout:
			t.Fatal("the watch goes on")
		}
	}
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-timeout:
		t.Fatal("the server goes on")
	}
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
	for _, tt := range []struct{ name, text, want string }{
		{"no definition", "apiVersion: v1\nkind: ConfigMap\n", "there is no CustomResourceDefinition in"},
		{"not YAML", "a: [", "crd.yaml"},
		{"invalid", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\nspec: {group: example.com}\n", "a.example.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.InstallCRDs(write(t, tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		if err := s.InstallCRDs("testdata/missing"); !os.IsNotExist(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("names taken", func(t *testing.T) {
		if err := s.InstallCRDs("testdata/crds"); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("testdata/crds/crontabs.yaml")
		if err != nil {
			t.Fatal(err)
		}
		other := strings.Replace(strings.ReplaceAll(string(text), "plural: crontabs", "plural: others"), "name: crontabs.", "name: others.", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err = installCRDs(ctx, s.config, []string{write(t, other)})
		if err == nil || !strings.Contains(err.Error(), "others.example.com is not served") || !strings.Contains(err.Error(), "is already in use") {
			t.Errorf("got %v", err)
		}
	})
}

// TestAnonymous shows that the server asks who one is, in a test too.
func TestAnonymous(t *testing.T) {
	s := Start(t)
	if _, err := trees(t, rest.AnonymousClientConfig(s.Config())).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkStart measures what a test waits for its server.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := Run()
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
