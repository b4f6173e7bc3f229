package authentication

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	cliflag "k8s.io/component-base/cli/flag"
)

// The values of Flags.Anonymous.
const (
	// AnonymousHealth allows anonymous requests for health checks only.
	AnonymousHealth = "health"
	// AnonymousAll allows all requests to be anonymous: authorization decides about them.
	AnonymousAll = "true"
	// AnonymousNone allows no anonymous requests.
	AnonymousNone = "false"
)

func anonymousValues() []string { return []string{AnonymousHealth, AnonymousAll, AnonymousNone} }

// DefaultIssuer is the issuer of the tokens of service accounts, if no other is configured.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Flags are the options of authentication. Their flags have the names of kube-apiserver's.
type Flags struct {
	// Anonymous says which requests may be anonymous.
	Anonymous string
	// ConfigFile is the file of an AuthenticationConfiguration.
	ConfigFile string
	// APIAudiences identify this server in tokens; the issuers of service accounts, if empty.
	APIAudiences []string

	// ServiceAccountIssuers identify the issuer of tokens of service accounts. The first one is
	// that of new tokens; DefaultIssuer, if empty.
	ServiceAccountIssuers []string
	// ServiceAccountSigningKeyFile and ServiceAccountKeyFiles are the key that signs tokens, and
	// further keys that verify them.
	ServiceAccountSigningKeyFile string
	ServiceAccountKeyFiles       []string
	// ServiceAccountKeysURL is the address of the public keys, if they are published elsewhere.
	ServiceAccountKeysURL string
	// ServiceAccountMaxLifetime limits the lifetime of tokens; zero means no limit.
	ServiceAccountMaxLifetime time.Duration
	// ServiceAccountExtend extends the lifetime of the tokens of pods to a year.
	ServiceAccountExtend bool

	// WebhookConfigFile is the kubeconfig of a webhook that authenticates tokens. WebhookVersion
	// is the version of its TokenReview, and WebhookTTL the time that its answers are cached.
	WebhookConfigFile, WebhookVersion string
	WebhookTTL                        time.Duration

	// OIDC configures one issuer of JWTs, instead of ConfigFile.
	OIDC OIDCFlags
	// RequestHeader configures a proxy that authenticates users and sends them in headers.
	RequestHeader genericoptions.RequestHeaderAuthenticationOptions
}

// OIDCFlags configure one issuer of JWTs.
type OIDCFlags struct {
	IssuerURL, ClientID, CAFile   string
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	SigningAlgorithms             []string
	RequiredClaims                map[string]string
}

// DefaultFlags returns the default options.
func DefaultFlags() Flags {
	return Flags{
		Anonymous:            AnonymousHealth,
		ServiceAccountExtend: true,
		WebhookVersion:       "v1beta1",
		WebhookTTL:           2 * time.Minute,
		OIDC:                 OIDCFlags{UsernameClaim: "sub", SigningAlgorithms: []string{"RS256"}},
	}
}

