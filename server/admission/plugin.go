package admission

import (
	"fmt"
	"io"
	"reflect"

	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/policies"
	"espalier.dev/schema/rules/bounds"
)

// plugins makes plugins of k8s.io/apiserver that call the webhooks of configurations. Plugins
// share everything but the configurations, so the connections to the webhooks stay open.
type plugins struct {
	// base is what the plugins share.
	base *generic.Webhook
	// factory gives a plugin its configurations.
	factory *factory
}

// newMutatingPlugins returns the plugin MutatingAdmissionWebhook. file is its configuration, or
// nil.
func newMutatingPlugins(file io.Reader, n policies.Namespaces, a authorizer.UnconditionalAuthorizer) (*plugins, error) {
	p, err := mutating.NewMutatingWebhook(file)
	if err != nil {
		return nil, err
	}
	return newPlugins(p.Webhook, n, a)
}

// newValidatingPlugins returns the plugin ValidatingAdmissionWebhook. file is its configuration,
// or nil.
func newValidatingPlugins(file io.Reader, n policies.Namespaces, a authorizer.UnconditionalAuthorizer) (*plugins, error) {
	p, err := validating.NewValidatingAdmissionWebhook(file)
	if err != nil {
		return nil, err
	}
	return newPlugins(p.Webhook, n, a)
}

func newPlugins(p *generic.Webhook, n policies.Namespaces, a authorizer.UnconditionalAuthorizer) (*plugins, error) {
	if err := boundConditions(p); err != nil {
		return nil, err
	}
	w := &plugins{base: p, factory: &factory{namespaces: namespaceLister{n: n}}}
	p.SetUnconditionalAuthorizer(a)
	p.SetExternalKubeClientSet(client{n: n})
	p.SetExternalKubeInformerFactory(w.factory)
	p.SetExcludedAdmissionResources(policies.VirtualResources())
	p.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	return w, nil
}

// boundConditions makes a plugin compile match conditions within bounds, and with bounded functions. The plugin has
// no option for its compiler, and nothing that it calls can replace it.
func boundConditions(p any) error {
	const name = "filterCompiler"
	f := reflect.ValueOf(p).Elem().FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[cel.ConditionCompiler]() {
		return fmt.Errorf("k8s.io/apiserver's plugin for webhooks has no %s that compiles match conditions", name)
	}
	reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(kindscel.NewCompiler(bounds.EnvSet())))
	return nil
}

// pluginOf returns the plugin for configurations. Calls must not be concurrent.
func pluginOf[T any](w *plugins, configurations []T) (_ *generic.Webhook, err error) {
	if w.factory.objects, err = newIndexer(configurations); err != nil {
		return nil, err
	}
	// The base is never initialized, so it has no source of configurations, and each copy
	// makes its own.
	plugin := *w.base
	plugin.Handler = policies.WebhookOperations()
	if err := plugin.ValidateInitialization(); err != nil {
		return nil, err
	}
	return &plugin, nil
}
