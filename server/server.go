// Package server is a Kubernetes-style API server for custom resources.
//
// It is based on k8s.io/apiserver, whose generic server provides the filters (authentication,
// authorization, limits, audit), health, metrics and graceful shutdown. [Start] builds it:
// etcd, embedded unless an external one is configured, certificates, storage, and in install
// the parts that serve resources, each in its own package below this one.
//
// k8s.io/apiserver keeps some state in global variables: feature gates, metrics, the version
// of its CEL environment. Servers in one process share only this state.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"espalier.dev/server/aggregator"
	"espalier.dev/server/builtin"
	"espalier.dev/server/compiling"
	"espalier.dev/server/definitions"
	"espalier.dev/server/etcd/kine"
	"espalier.dev/server/faults"
	"espalier.dev/server/ids"
	"espalier.dev/server/pki"
)

const (
	// maxRequestBody is the size limit of a request body, as in kube-apiserver: twice the
	// limit of etcd.
	maxRequestBody = 3 << 20
	// watchGrace is the time that a stopping server waits for watches to end after it asks
	// them to.
	watchGrace = 2 * time.Second
	// livezGrace is the time that a server may load data without failing /livez: it would only
	// be restarted, and load again.
	livezGrace = 24 * time.Hour
	// stallTimeout is the maximum time without progress during start, and readyPoll the
	// interval of checks.
	stallTimeout = time.Minute
	readyPoll    = 2 * time.Millisecond
)

// Server is a running server.
type Server struct {
	options  *Options
	identity *identity
	api      *genericapiserver.GenericAPIServer
	db       *database
	listener *listener
	lock     *fileutil.LockedFile
	url      string
	// ready is set when the kubeconfig has been written.
	ready atomic.Bool

	// definitions must be loaded before the server is ready.
	definitions *definitions.Definitions
	stored      *builtin.Reader
	controllers *controllers
	ids         *ids.Source // nil unless names and UIDs are repeatable
	stop        context.CancelCauseFunc
	// drained is closed when the server is stopping and all requests are answered.
	drained <-chan struct{}
	// background tracks the goroutines beside the generic server.
	background sync.WaitGroup
	done       chan struct{}
	err        error
}

// Start starts a server. It returns when the server is ready and the kubeconfig is written.
// The server runs until [Server.Stop]; ctx applies only to the start.
func Start(ctx context.Context, o *Options) (_ *Server, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{options: o, done: make(chan struct{})}
	// If the start fails, everything that was opened is closed in reverse order.
	var undo []func()
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		// The error should wrap that of ctx if ctx caused it.
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}()

	_, absent := os.Stat(o.DataDir)
	if s.lock, err = lockDataDir(o.DataDir); err != nil {
		return nil, err
	}
	undo = append(undo, s.unlock)
	if errors.Is(absent, fs.ErrNotExist) {
		undo = append(undo, func() { removeEmptyDataDir(o.DataDir) })
	}
	if err := pki.RemoveKubeconfig(o.kubeconfigPath()); err != nil {
		return nil, fmt.Errorf("--kubeconfig-out: %w", err)
	}
	warnOfMissingData(ctx, o)
	if s.listener, err = listen(ctx, o); err != nil {
		return nil, err
	}
	undo = append(undo, s.listener.close)
	port := s.listener.Addr().(*net.TCPAddr).Port
	s.url = "https://" + net.JoinHostPort(clientHost(o.BindAddress), strconv.Itoa(port))

	// Both wait for the disk.
	identified := make(chan error, 1)
	go func() {
		var err error
		s.identity, err = newIdentity(o)
		identified <- err
	}()
	if s.db, err = openDatabase(ctx, o); err == nil {
		undo = append(undo, s.db.close)
	}
	if err = errors.Join(<-identified, err); err != nil {
		return nil, err
	}

	if s.api, err = s.build(); err != nil {
		return nil, err
	}
	if err := s.run(ctx); err != nil {
		// Stop has already closed everything.
		undo = nil
		return nil, err
	}
	o.origin.release()
	return s, nil
}

