// Package espaliertest runs an API server in a Go test: the real one, in the process of
// the test, with a database of its own in a temporary directory. It is ready in a
// fraction of a second and needs nothing to be installed.
//
//	func TestController(t *testing.T) {
//		s := espaliertest.Start(t)
//		s.InstallCRDs("config/crd")
//		client, err := client.New(s.Config(), client.Options{})
//		...
//	}
//
// Tests may start as many servers as they like, in parallel. [Run] starts one that
// several tests share, from TestMain.
//
// A server reads schemas as kube-apiserver does, unless [WithSemantics] says otherwise:
// what passes here passes there.
package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"espalier.dev/analysis/lint"
	"espalier.dev/schema"
	"espalier.dev/server"
)

// timeout bounds everything that a test waits for here.
const timeout = time.Minute

// Server is a running server.
type Server struct {
	t      testing.TB // nil after Run
	server *server.Server
	config *rest.Config
	dir    string // to remove, or empty

	stopOnce sync.Once
	stopErr  error
}

// Option changes the server that is started.
type Option func(*settings)

type settings struct {
	options *server.Options
	flags   []string
}

// WithSemantics chooses how schemas are read. The default is [schema.Kubernetes].
func WithSemantics(s schema.Semantics) Option {
	return func(c *settings) { c.options.Semantics = s }
}

// WithFlags gives the server flags, as on the command line of `espalier serve`. Features
// and the emulated version are settings of the whole process.
func WithFlags(flags ...string) Option {
	return func(c *settings) { c.flags = append(c.flags, flags...) }
}

// Start starts a server that stops when the test ends. The test fails if that does not
// work.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := run(t.TempDir(), opts)
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	s.t = t
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	return s
}

// Run starts a server that is not of one test: for TestMain, say. It must be stopped.
func Run(opts ...Option) (*Server, error) {
	dir, err := os.MkdirTemp("", "espaliertest-")
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s, err := run(dir, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), os.RemoveAll(dir))
	}
	s.dir = dir
	return s, nil
}

func run(dir string, opts []Option) (*Server, error) {
	c := settings{options: server.NewOptions()}
	c.options.DataDir = filepath.Join(dir, "data")
	c.options.SecurePort = 0
	c.options.Ephemeral = true
	c.options.Semantics = schema.Kubernetes
	c.options.Warnings = lint.Warnings
	for _, o := range opts {
		o(&c)
	}
	flags := pflag.NewFlagSet("espaliertest", pflag.ContinueOnError)
	c.options.AddFlags(flags)
	if err := flags.Parse(c.flags); err != nil {
		return nil, err
	}
	if args := flags.Args(); len(args) > 0 {
		return nil, fmt.Errorf("%q is not a flag", args[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	running, err := server.Start(ctx, c.options)
	if err != nil {
		return nil, err
	}
	config, err := running.ClientConfig()
	if err != nil {
		return nil, errors.Join(err, running.Stop())
	}
	// A test is to find out what the server does, not how the client holds itself back.
	config.QPS = -1
	return &Server{server: running, config: config}, nil
}

// Config returns how to reach the server, with the right to do everything. The caller
// may change it.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Kubeconfig returns the path of a file that says the same, for programs such as
// kubectl.
func (s *Server) Kubeconfig() string { return s.server.Kubeconfig() }

// URL returns the server's address.
func (s *Server) URL() string { return s.server.URL() }

// Stop stops the server. It may be called more than once, and need not be after Start.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() {
		s.stopErr = s.server.Stop()
		if s.dir != "" {
			s.stopErr = errors.Join(s.stopErr, os.RemoveAll(s.dir))
		}
	})
	return s.stopErr
}

// InstallCRDs creates the CustomResourceDefinitions in files and directories, with those
// below them, and returns when all of them are served. Definitions that exist are
// updated. After [Start], the test fails if that does not work.
func (s *Server) InstallCRDs(paths ...string) error {
	if s.t != nil {
		s.t.Helper()
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := installCRDs(ctx, s.config, paths)
	if err != nil && s.t != nil {
		s.t.Fatalf("install CustomResourceDefinitions: %v", err)
	}
	return err
}
