package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"

	"espalier.dev/server/authorization"
)

// AddFlags adds a flag for each option to fs, apart from Semantics, which every command
// has.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	for _, group := range o.FlagGroups().FlagSets {
		fs.AddFlagSet(group)
	}
}

// FlagGroups returns the flags by subject, in the order of the help text. The flags that
// kube-apiserver has too are spelled as there.
func (o *Options) FlagGroups() cliflag.NamedFlagSets {
	var groups cliflag.NamedFlagSets
	o.addServingFlags(groups.FlagSet("Serving"))
	o.addStorageFlags(groups.FlagSet("Storage"))
	o.addKindFlags(groups.FlagSet("Built-in kind"))
	o.addAuthenticationFlags(groups.FlagSet("Authentication"))
	o.addAuthorizationFlags(groups.FlagSet("Authorization"))
	o.addLimitFlags(groups.FlagSet("Request limit"))
	o.addAuditFlags(groups.FlagSet("Audit"))
	o.addFeatureFlags(groups.FlagSet("Admission and feature"))
	return groups
}

func (o *Options) addServingFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.AdvertiseAddress, "advertise-address", o.AdvertiseAddress,
		"IP `address` in the endpoints of the Service kubernetes (default: --bind-address, or the address of the host if that is a loopback or unspecified address)")
	fs.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "IP `address` to listen on; 0.0.0.0 listens on all interfaces")
	fs.IntVar(&o.SecurePort, "secure-port", o.SecurePort, "`port` to listen on, with TLS; 0 chooses a free port")
	fs.StringVar(&o.KubeconfigOut, "kubeconfig-out", o.KubeconfigOut,
		"`file` to write the administrator's kubeconfig to when the server is ready (default: kubeconfig in the data directory)")
	o.addCertificateFlags(fs)
	fs.StringSliceVar(&o.TLSHosts, "tls-san", o.TLSHosts,
		"comma-separated host `names` and IP addresses for which the certificate of the server's own CA is valid, beside those of the host; can be repeated")
	fs.StringVar(&o.TLSMinVersion, "tls-min-version", o.TLSMinVersion, "lowest TLS `version` to accept: "+
		strings.Join(cliflag.TLSPossibleVersions(), ", ")+" (default VersionTLS12)")
	fs.StringSliceVar(&o.TLSCipherSuites, "tls-cipher-suites", o.TLSCipherSuites,
		"comma-separated `list` of cipher suites for TLS 1.2 (default: those of Go)")
	fs.IntVar(&o.HTTP2MaxStreamsPerConnection, "http2-max-streams-per-connection", o.HTTP2MaxStreamsPerConnection,
		"maximum `number` of concurrent requests on one HTTP/2 connection; 0 uses the default of the HTTP/2 library")
	fs.Float64Var(&o.GoawayChance, "goaway-chance", o.GoawayChance,
		fmt.Sprintf("`fraction` of requests after which a client is asked to reconnect, to spread clients over several servers; 0 to %v", maxGoawayChance))
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay,
		"`time` to keep serving after a stop signal while /readyz reports failure, so that load balancers notice")
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling, "serve profiles at /debug/pprof/")
}

// AddIdentityFlags adds the flags that name the certificates of a server to fs, for commands that
// issue certificates of its clients.
func (o *Options) AddIdentityFlags(fs *pflag.FlagSet) {
	o.identityOnly = true
	o.addDataDirFlag(fs)
	o.addCertificateFlags(fs)
	fs.Lookup("tls-private-key-file").Usage += " (not read)"
	fs.StringVar(&o.ServerCAFile, "server-ca-file", o.ServerCAFile,
		"`file` with the CA certificate of --tls-cert-file, which clients trust (default: the CA in the chain of that file, or else its certificate itself)")
}

