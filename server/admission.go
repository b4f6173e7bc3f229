package server

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	builtinadmission "espalier.dev/server/builtin/admission"
)

// admissionPlugins returns the names of kube-apiserver's plugins. All are accepted on the
// command line, so that scripts and unit files for kube-apiserver work.
func admissionPlugins() []string {
	return []string{
		"AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction",
		"ClusterTrustBundleAttest", "DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "DenyServiceExternalIPs",
		"EventRateLimit", "ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "LimitRanger",
		"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceAutoProvision", "NamespaceExists", "NamespaceLifecycle",
		"NodeDeclaredFeatureValidator", "NodeRestriction", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize",
		"PodNodeSelector", "PodSecurity", "PodTolerationRestriction", "PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass",
		"ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
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
		if slices.Contains(known, name) && !implemented(name) {
			// Ignoring the flag would hide that the plugin does not run.
			errs = append(errs, fmt.Errorf("--enable-admission-plugins: kube-apiserver's plugin %q is not part of this server", name))
		}
		if slices.Contains(o.DisableAdmissionPlugins, name) {
			errs = append(errs, fmt.Errorf("the admission plugin %q cannot be both enabled and disabled", name))
		}
	}
	return errors.Join(errs...)
}

// implemented reports whether a plugin is part of this server. Those that are, are enabled by
// default.
func implemented(name string) bool {
	return slices.ContainsFunc(builtinadmission.Plugins(nil, nil), func(p builtinadmission.Plugin) bool { return p.Name == name })
}

// admits reports whether a plugin is enabled.
func (o *Options) admits(name string) bool { return !slices.Contains(o.DisableAdmissionPlugins, name) }

// newAdmission returns the chain of enabled plugins.
func newAdmission(o *Options, objects builtinadmission.Lister, authz authorizer.Authorizer) admission.Interface {
	var chain []admission.Interface
	for _, p := range builtinadmission.Plugins(objects, authz) {
		if o.admits(p.Name) {
			chain = append(chain, admissionmetrics.WithControllerMetrics(p.Interface, p.Name))
		}
	}
	return admissionmetrics.WithStepMetrics(admission.NewChainHandler(chain...))
}
