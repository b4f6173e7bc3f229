package plugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// externalIPs rejects services with external IPs that they did not have before.
type externalIPs struct{ *admission.Handler }

var _ admission.ValidationInterface = externalIPs{}

func newExternalIPs() externalIPs {
	return externalIPs{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements admission.ValidationInterface.
func (externalIPs) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, services) {
		return nil
	}
	service, err := as[*corev1.Service](a.GetObject())
	if err != nil {
		return err
	}
	var before []string
	if old, ok := a.GetOldObject().(*corev1.Service); ok && old != nil {
		before = old.Spec.ExternalIPs
	}
	for _, ip := range service.Spec.ExternalIPs {
		if !slices.Contains(before, ip) {
			return forbidden(a, "Use of external IPs is denied by admission control")
		}
	}
	return nil
}
