package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissionauthorizer "k8s.io/apiserver/pkg/admission/plugin/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"
)

// validatingDispatcher evaluates validating policies.
type validatingDispatcher struct {
	authorizer authorizer.UnconditionalAuthorizer
	matcher    *Matcher
	observer   Observer
}

// NewValidatingDispatcher returns the dispatcher of validating policies.
func NewValidatingDispatcher(a authorizer.UnconditionalAuthorizer, m *Matcher, o Observer) Dispatcher[ValidatingHook] {
	return &validatingDispatcher{a, m, o}
}

// Dispatch evaluates all policies that match a request. The first validation that denies it has the
// message of the error.
func (d *validatingDispatcher) Dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, hooks []ValidatingHook) error {
	r := &validatingRequest{validatingDispatcher: d, a: a, o: o,
		authz:     admissionauthorizer.NewCachingAuthorizer(d.authorizer),
		versions:  map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes{},
		namespace: sync.OnceValues(func() (*corev1.Namespace, error) { return d.matcher.namespaceOf(ctx, a) })}
	for i := range hooks {
		if err := r.evaluate(ctx, &hooks[i]); err != nil {
			return err
		}
	}
	r.publishFailures()
	if r.denied == nil {
		return nil
	}
	return r.denied
}

// validatingRequest is a request that is evaluated.
type validatingRequest struct {
	*validatingDispatcher
	a        admission.Attributes
	o        admission.ObjectInterfaces
	authz    authorizer.UnconditionalAuthorizer
	versions map[runtimeschema.GroupVersionKind]*admission.VersionedAttributes
	// namespace returns that of the request, and reads it once.
	namespace func() (*corev1.Namespace, error)
	// failures are those for the audit log.
	failures []validationFailure
	// denied is the error about the first denial, or nil.
	denied *apierrors.StatusError
}

// validationFailure is a failed validation in the audit log.
type validationFailure struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

// misconfigured denies the request because of an error, as the failure policy demands. binding is nil
// if the error is about the policy.
func (r *validatingRequest) misconfigured(p *ValidatingPolicy, binding *ValidatingBinding, err error) {
	what := "policy"
	if binding != nil {
		what = "binding"
	}
	switch failure := failureOf(p.Spec.FailurePolicy); failure {
	case admissionregistrationv1.Ignore:
	case admissionregistrationv1.Fail:
		r.deny(p, binding, fmt.Sprintf("failed to configure %s: %v", what, err), "")
	default:
		r.deny(p, binding, fmt.Sprintf("unrecognized failure policy: '%v'", failure), "")
	}
}

// deny records a denial, if it is the first one.
func (r *validatingRequest) deny(p *ValidatingPolicy, binding *ValidatingBinding, message string, reason metav1.StatusReason) {
	if r.denied != nil {
		return
	}
	if binding == nil {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", p.Name, message)
	} else {
		message = denial(p.Name, binding.Name, message)
	}
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	status := admission.NewForbidden(r.a, errors.New(message)).(*apierrors.StatusError)
	status.ErrStatus.Reason, status.ErrStatus.Code = reason, codeOf(reason)
	status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	r.denied = status
}

// codeOf returns the HTTP status for the reasons that a validation can have.
func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// evaluate evaluates a policy for all of its bindings. An error ends the request.
func (r *validatingRequest) evaluate(ctx context.Context, h *ValidatingHook) error {
	found, err := r.matcher.policy(ctx, r.a, r.o, h.Policy.Spec.MatchConstraints)
	if err == nil && found != nil {
		err = h.ConfigurationError
	}
	if err != nil {
		r.misconfigured(h.Policy, nil, err)
		return nil
	}
	if found == nil {
		return nil
	}
	var annotations published
	for _, b := range h.Bindings {
		results, err := r.bound(ctx, h, b, found)
		if err != nil {
			return err
		}
		for _, result := range results {
			r.act(ctx, h.Policy, b, result.decisions)
			for _, n := range result.annotations {
				if n.err != "" {
					r.deny(h.Policy, b, n.err, "")
					r.observer.Validated(ctx, Check{h.Policy.Name, b.Name, Deny, n.elapsed, n.err})
				} else if n.value != "" {
					annotations.add(n.key, n.value)
				}
			}
		}
	}
	annotations.publish(h.Policy.Name, r.a)
	return nil
}