func (o *Options) addCertificateFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile,
		"`file` with the serving certificate in PEM; reloaded when it changes (default: a certificate signed by the server's own CA)")
	fs.StringVar(&o.TLSPrivateKeyFile, "tls-private-key-file", o.TLSPrivateKeyFile, "`file` with the private key for --tls-cert-file")
	fs.StringVar(&o.CACertFile, "ca-cert-file", o.CACertFile,
		"`file` with the certificate of the CA that signs the certificates of the server and its administrator. Servers that share it accept each other's clients. (default: a CA in the data directory, which is created)")
	fs.StringVar(&o.CAKeyFile, "ca-key-file", o.CAKeyFile, "`file` with the private key for --ca-cert-file")
}

func (o *Options) addDataDirFlag(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "`directory` for the embedded etcd, the certificates and the kubeconfig")
}

// AddDataFlags adds the flags that name the data of a server to fs, for commands that use the
// data without a server.
func (o *Options) AddDataFlags(fs *pflag.FlagSet) {
	o.addDataDirFlag(fs)
	fs.StringSliceVar(&o.Etcd.URLs, "etcd-servers", o.Etcd.URLs,
		"comma-separated `URLs` of an external etcd cluster, or the URL of kine (default: an embedded etcd in the data directory)")
	fs.StringVar(&o.Etcd.CAFile, "etcd-cafile", o.Etcd.CAFile, "`file` with the CA certificate for connections to etcd")
	fs.StringVar(&o.Etcd.CertFile, "etcd-certfile", o.Etcd.CertFile, "`file` with the client certificate for connections to etcd")
	fs.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", o.Etcd.KeyFile, "`file` with the private key for --etcd-certfile")
	fs.StringVar(&o.EtcdPrefix, "etcd-prefix", o.EtcdPrefix, "`prefix` of all resource keys in etcd")
}

func (o *Options) addStorageFlags(fs *pflag.FlagSet) {
	o.AddDataFlags(fs)
	fs.StringVar(&o.Storage, "storage", o.Storage,
		"`where` to keep objects: etcd, or memory, which keeps nothing when the server stops; certificates and the kubeconfig are in the data directory with both")
	fs.StringVar(&o.History, "history", o.History,
		"`amount` of history that --storage memory keeps: recent, that since the last compaction (see --etcd-compaction-interval) and at most 256 MiB, or all, and at most 4 GiB")
	fs.DurationVar(&o.EtcdCompactionInterval, "etcd-compaction-interval", o.EtcdCompactionInterval,
		"`interval` of compaction requests to etcd; 0 disables compaction")
	fs.StringVar(&o.EncryptionProviderConfig, "encryption-provider-config", o.EncryptionProviderConfig,
		"`file` that configures the encryption of stored objects in etcd (default: they are not encrypted)")
	fs.BoolVar(&o.EncryptionProviderConfigReload, "encryption-provider-config-automatic-reload",
		o.EncryptionProviderConfigReload, "reload --encryption-provider-config when the file changes")
	fs.DurationVar(&o.ServerLease, "server-lease-duration", o.ServerLease,
		"`time` after which other servers on the same external etcd stop waiting for a server that has crashed or stalled before they establish new CRDs")
	fs.Var((*byteCount)(&o.EtcdQuota), "quota-backend-bytes", "maximum size of the embedded etcd in `bytes`, or with a unit such as 8Gi or 8G; no effect with --etcd-servers")
	const check = "check-stored-objects"
	fs.StringVar(&o.CheckStoredObjects, check, o.CheckStoredObjects,
		"`when` to check whether stored objects comply with their CRDs: true, false, or auto, which checks them in kep semantics. CRDs get the condition Compliant, kubectl get noncompliantobjects lists the objects, and kubectl get skeletons the specified fields")
	fs.Lookup(check).NoOptDefVal = checkAlways
	var ignored bool
	fs.BoolVar(&ignored, "watch-cache", true,
		"accepted for compatibility with kube-apiserver and ignored: reads and watches are always served from memory")
	fs.IntVar(&o.DeleteCollectionWorkers, "delete-collection-workers", o.DeleteCollectionWorkers,
		"`number` of workers for each request that deletes a collection")
}

func (o *Options) addKindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "`time` after which events are deleted")
	fs.StringVar(&o.ServiceClusterIPRange, "service-cluster-ip-range", o.ServiceClusterIPRange,
		"`range` of the cluster IPs of services, in CIDR notation; two ranges, one of each IP family, are separated by a comma")
	fs.StringVar(&o.ServiceNodePortRange, "service-node-port-range", o.ServiceNodePortRange, "`range` of the node ports of services")
}

