package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
)

// NewChain returns the chain of the enabled plugins. file is that of
// --admission-control-config-file, or empty.
func NewChain(c Config, enabled func(Plugin) bool, file string) (admission.Interface, error) {
	configuration, err := readConfigurations(file)
	if err != nil {
		return nil, err
	}
	var chain []admission.Interface
	for _, p := range All() {
		if !enabled(p) {
			continue
		}
		if c.Configuration, err = configuration(p.Name); err != nil {
			return nil, err
		}
		one, err := p.New(c)
		if err != nil {
			return nil, fmt.Errorf("admission plugin %s: %w", p.Name, err)
		}
		chain = append(chain, admissionmetrics.WithControllerMetrics(one, p.Name))
	}
	return admissionmetrics.WithStepMetrics(reinvoking{admission.NewChainHandler(chain...)}), nil
}

// reinvoking is a chain of plugins that runs a second time if a webhook or a policy has changed
// the object, so that those before it see the change.
type reinvoking struct {
	chain interface {
		admission.MutationInterface
		admission.ValidationInterface
	}
}

// Handles reports whether a plugin handles an operation.
func (r reinvoking) Handles(op admission.Operation) bool { return r.chain.Handles(op) }

// Admit runs the mutating plugins. They are a part of applying a patch, whose errors without a
// status are those of the client.
func (r reinvoking) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	err := r.chain.Admit(ctx, a, o)
	if again := a.GetReinvocationContext(); err == nil && again.ShouldReinvoke() {
		again.SetIsReinvoke()
		err = r.chain.Admit(ctx, a, o)
	}
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	return err
}

// Validate runs the validating plugins.
func (r reinvoking) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return r.chain.Validate(ctx, a, o)
}

// readConfigurations reads --admission-control-config-file. The function that it returns returns
// the configuration of a plugin, which is empty if there is none.
func readConfigurations(file string) (func(plugin string) ([]byte, error), error) {
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	fail := func(err error) error { return fmt.Errorf("--admission-control-config-file: %w", err) }
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	provider, err := admission.ReadAdmissionConfiguration(names, file, scheme)
	if err != nil {
		return nil, fail(err)
	}
	return func(plugin string) ([]byte, error) {
		r, err := provider.ConfigFor(plugin)
		if err != nil {
			return nil, fail(err)
		}
		if r == nil {
			return nil, nil
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, fail(err)
		}
		return data, nil
	}, nil
}
