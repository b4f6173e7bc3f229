package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	cliflag "k8s.io/component-base/cli/flag"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/server/etcd"
)

// Options says what server to run. The fields have flags, in the spelling of
// kube-apiserver where that has them.
type Options struct {
	// BindAddress and SecurePort are where the server listens. Port 0 is any free one.
	BindAddress string
	SecurePort  int

	// DataDir holds the database, unless there is one elsewhere, and the certificates.
	DataDir string
	// KubeconfigOut is the kubeconfig that the server writes when it is ready; by
	// default a file in DataDir.
	KubeconfigOut string

	// Etcd says how to reach a database elsewhere; without URLs, the server runs its
	// own.
	Etcd etcd.Endpoints
	// EtcdPrefix is the directory of the database that the resources are in.
	EtcdPrefix string
	// EtcdCompactionInterval is how often history is compacted, to what is older than
	// that.
	EtcdCompactionInterval time.Duration
	// EtcdQuota is the size in bytes that the server's own database may grow to.
	EtcdQuota int64
	// Ephemeral is for tests: the server's own database does not wait for the disk, and
	// a server that stops does not wait for clients to hang up.
	Ephemeral bool
	// Warnings returns what else to tell the writer of a valid CRD. Nil tells nothing.
	Warnings func(context.Context, *api.CustomResourceDefinition) []string
	// WatchCache makes reads be served from memory.
	WatchCache bool

	// TLSCertFile and TLSPrivateKeyFile are the serving certificate; by default the
	// server makes one.
	TLSCertFile, TLSPrivateKeyFile string
	// TLSMinVersion is the lowest TLS version to accept, and TLSCipherSuites the cipher
	// suites for TLS 1.2, both in the spelling of kube-apiserver's flags. Empty means the
	// defaults.
	TLSMinVersion   string
	TLSCipherSuites []string
	// HTTP2MaxStreamsPerConnection limits the requests that one connection carries at the
	// same time; zero means the default of k8s.io/apiserver.
	HTTP2MaxStreamsPerConnection int
	// GoawayChance is the share of HTTP/2 requests whose connection the server asks the
	// client to replace, so that clients spread over several servers.
	GoawayChance float64
	// ClientCAFile are authorities whose client certificates are accepted, besides
	// the server's own.
	ClientCAFile string
	// TokenAuthFile lists tokens, as CSV: token, user, uid, groups.
	TokenAuthFile string

	// AuditPolicyFile says what is recorded in the log at AuditLogPath.
	AuditPolicyFile, AuditLogPath                    string
	AuditLogMaxAge, AuditLogMaxBackup, AuditLogMaxMB int
	// AuditWebhookConfigFile is a kubeconfig that names a webhook for audit events.
	// AuditWebhookMode is batch, blocking or blocking-strict.
	AuditWebhookConfigFile, AuditWebhookMode string
	AuditWebhookInitialBackoff               time.Duration

	// EnableAdmissionPlugins and DisableAdmissionPlugins change which admission
	// plugins run.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string

	// FeatureGates and EmulatedVersion are settings of the whole process.
	FeatureGates    map[string]string
	EmulatedVersion string

	// Semantics is how schemas are read. It is recorded with the data.
	Semantics schema.Semantics

	// MaxRequestsInFlight and MaxMutatingRequestsInFlight limit the requests that are
	// worked on at the same time, MaxLongRunningRequestsInFlight the open watches. Zero is
	// no limit.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight, MaxLongRunningRequestsInFlight int
	// RequestTimeout bounds requests, other than watches.
	RequestTimeout time.Duration
	// MinRequestTimeout is the least time that a watch stays open if its client names no
	// timeout.
	MinRequestTimeout time.Duration
	// DeleteCollectionWorkers is the number of goroutines that work on one request to
	// delete a collection.
	DeleteCollectionWorkers int
	// Profiling serves profiles under /debug/pprof/.
	Profiling bool
	// ShutdownDelay is how long the server goes on, not ready, when it is to stop.
	ShutdownDelay time.Duration
}

// maxGoawayChance is the highest --goaway-chance, as in kube-apiserver: a higher one costs
// clients more than it spreads them.
const maxGoawayChance = 0.02

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		BindAddress:                    "127.0.0.1",
		SecurePort:                     6443,
		DataDir:                        "espalier-data",
		EtcdPrefix:                     "/registry",
		EtcdCompactionInterval:         storagebackend.DefaultCompactInterval,
		EtcdQuota:                      etcd.DefaultQuota,
		WatchCache:                     true,
		AuditLogMaxMB:                  100,
		AuditWebhookMode:               genericoptions.ModeBatch,
		AuditWebhookInitialBackoff:     10 * time.Second,
		AuditLogMaxBackup:              10,
		MaxRequestsInFlight:            400,
		MaxMutatingRequestsInFlight:    200,
		MaxLongRunningRequestsInFlight: 10_000,
		DeleteCollectionWorkers:        1,
		RequestTimeout:                 time.Minute,
		MinRequestTimeout:              30 * time.Minute,
	}
}