// AddFlags adds the flags to fs.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	const anonymous = "anonymous-auth"
	fs.StringVar(&f.Anonymous, anonymous, f.Anonymous,
		"`which` requests may be anonymous: health for health checks only, true for all that authorization allows, or false for none")
	fs.Lookup(anonymous).NoOptDefVal = AnonymousAll
	fs.StringVar(&f.ConfigFile, "authentication-config", f.ConfigFile,
		"`file` with an AuthenticationConfiguration: issuers of JWTs, and the paths that allow anonymous requests; the issuers are reloaded when it changes")
	fs.StringSliceVar(&f.APIAudiences, "api-audiences", f.APIAudiences,
		"comma-separated `audiences` of this server: tokens of service accounts must be for one of them (default: the issuers)")

	fs.StringArrayVar(&f.ServiceAccountIssuers, "service-account-issuer", f.ServiceAccountIssuers,
		"`URL` of the issuer of service account tokens. If the flag is repeated, tokens of all issuers are accepted, and the first one issues new tokens (default "+DefaultIssuer+")")
	fs.StringVar(&f.ServiceAccountSigningKeyFile, "service-account-signing-key-file", f.ServiceAccountSigningKeyFile,
		"`file` with the private key, RSA or ECDSA, that signs service account tokens. Servers that share an etcd need the same key to accept each other's tokens. (default: the last of pki/service-accounts/*.key in the data directory, by name; the others verify. The first one is created. To rotate, add a key such as NEWER.key there.) The file is read again when it changes.")
	fs.StringArrayVar(&f.ServiceAccountKeyFiles, "service-account-key-file", f.ServiceAccountKeyFiles,
		"`file` with further keys, public or private, that verify service account tokens; can be repeated; they are read again when they change")
	fs.DurationVar(&f.ServiceAccountMaxLifetime, "service-account-max-token-expiration", f.ServiceAccountMaxLifetime,
		"maximum `lifetime` of service account tokens; requests for more get this; 0 means no limit")
	fs.BoolVar(&f.ServiceAccountExtend, "service-account-extend-token-expiration", f.ServiceAccountExtend,
		"extend the lifetime of the tokens that pods get by default to a year; their use after an hour is recorded in the audit log")
	fs.StringVar(&f.ServiceAccountKeysURL, "service-account-jwks-uri", f.ServiceAccountKeysURL,
		"`URL` of the public keys in /.well-known/openid-configuration (default: /openid/v1/jwks on this server)")
	var ignored bool
	fs.BoolVar(&ignored, "service-account-lookup", true,
		"accepted for compatibility with kube-apiserver and ignored: the objects that a token is bound to must exist")

	fs.StringVar(&f.WebhookConfigFile, "authentication-token-webhook-config-file", f.WebhookConfigFile,
		"kubeconfig `file` of a webhook that authenticates bearer tokens")
	fs.StringVar(&f.WebhookVersion, "authentication-token-webhook-version", f.WebhookVersion,
		"`version` of the TokenReview for the webhook: v1 or v1beta1")
	fs.DurationVar(&f.WebhookTTL, "authentication-token-webhook-cache-ttl", f.WebhookTTL, "`time` to cache the answers of the webhook")

	o := &f.OIDC
	fs.StringVar(&o.IssuerURL, "oidc-issuer-url", o.IssuerURL,
		"https `URL` of an OpenID Connect issuer whose tokens are accepted; for more, use --authentication-config")
	fs.StringVar(&o.ClientID, "oidc-client-id", o.ClientID, "`audience` that the tokens of the OpenID Connect issuer must have")
	fs.StringVar(&o.CAFile, "oidc-ca-file", o.CAFile,
		"`file` with CA certificates for the OpenID Connect issuer (default: those of the host)")
	fs.StringVar(&o.UsernameClaim, "oidc-username-claim", o.UsernameClaim, "`claim` that is the name of the user")
	fs.StringVar(&o.UsernamePrefix, "oidc-username-prefix", o.UsernamePrefix,
		"`prefix` of the names of users; - means none (default: the URL of the issuer and #, or none if the claim is email)")
	fs.StringVar(&o.GroupsClaim, "oidc-groups-claim", o.GroupsClaim, "`claim` that has the groups of the user")
	fs.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", o.GroupsPrefix, "`prefix` of the names of groups")
	fs.StringSliceVar(&o.SigningAlgorithms, "oidc-signing-algs", o.SigningAlgorithms,
		"comma-separated `algorithms` that may sign tokens: "+strings.Join(oidc.AllValidSigningAlgorithms(), ", "))
	fs.Var(cliflag.NewMapStringStringNoSplit(&o.RequiredClaims), "oidc-required-claim",
		"`claim=value` that tokens must have; can be repeated")

	r := &f.RequestHeader
	fs.StringVar(&r.ClientCAFile, "requestheader-client-ca-file", r.ClientCAFile,
		"`file` with CA certificates of proxies that authenticate users: a client with a certificate of them names the user in headers")
	fs.StringSliceVar(&r.AllowedNames, "requestheader-allowed-names", r.AllowedNames,
		"comma-separated common `names` of the certificates of such proxies (default: all that the CA has signed)")
	fs.StringSliceVar(&r.UsernameHeaders, "requestheader-username-headers", r.UsernameHeaders,
		"comma-separated `headers` with the name of the user, such as X-Remote-User")
	fs.StringSliceVar(&r.UIDHeaders, "requestheader-uid-headers", r.UIDHeaders,
		"comma-separated `headers` with the UID of the user, such as X-Remote-Uid")
	fs.StringSliceVar(&r.GroupHeaders, "requestheader-group-headers", r.GroupHeaders,
		"comma-separated `headers` with the groups of the user, such as X-Remote-Group")
	fs.StringSliceVar(&r.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", r.ExtraHeaderPrefixes,
		"comma-separated `prefixes` of headers with more about the user, such as X-Remote-Extra-")
}

