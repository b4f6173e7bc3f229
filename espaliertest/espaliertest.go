// Package espaliertest runs an API server in a Go test: the real one, in the process of
// the test, with its own objects, which it keeps in memory. It is ready in a fraction of a
// second and needs nothing to be installed. [WithEtcd] keeps the objects in an embedded etcd, in a
// temporary directory, as `espalier serve` does.
//
//	func TestController(t *testing.T) {
//		s := espaliertest.Start(t)
//		s.InstallCRDs(t, "config/crd")
//		client, err := client.New(s.Config(), client.Options{})
//		...
//	}
//
// A test may start as many servers as it likes, in parallel. To share one server between
// tests, start it in TestMain with [Run]:
//
//	var server *espaliertest.Server
//
//	func TestMain(m *testing.M) {
//		var err error
//		if server, err = espaliertest.Run(espaliertest.WithCRDs("config/crd")); err != nil {
//			log.Fatal(err)
//		}
//		code := m.Run()
//		if err := server.Stop(); err != nil {
//			log.Fatal(err)
//		}
//		os.Exit(code)
//	}
//
// Functions that take a testing.TB fail that test with t.Fatal if something goes wrong. Those that
// do not, such as [Run] and [Server.Stop], which TestMain calls, return errors.
//
// [Server.Fork] copies a server with everything in it in milliseconds, [Server.Save] and [WithState] do so
// with a file, and [Server.At] shows a past state: docs/how-to/test-with-copies.md describes them.
//
// [Server.Inject] makes requests fail, and [Chaos] does so at random: docs/how-to/test-with-faults.md describes it.
// [Server.History] returns who has changed which objects when: docs/how-to/test-history.md describes it.
//
// In a bubble of testing/synctest, the server follows the clock of the bubble, so that a day passes in
// seconds: docs/how-to/test-with-a-clock.md describes it.
//
// The server has the schema semantics of kube-apiserver, unless [WithSemantics] chooses
// others.
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
	"espalier.dev/server/faults"
)

// timeout bounds the start of a server and the installation of CRDs.
const timeout = time.Minute

// Server is a running API server. It is safe for concurrent use: parallel tests may share
// one.
type Server struct {
	server *server.Server
	config *rest.Config
	// checkpoint is the stored data after the start, for Reset.
	checkpoint *server.Checkpoint
	dir        string // removed by Stop, if not empty
	// ready is the revision when the server was ready and had its CRDs, if it keeps its objects in memory.
	ready int64
	// forked is the revision at which the server was forked, or zero.
	forked int64
	past   bool // it shows a past state

	stopOnce sync.Once
	stopErr  error
}

// Option configures a server.
type Option func(*settings)

type settings struct {
	options *server.Options
	flags   []string
	crds    []any
	timeout time.Duration
	err     error // of an option
}

// WithSemantics chooses the schema semantics. The default is [schema.Kubernetes].
func WithSemantics(s schema.Semantics) Option {
	return func(c *settings) { c.options.Semantics = s }
}

// WithFlags sets flags of `espalier serve`. Feature gates and the emulated version apply to
// the whole process. --etcd-servers, --quota-backend-bytes and --data-dir select etcd as
// [WithEtcd] does.
func WithFlags(flags ...string) Option {
	return func(c *settings) { c.flags = append(c.flags, flags...) }
}

// WithEtcd keeps the objects in an embedded etcd instead of memory. Requests have the same
// results: the memory has the revisions, watches and limits of etcd, and a test compares them. It
// takes more time and memory, and tests what runs in production down to the disk.
func WithEtcd() Option {
	return func(c *settings) { c.options.Storage = server.StorageEtcd }
}

// WithCRDs installs CRDs before the server is returned. It accepts the same sources as
// [Server.InstallCRDs].
func WithCRDs(sources ...any) Option {
	return func(c *settings) { c.crds = append(c.crds, sources...) }
}

// Controllers returns the names of the controllers that the server runs, sorted. Their names are those of
// the flag --controllers of espalier serve.
func (s *Server) Controllers() []string { return s.server.Controllers() }

// WithoutControllers runs no controllers, like envtest: objects without owners stay, deleted
// namespaces stay Terminating, and namespaces get no service account. The admission plugin
// ServiceAccount is disabled, because it would reject all pods.
func WithoutControllers() Option {
	return func(c *settings) {
		c.options.Controllers = nil
		c.options.DisableAdmissionPlugins = append(c.options.DisableAdmissionPlugins, "ServiceAccount")
	}
}

// WithSeed makes the names and UIDs of new objects, and the addresses and ports of services,
// repeatable. The seed decides the nth UID of an object with a name, the nth name for a
// generateName and the nth address, and attempts that fail count, too. So they depend on the order of
// requests for the same name, the same generateName, or services, and not on that of others. Servers with
// the same seed have the same names and UIDs.
func WithSeed(seed uint64) Option {
	return func(c *settings) { c.options.Seed = &seed }
}

// Start starts a server that stops when the test ends. If the test has failed, what has changed is
// written into its artifact directory, unless the objects are in etcd: docs/how-to/test-history.md describes it.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return started(t, "start a server", func(ctx context.Context, dir string) (*Server, error) { return run(ctx, dir, opts) })
}

// Run starts a server that is independent of a test, for TestMain. The caller must stop it.
func Run(opts ...Option) (*Server, error) {
	dir, err := os.MkdirTemp("", "espaliertest-")
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s, err := run(context.Background(), dir, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), os.RemoveAll(dir))
	}
	s.dir = dir
	return s, nil
}

