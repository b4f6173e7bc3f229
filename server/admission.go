package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"

	dynamicadmission "espalier.dev/server/admission"
	builtinadmission "espalier.dev/server/builtin/admission"
)

// admissionPlugins returns the names of kube-apiserver's plugins, in the order in which it calls
// them. All are accepted on the command line, so that scripts and unit files for kube-apiserver
// work.
func admissionPlugins() []string {
	return []string{
		"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle", "NamespaceExists", "LimitPodHardAntiAffinityTopology", "LimitRanger",
		"ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "AlwaysPullImages", "ImagePolicyWebhook", "PodSecurity", "PodNodeSelector",
		"Priority", "DefaultTolerationSeconds", "PodTolerationRestriction", "EventRateLimit", "ExtendedResourceToleration",
		"DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "OwnerReferencesPermissionEnforcement",
		"PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest",
		"CertificateSubjectRestriction", "DefaultIngressClass", "DenyServiceExternalIPs", "PodTopologyLabels", "PodGroupWorkloadExists",
		"NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota", "AlwaysDeny",
	}
}

// validateAdmission returns an error if the names of plugins are invalid.
func (o *Options) validateAdmission() error {
	known := admissionPlugins()
	var errs []error
	check := func(flag string, names []string) {
		for _, name := range names {
			if !slices.Contains(known, name) {
				errs = append(errs, fmt.Errorf("--%s: unknown admission plugin %q", flag, name))
			}
		}
	}
	check("enable-admission-plugins", o.EnableAdmissionPlugins)
	check("disable-admission-plugins", o.DisableAdmissionPlugins)
	for _, name := range o.EnableAdmissionPlugins {
		if slices.Contains(known, name) && plugin(name) == nil {
			// Ignoring the flag would hide that the plugin does not run.
			errs = append(errs, fmt.Errorf("--enable-admission-plugins: kube-apiserver's plugin %q is not part of this server", name))
		}
		if slices.Contains(o.DisableAdmissionPlugins, name) {
			errs = append(errs, fmt.Errorf("the admission plugin %q cannot be both enabled and disabled", name))
		}
	}
	return errors.Join(errs...)
}

// plugin returns the plugin with the given name, or nil if it is not part of this server. Those
// of package dynamicadmission have no function New.
func plugin(name string) *builtinadmission.Plugin {
	if slices.Contains(dynamicadmission.Names(), name) {
		return &builtinadmission.Plugin{Name: name}
	}
	all := builtinadmission.Plugins()
	if i := slices.IndexFunc(all, func(p builtinadmission.Plugin) bool { return p.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// admits reports whether a plugin is enabled.
func (o *Options) admits(name string) bool {
	p := plugin(name)
	return p != nil && !slices.Contains(o.DisableAdmissionPlugins, name) && (!p.Optional || slices.Contains(o.EnableAdmissionPlugins, name))
}

// newAdmission returns the chain of enabled plugins, in kube-apiserver's order.
func newAdmission(o *Options, c builtinadmission.Config, dynamic *dynamicadmission.Dynamic) (admission.Interface, error) {
	configurations, err := o.admissionConfiguration()
	if err != nil {
		return nil, err
	}
	var chain []admission.Interface
	for _, name := range admissionPlugins() {
		if !o.admits(name) {
			continue
		}
		if c.Configuration, err = configurations(name); err != nil {
			return nil, err
		}
		var p admission.Interface
		if f := plugin(name).New; f != nil {
			p, err = f(c)
		} else {
			p, err = dynamic.Plugin(name, c.Configuration)
		}
		if err != nil {
			return nil, fmt.Errorf("admission plugin %s: %w", name, err)
		}
		chain = append(chain, admissionmetrics.WithControllerMetrics(p, name))
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

// admissionConfiguration reads --admission-control-config-file. The function that it returns
// returns the configuration of a plugin, which is empty if there is none.
func (o *Options) admissionConfiguration() (func(plugin string) ([]byte, error), error) {
	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	fail := func(err error) error { return fmt.Errorf("--admission-control-config-file: %w", err) }
	provider, err := admission.ReadAdmissionConfiguration(admissionPlugins(), o.AdmissionControlConfigFile, scheme)
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
