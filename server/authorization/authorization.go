// Package authorization decides who may do what: it builds the chain of authorizers that the
// options of a server configure, and replaces it when the configuration file changes.
package authorization

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/filesystem"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/klog/v2"

	"espalier.dev/server/webhooks"
)

// pollInterval is the interval of checks of the configuration file, in addition to the events of
// the file system.
const pollInterval = time.Minute

// Rules is an authorizer that can list what a user may do.
type Rules interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// Config configures an Authorizer.
type Config struct {
	Flags
	// OpenPaths are the paths that everyone may read.
	OpenPaths []string
	// RBAC is the authorizer of the mode RBAC.
	RBAC Rules
	// backoff is that of retries of webhooks, if not kube-apiserver's.
	backoff *wait.Backoff
}

// Authorizer is the chain of authorizers of a server. Everyone may read the open paths, and the
// group system:masters has full access; then the configured authorizers decide.
type Authorizer struct {
	config   Config
	compiler authorizationcel.Compiler
	open     authorizer.Authorizer
	rbac     Rules // nil without the mode RBAC
	// required are the types that a new configuration must have.
	required []string
	current  atomic.Pointer[chain]

	// data and loaded are what the file had last. Only Run uses them after New.
	data   []byte
	loaded *apiserverapi.AuthorizationConfiguration
}

// chain is what one configuration makes.
type chain struct {
	authorizer.Authorizer
	authorizer.RuleResolver
}

var _ Rules = &Authorizer{}

// New returns an authorizer. Feature gates must be set before.
func New(c Config) (*Authorizer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	a := &Authorizer{config: c, compiler: newCompiler()}
	var err error
	if a.open, err = path.NewAuthorizer(c.OpenPaths); err != nil {
		return nil, fmt.Errorf("authorize open paths: %w", err)
	}
	if c.File == "" {
		a.loaded = c.configuration()
	} else if a.data, a.loaded, err = read(c.File, a.compiler, nil); err != nil {
		return nil, fmt.Errorf("--authorization-config: %w", err)
	}
	for _, mode := range Modes() {
		if mode != ModeWebhook && has(a.loaded, mode) {
			a.required = append(a.required, mode)
		}
	}
	if has(a.loaded, ModeRBAC) {
		a.rbac = c.RBAC
	}
	made, err := a.build(a.loaded)
	if err != nil {
		return nil, fmt.Errorf("set up authorization: %w", err)
	}
	a.current.Store(made)
	return a, nil
}

// UsesRBAC reports whether one of the authorizers is that of RBAC.
func (a *Authorizer) UsesRBAC() bool { return a.rbac != nil }

// build returns the chain of a configuration.
func (a *Authorizer) build(c *apiserverapi.AuthorizationConfiguration) (*chain, error) {
	all := []union.NamedAuthorizer{
		// These names are not valid in a configuration, so they cannot be used twice.
		{AuthorizerName: "Health", Authorizer: a.open},
		{AuthorizerName: "Masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
	}
	var resolvers []authorizer.RuleResolver
	for _, one := range c.Authorizers {
		var next Rules
		var err error
		switch one.Type {
		case ModeAlwaysAllow:
			next = authorizerfactory.NewAlwaysAllowAuthorizer()
		case ModeAlwaysDeny:
			next = authorizerfactory.NewAlwaysDenyAuthorizer()
		case ModeWebhook:
			next, err = a.webhook(&one)
		case ModeRBAC:
			if next = a.rbac; a.rbac == nil {
				err = fmt.Errorf("the authorizer RBAC cannot be added while the server runs")
			}
		default:
			err = fmt.Errorf("unknown type %q", one.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("authorizer %s: %w", one.Name, err)
		}
		all = append(all, union.NamedAuthorizer{AuthorizerName: one.Name,
			Authorizer: metrics.InstrumentedAuthorizer(string(one.Type), one.Name, next)})
		resolvers = append(resolvers, next)
	}
	joined, err := union.New(all...)
	if err != nil {
		return nil, err
	}
	return &chain{joined, union.NewRuleResolvers(resolvers...)}, nil
}

// webhook returns the authorizer of a webhook.
func (a *Authorizer) webhook(c *apiserverapi.AuthorizerConfiguration) (Rules, error) {
	w := c.Webhook
	client, err := webhookutil.LoadKubeconfig(*w.ConnectionInfo.KubeConfigFile, nil)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", *w.ConnectionInfo.KubeConfigFile, err)
	}
	client = webhooks.GuardConfig(client)
	if w.Timeout.Duration != 0 {
		client.Timeout = w.Timeout.Duration
	}
	failed := authorizer.DecisionNoOpinion
	if w.FailurePolicy == apiserverapi.FailurePolicyDeny {
		failed = authorizer.DecisionDeny
	}
	var allowed, refused time.Duration
	if w.CacheAuthorizedRequests {
		allowed = w.AuthorizedTTL.Duration
	}
	if w.CacheUnauthorizedRequests {
		refused = w.UnauthorizedTTL.Duration
	}
	backoff := a.config.backoff
	if backoff == nil {
		backoff = genericoptions.DefaultAuthWebhookRetryBackoff()
	}
	return webhook.New(client, w.SubjectAccessReviewVersion, allowed, refused, *backoff, failed,
		w.MatchConditions, c.Name, webhookMetrics{
			WebhookMetrics: webhookmetrics.NewWebhookMetrics(), MatcherMetrics: authorizationcel.NewMatcherMetrics(),
		}, a.compiler)
}

// webhookMetrics are the metrics that kube-apiserver has.
type webhookMetrics struct {
	webhookmetrics.NoopRequestMetrics
	webhookmetrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}

// Authorize decides about a request.
func (a *Authorizer) Authorize(ctx context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.current.Load().Authorize(ctx, attr)
}

// ConditionsAwareAuthorize decides about a request, perhaps with conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, attr authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return a.current.Load().ConditionsAwareAuthorize(ctx, attr)
}

// EvaluateConditions evaluates the conditions of a decision.
func (a *Authorizer) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision,
	data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return a.current.Load().EvaluateConditions(ctx, d, data)
}

// RulesFor lists what a user may do in a namespace.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info,
	namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return a.current.Load().RulesFor(ctx, u, namespace)
}

// Run reads the configuration file when it changes, until ctx ends. A configuration that is
// invalid is logged, and the last one stays in use.
func (a *Authorizer) Run(ctx context.Context) error {
	if a.config.File == "" {
		<-ctx.Done()
		return nil
	}
	logger := klog.FromContext(ctx).WithName("authorization")
	filesystem.WatchUntil(ctx, pollInterval, a.config.File, func() {
		changed, err := a.reload()
		switch {
		case err != nil:
			logger.Error(err, "The new configuration is not valid: the old one stays in use", "file", a.config.File)
		case changed:
			logger.Info("The configuration has changed", "file", a.config.File)
		}
	}, func(err error) { logger.Error(err, "Cannot watch the configuration", "file", a.config.File) })
	return nil
}

// reload reads the configuration file, and reports whether the configuration has changed. It
// returns the error of a file once.
func (a *Authorizer) reload() (changed bool, err error) {
	data, err := os.ReadFile(a.config.File)
	if err != nil || bytes.Equal(data, a.data) {
		return false, err
	}
	a.data = data
	c, err := parse(data, a.compiler, a.required)
	if err != nil || reflect.DeepEqual(c, a.loaded) {
		return false, err
	}
	made, err := a.build(c)
	if err != nil {
		return false, err
	}
	a.loaded = c
	a.current.Store(made)
	return true, nil
}
