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

	"k8s.io/apimachinery/pkg/util/validation"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	cliflag "k8s.io/component-base/cli/flag"

	"espalier.dev/api"
	"espalier.dev/kinds"
	"espalier.dev/kinds/services"
	"espalier.dev/schema"
	"espalier.dev/server/authentication"
	"espalier.dev/server/authorization"
	"espalier.dev/server/etcd"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/faults"
	"espalier.dev/server/keys"
	"espalier.dev/server/peers"
	"espalier.dev/server/webhooks"
)

// Options configures a server. The fields have flags, which are named as in kube-apiserver if
// it has them.
type Options struct {
	// BindAddress and SecurePort are the address to listen on. Port 0 chooses a free port.
	BindAddress string
	SecurePort  int
	// AdvertiseAddress is the address in the endpoints of the Service kubernetes. If it is empty or
	// unspecified, it is BindAddress, or the address of the host if that is a loopback or
	// unspecified address.
	AdvertiseAddress string

	// Build describes the program, for /version. It has no flag.
	Build Build

	// DataDir is the directory of the embedded etcd and the certificates.
	DataDir string
	// KubeconfigOut is the path of the kubeconfig that the server writes when it is ready;
	// the default is a file in DataDir.
	KubeconfigOut string

	// Storage is where objects are kept: StorageEtcd or StorageMemory.
	Storage string
	// StateFile is a file with what is stored at the start, in memory: a backup, or a snapshot of an
	// etcd that another API server has used. It has no flag.
	StateFile string
	// History is how much history objects in memory have: HistoryRecent or HistoryAll.
	History string
	// Memory, if not nil, has the objects that the server begins with and keeps, instead of a store in memory
	// that ends with the server. It is for tests, which look into it, or start another server with it
	// afterwards. The caller closes it, and has set its limits. It records no origins of changes.
	Memory *memory.DB
	// MaxHistory is the maximum size of that history in bytes: zero means 256 MiB, or 4 GiB with HistoryAll. A
	// write that exceeds it removes the older half. It has no flag.
	MaxHistory int64
	// Etcd configures an external etcd cluster; without URLs, the server runs an embedded
	// etcd.
	Etcd etcd.Endpoints
	// EtcdPrefix is the prefix of all resource keys in etcd.
	EtcdPrefix string
	// EtcdCompactionInterval is the interval of compaction. Each compaction removes history
	// older than the interval.
	EtcdCompactionInterval time.Duration
	// EncryptionProviderConfig is the file that configures the encryption of stored values, as
	// in kube-apiserver. EncryptionProviderConfigReload follows its changes.
	EncryptionProviderConfig       string
	EncryptionProviderConfigReload bool
	// encryptionPoll is the interval of checks for such changes, if not the default.
	encryptionPoll time.Duration
	// ServerLease is the time after which other servers on the same external etcd stop
	// waiting for a server that has crashed or stalled.
	ServerLease time.Duration
	// EventTTL is the time after which events are deleted.
	EventTTL time.Duration
	// ServiceClusterIPRange and ServiceNodePortRange are the ranges from which services get
	// cluster IPs and node ports.
	ServiceClusterIPRange, ServiceNodePortRange string
	// EtcdQuota is the maximum size of the embedded etcd in bytes.
	EtcdQuota int64
	// Ephemeral is for tests: the server and the embedded etcd do not wait for the disk, and a
	// stopping server does not wait for clients to disconnect.
	Ephemeral bool
	// Warnings returns warnings for the writer of a valid CRD that the two semantics interpret
	// differently. Nil means none. It is not used in kubernetes semantics, in which a client gets
	// the warnings of kube-apiserver and no others.
	Warnings func(context.Context, *api.CustomResourceDefinition) []string

	// Bubble is for tests in a bubble of testing/synctest: clients of [Server.ClientConfig] connect
	// in memory, and no goroutine waits for something outside of the bubble.
	Bubble bool

	// Seed, if not nil, makes the names and UIDs of new objects, and the addresses and ports of services,
	// repeatable, for tests.
	Seed *uint64

	// origin is what the server begins with, if it is a copy of another one.
	origin *origin
	// identityOnly is set if the options are those of a command that issues certificates.
	identityOnly bool

	// Faults are injected into requests. Nil means that there are none.
	Faults *faults.Set

	// TLSCertFile and TLSPrivateKeyFile are the serving certificate; the default is a
	// certificate signed by the server's own CA.
	TLSCertFile, TLSPrivateKeyFile string
	// ServerCAFile is the CA of TLSCertFile, for kubeconfigs; the default is the one in the chain
	// of that file.
	ServerCAFile string
	// TLSHosts are further names and addresses for which the certificate of the server's own CA is
	// valid.
	TLSHosts []string
	// CACertFile and CAKeyFile are the server's CA; the default is one in DataDir, which is created.
	CACertFile, CAKeyFile string
	// TLSMinVersion is the lowest TLS version to accept, and TLSCipherSuites the cipher
	// suites for TLS 1.2, both spelled as in kube-apiserver's flags. Empty means the
	// defaults.
	TLSMinVersion   string
	TLSCipherSuites []string
	// HTTP2MaxStreamsPerConnection limits the concurrent requests on one connection; zero
	// means the default of k8s.io/apiserver.
	HTTP2MaxStreamsPerConnection int
	// GoawayChance is the fraction of HTTP/2 requests after which the client is asked to
	// reconnect, so that clients spread over several servers.
	GoawayChance float64
	// ProxyClientCertFile and ProxyClientKeyFile are the client certificate with which requests are sent to
	// the servers of API services; the default is one that the server makes.
	ProxyClientCertFile, ProxyClientKeyFile string
	// ClientCAFile holds CA certificates whose client certificates are accepted in addition
	// to those of the server's own CA.
	ClientCAFile string
	// TokenAuthFile lists tokens, as CSV: token, user, uid, groups.
	TokenAuthFile string
	// Authentication configures how else users are identified, and the tokens of service accounts.
	Authentication authentication.Flags
	// Authorization configures who may do what.
	Authorization authorization.Flags

	// AuditPolicyFile is the audit policy, AuditLogPath the audit log.
	AuditPolicyFile, AuditLogPath                    string
	AuditLogMaxAge, AuditLogMaxBackup, AuditLogMaxMB int
	// AuditWebhookConfigFile is the kubeconfig of a webhook for audit events.
	// AuditWebhookMode is batch, blocking or blocking-strict.
	AuditWebhookConfigFile, AuditWebhookMode string
	AuditWebhookInitialBackoff               time.Duration

	// EnableAdmissionPlugins and DisableAdmissionPlugins select admission plugins.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// AdmissionControlConfigFile has the configuration of admission plugins.
	AdmissionControlConfigFile string

	// ServiceResolver has the addresses of services that webhooks are called at, in the form
	// name.namespace=URL. Other services are looked up among the stored objects.
	ServiceResolver []string

	// Controllers names the controllers of Kubernetes' own kinds to run, as in
	// kube-controller-manager: * is all of them, and -name switches one off.
	Controllers []string
	// podQuarantine is the time for which the node of a pod must be absent before the pod is
	// deleted, if not the default.
	podQuarantine time.Duration

	// RuntimeConfig enables and disables versions and resources of Kubernetes' own kinds: the keys
	// are api/all, api/ga, api/beta, api/alpha, group/version and group/version/resource, the
	// values true and false.
	RuntimeConfig map[string]string

	// FeatureGates and EmulatedVersion apply to the whole process.
	FeatureGates    map[string]string
	EmulatedVersion string

	// Semantics is the schema semantics. It is recorded with the data.
	Semantics schema.Semantics
	// CheckStoredObjects is auto, true or false: whether stored objects are checked for
	// compliance with their CRDs. With auto, they are if the semantics is not that of
	// Kubernetes, which has no such checks.
	CheckStoredObjects string

	// MaxRequestsInFlight and MaxMutatingRequestsInFlight limit the concurrent requests,
	// MaxLongRunningRequestsInFlight the open watches. Zero means no limit.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight, MaxLongRunningRequestsInFlight int
	// EnablePriorityAndFairness divides the requests that are worked on among users, by the stored flow
	// schemas and priority levels. It has no effect if there is no limit of concurrent requests.
	EnablePriorityAndFairness bool
	// MaxListBytesInFlight limits the stored bytes of the objects in lists that are being answered,
	// apart from lists of less than 1 MiB. Zero means no limit.
	MaxListBytesInFlight int64
	// RequestTimeout limits the duration of requests other than watches.
	RequestTimeout time.Duration
	// MinRequestTimeout is the minimum time that a watch stays open if its client sets no
	// timeout.
	MinRequestTimeout time.Duration
	// DeleteCollectionWorkers is the number of workers for each request that deletes a
	// collection.
	DeleteCollectionWorkers int
	// Profiling serves profiles under /debug/pprof/.
	Profiling bool
	// ShutdownDelay is the time that a stopping server keeps serving while it reports not
	// ready.
	ShutdownDelay time.Duration
}