// build builds the generic server.
func (s *Server) build() (*genericapiserver.GenericAPIServer, error) {
	o := s.options
	version, err := o.applyFeatures()
	if err != nil {
		return nil, err
	}
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	c := genericapiserver.NewConfig(codecs)
	c.EffectiveVersion = version
	c.MaxRequestBodyBytes = maxRequestBody
	s.controllers = newControllers()
	limitRequests(c, o, s.controllers.Ready(), s.db.store)
	s.db.reportFull(c)
	if s.db.memory != nil {
		recordAgents(c)
	}
	c.RequestTimeout = o.RequestTimeout
	// As in kube-apiserver: the servers of API services may serve such resources. Upgrades by other names are
	// long-running, too. There are no requests before install has made others.
	long := genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"),
		sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	var others *aggregator.Aggregator
	c.LongRunningFunc = func(req *http.Request, info *apirequest.RequestInfo) bool {
		return long(req, info) || others.Upgrades(req, info)
	}
	c.MinRequestTimeout = int(o.MinRequestTimeout.Seconds())
	c.GoawayChance = o.GoawayChance
	c.EnableProfiling = o.Profiling
	c.LivezGracePeriod = livezGrace
	c.ShutdownDelayDuration = o.ShutdownDelay
	c.ShutdownWatchTerminationGracePeriod = watchGrace
	// During shutdown, new requests get Retry-After instead of a broken connection.
	c.ShutdownSendRetryAfter = true
	c.SkipOpenAPIInstallation = true
	// Package publish provides discovery and OpenAPI.
	c.EnableDiscovery = false
	if o.Bubble {
		removeLogCheck(c)
	}

	if c.SecureServing, err = secureServing(o, s.identity, s.listener); err != nil {
		return nil, err
	}
	if o.TLSCertFile != "" {
		if cert, ok := c.SecureServing.Cert.(dynamiccertificates.Notifier); ok {
			cert.AddListener(certificateListener{s})
		}
	}
	s.drained = c.DrainedNotify()
	c.PublicAddress = net.ParseIP(clientHost(o.BindAddress))
	stored, err := newReader(o, s.db.store)
	if err != nil {
		return nil, err
	}
	s.stored = stored
	fairness := shareSeats(c, o, s.db.store, stored)
	users, err := newAccess(o, c, stored, s.labelSecret, s.db.store)
	if err != nil {
		return nil, err
	}
	c.LoopbackClientConfig = loopbackConfig(s.identity, s.url, uuid.NewString())
	c.LoopbackClientConfig.Dial = s.listener.dial
	network, err := newNetwork(o, stored)
	if err != nil {
		return nil, err
	}
	if err := s.db.applyTo(c, o); err != nil {
		return nil, err
	}
	if err := applyAudit(c, o); err != nil {
		return nil, err
	}
	api, err := c.Complete(nil).New("espalier", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("build the server: %w", err)
	}
	s.db.serveSpace(api.Handler.NonGoRestfulMux)
	if s.db.unrecorded {
		s.controllers.add(s.db.newRecorder(o.Semantics))
	}
	if o.EncryptionProviderConfig != "" {
		s.controllers.add(controller{name: "encryption", run: s.db.encryption.Run})
	}
	if o.Authorization.File != "" {
		s.controllers.add(controller{name: "authorization", run: users.authorizer.Run})
	}
	f := &foundation{
		options:     o,
		config:      c,
		db:          s.db,
		identity:    s.identity,
		url:         s.url,
		port:        s.listener.Addr().(*net.TCPAddr).Port,
		access:      users,
		stored:      stored,
		network:     network,
		fairness:    fairness,
		compiling:   compiling.New(),
		controllers: s.controllers,
		scheme:      scheme,
		codecs:      codecs,
	}
	s.definitions, err = install(f, api)
	s.ids, others = f.ids, f.others
	if err != nil {
		api.Destroy()
		return nil, err
	}
	return api, nil
}

// run runs the generic server and its background tasks, and returns when it is ready.
func (s *Server) run(start context.Context) error {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(start))
	s.stop = stop
	if s.options.Faults != nil {
		// Requests that are delayed or held would keep the server from stopping.
		context.AfterFunc(ctx, s.options.Faults.Close)
	}
	prepared := s.api.PrepareRun()
	ended := make(chan struct{})
	go func() {
		defer close(s.done)
		defer s.unlock()
		defer s.listener.close()
		defer s.db.close()
		defer s.background.Wait()
		defer close(ended)
		err := prepared.RunWithContext(ctx)
		// The generic server may have failed: stop the rest, too.
		stop(err)
		if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
			err = cause
		}
		s.err = err
	}()
	s.background.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.db.stopped():
			stop(errors.New("etcd has stopped"))
		case <-s.db.registration.Lost():
			stop(kine.ErrLost)
		case <-s.db.guard.Replaced():
			stop(s.db.guard.Err())
		}
	})
	if s.db.guard != nil && s.db.registration == nil && !s.db.unrecorded {
		s.background.Go(func() { s.db.guard.watch(ctx, s.db.client, s.db.root) })
	}

	s.background.Go(func() { s.identity.renew(ctx, s.writeKubeconfig) })
	if s.options.Ephemeral {
		s.background.Go(func() { s.hangUp(ended) })
	}

	commit := s.stageKubeconfig()
	err := s.awaitReady(start, ctx)
	if err != nil {
		err = errors.Join(err, s.controllers.failures()) // the reasons why it is not ready
	}
	err = errors.Join(err, commit(err == nil))
	s.ready.Store(err == nil)
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	return nil
}