func (o *Options) addAuthenticationFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile,
		"`file` with CA certificates whose client certificates are accepted in addition to those of the server's own CA; reloaded when it changes")
	fs.StringVar(&o.TokenAuthFile, "token-auth-file", o.TokenAuthFile, "CSV `file` with bearer tokens: token, user, uid, groups")
	o.Authentication.AddFlags(fs)
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"`file` with the client certificate in PEM with which the server proxies requests to the servers of API services; reloaded when it changes (default: a certificate of a CA in the data directory that signs nothing else)")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile, "`file` with the private key for --proxy-client-cert-file")
	var routing bool
	fs.BoolVar(&routing, "enable-aggregator-routing", true,
		"accepted for compatibility with kube-apiserver and ignored: requests for API services go to the endpoints of their services")
}

func (o *Options) addAuthorizationFlags(fs *pflag.FlagSet) {
	a := &o.Authorization
	fs.StringSliceVar(&a.Modes, "authorization-mode", a.Modes,
		"comma-separated `modes` of authorization, which are asked in their order: "+strings.Join(authorization.Modes(), ", ")+
			" (default RBAC). Members of system:masters have full access in all of them")
	fs.StringVar(&a.File, "authorization-config", a.File,
		"`file` with an AuthorizationConfiguration, instead of --authorization-mode and --authorization-webhook-*; reloaded when it changes")
	fs.StringVar(&a.WebhookConfigFile, "authorization-webhook-config-file", a.WebhookConfigFile,
		"kubeconfig `file` of the webhook for the mode Webhook")
	fs.StringVar(&a.WebhookVersion, "authorization-webhook-version", a.WebhookVersion,
		"`version` of the SubjectAccessReview for the webhook: v1 or v1beta1")
	fs.DurationVar(&a.WebhookAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", a.WebhookAuthorizedTTL,
		"`time` to cache answers of the webhook that allow a request; 0 disables the cache")
	fs.DurationVar(&a.WebhookUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", a.WebhookUnauthorizedTTL,
		"`time` to cache answers of the webhook that do not allow a request; 0 disables the cache")
}

func (o *Options) addLimitFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.MaxRequestsInFlight, "max-requests-inflight", o.MaxRequestsInFlight,
		"maximum `number` of concurrent read requests; more get 429 with Retry-After; 0 means no limit")
	fs.IntVar(&o.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", o.MaxMutatingRequestsInFlight,
		"maximum `number` of concurrent write requests; more get 429 with Retry-After; 0 means no limit")
	fs.IntVar(&o.MaxLongRunningRequestsInFlight, "max-long-running-requests-inflight", o.MaxLongRunningRequestsInFlight,
		"maximum `number` of open watches; more get 429 with Retry-After; 0 means no limit")
	fs.Int64Var(&o.MaxListBytesInFlight, "max-list-bytes-inflight", o.MaxListBytesInFlight,
		"maximum `bytes` of stored objects in concurrent lists of more than 1 MiB; more get 429 with Retry-After; a larger list is answered alone; 0 means no limit")
	fs.DurationVar(&o.RequestTimeout, "request-timeout", o.RequestTimeout, "maximum `duration` of a request other than a watch")
	fs.Var(seconds{&o.MinRequestTimeout}, "min-request-timeout", "minimum `seconds` that a watch stays open if the client sets no timeout")
	fs.BoolVar(&o.EnablePriorityAndFairness, "enable-priority-and-fairness", o.EnablePriorityAndFairness,
		"divide concurrent requests among users by flow schemas and priority levels: a request may wait in a queue, and one user does not keep others from being answered")
}