// maxGoawayChance is the maximum of --goaway-chance, as in kube-apiserver: more reconnects
// cost more than they help.
const maxGoawayChance = 0.02

// minServerLease is the minimum of --server-lease-duration: etcd does not grant shorter leases.
const minServerLease = 2 * time.Second

// The values of [Options.Storage].
const (
	// StorageEtcd keeps objects in etcd.
	StorageEtcd = "etcd"
	// StorageMemory keeps objects in memory, until the server stops.
	StorageMemory = "memory"
)

// The values of [Options.History].
const (
	// HistoryRecent keeps the history since the last compaction, see EtcdCompactionInterval, and at
	// most 256 MiB of it.
	HistoryRecent = "recent"
	// HistoryAll keeps all history, but at most 4 GiB of it.
	HistoryAll = "all"
)

// NewOptions returns the default options.
func NewOptions() *Options {
	return &Options{
		BindAddress:                    "127.0.0.1",
		SecurePort:                     6443,
		DataDir:                        "espalier-data",
		Storage:                        StorageEtcd,
		History:                        HistoryRecent,
		EtcdPrefix:                     keys.DefaultPrefix,
		EtcdCompactionInterval:         storagebackend.DefaultCompactInterval,
		ServerLease:                    peers.DefaultLease,
		EventTTL:                       time.Hour,
		ServiceClusterIPRange:          services.DefaultIPRange,
		ServiceNodePortRange:           services.DefaultPortRange,
		EtcdQuota:                      etcd.DefaultQuota,
		Authentication:                 authentication.DefaultFlags(),
		AuditLogMaxMB:                  100,
		AuditWebhookMode:               genericoptions.ModeBatch,
		AuditWebhookInitialBackoff:     10 * time.Second,
		AuditLogMaxBackup:              10,
		MaxRequestsInFlight:            400,
		MaxMutatingRequestsInFlight:    200,
		MaxLongRunningRequestsInFlight: 10_000,
		MaxListBytesInFlight:           512 << 20,
		DeleteCollectionWorkers:        1,
		RequestTimeout:                 time.Minute,
		MinRequestTimeout:              30 * time.Minute,
		CheckStoredObjects:             checkAuto,
		RuntimeConfig:                  map[string]string{},
		Controllers:                    []string{"*"},
		Authorization:                  authorization.DefaultFlags(),
	}
}

