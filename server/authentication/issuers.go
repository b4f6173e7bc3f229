package authentication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	apiservervalidation "k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	uniontoken "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/klog/v2"

	"espalier.dev/schema/rules/bounds"
)

const (
	// reloadPoll is the interval of checks whether the file has changed, in case the
	// notifications of the file system do not work.
	reloadPoll = time.Minute
	// reloadTimeout is the time that new issuers have to become healthy, and healthPoll the
	// interval of checks. Until then the old ones stay.
	reloadTimeout = time.Minute
	healthPoll    = 100 * time.Millisecond
	// retireAfter is the time that requests have to finish with issuers that were replaced.
	retireAfter = time.Minute
)

// issuers authenticates the JWTs of the configured issuers.
type issuers struct {
	flags      *Flags
	audiences  authenticator.Audiences
	serverID   string
	algorithms []string
	// initial is the configuration at the start.
	initial *apiserverapi.AuthenticationConfiguration

	// ready is closed when current is set.
	ready   chan struct{}
	once    sync.Once
	current atomic.Pointer[generation]

	// tracked is the configuration that current belongs to, and data the last content of the
	// file that was accepted or can never be. Only run uses them.
	tracked *apiserverapi.AuthenticationConfiguration
	data    string
}

// generation is the authenticators of one configuration.
type generation struct {
	authenticator.Token
	healthy func() error
	// cancel ends the goroutines of the authenticators.
	cancel context.CancelFunc
}

// newIssuers returns the configured issuers of JWTs, or nil if there are none.
func newIssuers(c *Config, audiences authenticator.Audiences) (*issuers, error) {
	f := &c.Flags
	i := &issuers{flags: f, audiences: audiences, serverID: c.ServerID, ready: make(chan struct{})}
	switch {
	case f.ConfigFile != "":
		data, err := os.ReadFile(f.ConfigFile)
		if err != nil {
			return nil, fmt.Errorf("read --authentication-config: %w", err)
		}
		if i.initial, err = parseConfiguration(data); err != nil {
			return nil, fmt.Errorf("--authentication-config: %s: %w", f.ConfigFile, err)
		}
		i.data, i.algorithms = string(data), oidc.AllValidSigningAlgorithms()
		metrics.RegisterMetrics()
		metrics.RecordAuthenticationConfigLastConfigInfo(i.serverID, i.data)
	case f.OIDC.IssuerURL != "":
		config, err := f.OIDC.configuration()
		if err != nil {
			return nil, err
		}
		i.initial, i.algorithms = config, f.OIDC.SigningAlgorithms
	default:
		return nil, nil
	}
	if err := i.validate(i.initial); err != nil {
		return nil, fmt.Errorf("invalid authentication configuration: %w", err)
	}
	i.tracked = i.initial
	return i, nil
}

// parseConfiguration decodes an AuthenticationConfiguration. Unknown fields are errors.
func parseConfiguration(data []byte) (*apiserverapi.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("the file is empty")
	}
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*apiserverapi.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", obj)
	}
	return c, nil
}

// configuration returns the flags as a configuration.
func (f *OIDCFlags) configuration() (*apiserverapi.AuthenticationConfiguration, error) {
	prefix := f.UsernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && f.UsernameClaim != "email":
		prefix = f.IssuerURL + "#"
	}
	j := apiserverapi.JWTAuthenticator{
		Issuer: apiserverapi.Issuer{URL: f.IssuerURL, Audiences: []string{f.ClientID}},
		ClaimMappings: apiserverapi.ClaimMappings{Username: apiserverapi.PrefixedClaimOrExpression{Claim: f.UsernameClaim,
			Prefix: &prefix}},
	}
	if f.GroupsClaim != "" {
		j.ClaimMappings.Groups = apiserverapi.PrefixedClaimOrExpression{Claim: f.GroupsClaim, Prefix: new(f.GroupsPrefix)}
	}
	if f.CAFile != "" {
		ca, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read --oidc-ca-file: %w", err)
		}
		j.Issuer.CertificateAuthority = string(ca)
	}
	for claim, value := range f.RequiredClaims {
		j.ClaimValidationRules = append(j.ClaimValidationRules, apiserverapi.ClaimValidationRule{Claim: claim, RequiredValue: value})
	}
	slices.SortFunc(j.ClaimValidationRules, func(a, b apiserverapi.ClaimValidationRule) int {
		if a.Claim < b.Claim {
			return -1
		}
		return 1
	})
	return &apiserverapi.AuthenticationConfiguration{JWT: []apiserverapi.JWTAuthenticator{j}}, nil
}

