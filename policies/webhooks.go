package policies

import (
	"fmt"
	"io"
	"reflect"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"espalier.dev/schema/rules/bounds"
)

// Webhooks makes plugins of k8s.io/apiserver that call the webhooks of configurations. Plugins
// share everything but the configurations, so the connections to the webhooks stay open.
type Webhooks struct {
	// Base is what the plugins share.
	Base *generic.Webhook
	// factory gives a plugin its configurations.
	factory *factory
}

// NewMutatingWebhooks returns the plugin MutatingAdmissionWebhook. file is its configuration, or
// nil.
func NewMutatingWebhooks(file io.Reader, n Namespaces, a authorizer.UnconditionalAuthorizer) (*Webhooks, error) {
	p, err := mutating.NewMutatingWebhook(file)
	if err != nil {
		return nil, err
	}
	return newWebhooks(p.Webhook, n, a)
}

// NewValidatingWebhooks returns the plugin ValidatingAdmissionWebhook. file is its configuration,
// or nil.
func NewValidatingWebhooks(file io.Reader, n Namespaces, a authorizer.UnconditionalAuthorizer) (*Webhooks, error) {
	p, err := validating.NewValidatingAdmissionWebhook(file)
	if err != nil {
		return nil, err
	}
	return newWebhooks(p.Webhook, n, a)
}

func newWebhooks(p *generic.Webhook, n Namespaces, a authorizer.UnconditionalAuthorizer) (*Webhooks, error) {
	if err := boundConditions(p); err != nil {
		return nil, err
	}
	w := &Webhooks{Base: p, factory: &factory{namespaces: NamespaceLister(n)}}
	p.SetUnconditionalAuthorizer(a)
	p.SetExternalKubeClientSet(NamespaceClient(n))
	p.SetExternalKubeInformerFactory(w.factory)
	p.SetExcludedAdmissionResources(VirtualResources())
	p.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	return w, nil
}

// boundConditions makes a plugin compile match conditions with bounded functions. The plugin has
// no option for its compiler, and nothing that it calls can replace it.
func boundConditions(p *generic.Webhook) error {
	const name = "filterCompiler"
	f := reflect.ValueOf(p).Elem().FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[cel.ConditionCompiler]() {
		return fmt.Errorf("k8s.io/apiserver's plugin for webhooks has no %s that compiles match conditions", name)
	}
	reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(cel.NewConditionCompiler(bounds.EnvSet())))
	return nil
}

// PluginOf returns the plugin for configurations. Calls must not be concurrent.
func PluginOf[T any](w *Webhooks, configurations []T) (_ *generic.Webhook, err error) {
	if w.factory.objects, err = newIndexer(configurations); err != nil {
		return nil, err
	}
	// The base is never initialized, so it has no source of configurations, and each copy
	// makes its own.
	plugin := *w.Base
	plugin.Handler = WebhookOperations()
	if err := plugin.ValidateInitialization(); err != nil {
		return nil, err
	}
	return &plugin, nil
}

// WebhookOperations are the operations for which webhooks are called and validating policies are
// evaluated.
func WebhookOperations() *admission.Handler {
	return admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update)
}

// VirtualResources are the resources that are never stored and that neither webhooks nor
// policies may intercept: a wrong configuration would lock everybody out.
func VirtualResources() []runtimeschema.GroupResource {
	return []runtimeschema.GroupResource{
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		{Group: "authentication.k8s.io", Resource: "tokenreviews"},
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	}
}