// The values of CheckStoredObjects.
const checkAuto, checkAlways, checkNever = "auto", "true", "false"

func checkValues() []string { return []string{checkAuto, checkAlways, checkNever} }

// checksStoredObjects reports whether stored objects are checked.
func (o *Options) checksStoredObjects() bool {
	return o.CheckStoredObjects == checkAlways || o.CheckStoredObjects == checkAuto && o.Semantics.ChecksStoredObjects()
}

// Validate returns all errors in the options.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if net.ParseIP(o.BindAddress) == nil {
		bad("--bind-address %q is not an IP address", o.BindAddress)
	}
	if o.SecurePort < 0 || o.SecurePort > 65535 {
		bad("--secure-port %d is not a port: it must be between 0 and 65535", o.SecurePort)
	}
	if o.AdvertiseAddress != "" && net.ParseIP(o.AdvertiseAddress) == nil {
		bad("--advertise-address %q is not an IP address", o.AdvertiseAddress)
	}
	if _, _, err := kinds.Served(o.RuntimeConfig); err != nil {
		bad("--runtime-config: %w", err)
	}
	if o.DataDir == "" {
		bad("--data-dir must not be empty")
	}
	o.validateStorage(bad)
	o.validateBubble(bad)
	for _, u := range o.Etcd.URLs {
		if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") && !strings.HasPrefix(u, "unix://") {
			bad("--etcd-servers %q is not a URL: it must begin with http://, https:// or unix://", u)
		}
	}
	if len(o.Etcd.URLs) == 0 && (o.Etcd.CAFile != "" || o.Etcd.CertFile != "" || o.Etcd.KeyFile != "") {
		bad("--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers")
	}
	if (o.Etcd.CertFile == "") != (o.Etcd.KeyFile == "") {
		bad("--etcd-certfile and --etcd-keyfile must be set together")
	}
	if strings.Trim(o.EtcdPrefix, "/") == "" {
		bad("--etcd-prefix %q must not be empty or the root", o.EtcdPrefix)
	}
	if o.EtcdCompactionInterval < 0 {
		bad("--etcd-compaction-interval must not be negative")
	}
	if o.ServerLease < minServerLease || o.ServerLease%time.Second != 0 {
		bad("--server-lease-duration %v: must be whole seconds, at least %v", o.ServerLease, minServerLease)
	}
	if o.EncryptionProviderConfigReload && o.EncryptionProviderConfig == "" {
		bad("--encryption-provider-config-automatic-reload needs --encryption-provider-config")
	}
	if o.EventTTL < time.Second {
		bad("--event-ttl %v: must be at least a second", o.EventTTL)
	}
	if _, err := services.NewAllocator(o.ServiceClusterIPRange, o.ServiceNodePortRange); err != nil {
		bad("--service-cluster-ip-range %q, --service-node-port-range %q: %w", o.ServiceClusterIPRange, o.ServiceNodePortRange, err)
	}
	if o.EtcdQuota < 0 {
		bad("--quota-backend-bytes must not be negative")
	}
	if o.ServerCAFile != "" && o.TLSCertFile == "" {
		bad("--server-ca-file needs --tls-cert-file")
	}
	if (o.TLSCertFile == "") != (o.TLSPrivateKeyFile == "") && !o.identityOnly {
		bad("--tls-cert-file and --tls-private-key-file must be set together")
	}
	if (o.CACertFile == "") != (o.CAKeyFile == "") {
		bad("--ca-cert-file and --ca-key-file must be set together")
	}
	if (o.ProxyClientCertFile == "") != (o.ProxyClientKeyFile == "") {
		bad("--proxy-client-cert-file and --proxy-client-key-file must be set together")
	}
	for _, host := range o.TLSHosts {
		if net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*."))) > 0 {
			bad("--tls-san %q is neither a host name nor an IP address", host)
		}
	}
	for _, f := range []struct{ flag, path string }{
		{"etcd-cafile", o.Etcd.CAFile}, {"etcd-certfile", o.Etcd.CertFile}, {"etcd-keyfile", o.Etcd.KeyFile},
		{"tls-cert-file", o.TLSCertFile}, {"tls-private-key-file", o.TLSPrivateKeyFile}, {"server-ca-file", o.ServerCAFile},
		{"ca-cert-file", o.CACertFile}, {"ca-key-file", o.CAKeyFile}, {"client-ca-file", o.ClientCAFile},
		{"proxy-client-cert-file", o.ProxyClientCertFile}, {"proxy-client-key-file", o.ProxyClientKeyFile}, {"token-auth-file", o.TokenAuthFile}, {"audit-policy-file", o.AuditPolicyFile},
		{"audit-webhook-config-file", o.AuditWebhookConfigFile}, {"encryption-provider-config", o.EncryptionProviderConfig},
		{"authorization-config", o.Authorization.File}, {"authorization-webhook-config-file", o.Authorization.WebhookConfigFile},
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
	if o.MaxRequestsInFlight < 0 || o.MaxMutatingRequestsInFlight < 0 ||
		o.MaxLongRunningRequestsInFlight < 0 || o.MaxListBytesInFlight < 0 {
		bad("--max-requests-inflight, --max-mutating-requests-inflight, --max-long-running-requests-inflight and --max-list-bytes-inflight must not be negative")
	}
	if !slices.Contains(checkValues(), o.CheckStoredObjects) {
		bad("--check-stored-objects %q: must be one of %s", o.CheckStoredObjects, strings.Join(checkValues(), ", "))
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
	if err := o.Authentication.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := o.Authorization.Validate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := webhooks.ParseServices(o.ServiceResolver); err != nil {
		bad("--service-resolver: %w", err)
	}
	if err := o.validateAdmission(); err != nil {
		errs = append(errs, err)
	}
	if err := o.validateControllers(); err != nil {
		errs = append(errs, err)
	}
	if err := o.validateFeatures(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// kubeconfigPath returns the path of the kubeconfig.
func (o *Options) kubeconfigPath() string {
	if o.KubeconfigOut != "" {
		return o.KubeconfigOut
	}
	return filepath.Join(o.DataDir, "kubeconfig")
}

// validateStorage reports options that have no meaning for the storage.
func (o *Options) validateStorage(bad func(format string, args ...any)) {
	if o.History != HistoryRecent && o.History != HistoryAll {
		bad("--history %q: must be %s or %s", o.History, HistoryRecent, HistoryAll)
	}
	switch o.Storage {
	case StorageEtcd:
		if o.History == HistoryAll {
			bad("--history %s needs --storage %s: etcd keeps the history for --etcd-compaction-interval, and with 0 until another program compacts it", HistoryAll, StorageMemory)
		}
		if o.StateFile != "" {
			bad("the state file %s can only be loaded with --storage %s: for an embedded etcd, restore it with espalier restore", o.StateFile, StorageMemory)
		}
		return
	case StorageMemory:
	default:
		bad("--storage %q: must be %s or %s", o.Storage, StorageEtcd, StorageMemory)
		return
	}
	if len(o.Etcd.URLs) > 0 {
		bad("--etcd-servers cannot be set with --storage %s, which keeps objects in memory: remove one of them", StorageMemory)
	}
	if o.EtcdQuota != etcd.DefaultQuota {
		bad("--quota-backend-bytes cannot be set with --storage %s, which has no embedded etcd: remove one of them", StorageMemory)
	}
	if etcd.HasData(o.etcdDir()) {
		bad("--data-dir %s has the data of an embedded etcd, which --storage %s would ignore: set another directory for the certificates and the kubeconfig, or --storage %s",
			o.DataDir, StorageMemory, StorageEtcd)
	}
}

// etcdDir returns the directory of the embedded etcd.
func (o *Options) etcdDir() string { return filepath.Join(o.DataDir, "etcd") }
