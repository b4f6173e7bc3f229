// Package authentication identifies the users of requests: by client certificates, by headers of
// a trusted proxy, and by bearer tokens, which are those of a file, of service accounts, of the
// issuers in an AuthenticationConfiguration, or known to a webhook.
package authentication

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	unionrequest "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	uniontoken "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	webhooktoken "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	certutil "k8s.io/client-go/util/cert"

	"espalier.dev/server/tokens"
	"espalier.dev/server/webhooks"
)

// Config configures Authentication.
type Config struct {
	Flags Flags
	// TokenFile lists tokens, as CSV: token, user, uid, groups; empty means none.
	TokenFile string
	// Certificates authenticates users by client certificates of the CAs in ClientCA.
	Certificates authenticator.Request
	ClientCA     dynamiccertificates.CAContentProvider
	// HealthPaths are the paths of health checks.
	HealthPaths []string
	// KeyDir is the directory of the keys of service accounts.
	KeyDir string
	// UnsafeNoFsync does not wait for the disk when a key is created. For tests only.
	UnsafeNoFsync bool
	// Objects reads stored objects.
	Objects tokens.Objects
	// Label sets labels of Secrets with tokens.
	Label tokens.Label
	// ServerID identifies the server in metrics.
	ServerID string
}

// Authentication identifies the users of requests.
type Authentication struct {
	// Request identifies the user of a request.
	Request authenticator.Request
	// Token identifies the user of a bearer token.
	Token authenticator.Token
	// Audiences identify this server in tokens.
	Audiences authenticator.Audiences
	// Proxy are the headers and the CA of a trusted proxy; nil if there is none.
	Proxy *authenticatorfactory.RequestHeaderConfig
	// Issuer issues the tokens of service accounts.
	Issuer *tokens.Issuer

	config Config
	jwt    *issuers
}

// New returns the authentication that is configured.
func New(c Config) (*Authentication, error) {
	f := &c.Flags
	a := &Authentication{config: c, Audiences: f.APIAudiences}
	if len(a.Audiences) == 0 {
		a.Audiences = f.issuers()
	}
	keys, err := tokens.LoadKeys(tokens.KeyFiles{Dir: c.KeyDir, Sign: f.ServiceAccountSigningKeyFile, Verify: f.ServiceAccountKeyFiles, UnsafeNoFsync: c.UnsafeNoFsync})
	if err != nil {
		return nil, err
	}
	a.Issuer = &tokens.Issuer{Keys: keys, URL: f.issuers()[0]}
	if a.jwt, err = newIssuers(&c, a.Audiences); err != nil {
		return nil, err
	}
	known, err := a.tokens()
	if err != nil {
		return nil, err
	}
	a.Token = uniontoken.New(known...)
	if err := a.proxy(); err != nil {
		return nil, err
	}
	var requests []authenticator.Request
	if p := a.Proxy; p != nil {
		requests = append(requests, authenticator.WrapAudienceAgnosticRequest(a.Audiences, headerrequest.NewDynamicVerifyOptionsSecure(
			p.CAContentProvider.VerifyOptions, p.AllowedClientNames, p.UsernameHeaders,
			p.UIDHeaders, p.GroupHeaders, p.ExtraHeaderPrefixes)))
	}
	requests = append(requests, c.Certificates, bearertoken.New(a.Token), websocket.NewProtocolAuthenticator(a.Token))
	a.Request = group.NewAuthenticatedGroupAdder(unionrequest.New(requests...))
	anybody, err := a.anonymous()
	if err != nil {
		return nil, err
	}
	if anybody.Enabled {
		// Wrong credentials are an error, not an anonymous request.
		a.Request = unionrequest.NewFailOnError(a.Request, anonymous.NewAuthenticator(anybody.Conditions))
	}
	return a, nil
}

// ClientCAs returns the CAs, in PEM, whose certificates authenticate users.
func (a *Authentication) ClientCAs() []byte { return a.config.ClientCA.CurrentCABundleContent() }