// stageKubeconfig prepares the kubeconfig in the background, because the disk may be slow. The
// returned function waits for it, and makes the file visible if the server is ready.
func (s *Server) stageKubeconfig() (commit func(ready bool) error) {
	if s.options.Bubble {
		return func(bool) error { return nil } // no other program can connect
	}
	if s.options.TLSCertFile != "" {
		// The certificate may still change.
		return func(ready bool) error {
			if !ready {
				return nil
			}
			return s.writeKubeconfig(s.identity.current.Load())
		}
	}
	var staged *pki.Staged
	done := make(chan error, 1)
	go func() {
		k, err := kubeconfig(s.options, s.identity.current.Load(), s.url)
		if err == nil {
			staged, err = k.Stage(s.options.kubeconfigPath())
		}
		done <- err
	}()
	return func(ready bool) error {
		switch err := <-done; {
		case err != nil:
			return err
		case !ready:
			staged.Discard()
			return nil
		default:
			return staged.Commit()
		}
	}
}

// errNotSynced is the reason why a server is not ready, until its controllers have synced.
var errNotSynced = errors.New("not all controllers have synced")

// awaitReady returns when the server is ready, or when it makes no progress. The start has no
// fixed time limit, because there may be much to load.
func (s *Server) awaitReady(start, run context.Context) error {
	progress, since := s.definitions.Progress(), time.Now()
	transport := s.newTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ask := func(ctx context.Context, path string) error {
		ctx, cancel := context.WithTimeout(ctx, stallTimeout)
		defer cancel()
		return askReady(ctx, client, s.url+path, s.api.LoopbackClientConfig.BearerToken)
	}
	// Opens the connection. The answer does not matter.
	_ = ask(start, "/livez/ping")
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	// Until the controllers have synced, the answer is known, and requests would take CPU time
	// from them.
	err := errNotSynced
	synced := s.controllers.Ready()
	for {
		if s.controllers.isReady() {
			synced = nil
			if err = ask(start, "/readyz"); err == nil {
				return nil
			}
		}
		if now := s.definitions.Progress(); now != progress {
			progress, since = now, time.Now()
		}
		if time.Since(since) > stallTimeout {
			if errors.Is(err, errNotSynced) {
				err = errors.Join(err, ask(start, "/readyz")) // names them
			}
			return fmt.Errorf("the server did not become ready, and made no progress for %v: %w", stallTimeout, err)
		}
		select {
		case <-synced:
		case <-ticker.C:
		case <-run.Done():
			return fmt.Errorf("the server stopped while starting: %w", context.Cause(run))
		case <-start.Done():
			return fmt.Errorf("the server did not become ready (%w): %w", context.Cause(start), err)
		}
	}
}

// newTransport returns a transport for requests of the server to itself.
func (s *Server) newTransport() *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.identity.CurrentCABundleContent())
	return &http.Transport{
		DialContext: s.listener.dial,
		TLSClientConfig: &tls.Config{RootCAs: roots,
			ServerName: genericapiserver.LoopbackClientServerNameOverride, MinVersion: tls.VersionTLS12},
	}
}

// askReady checks once whether the server is ready. Anonymous requests may not be allowed, so it
// sends a token.
func askReady(ctx context.Context, client *http.Client, url, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(string(body))
	}
	return nil
}

// certificateListener rewrites the kubeconfig when the file with the serving certificate
// changes, because clients trust the certificate in the kubeconfig.
type certificateListener struct{ server *Server }

