package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// alwaysAdmit accepts all requests.
type alwaysAdmit struct{ *admission.Handler }

func newAlwaysAdmit() alwaysAdmit { return alwaysAdmit{admission.NewHandler()} }

// alwaysDeny rejects all requests that admission sees.
type alwaysDeny struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = alwaysDeny{}
	_ admission.ValidationInterface = alwaysDeny{}
)

func newAlwaysDeny() alwaysDeny {
	return alwaysDeny{admission.NewHandler(admission.Create, admission.Update, admission.Delete, admission.Connect)}
}

// Admit implements admission.MutationInterface.
func (alwaysDeny) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return forbidden(a, "admission control is denying all modifications")
}

// Validate implements admission.ValidationInterface.
func (d alwaysDeny) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return d.Admit(ctx, a, o)
}

// pull makes nodes pull all images of a pod again, which checks that the pod may use them.
type pull struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = pull{}
	_ admission.ValidationInterface = pull{}
)

func newPull() pull { return pull{admission.NewHandler(admission.Create, admission.Update)} }

// pod returns the pod of a request, or nil if the plugin has nothing to do.
func (pull) pod(a admission.Attributes) (*corev1.Pod, error) {
	if !handles(a, pods) {
		return nil, nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil, errors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if a.GetOperation() != admission.Update || !ok {
		return pod, nil
	}
	images := map[string]bool{}
	eachImage(&old.Spec, func(_ *field.Path, image string, _ *corev1.PullPolicy) { images[image] = true })
	changed := false
	eachImage(&pod.Spec, func(_ *field.Path, image string, _ *corev1.PullPolicy) { changed = changed || !images[image] })
	if !changed {
		return nil, nil
	}
	return pod, nil
}

// eachImage calls f for the images of all containers.
func eachImage(spec *corev1.PodSpec, f func(path *field.Path, image string, policy *corev1.PullPolicy)) {
	root := field.NewPath("spec")
	for i := range spec.InitContainers {
		f(root.Child("initContainers").Index(i), spec.InitContainers[i].Image, &spec.InitContainers[i].ImagePullPolicy)
	}
	for i := range spec.Containers {
		f(root.Child("containers").Index(i), spec.Containers[i].Image, &spec.Containers[i].ImagePullPolicy)
	}
	for i := range spec.EphemeralContainers {
		f(root.Child("ephemeralContainers").Index(i), spec.EphemeralContainers[i].Image, &spec.EphemeralContainers[i].ImagePullPolicy)
	}
}

// Admit implements admission.MutationInterface.
func (p pull) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := p.pod(a)
	if pod == nil || err != nil {
		return err
	}
	eachImage(&pod.Spec, func(_ *field.Path, _ string, policy *corev1.PullPolicy) { *policy = corev1.PullAlways })
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil {
			v.Image.PullPolicy = corev1.PullAlways
		}
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p pull) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := p.pod(a)
	if pod == nil || err != nil {
		return err
	}
	var errs []error
	check := func(path *field.Path, policy corev1.PullPolicy) {
		if policy != corev1.PullAlways {
			errs = append(errs, admission.NewForbidden(a, field.NotSupported(path, policy, []string{string(corev1.PullAlways)})))
		}
	}
	eachImage(&pod.Spec, func(path *field.Path, _ string, policy *corev1.PullPolicy) {
		check(path.Child("imagePullPolicy"), *policy)
	})
	for i, v := range pod.Spec.Volumes {
		if v.Image != nil {
			check(field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy"), v.Image.PullPolicy)
		}
	}
	return utilerrors.NewAggregate(errs)
}
