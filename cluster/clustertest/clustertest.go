// Package clustertest runs a simulated Kubernetes cluster in a Go test: the API server of
// [espaliertest] in the process of the test, and the real kube-controller-manager and kube-scheduler beside it, with
// nodes that kwok simulates. Controllers under test can wait for workloads: a Deployment becomes available, a Job
// succeeds, a claim is bound. No containers run.
//
//	func TestController(t *testing.T) {
//		s := clustertest.Start(t, espaliertest.WithCRDs("config/crd"))
//		client, err := client.New(s.Config(), client.Options{})
//		...
//	}
//
// The programs beside the server are one binary, which takes minutes to build, once. The environment variable
// ESPALIER_CLUSTER_COMPONENTS has its path; tests are skipped without it:
//
//	go build -C cluster/components -o /usr/local/bin/cluster-components .
//	export ESPALIER_CLUSTER_COMPONENTS=/usr/local/bin/cluster-components
package clustertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"espalier.dev/cluster/internal/controlplane"
	"espalier.dev/espaliertest"
)

// timeout bounds the start of a cluster.
const timeout = 2 * time.Minute

// Server is the API server of a running cluster. It is safe for concurrent use.
type Server struct {
	*espaliertest.Server

	t      testing.TB
	config controlplane.Config

	mu    sync.Mutex
	plane *controlplane.ControlPlane // nil after Stop
}

// Cluster configures a cluster. The zero value is one with three nodes.
type Cluster struct {
	// Nodes is the number of nodes, at most 5000. The default is 3.
	Nodes int
	// Stages is a file with stages of kwok, which say what happens to nodes, pods and other objects. Those for nodes
	// replace kwok's default ones for nodes, and those for pods the default ones for pods.
	Stages string
}

// Start starts a cluster with three nodes that stops when the test ends. It skips the test if the environment
// variable ESPALIER_CLUSTER_COMPONENTS is not set.
func Start(t testing.TB, opts ...espaliertest.Option) *Server {
	t.Helper()
	return Cluster{}.Start(t, opts...)
}

// Start starts a cluster that stops when the test ends, as [Start] does.
func (c Cluster) Start(t testing.TB, opts ...espaliertest.Option) *Server {
	t.Helper()
	binary := os.Getenv(controlplane.Variable)
	if binary == "" {
		t.Skip(controlplane.Variable + " is not set: build the components of a cluster with `go build -C cluster/components -o FILE .` " +
			"in the repository of Espalier, which takes minutes, and set it to the path of FILE")
	}
	if err := controlplane.CheckBinary(binary); err != nil {
		t.Fatalf("%s: %v", controlplane.Variable, err)
	}
	if c.Nodes == 0 {
		c.Nodes = 3
	}
	if c.Nodes < 0 || c.Nodes > controlplane.MaxNodes {
		t.Fatalf("start a cluster: it has %d nodes: must be 1 to %d", c.Nodes, controlplane.MaxNodes)
	}
	stages, err := controlplane.Stages(t.Context(), binary, c.Stages)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	s := &Server{Server: espaliertest.Start(t, opts...), t: t}
	kubeconfig := s.Kubeconfig()
	s.config = controlplane.Config{
		Binary: binary, Kubeconfig: kubeconfig, Nodes: c.Nodes, Stages: stages,
		Directory: filepath.Join(t.ArtifactDir(), "cluster"), Keys: controlplane.KeysIn(filepath.Dir(kubeconfig)),
		ServerControllers: s.Controllers(),
		Report:            func(message string) { t.Log(message) },
	}
	t.Cleanup(s.stop) // before the server stops
	if err := s.start(t.Context()); err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	return s
}

// start starts what runs beside the server, and waits until the cluster is ready.
func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The programs run until stop is called, also in cleanups of the test.
	plane, err := controlplane.Start(context.WithoutCancel(ctx), s.config)
	if err != nil {
		return err
	}
	s.plane = plane
	select {
	case err := <-plane.Ready():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(timeout):
		return errors.New("it is not ready after " + timeout.String())
	}
}

// stop stops what runs beside the server.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plane != nil {
		s.plane.Stop()
		s.plane = nil
	}
}

// Stop stops the cluster. It may be called more than once, and there is no need to call it.
func (s *Server) Stop() error {
	s.stop()
	return s.Server.Stop()
}

// Reset empties the cluster, as [espaliertest.Server.Reset] does, and returns when its nodes are ready again. All other
// programs of the cluster are stopped and started for it, so it takes seconds.
func (s *Server) Reset(t testing.TB, opts ...espaliertest.ResetOption) {
	t.Helper()
	s.stop()
	s.Server.Reset(t, opts...)
	if err := s.start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatalf("reset the cluster: %v", err)
	}
}
