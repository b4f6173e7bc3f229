package server

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
)

// admissionPlugins returns the names that kube-apiserver knows. All are accepted on the
// command line, so that scripts and unit files for kube-apiserver work; those without
// an implementation here have nothing to admit.
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

// validateAdmission says what is wrong with the names of plugins.
func (o *Options) validateAdmission() error {
	known := admissionPlugins()
	var errs []error
	check := func(flag string, names []string) {
		for _, name := range names {
			if !slices.Contains(known, name) {
				errs = append(errs, fmt.Errorf("--%s: there is no admission plugin %q", flag, name))
			}
		}
	}
	check("enable-admission-plugins", o.EnableAdmissionPlugins)
	check("disable-admission-plugins", o.DisableAdmissionPlugins)
	for _, name := range o.EnableAdmissionPlugins {
		if slices.Contains(known, name) {
			// Whoever relies on it must know.
			errs = append(errs, fmt.Errorf("--enable-admission-plugins: kube-apiserver's plugin %q is not part of this server", name))
		}
		if slices.Contains(o.DisableAdmissionPlugins, name) {
			errs = append(errs, fmt.Errorf("the admission plugin %q cannot be both enabled and disabled", name))
		}
	}
	return errors.Join(errs...)
}

// newAdmission returns the chain of the plugins that run.
func newAdmission() admission.Interface {
	return admissionmetrics.WithStepMetrics(admission.NewChainHandler())
}