func run(ctx context.Context, dir string, opts []Option) (*Server, error) {
	c := settings{options: server.NewOptions(), timeout: timeout}
	c.options.DataDir = filepath.Join(dir, "data")
	c.options.SecurePort = 0
	c.options.Ephemeral = true
	c.options.Storage = server.StorageMemory
	c.options.Semantics = schema.Kubernetes
	c.options.Warnings = lint.Warnings
	c.options.Faults = new(faults.Set)
	if c.options.Bubble = inBubble(); c.options.Bubble {
		// Five minutes pass at once there. The server still limits the size of the history.
		c.options.EtcdCompactionInterval = 0
	}
	for _, o := range opts {
		o(&c)
	}
	if c.err != nil {
		return nil, c.err
	}
	flags := pflag.NewFlagSet("espaliertest", pflag.ContinueOnError)
	c.options.AddFlags(flags)
	if err := flags.Parse(c.flags); err != nil {
		return nil, err
	}
	if args := flags.Args(); len(args) > 0 {
		return nil, fmt.Errorf("%q is not a flag", args[0])
	}
	if !flags.Changed("storage") && (len(c.options.Etcd.URLs) > 0 || flags.Changed("quota-backend-bytes") || flags.Changed("data-dir")) {
		c.options.Storage = server.StorageEtcd
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	running, err := server.Start(ctx, c.options)
	if err != nil {
		if c.options.StateFile != "" {
			err = explainState(err)
		}
		return nil, err
	}
	return newServer(ctx, running, c.crds)
}

// newServer returns a server that is running, after it has installed CRDs. If it returns an error,
// it has stopped the server.
func newServer(ctx context.Context, running *server.Server, crds []any) (*Server, error) {
	config, err := running.ClientConfig()
	if err == nil && len(crds) > 0 {
		err = installCRDs(ctx, unlimited(config), crds)
	}
	var checkpoint *server.Checkpoint
	if err == nil {
		checkpoint, err = running.Checkpoint(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, running.Stop())
	}
	s := &Server{server: running, config: unlimited(config), checkpoint: checkpoint}
	if h, err := running.History(); err == nil {
		s.ready = h.Revision()
	}
	return s, nil
}

// unlimited removes the client-side rate limit.
func unlimited(config *rest.Config) *rest.Config {
	config.QPS = -1
	return config
}

// Config returns a client configuration for an administrator, a member of system:masters.
// The caller may change it. Config panics if a bubble of testing/synctest is between the caller and the
// server.
func (s *Server) Config() *rest.Config {
	s.checkSide(func(message string) { panic("espaliertest: " + message) })
	return rest.CopyConfig(s.config)
}

// Kubeconfig returns the path of the administrator's kubeconfig, for programs such as
// kubectl. It panics if the server runs in a bubble of testing/synctest: no other program can connect.
func (s *Server) Kubeconfig() string {
	path := s.server.Kubeconfig()
	if path == "" {
		panic("espaliertest: a server in a bubble of testing/synctest has no kubeconfig, because no other program can connect to it: " +
			"use Config in the bubble, or start the server outside of it")
	}
	return path
}

// URL returns the server's address.
func (s *Server) URL() string { return s.server.URL() }

// Stop stops the server. It may be called more than once. After [Start] there is no need
// to call it.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() {
		s.stopErr = s.server.Stop()
		if s.dir != "" {
			s.stopErr = errors.Join(s.stopErr, os.RemoveAll(s.dir))
		}
	})
	return s.stopErr
}

// ResetOption configures [Server.Reset].
type ResetOption func(*resetSettings)

type resetSettings struct{ keepCRDs bool }

// KeepCRDs keeps the CRDs that were installed after the start.
func KeepCRDs() ResetOption { return func(s *resetSettings) { s.keepCRDs = true } }

// Reset empties the server, so that tests can share one: what is stored is what was stored when
// the server was returned, with the CRDs of [WithCRDs]. All other objects are deleted at once,
// even if they have finalizers, and watches see it. It takes milliseconds.
//
// Stop the controllers under test before, or give them time to notice: what they write
// at the same time may remain.
func (s *Server) Reset(t testing.TB, opts ...ResetOption) {
	t.Helper()
	s.checkSide(fails(t))
	var c resetSettings
	for _, o := range opts {
		o(&c)
	}
	// The context of a test is done when its cleanups run, which may reset the server.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), timeout)
	defer cancel()
	if err := s.server.Reset(ctx, s.checkpoint, c.keepCRDs); err != nil {
		t.Fatalf("reset the server: %v", err)
	}
}

// InstallCRDs creates CRDs, or updates those that exist, and returns when all of them are
// served. Tests that share a server may install the same CRDs at the same time. A
// source is one of
//   - a string: the path of a file, or of a directory that is read with those below it;
//   - a []byte: YAML or JSON;
//   - an [fs.FS], such as an embed.FS;
//   - an object: a CRD of package k8s.io/apiextensions-apiserver, an unstructured object,
//     or anything else that marshals to the JSON of a CRD.
//
// Sources may hold several CRDs, of version v1 or v1beta1. Objects that are not CRDs are
// skipped, but a source without any CRD fails the test.
func (s *Server) InstallCRDs(t testing.TB, sources ...any) {
	t.Helper()
	s.checkSide(fails(t))
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := installCRDs(ctx, s.config, sources); err != nil {
		t.Fatalf("install CRDs: %v", err)
	}
}

// AddUser returns a client configuration for a user who is a member of groups, with a
// client certificate that the server's CA has signed. Users outside system:masters have the
// access that roles and bindings give them.
func (s *Server) AddUser(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	s.checkSide(fails(t))
	config, err := s.server.UserConfig(name, groups...)
	if err != nil {
		t.Fatalf("add the user %q: %v", name, err)
	}
	return unlimited(config)
}
