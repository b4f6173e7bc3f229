package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/storage/storagebackend"

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
	// WatchCache makes reads be served from memory.
	WatchCache bool

	// TLSCertFile and TLSPrivateKeyFile are the serving certificate; by default the
	// server makes one.
	TLSCertFile, TLSPrivateKeyFile string
	// ClientCAFile are authorities whose client certificates are accepted, besides
	// the server's own.
	ClientCAFile string
	// TokenAuthFile lists tokens, as CSV: token, user, uid, groups.
	TokenAuthFile string

	// AuditPolicyFile says what is recorded in the log at AuditLogPath.
	AuditPolicyFile, AuditLogPath                    string
	AuditLogMaxAge, AuditLogMaxBackup, AuditLogMaxMB int

	// EnableAdmissionPlugins and DisableAdmissionPlugins change which admission
	// plugins run.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string

	// FeatureGates and EmulatedVersion are settings of the whole process.
	FeatureGates    map[string]string
	EmulatedVersion string

	// Semantics is how schemas are read. It is recorded with the data.
	Semantics schema.Semantics

	// MaxRequestsInFlight and MaxMutatingRequestsInFlight limit the requests that are
	// worked on at a time; zero is no limit.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// RequestTimeout bounds requests, other than watches.
	RequestTimeout time.Duration
	// MinRequestTimeout is the least time that a watch is kept open if its client does
	// not say.
	MinRequestTimeout time.Duration
	// ShutdownDelay is how long the server goes on, not ready, when it is to stop.
	ShutdownDelay time.Duration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		BindAddress:                 "127.0.0.1",
		SecurePort:                  6443,
		DataDir:                     "espalier-data",
		EtcdPrefix:                  "/registry",
		EtcdCompactionInterval:      storagebackend.DefaultCompactInterval,
		EtcdQuota:                   etcd.DefaultQuota,
		WatchCache:                  true,
		AuditLogMaxMB:               100,
		AuditLogMaxBackup:           10,
		MaxRequestsInFlight:         400,
		MaxMutatingRequestsInFlight: 200,
		RequestTimeout:              time.Minute,
		MinRequestTimeout:           30 * time.Minute,
	}
}

// AddFlags adds a flag for each option, other than Semantics: all commands have that.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "IP `address` to listen on; 0.0.0.0 is all")
	fs.IntVar(&o.SecurePort, "secure-port", o.SecurePort, "`port` to listen on, with TLS; 0 is any free one")
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "`directory` of the database and the certificates")
	fs.StringVar(&o.KubeconfigOut, "kubeconfig-out", o.KubeconfigOut, "kubeconfig `file` to write when the server is ready (default: kubeconfig in the data directory)")

	fs.StringSliceVar(&o.Etcd.URLs, "etcd-servers", o.Etcd.URLs, "`URLs` of the members of an etcd cluster to use instead of a database in the data directory")
	fs.StringVar(&o.Etcd.CAFile, "etcd-cafile", o.Etcd.CAFile, "`file` with the authority of the etcd members' certificates")
	fs.StringVar(&o.Etcd.CertFile, "etcd-certfile", o.Etcd.CertFile, "`file` with the client certificate for etcd")
	fs.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", o.Etcd.KeyFile, "`file` with the key of the client certificate for etcd")
	fs.StringVar(&o.EtcdPrefix, "etcd-prefix", o.EtcdPrefix, "`prefix` of all resources in etcd")
	fs.DurationVar(&o.EtcdCompactionInterval, "etcd-compaction-interval", o.EtcdCompactionInterval, "how often to compact the history in etcd; 0 is never")
	fs.Int64Var(&o.EtcdQuota, "quota-backend-bytes", o.EtcdQuota, "size that the database in the data directory may grow to")
	fs.BoolVar(&o.WatchCache, "watch-cache", o.WatchCache, "serve reads from memory")

	fs.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile, "`file` with the serving certificate (default: one that the server makes)")
	fs.StringVar(&o.TLSPrivateKeyFile, "tls-private-key-file", o.TLSPrivateKeyFile, "`file` with the key of the serving certificate")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile, "`file` with authorities whose client certificates are accepted besides the server's own")
	fs.StringVar(&o.TokenAuthFile, "token-auth-file", o.TokenAuthFile, "CSV `file` of bearer tokens: token, user, uid, groups")

	fs.StringVar(&o.AuditPolicyFile, "audit-policy-file", o.AuditPolicyFile, "`file` that says what is recorded in the audit log")
	fs.StringVar(&o.AuditLogPath, "audit-log-path", o.AuditLogPath, "`file` of the audit log; - is the standard output")
	fs.IntVar(&o.AuditLogMaxAge, "audit-log-maxage", o.AuditLogMaxAge, "`days` to keep old audit logs; 0 is for ever")
	fs.IntVar(&o.AuditLogMaxBackup, "audit-log-maxbackup", o.AuditLogMaxBackup, "`number` of old audit logs to keep; 0 is all")
	fs.IntVar(&o.AuditLogMaxMB, "audit-log-maxsize", o.AuditLogMaxMB, "`megabytes` at which a new audit log is begun")

	fs.StringSliceVar(&o.EnableAdmissionPlugins, "enable-admission-plugins", o.EnableAdmissionPlugins, "admission plugins to run besides those that run by default")
	fs.StringSliceVar(&o.DisableAdmissionPlugins, "disable-admission-plugins", o.DisableAdmissionPlugins, "admission plugins not to run")
	fs.StringToStringVar(&o.FeatureGates, "feature-gates", o.FeatureGates, "features to turn on and off, `Name=true|false,...`")
	fs.StringVar(&o.EmulatedVersion, "emulated-version", o.EmulatedVersion, "Kubernetes `version` whose features to have, as major.minor")

	fs.IntVar(&o.MaxRequestsInFlight, "max-requests-inflight", o.MaxRequestsInFlight, "reading requests to work on at a time; 0 is no limit")
	fs.IntVar(&o.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", o.MaxMutatingRequestsInFlight, "writing requests to work on at a time; 0 is no limit")
	fs.DurationVar(&o.RequestTimeout, "request-timeout", o.RequestTimeout, "how long a request may take, other than a watch")
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay, "how long to go on serving, not ready, when the server is to stop")
}

// Validate says everything that is wrong with the options.
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
	if o.AuditPolicyFile != "" && o.AuditLogPath == "" {
		bad("--audit-policy-file needs --audit-log-path")
	}
	if o.AuditLogMaxAge < 0 || o.AuditLogMaxBackup < 0 || o.AuditLogMaxMB < 0 {
		bad("--audit-log-maxage, --audit-log-maxbackup and --audit-log-maxsize must not be negative")
	}
	if o.MaxRequestsInFlight < 0 || o.MaxMutatingRequestsInFlight < 0 {
		bad("--max-requests-inflight and --max-mutating-requests-inflight must not be negative")
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
