package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// tolerations lets pods tolerate nodes that are not ready or unreachable for five minutes, unless
// they say otherwise.
type tolerations struct{ *admission.Handler }

var _ admission.MutationInterface = &tolerations{}

func newTolerations() *tolerations {
	return &tolerations{admission.NewHandler(admission.Create, admission.Update)}
}

// Admit implements admission.MutationInterface.
func (p *tolerations) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !handles(a, pods) {
		return nil
	}
	pod, err := as[*corev1.Pod](a.GetObject())
	if err != nil {
		return err
	}
	given := pod.Spec.Tolerations
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !tolerates(given, key) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
			})
		}
	}
	return nil
}

// tolerates reports whether there is a toleration of a NoExecute taint with the given key, for
// whatever values and seconds.
func tolerates(tolerations []corev1.Toleration, key string) bool {
	for _, t := range tolerations {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