// bound evaluates a policy for all parameters of a binding. An error ends the request.
func (r *validatingRequest) bound(ctx context.Context, h *ValidatingHook, b *ValidatingBinding, found *match) (results []validated, err error) {
	matches, err := r.matcher.binding(ctx, r.a, r.o, b.Spec.MatchResources)
	if err != nil {
		r.misconfigured(h.Policy, b, err)
		return nil, nil
	}
	if !matches {
		return nil, nil
	}
	params, err := collect(h.Policy.Spec.ParamKind, h.Params, b.Spec.ParamRef, r.a.GetNamespace())
	if err != nil {
		r.misconfigured(h.Policy, b, err)
		return nil, nil
	}
	version := r.versions[found.kind]
	if version == nil && len(params) > 0 {
		if version, err = admission.NewVersionedAttributes(r.a, found.kind, r.o); err != nil {
			r.misconfigured(h.Policy, b, fmt.Errorf("failed to convert object version: %w", err))
			return nil, nil
		}
		r.versions[found.kind] = version
	}
	namespace, err := r.namespace()
	if err != nil {
		return nil, err
	}
	for _, param := range params {
		results = append(results, h.Evaluator.validate(ctx, &validation{binding: b, resource: found.resource, attributes: version,
			param: param, namespace: namespace, authorizer: r.authz}))
	}
	return results, nil
}

// act does what the binding demands for failed validations.
func (r *validatingRequest) act(ctx context.Context, p *ValidatingPolicy, b *ValidatingBinding, decisions []decision) {
	for i, d := range decisions {
		check := Check{Policy: p.Name, Binding: b.Name, Elapsed: d.elapsed, Message: d.message}
		if !d.denied {
			if d.failed {
				r.observer.Validated(ctx, check)
			}
			continue
		}
		for _, action := range b.Spec.ValidationActions {
			switch action {
			case admissionregistrationv1.Deny:
				check.Action = Deny
				r.deny(p, b, d.message, d.reason)
			case admissionregistrationv1.Audit:
				check.Action = Audit
				r.failures = append(r.failures, validationFailure{ExpressionIndex: i, Message: d.message,
					ValidationActions: b.Spec.ValidationActions, Binding: b.Name, Policy: b.Spec.PolicyName})
			case admissionregistrationv1.Warn:
				check.Action = Warn
				warning.AddWarning(ctx, "", warningOf(p.Name, b.Name, d.message))
			default:
				continue
			}
			r.observer.Validated(ctx, check)
		}
	}
}

// denial returns the message of the API server for a denied request.
func denial(policy, binding, message string) string {
	return fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy, binding, message)
}

// warningOf returns the warning of the API server for a failed validation.
func warningOf(policy, binding, message string) string {
	return fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", policy, binding, message)
}

const (
	// failuresKey is the audit annotation of failed validations, and maxFailures how many it has.
	failuresKey = "validation.policy.admission.k8s.io/validation_failure"
	maxFailures = 50
	// maxAnnotation is the length of an audit annotation of a policy.
	maxAnnotation = 10 * 1024
)

// publishFailures adds the failed validations to the audit log.
func (r *validatingRequest) publishFailures() {
	if len(r.failures) == 0 {
		return
	}
	if n := len(r.failures); n > maxFailures {
		klog.Warningf("The audit log has %d of %d failed validations of a request for %s", maxFailures, n, r.a.GetResource())
		r.failures = r.failures[:maxFailures]
	}
	value, err := json.Marshal(r.failures)
	if err == nil {
		err = r.a.AddAnnotation(failuresKey, string(value))
	}
	if err != nil {
		klog.Warningf("The audit log lacks failed validations: %v", err)
	}
}

// published are the audit annotations of a policy, by key, in the order in which they were added.
type published struct {
	keys   []string
	values map[string][]string
}

// add adds a value. Several bindings may have the same.
func (p *published) add(key, value string) {
	if len(value) > maxAnnotation {
		value = value[:maxAnnotation]
	}
	if p.values == nil {
		p.values = map[string][]string{}
	}
	if p.values[key] == nil {
		p.keys = append(p.keys, key)
	}
	if !slices.Contains(p.values[key], value) {
		p.values[key] = append(p.values[key], value)
	}
}

func (p *published) publish(policy string, a admission.Attributes) {
	for _, key := range p.keys {
		if err := a.AddAnnotation(policy+"/"+key, strings.Join(p.values[key], ", ")); err != nil {
			klog.Warningf("The audit log lacks the annotation %s of the policy %s: %v", key, policy, err)
		}
	}
}
