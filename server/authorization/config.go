package authorization

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"espalier.dev/schema/rules/bounds"
)

// The modes of authorization.
const (
	ModeRBAC        = "RBAC"
	ModeWebhook     = "Webhook"
	ModeAlwaysAllow = "AlwaysAllow"
	ModeAlwaysDeny  = "AlwaysDeny"
)

// Modes returns the names of all modes.
func Modes() []string { return []string{ModeAlwaysAllow, ModeAlwaysDeny, ModeRBAC, ModeWebhook} }

// absentModes are the modes of kube-apiserver that this server does not have, with the reason.
func absentModes() map[string]string {
	return map[string]string{
		"Node": "it restricts kubelets, and nothing runs pods here: bind a role to the group system:nodes instead",
		"ABAC": "use RBAC or Webhook instead",
	}
}

// Flags are the options of authorization. They are those of kube-apiserver.
type Flags struct {
	// Modes are the authorizers, in their order. None means RBAC.
	Modes []string
	// WebhookConfigFile is the kubeconfig of the webhook, and WebhookVersion the version of the
	// SubjectAccessReview that it gets.
	WebhookConfigFile, WebhookVersion string
	// WebhookAuthorizedTTL and WebhookUnauthorizedTTL are the times that answers of the webhook
	// are cached.
	WebhookAuthorizedTTL, WebhookUnauthorizedTTL time.Duration
	// File is an AuthorizationConfiguration. It excludes the other options, and is read again
	// when it changes.
	File string
}

// DefaultFlags returns the defaults of kube-apiserver, apart from the mode.
func DefaultFlags() Flags {
	return Flags{WebhookVersion: "v1beta1", WebhookAuthorizedTTL: 5 * time.Minute, WebhookUnauthorizedTTL: 30 * time.Second}
}

// Validate returns all errors in the flags. It does not read files.
func (f *Flags) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.File != "" && (len(f.Modes) > 0 || f.WebhookConfigFile != "") {
		bad("--authorization-config cannot be combined with --authorization-mode or --authorization-webhook-config-file")
	}
	for i, mode := range f.Modes {
		if reason, ok := absentModes()[mode]; ok {
			bad("--authorization-mode: kube-apiserver's mode %q is not part of this server: %s", mode, reason)
		} else if !slices.Contains(Modes(), mode) {
			bad("--authorization-mode: unknown mode %q: must be one of %s", mode, strings.Join(Modes(), ", "))
		}
		if slices.Contains(f.Modes[:i], mode) {
			bad("--authorization-mode: the mode %q is listed twice", mode)
		}
	}
	webhook := slices.Contains(f.Modes, ModeWebhook)
	if webhook && f.WebhookConfigFile == "" {
		bad("--authorization-mode Webhook needs --authorization-webhook-config-file")
	}
	if f.WebhookConfigFile != "" && !webhook && f.File == "" {
		bad("--authorization-webhook-config-file needs --authorization-mode Webhook")
	}
	if f.WebhookVersion != "v1" && f.WebhookVersion != "v1beta1" {
		bad("--authorization-webhook-version %q: must be v1 or v1beta1", f.WebhookVersion)
	}
	if f.WebhookAuthorizedTTL < 0 || f.WebhookUnauthorizedTTL < 0 {
		bad("--authorization-webhook-cache-authorized-ttl and --authorization-webhook-cache-unauthorized-ttl must not be negative")
	}
	return errors.Join(errs...)
}

// configuration returns the flags as a configuration, as kube-apiserver reads them.
func (f *Flags) configuration() *apiserverapi.AuthorizationConfiguration {
	modes := f.Modes
	if len(modes) == 0 {
		modes = []string{ModeRBAC}
	}
	c := &apiserverapi.AuthorizationConfiguration{}
	for _, mode := range modes {
		one := apiserverapi.AuthorizerConfiguration{Type: apiserverapi.AuthorizerType(mode), Name: strings.ToLower(mode)}
		if mode == ModeWebhook {
			one.Name = "default"
			one.Webhook = &apiserverapi.WebhookConfiguration{
				AuthorizedTTL:             metav1.Duration{Duration: f.WebhookAuthorizedTTL},
				CacheAuthorizedRequests:   f.WebhookAuthorizedTTL != 0,
				UnauthorizedTTL:           metav1.Duration{Duration: f.WebhookUnauthorizedTTL},
				CacheUnauthorizedRequests: f.WebhookUnauthorizedTTL != 0,
				// A webhook that fails has no opinion, as it always was with these flags.
				Timeout:                    metav1.Duration{Duration: 30 * time.Second},
				FailurePolicy:              apiserverapi.FailurePolicyNoOpinion,
				SubjectAccessReviewVersion: f.WebhookVersion,
				ConnectionInfo: apiserverapi.WebhookConnectionInfo{
					Type: apiserverapi.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &f.WebhookConfigFile,
				},
			}
		}
		c.Authorizers = append(c.Authorizers, one)
	}
	return c
}

// read reads a configuration file and validates it. required are the types that it must have,
// because they cannot be switched off while the server runs.
func read(file string, compiler authorizationcel.Compiler, required []string) (data []byte,
	c *apiserverapi.AuthorizationConfiguration, err error) {
	if data, err = os.ReadFile(file); err != nil {
		return nil, nil, err
	}
	c, err = parse(data, compiler, required)
	return data, c, err
}

func parse(data []byte, compiler authorizationcel.Compiler, required []string) (*apiserverapi.AuthorizationConfiguration, error) {
	c, err := load.LoadFromData(data)
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateAuthorizationConfiguration(compiler, nil, c, sets.New(Modes()...), sets.New(ModeWebhook)); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var errs []error
	for i, a := range c.Authorizers {
		if a.Type == ModeWebhook {
			if a.Webhook.ConnectionInfo.Type != apiserverapi.AuthorizationWebhookConnectionInfoTypeKubeConfigFile {
				errs = append(errs, fmt.Errorf("authorizers[%d].connectionInfo.type: must be %s", i,
					apiserverapi.AuthorizationWebhookConnectionInfoTypeKubeConfigFile))
			}
			continue
		}
		if want := strings.ToLower(string(a.Type)); a.Name != want {
			errs = append(errs, fmt.Errorf("expected name %s for authorizer %s instead of %s", want, a.Type, a.Name))
		}
	}
	for _, mode := range required {
		if !has(c, mode) {
			errs = append(errs, fmt.Errorf("the authorizer %s cannot be removed while the server runs", mode))
		}
	}
	return c, errors.Join(errs...)
}

// has reports whether a configuration has an authorizer of a type.
func has(c *apiserverapi.AuthorizationConfiguration, mode string) bool {
	return slices.ContainsFunc(c.Authorizers, func(a apiserverapi.AuthorizerConfiguration) bool { return string(a.Type) == mode })
}

// lazyCompiler makes the environment of CEL, which takes long, with the first expression.
type lazyCompiler struct {
	made func() authorizationcel.Compiler
}

func newCompiler() authorizationcel.Compiler {
	return &lazyCompiler{sync.OnceValue(authorizationcel.NewDefaultCompiler)}
}

// CompileCELExpression compiles a match condition.
func (c *lazyCompiler) CompileCELExpression(e authorizationcel.ExpressionAccessor) (authorizationcel.CompilationResult, error) {
	if err := bounds.Check(e.GetExpression(), bounds.TypeSize{}); err != nil {
		return authorizationcel.CompilationResult{ExpressionAccessor: e}, bounds.Error(err)
	}
	return c.made().CompileCELExpression(e)
}
