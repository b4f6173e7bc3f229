package plugins

import (
	"context"
	"errors"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/component-base/metrics/legacyregistry"
	podsecurity "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// podSecurity enforces the pod security standards that namespaces choose with labels. The checks
// are those of k8s.io/pod-security-admission.
type podSecurity struct {
	*admission.Handler
	// delegate makes the checks when they are first needed.
	delegate func() (*podsecurity.Admission, error)
}

var _ admission.ValidationInterface = &podSecurity{}

// securityMetrics are the metrics of the process.
var securityMetrics = sync.OnceValue(func() metrics.Recorder {
	r := metrics.NewPrometheusRecorder(api.GetAPIVersion())
	r.MustRegister(legacyregistry.MustRegister)
	return r
})

func newPodSecurity(objects Lister, configuration []byte, emulated *version.Version) (*podSecurity, error) {
	p := &podSecurity{Handler: admission.NewHandler(admission.Create, admission.Update)}
	p.delegate = sync.OnceValues(func() (*podsecurity.Admission, error) {
		config, err := load.LoadFromData(configuration)
		if err != nil {
			return nil, err
		}
		var newest *api.Version
		if emulated != nil {
			newest = new(api.MajorMinorVersion(int(emulated.Major()), int(emulated.Minor())))
		}
		evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), newest)
		if err != nil {
			return nil, err
		}
		a := &podsecurity.Admission{
			Configuration: config, Metrics: securityMetrics(), PodSpecExtractor: podsecurity.DefaultPodSpecExtractor{},
			Evaluator: evaluator, NamespaceGetter: securityObjects{objects}, PodLister: securityObjects{objects},
		}
		if err := a.CompleteConfiguration(); err != nil {
			return nil, err
		}
		return a, a.ValidateConfiguration()
	})
	if len(configuration) == 0 {
		return p, nil
	}
	_, err := p.delegate()
	return p, err
}

// securityObjects reads stored objects for the checks.
type securityObjects struct{ objects Lister }

// GetNamespace implements podsecurity.NamespaceGetter.
func (o securityObjects) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return get[*corev1.Namespace](ctx, o.objects, namespaces, "", name)
}

// ListPods implements podsecurity.PodLister.
func (o securityObjects) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	return list[*corev1.Pod](ctx, o.objects, pods, namespace)
}

// securityAttributes are the attributes of a request for the checks.
type securityAttributes struct{ admission.Attributes }

// GetObject implements api.Attributes.
func (a securityAttributes) GetObject() (runtime.Object, error) {
	return a.Attributes.GetObject(), nil
}

// GetOldObject implements api.Attributes.
func (a securityAttributes) GetOldObject() (runtime.Object, error) {
	return a.Attributes.GetOldObject(), nil
}

// GetOperation implements api.Attributes.
func (a securityAttributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}

// GetUserName implements api.Attributes.
func (a securityAttributes) GetUserName() string { return a.GetUserInfo().GetName() }

// Validate implements admission.ValidationInterface.
func (p *podSecurity) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if r := a.GetResource().GroupResource(); r != namespaces && !(podsecurity.DefaultPodSpecExtractor{}).HasPodSpec(r) {
		return nil
	}
	delegate, err := p.delegate()
	if err != nil {
		return err
	}
	result := delegate.Validate(ctx, securityAttributes{a})
	for _, text := range result.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	for key, value := range result.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+key, value)
	}
	if result.Allowed {
		return nil
	}
	err = admission.NewForbidden(a, errors.New("Not allowed by PodSecurity"))
	status := (*apierrors.StatusError)(nil)
	if result.Result == nil || !errors.As(err, &status) {
		return err
	}
	to, from := &status.ErrStatus, result.Result
	if from.Message != "" {
		to.Message = from.Message
	}
	if from.Reason != "" {
		to.Reason = from.Reason
	}
	if from.Details != nil {
		to.Details = from.Details
	}
	if from.Code != 0 {
		to.Code = from.Code
	}
	return status
}