// tokens returns the authenticators of tokens: first those that need no other server.
func (a *Authentication) tokens() ([]authenticator.Token, error) {
	c, f := &a.config, &a.config.Flags
	var known []authenticator.Token
	if c.TokenFile != "" {
		listed, err := tokenfile.NewCSV(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("read --token-auth-file: %w", err)
		}
		known = append(known, authenticator.WrapAudienceAgnosticToken(a.Audiences, listed))
	}
	known = append(known, tokens.NewAuthenticator(a.Issuer.Keys, f.issuers(), a.Audiences, c.Objects, c.Label))
	if a.jwt != nil {
		known = append(known, a.jwt)
	}
	if f.WebhookConfigFile != "" {
		client, err := webhookutil.LoadKubeconfig(f.WebhookConfigFile, nil)
		if err != nil {
			return nil, fmt.Errorf("read --authentication-token-webhook-config-file: %w", err)
		}
		webhook, err := webhooktoken.New(webhooks.GuardConfig(client), f.WebhookVersion,
			a.Audiences, *genericoptions.DefaultAuthWebhookRetryBackoff())
		if err != nil {
			return nil, fmt.Errorf("webhook of --authentication-token-webhook-config-file: %w", err)
		}
		known = append(known, tokencache.New(webhook, false, f.WebhookTTL, f.WebhookTTL))
	}
	return known, nil
}

// proxy sets the headers and the CA of a trusted proxy.
func (a *Authentication) proxy() (err error) {
	options := &a.config.Flags.RequestHeader
	if a.Proxy, err = options.ToAuthenticationRequestHeaderConfig(); err != nil {
		return fmt.Errorf("read --requestheader-client-ca-file: %w", err)
	}
	if a.Proxy == nil || len(options.AllowedNames) > 0 {
		return nil
	}
	trusted, err := certutil.ParseCertsPEM(a.Proxy.CAContentProvider.CurrentCABundleContent())
	if err != nil {
		return fmt.Errorf("read --requestheader-client-ca-file: %w", err)
	}
	users, err := certutil.ParseCertsPEM(a.config.ClientCA.CurrentCABundleContent())
	if err != nil {
		return fmt.Errorf("read the CAs of users: %w", err)
	}
	for _, t := range trusted {
		for _, u := range users {
			if t.Equal(u) {
				return errors.New("--requestheader-client-ca-file has a CA that signs the certificates of users, who could name any user in headers: set --requestheader-allowed-names")
			}
		}
	}
	return nil
}

// anonymous returns which requests may be anonymous.
func (a *Authentication) anonymous() (apiserverapi.AnonymousAuthConfig, error) {
	f := &a.config.Flags
	if a.jwt != nil && a.jwt.initial.Anonymous != nil {
		if f.Anonymous != AnonymousHealth {
			return apiserverapi.AnonymousAuthConfig{},
				errors.New("--anonymous-auth cannot be set if the file of --authentication-config has the field anonymous")
		}
		return *a.jwt.initial.Anonymous, nil
	}
	c := apiserverapi.AnonymousAuthConfig{Enabled: f.Anonymous != AnonymousNone}
	if f.Anonymous == AnonymousHealth {
		for _, path := range a.config.HealthPaths {
			c.Conditions = append(c.Conditions, apiserverapi.AnonymousAuthCondition{Path: path})
		}
	}
	return c, nil
}

// Reloads reports whether issuers of JWTs are configured, which need Run.
func (a *Authentication) Reloads() bool { return a.jwt != nil }

// Ready returns a channel that is closed when Run is ready to authenticate.
func (a *Authentication) Ready() <-chan struct{} { return a.jwt.ready }

// Run authenticates JWTs and keeps their issuers up to date until ctx ends.
func (a *Authentication) Run(ctx context.Context) error { return a.jwt.run(ctx) }

// Requests returns the subresource token of service accounts.
func (a *Authentication) Requests() *tokens.REST {
	f := &a.config.Flags
	return tokens.NewREST(tokens.Config{
		Issuer: a.Issuer, Objects: a.config.Objects, Audiences: a.Audiences,
		MaxLifetime: f.ServiceAccountMaxLifetime, Extend: f.ServiceAccountExtend,
	})
}

// Metadata returns the documents that other programs need to verify tokens of service accounts.
// url is the address of the server.
func (a *Authentication) Metadata(url string) (*tokens.Metadata, error) {
	keys := a.config.Flags.ServiceAccountKeysURL
	if keys == "" {
		keys = url + tokens.KeysPath
	}
	return tokens.NewMetadata(a.Issuer.Keys, a.Issuer.URL, keys)
}

// cacheTime is the time that authenticated JWTs are cached, as in kube-apiserver.
const cacheTime = 10 * time.Second
