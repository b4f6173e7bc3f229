package admission

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/policies"
)

// mutatingWebhooks is the plugin MutatingAdmissionWebhook.
type mutatingWebhooks struct {
	*webhooks[*admissionregistrationv1.MutatingWebhookConfiguration]
}

// validatingWebhooks is the plugin ValidatingAdmissionWebhook.
type validatingWebhooks struct {
	*webhooks[*admissionregistrationv1.ValidatingWebhookConfiguration]
}

var (
	_ admission.MutationInterface   = mutatingWebhooks{}
	_ admission.ValidationInterface = validatingWebhooks{}
)

// Admit calls the mutating webhooks of a request.
func (m mutatingWebhooks) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return m.dispatch(ctx, a, o)
}

// Validate calls the validating webhooks of a request.
func (v validatingWebhooks) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return v.dispatch(ctx, a, o)
}

// webhooks calls the webhooks of the configurations with the plugin of k8s.io/apiserver.
type webhooks[T any] struct {
	*admission.Handler
	configurations *stored[T]
	// plugin makes the plugin with its part of the configuration file.
	plugin func() (*plugins, error)
	file   []byte
	// noCalls is set if no webhook can be called.
	noCalls bool

	mu sync.Mutex
	// base is what all states of the configurations share; it is made with the first
	// configuration.
	base    *plugins
	current atomic.Pointer[webhookState[T]]
}

// webhookState is the plugin for a state of the configurations.
type webhookState[T any] struct {
	list   *list[T]
	plugin *generic.Webhook
}

func newMutatingWebhooks(c *Config, n policies.Namespaces,
	s *stored[*admissionregistrationv1.MutatingWebhookConfiguration]) *mutatingWebhooks {
	return &mutatingWebhooks{newWebhooks(c, n, s, newMutatingPlugins)}
}

func newValidatingWebhooks(c *Config, n policies.Namespaces,
	s *stored[*admissionregistrationv1.ValidatingWebhookConfiguration]) *validatingWebhooks {
	return &validatingWebhooks{newWebhooks(c, n, s, newValidatingPlugins)}
}

func newWebhooks[T any](c *Config, n policies.Namespaces, s *stored[T],
	plugin func(io.Reader, policies.Namespaces, authorizer.UnconditionalAuthorizer) (*plugins, error)) *webhooks[T] {
	w := &webhooks[T]{Handler: policies.WebhookOperations(), configurations: s, noCalls: c.NoCalls}
	w.plugin = func() (*plugins, error) {
		var file io.Reader
		if len(w.file) > 0 {
			file = bytes.NewReader(w.file)
		}
		p, err := plugin(file, n, c.Authorizer)
		if err != nil {
			return nil, err
		}
		p.base.SetAuthenticationInfoResolverWrapper(c.Guard)
		p.base.SetServiceResolver(c.Services)
		return p, nil
	}
	return w
}

// configure sets the part of the configuration file for the plugin: how it authenticates to
// webhooks.
func (w *webhooks[T]) configure(file []byte) error {
	if len(file) == 0 {
		return nil
	}
	c, err := config.LoadConfig(bytes.NewReader(file))
	if err != nil {
		return err
	}
	if c.StaticManifestsDir != "" {
		return errors.New("staticManifestsDir is not supported: store the configurations on the server")
	}
	w.file = file
	return nil
}

// dispatch calls the webhooks of a request.
func (w *webhooks[T]) dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if rules.IsExemptAdmissionConfigurationResource(a) {
		return nil // a configuration must not keep others from being repaired
	}
	l := w.configurations.read()
	if l.err != nil {
		return l.err
	}
	if len(l.items) == 0 {
		return nil
	}
	plugin, err := w.of(l)
	if err != nil {
		return err
	}
	return plugin.Dispatch(ctx, a, o)
}

// of returns the plugin for a state of the configurations. Plugins share everything but the
// configurations, so the connections to the webhooks stay open.
func (w *webhooks[T]) of(l *list[T]) (*generic.Webhook, error) {
	if s := w.current.Load(); s != nil && s.list == l {
		return s.plugin, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.current.Load(); s != nil && s.list == l {
		return s.plugin, nil
	}
	var err error
	if w.base == nil {
		if w.base, err = w.plugin(); err != nil {
			return nil, err
		}
	}
	items := l.items
	if w.noCalls {
		items = failing(items)
	}
	plugin, err := pluginOf(w.base, items)
	if err != nil {
		return nil, err
	}
	w.current.Store(&webhookState[T]{l, plugin})
	return plugin, nil
}

// failing returns configurations whose webhooks all have failurePolicy Fail.
func failing[T any](configurations []T) []T {
	fail := admissionregistrationv1.Fail
	out := make([]T, len(configurations))
	for i, c := range configurations {
		switch c := any(c).(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			c = c.DeepCopy()
			for j := range c.Webhooks {
				c.Webhooks[j].FailurePolicy = &fail
			}
			out[i] = any(c).(T)
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			c = c.DeepCopy()
			for j := range c.Webhooks {
				c.Webhooks[j].FailurePolicy = &fail
			}
			out[i] = any(c).(T)
		}
	}
	return out
}