func (o *Options) addAuditFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.AuditPolicyFile, "audit-policy-file", o.AuditPolicyFile, "`file` with the audit policy")
	fs.StringVar(&o.AuditLogPath, "audit-log-path", o.AuditLogPath, "`file` to write audit events to; - for standard output")
	fs.IntVar(&o.AuditLogMaxAge, "audit-log-maxage", o.AuditLogMaxAge, "maximum `days` to keep old audit log files; 0 keeps them")
	fs.IntVar(&o.AuditLogMaxBackup, "audit-log-maxbackup", o.AuditLogMaxBackup,
		"maximum `number` of old audit log files to keep; 0 keeps all")
	fs.IntVar(&o.AuditLogMaxMB, "audit-log-maxsize", o.AuditLogMaxMB, "size in `megabytes` at which the audit log file is rotated")
	fs.StringVar(&o.AuditWebhookConfigFile, "audit-webhook-config-file", o.AuditWebhookConfigFile,
		"kubeconfig `file` of a webhook that receives audit events")
	fs.StringVar(&o.AuditWebhookMode, "audit-webhook-mode", o.AuditWebhookMode,
		"`mode` of sending audit events to the webhook: "+strings.Join(genericoptions.AllowedModes, ", "))
	fs.DurationVar(&o.AuditWebhookInitialBackoff, "audit-webhook-initial-backoff", o.AuditWebhookInitialBackoff,
		"`time` to wait before the first retry of a failed request to the audit webhook")
}

func (o *Options) addFeatureFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"comma-separated `names` of controllers to run; * runs all, and -name switches one off: "+strings.Join(controllerNames(), ", "))
	fs.StringSliceVar(&o.EnableAdmissionPlugins, "enable-admission-plugins", o.EnableAdmissionPlugins,
		"comma-separated `names` of admission plugins to enable in addition to the default ones")
	fs.StringSliceVar(&o.DisableAdmissionPlugins, "disable-admission-plugins", o.DisableAdmissionPlugins,
		"comma-separated `names` of admission plugins to disable")
	fs.StringVar(&o.AdmissionControlConfigFile, "admission-control-config-file", o.AdmissionControlConfigFile,
		"`file` with the configuration of admission plugins, as for kube-apiserver")
	fs.StringArrayVar(&o.ServiceResolver, "service-resolver", o.ServiceResolver,
		"`name.namespace=URL` of a service that webhooks are called at, as https://host:port; may be repeated (default: the endpoints of the service on this server)")
	fs.Var((*cliflag.ConfigurationMap)(&o.RuntimeConfig), "runtime-config",
		"comma-separated APIs of built-in kinds to enable or disable, `API=true|false`; an API is group/version, group/version/resource, api/all, api/ga, api/beta or api/alpha")
	fs.StringToStringVar(&o.FeatureGates, "feature-gates", o.FeatureGates, "comma-separated feature gates, `Name=true|false`")
	fs.StringVar(&o.EmulatedVersion, "emulated-version", o.EmulatedVersion, "Kubernetes `version` to emulate, as major.minor")
}

// seconds is a duration whose flag is a number of seconds, as kube-apiserver has it, or a
// duration such as 30m.
type seconds struct{ *time.Duration }

// String returns the number of seconds.
func (s seconds) String() string {
	if s.Duration == nil {
		return ""
	}
	return fmt.Sprint(int(s.Duration.Seconds()))
}

// Set parses a number of seconds or a duration.
func (s seconds) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil {
		*s.Duration = d
		return nil
	}
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		return fmt.Errorf("%q is neither a number of seconds nor a duration such as 30m", text)
	}
	*s.Duration = d
	return nil
}

// Type returns the name of the type in help texts.
func (s seconds) Type() string { return "seconds" }

// byteCount is a flag with a number of bytes, which may have a unit.
type byteCount int64

// String returns the number of bytes.
func (b *byteCount) String() string { return strconv.FormatInt(int64(*b), 10) }

// Type returns that of a number: a number of bytes without a unit stays valid.
func (b *byteCount) Type() string { return "int64" }

// Set parses the flag.
func (b *byteCount) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return errors.New("must be a number of bytes, or one with a unit such as 8Gi or 8G")
	}
	n, ok := q.AsInt64()
	if !ok {
		return errors.New("must be a whole number of bytes")
	}
	*b = byteCount(n)
	return nil
}