// Validate returns everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if net.ParseIP(o.BindAddress) == nil {
		bad("--bind-address %q is not an IP address", o.BindAddress)
	}
	if o.SecurePort < 0 || o.SecurePort > 65535 {
		bad("--secure-port %d is not a port: it must be between 0 and 65535", o.SecurePort)
	}
	if o.DataDir == "" {
		bad("--data-dir must not be empty")
	}
	for _, u := range o.Etcd.URLs {
		if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") && !strings.HasPrefix(u, "unix://") {
			bad("--etcd-servers %q is not a URL: it must begin with http://, https:// or unix://", u)
		}
	}
	if len(o.Etcd.URLs) == 0 && (o.Etcd.CAFile != "" || o.Etcd.CertFile != "" || o.Etcd.KeyFile != "") {
		bad("--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers")
	}
	if (o.Etcd.CertFile == "") != (o.Etcd.KeyFile == "") {
		bad("--etcd-certfile and --etcd-keyfile need each other")
	}
	if strings.Trim(o.EtcdPrefix, "/") == "" {
		bad("--etcd-prefix %q must name a directory of its own", o.EtcdPrefix)
	}
	if o.EtcdCompactionInterval < 0 {
		bad("--etcd-compaction-interval must not be negative")
	}
	if o.EtcdQuota < 0 {
		bad("--quota-backend-bytes must not be negative")
	}
	if (o.TLSCertFile == "") != (o.TLSPrivateKeyFile == "") {
		bad("--tls-cert-file and --tls-private-key-file need each other")
	}
	for _, f := range []struct{ flag, path string }{
		{"etcd-cafile", o.Etcd.CAFile}, {"etcd-certfile", o.Etcd.CertFile}, {"etcd-keyfile", o.Etcd.KeyFile},
		{"tls-cert-file", o.TLSCertFile}, {"tls-private-key-file", o.TLSPrivateKeyFile},
		{"client-ca-file", o.ClientCAFile}, {"token-auth-file", o.TokenAuthFile}, {"audit-policy-file", o.AuditPolicyFile},
		{"audit-webhook-config-file", o.AuditWebhookConfigFile},
	} {
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			bad("--%s: %w", f.flag, err)
		}
	}
	if o.AuditLogPath != "" && o.AuditPolicyFile == "" {
		bad("--audit-log-path needs --audit-policy-file: without a policy, nothing is recorded")
	}
	if o.AuditWebhookConfigFile != "" && o.AuditPolicyFile == "" {
		bad("--audit-webhook-config-file needs --audit-policy-file: without a policy, nothing is recorded")
	}
	if o.AuditPolicyFile != "" && o.AuditLogPath == "" && o.AuditWebhookConfigFile == "" {
		bad("--audit-policy-file needs --audit-log-path or --audit-webhook-config-file")
	}
	if !slices.Contains(genericoptions.AllowedModes, o.AuditWebhookMode) {
		bad("--audit-webhook-mode %q: must be one of %s", o.AuditWebhookMode, strings.Join(genericoptions.AllowedModes, ", "))
	}
	if o.AuditWebhookInitialBackoff <= 0 {
		bad("--audit-webhook-initial-backoff must be positive")
	}
	if o.AuditLogMaxAge < 0 || o.AuditLogMaxBackup < 0 || o.AuditLogMaxMB < 0 {
		bad("--audit-log-maxage, --audit-log-maxbackup and --audit-log-maxsize must not be negative")
	}
	if o.MaxRequestsInFlight < 0 || o.MaxMutatingRequestsInFlight < 0 || o.MaxLongRunningRequestsInFlight < 0 {
		bad("--max-requests-inflight, --max-mutating-requests-inflight and --max-long-running-requests-inflight must not be negative")
	}
	if o.MinRequestTimeout <= 0 {
		bad("--min-request-timeout must be positive")
	}
	if o.DeleteCollectionWorkers <= 0 {
		bad("--delete-collection-workers must be positive")
	}
	if o.HTTP2MaxStreamsPerConnection < 0 {
		bad("--http2-max-streams-per-connection must not be negative")
	}
	if !(o.GoawayChance >= 0 && o.GoawayChance <= maxGoawayChance) {
		bad("--goaway-chance %v: must be between 0 and %v", o.GoawayChance, maxGoawayChance)
	}
	if _, err := cliflag.TLSVersion(o.TLSMinVersion); err != nil {
		bad("--tls-min-version %q: must be one of %s", o.TLSMinVersion, strings.Join(cliflag.TLSPossibleVersions(), ", "))
	}
	if _, err := cliflag.TLSCipherSuites(o.TLSCipherSuites); err != nil {
		bad("--tls-cipher-suites: %w", err)
	}
	if o.RequestTimeout <= 0 {
		bad("--request-timeout must be positive")
	}
	if o.ShutdownDelay < 0 {
		bad("--shutdown-delay-duration must not be negative")
	}
	if err := o.validateAdmission(); err != nil {
		errs = append(errs, err)
	}
	if err := o.validateFeatures(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// kubeconfigPath returns where the kubeconfig goes.
func (o *Options) kubeconfigPath() string {
	if o.KubeconfigOut != "" {
		return o.KubeconfigOut
	}
	return filepath.Join(o.DataDir, "kubeconfig")
}