// validate validates a configuration. Issuers of service accounts cannot be configured.
func (i *issuers) validate(c *apiserverapi.AuthenticationConfiguration) error {
	errs := apiservervalidation.ValidateAuthenticationConfiguration(boundedCompiler{authenticationcel.NewDefaultCompiler()}, c, i.flags.issuers())
	if !reflect.DeepEqual(c.Anonymous, i.initial.Anonymous) {
		errs = append(errs, field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file"))
	}
	return errs.ToAggregate()
}

// boundedCompiler compiles only what does not take too long.
type boundedCompiler struct{ authenticationcel.Compiler }

// CompileClaimsExpression implements [authenticationcel.Compiler].
func (b boundedCompiler) CompileClaimsExpression(e authenticationcel.ExpressionAccessor) (authenticationcel.CompilationResult, error) {
	if err := bounds.Check(e.GetExpression(), bounds.TypeSize{}); err != nil {
		return authenticationcel.CompilationResult{ExpressionAccessor: e}, bounds.Error(err)
	}
	return b.Compiler.CompileClaimsExpression(e)
}

// CompileUserExpression implements [authenticationcel.Compiler].
func (b boundedCompiler) CompileUserExpression(e authenticationcel.ExpressionAccessor) (authenticationcel.CompilationResult, error) {
	if err := bounds.Check(e.GetExpression(), bounds.TypeSize{}); err != nil {
		return authenticationcel.CompilationResult{ExpressionAccessor: e}, bounds.Error(err)
	}
	return b.Compiler.CompileUserExpression(e)
}

// AuthenticateToken returns the user of a JWT of one of the issuers.
func (i *issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	g := i.current.Load()
	if g == nil {
		return nil, false, errors.New("the server is starting")
	}
	r, ok, err := g.AuthenticateToken(ctx, token)
	return r, ok, brief(err)
}

// run builds the authenticators, and rebuilds them when the file changes. Their goroutines, which
// fetch the keys of the issuers, end with ctx.
func (i *issuers) run(ctx context.Context) error {
	first, err := i.build(ctx, i.tracked)
	if err != nil {
		return err
	}
	i.current.Store(first)
	i.once.Do(func() { close(i.ready) })
	if i.flags.ConfigFile == "" {
		<-ctx.Done()
		return nil
	}
	logger := klog.FromContext(ctx)
	filesystem.WatchUntil(ctx, reloadPoll, i.flags.ConfigFile, func() {
		if err := i.reload(ctx); err != nil {
			logger.Error(err, "Cannot reload the authentication configuration: the previous one stays", "file", i.flags.ConfigFile)
			metrics.RecordAuthenticationConfigAutomaticReloadFailure(i.serverID)
		}
	}, func(err error) {
		logger.Error(err, "Cannot watch the authentication configuration", "file", i.flags.ConfigFile)
	})
	return nil
}

// reload applies the file if it has changed.
func (i *issuers) reload(ctx context.Context) error {
	content, err := os.ReadFile(i.flags.ConfigFile)
	if err != nil {
		return err
	}
	data := string(content)
	if data == i.data {
		return nil
	}
	config, err := parseConfiguration(content)
	if err == nil {
		err = i.validate(config)
	}
	if err != nil {
		i.data = data // it never becomes valid
		return err
	}
	next, err := i.build(ctx, config)
	if err != nil {
		return err
	}
	if err := next.await(ctx); err != nil {
		next.cancel()
		return err
	}
	old := i.current.Swap(next)
	i.tracked, i.data = config, data
	time.AfterFunc(retireAfter, old.cancel) // after the server has ended, it has no effect
	klog.FromContext(ctx).Info("Reloaded the authentication configuration", "file", i.flags.ConfigFile)
	metrics.RecordAuthenticationConfigAutomaticReloadSuccess(i.serverID, data)
	return nil
}

// await waits until the issuers have answered.
func (g *generation) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	ticker := time.NewTicker(healthPoll)
	defer ticker.Stop()
	for {
		err := g.healthy()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

// build builds the authenticators of a configuration.
func (i *issuers) build(ctx context.Context, c *apiserverapi.AuthenticationConfiguration) (_ *generation, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	var all []authenticator.Token
	var checks []func() error
	for _, j := range c.JWT {
		client, err := issuerClient(&j.Issuer)
		if err != nil {
			return nil, fmt.Errorf("issuer %s: %w", j.Issuer.URL, err)
		}
		one, err := oidc.New(ctx, oidc.Options{JWTAuthenticator: j, Client: client, SupportedSigningAlgs: i.algorithms,
			DisallowedIssuers: i.flags.issuers(), APIServerID: i.serverID})
		if err != nil {
			return nil, fmt.Errorf("issuer %s: %w", j.Issuer.URL, err)
		}
		all, checks = append(all, one), append(checks, one.HealthCheck)
	}
	union := authenticator.WrapAudienceAgnosticToken(i.audiences, uniontoken.NewFailOnError(all...))
	return &generation{
		Token: tokencache.New(union, true, cacheTime, 0),
		healthy: func() error {
			var errs []error
			for _, check := range checks {
				errs = append(errs, check())
			}
			return errors.Join(errs...)
		},
		cancel: cancel,
	}, nil
}
