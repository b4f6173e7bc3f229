package server

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
)

// admissionPlugins returns the names of kube-apiserver's plugins. All are accepted on the
// command line, so that scripts and unit files for kube-apiserver work. Those without an
// implementation here do not apply to custom resources.
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
		if slices.Contains(known, name) {
			// Ignoring the flag would hide that the plugin does not run.
			errs = append(errs, fmt.Errorf("--enable-admission-plugins: kube-apiserver's plugin %q is not part of this server", name))
		}
		if slices.Contains(o.DisableAdmissionPlugins, name) {
			errs = append(errs, fmt.Errorf("the admission plugin %q cannot be both enabled and disabled", name))
		}
	}
	return errors.Join(errs...)
}

// newAdmission returns the chain of enabled plugins.
func newAdmission() admission.Interface {
	return admissionmetrics.WithStepMetrics(admission.NewChainHandler())
}