// issuers returns the issuers of tokens of service accounts.
func (f *Flags) issuers() []string {
	if len(f.ServiceAccountIssuers) == 0 {
		return []string{DefaultIssuer}
	}
	return f.ServiceAccountIssuers
}

// Validate returns all errors in the options.
func (f *Flags) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(anonymousValues(), f.Anonymous) {
		bad("--anonymous-auth %q: must be one of %s", f.Anonymous, strings.Join(anonymousValues(), ", "))
	}
	files := []struct{ flag, path string }{
		{"authentication-config", f.ConfigFile}, {"service-account-signing-key-file", f.ServiceAccountSigningKeyFile},
		{"authentication-token-webhook-config-file", f.WebhookConfigFile}, {"oidc-ca-file", f.OIDC.CAFile},
		{"requestheader-client-ca-file", f.RequestHeader.ClientCAFile},
	}
	for _, path := range f.ServiceAccountKeyFiles {
		files = append(files, struct{ flag, path string }{"service-account-key-file", path})
	}
	for _, file := range files {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			bad("--%s: %w", file.flag, err)
		}
	}
	for i, issuer := range f.ServiceAccountIssuers {
		if issuer == "" {
			bad("--service-account-issuer must not be empty")
		} else if _, err := url.Parse(issuer); err != nil && strings.Contains(issuer, ":") {
			bad("--service-account-issuer %q is not a URL: %w", issuer, err)
		}
		if slices.Contains(f.ServiceAccountIssuers[:i], issuer) {
			bad("--service-account-issuer %q is set twice", issuer)
		}
	}
	if u, err := url.Parse(f.ServiceAccountKeysURL); f.ServiceAccountKeysURL != "" && (err != nil || u.Scheme != "https") {
		bad("--service-account-jwks-uri %q must be a URL that begins with https://", f.ServiceAccountKeysURL)
	}
	if limit := f.ServiceAccountMaxLifetime; limit != 0 && (limit < time.Hour || limit > 1<<32*time.Second) {
		bad("--service-account-max-token-expiration %v: must be between 1 hour and 2^32 seconds", limit)
	}
	if f.WebhookVersion != "v1" && f.WebhookVersion != "v1beta1" {
		bad("--authentication-token-webhook-version %q: must be v1 or v1beta1", f.WebhookVersion)
	}
	if f.WebhookTTL < 0 {
		bad("--authentication-token-webhook-cache-ttl must not be negative")
	}
	if (f.OIDC.IssuerURL == "") != (f.OIDC.ClientID == "") {
		bad("--oidc-issuer-url and --oidc-client-id must be set together")
	}
	if f.OIDC.IssuerURL != "" && f.ConfigFile != "" {
		bad("--authentication-config and --oidc-issuer-url cannot be set together")
	}
	for _, name := range f.OIDC.SigningAlgorithms {
		if !slices.Contains(oidc.AllValidSigningAlgorithms(), name) {
			bad("--oidc-signing-algs %q: must be one of %s", name, strings.Join(oidc.AllValidSigningAlgorithms(), ", "))
		}
	}
	r := &f.RequestHeader
	if r.ClientCAFile == "" && len(r.AllowedNames)+len(r.UsernameHeaders)+len(r.UIDHeaders)+
		len(r.GroupHeaders)+len(r.ExtraHeaderPrefixes) > 0 {
		bad("--requestheader-* need --requestheader-client-ca-file")
	}
	if r.ClientCAFile != "" && len(r.UsernameHeaders) == 0 {
		bad("--requestheader-client-ca-file needs --requestheader-username-headers")
	}
	return errors.Join(append(errs, r.Validate()...)...)
}