// Enqueue is called when the file may have changed.
func (l certificateListener) Enqueue() {
	if !l.server.ready.Load() {
		return // the kubeconfig is written when the server is ready
	}
	if err := l.server.writeKubeconfig(l.server.identity.current.Load()); err != nil {
		klog.ErrorS(err, "Cannot write the kubeconfig for the new serving certificate")
	}
}

func (s *Server) writeKubeconfig(b *pki.Bundle) error {
	if s.options.Bubble {
		return nil
	}
	k, err := kubeconfig(s.options, b, s.url)
	if err != nil {
		return err
	}
	return k.Write(s.options.kubeconfigPath())
}

// errStopped is the reason of a requested stop.
var errStopped = errors.New("stopped")

// Stop stops the server: running requests finish, watches end, etcd is closed. It waits for
// all of this, and returns errors since the start.
func (s *Server) Stop() error {
	s.stop(errStopped)
	<-s.done
	return s.err
}

// Done returns a channel that is closed when the server has stopped, whether by Stop or
// because of a failure.
func (s *Server) Done() <-chan struct{} { return s.done }

// Faults returns the faults that are injected into requests, or nil.
func (s *Server) Faults() *faults.Set { return s.options.Faults }

// URL returns the server's address.
func (s *Server) URL() string { return s.url }

// Kubeconfig returns the path of the administrator's kubeconfig. It is empty with
// [Options.Bubble]: no other program can connect.
func (s *Server) Kubeconfig() string {
	if s.options.Bubble {
		return ""
	}
	return s.options.kubeconfigPath()
}

// ClientConfig returns a client configuration for the administrator.
func (s *Server) ClientConfig() (*rest.Config, error) {
	return s.clientConfig(s.identity.current.Load().Admin)
}

// UserConfig returns a client configuration for a user in groups, with a new client
// certificate that the server's CA has signed.
func (s *Server) UserConfig(name string, groups ...string) (*rest.Config, error) {
	pair, err := pki.NewClient(s.identity.config, name, groups...)
	if err != nil {
		return nil, err
	}
	return s.clientConfig(pair)
}

func (s *Server) clientConfig(client pki.Pair) (*rest.Config, error) {
	k, err := kubeconfig(s.options, s.identity.current.Load(), s.url)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: k.Server,
		Dial: s.listener.dial,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:     k.CA,
			ServerName: k.ServerName,
			CertData:   client.Cert,
			KeyData:    client.Key,
		},
	}, nil
}

// newScheme returns the types of the server's own responses.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	v1 := runtimeschema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, v1)
	scheme.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{},
		&metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

// applyAudit configures auditing.
func applyAudit(c *genericapiserver.Config, o *Options) error {
	audit := genericoptions.NewAuditOptions()
	audit.PolicyFile = o.AuditPolicyFile
	audit.LogOptions.Path = o.AuditLogPath
	audit.LogOptions.MaxAge = o.AuditLogMaxAge
	audit.LogOptions.MaxBackups = o.AuditLogMaxBackup
	audit.LogOptions.MaxSize = o.AuditLogMaxMB
	audit.WebhookOptions.ConfigFile = o.AuditWebhookConfigFile
	audit.WebhookOptions.BatchOptions.Mode = o.AuditWebhookMode
	audit.WebhookOptions.InitialBackoff = o.AuditWebhookInitialBackoff
	if err := errors.Join(audit.Validate()...); err != nil {
		return err
	}
	return audit.ApplyTo(c)
}

// lockDataDir creates the data directory and locks it against other servers.
func lockDataDir(dir string) (*fileutil.LockedFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := checkOwner(dir, os.Geteuid()); err != nil {
		return nil, err
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, &inUseError{dir}
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("no permission to use the data directory %s: run as the user that the server runs as, or change the owner with chown", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return lock, nil
}

// removeEmptyDataDir removes a data directory that has nothing but the lock, which this server holds:
// a start that fails leaves no directory behind.
func removeEmptyDataDir(dir string) {
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		return
	}
	if os.Remove(filepath.Join(dir, "lock")) == nil {
		_ = os.Remove(dir) // unless another server has written to it in the meantime
	}
}

// inUseError is returned for a data directory that another process has locked.
type inUseError struct{ dir string }

func (e *inUseError) Error() string {
	return fmt.Sprintf("another server uses the data directory %s: stop it, or choose another directory with --data-dir", e.dir)
}

func (s *Server) unlock() {
	if err := s.lock.Close(); err != nil {
		klog.ErrorS(err, "Cannot release the lock of the data directory")
	}
}
