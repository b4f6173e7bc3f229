package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestServersExample runs examples/servers. CRDs are used through the load balancer as soon as
// they are established, also when a server is paused and another one is killed.
func TestServersExample(t *testing.T) {
	if testing.Short() {
		t.Skip("runs seven processes")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"etcd", "espalier", "haproxy"} {
		script := fmt.Sprintf("#!/bin/sh\n%s=%s exec %q \"$@\"\n", asProgram, name, self)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("../../examples/servers/start.sh", dir, "--server-lease-duration=3s")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PORT="+strconv.Itoa(20000+10*rand.IntN(1000)))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	pid := func(name string) int {
		text, err := os.ReadFile(filepath.Join(dir, name+".pid"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Error("the example does not stop")
		}
		if t.Failed() {
			for _, name := range []string{"etcd1", "server1", "server2", "server3", "balancer"} {
				log, _ := os.ReadFile(filepath.Join(dir, name+".log"))
				t.Logf("%s:\n%s", name, log[max(0, len(log)-2000):])
			}
		}
	})
	kubeconfig := filepath.Join(dir, "kubeconfig")
	await(t, "the example starts", func() error {
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("it has ended: %v %s", err, out.String())
		default:
		}
		_, err := os.Stat(kubeconfig)
		return err
	})
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	n := 0
	// use creates a CRD and an object, each with connections of its own, so that the load
	// balancer chooses any servers.
	use := func() {
		t.Helper()
		n++
		group := fmt.Sprintf("g%d.example.com", n)
		await(t, "create "+group, func() error {
			_, err := newClient(t, config).Resource(crdResource).Create(t.Context(), thingsCRD(group), metav1.CreateOptions{})
			return err
		})
		await(t, "establish "+group, func() error {
			crd, err := newClient(t, config).Resource(crdResource).Get(t.Context(), "things."+group, metav1.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			if !strings.Contains(fmt.Sprint(conditions), "the initial names have been accepted") {
				return errors.New("not established")
			}
			return nil
		})
		for range 6 {
			things := newClient(t, config).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"})
			if _, err := things.List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("%s is established: %v", group, err)
			}
		}
	}
	for range 5 {
		use()
	}
	signal := func(name string, s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(pid(name), s); err != nil {
			t.Fatal(err)
		}
	}
	signal("server2", syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(pid("server2"), syscall.SIGCONT) })
	time.Sleep(3 * time.Second) // the load balancer notices
	use()
	signal("server3", syscall.SIGKILL)
	time.Sleep(3 * time.Second)
	use()
	signal("server2", syscall.SIGCONT)
	for range 5 {
		use()
	}
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func thingsCRD(group string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Cluster", "names": map[string]any{"plural": "things", "kind": "Thing"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
}

// await retries until try succeeds.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(what, err)
		}
	}
}

// balance is a load balancer for the configuration in examples/servers.
func balance(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	config := os.ExpandEnv(string(text))
	bind := regexp.MustCompile(`bind "(.*)"`).FindStringSubmatch(config)
	servers := regexp.MustCompile(`server \w+ "(.*)"`).FindAllStringSubmatch(config, -1)
	if bind == nil || len(servers) == 0 {
		return fmt.Errorf("%s has no addresses", file)
	}
	ready := make([]atomic.Bool, len(servers))
	probe := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as in the configuration
	}}
	for i, s := range servers {
		go func() {
			for ; ; time.Sleep(200 * time.Millisecond) {
				resp, err := probe.Get("https://" + s[1] + "/readyz")
				ready[i].Store(err == nil && resp.StatusCode == http.StatusOK)
				if err == nil {
					_ = resp.Body.Close()
				}
			}
		}()
	}
	l, err := net.Listen("tcp", bind[1])
	if err != nil {
		return err
	}
	for next := 0; ; next++ {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for i := range servers {
				if i = (next + i) % len(servers); !ready[i].Load() {
					continue
				}
				if to, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", servers[i][1]); err == nil {
					go func() {
						defer func() { _ = to.Close() }()
						_, _ = io.Copy(to, conn) // ends with either connection
					}()
					_, _ = io.Copy(conn, to)
					return
				}
			}
		}()
	}
}

// newClient returns a client with connections of its own.
func newClient(t *testing.T, config *rest.Config) *dynamic.DynamicClient {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfigAndClient(config, &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
