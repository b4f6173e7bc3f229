// Package reviews answers questions about users: what they may do, who they are, and whose
// token it is. A question is an object that is created; the answer is the same object with a
// status. Nothing is stored.
package reviews

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
)

// Config configures the reviews.
type Config struct {
	// Authorizer decides what a user may do, and Rules lists it.
	Authorizer authorizer.UnconditionalAuthorizer
	Rules      authorizer.RuleResolver
	// Authenticator finds the user of a token. Nil means that no token is known.
	Authenticator authenticator.Request
	// Audiences are those of the server, for reviews of tokens that name none.
	Audiences authenticator.Audiences
}

// Storages returns the storages of all reviews.
func (c *Config) Storages() map[runtimeschema.GroupVersionResource]rest.Creater {
	authn, authz := authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion
	return map[runtimeschema.GroupVersionResource]rest.Creater{
		authz.WithResource("selfsubjectaccessreviews"): &review[*authorizationv1.SelfSubjectAccessReview]{
			create: func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
			check: func(ctx context.Context, r *authorizationv1.SelfSubjectAccessReview) error {
				if errs := validateSelfSubjectAccessReview(r); len(errs) > 0 {
					return invalid(errs)
				}
				_, err := userOf(ctx)
				return err
			},
			answer: c.selfSubjectAccessReview,
		},
		authz.WithResource("subjectaccessreviews"): &review[*authorizationv1.SubjectAccessReview]{
			create: func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
			check: func(_ context.Context, r *authorizationv1.SubjectAccessReview) error {
				if errs := validateSubjectAccessReview(r); len(errs) > 0 {
					return invalid(errs)
				}
				return nil
			},
			answer: func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (runtime.Object, error) {
				r.Status = c.decide(ctx, attributesOf(&r.Spec))
				return r, nil
			},
		},
		authz.WithResource("localsubjectaccessreviews"): &review[*authorizationv1.LocalSubjectAccessReview]{
			create: func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} },
			check:  checkLocal,
			answer: func(ctx context.Context, r *authorizationv1.LocalSubjectAccessReview) (runtime.Object, error) {
				r.Status = c.decide(ctx, attributesOf(&r.Spec))
				return r, nil
			},
		},
		authz.WithResource("selfsubjectrulesreviews"): &review[*authorizationv1.SelfSubjectRulesReview]{
			create: func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} },
			check: func(ctx context.Context, r *authorizationv1.SelfSubjectRulesReview) error {
				if _, err := userOf(ctx); err != nil {
					return err
				}
				if r.Spec.Namespace == "" {
					return apierrors.NewBadRequest("no namespace on request")
				}
				return nil
			},
			answer: c.selfSubjectRulesReview,
		},
		authn.WithResource("selfsubjectreviews"): &review[*authenticationv1.SelfSubjectReview]{
			create: func() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} },
			check: func(ctx context.Context, _ *authenticationv1.SelfSubjectReview) error {
				_, err := userOf(ctx)
				return err
			},
			answer: selfSubjectReview,
		},
		authn.WithResource("tokenreviews"): &review[*authenticationv1.TokenReview]{
			create: func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
			check: func(ctx context.Context, r *authenticationv1.TokenReview) error {
				if ns := apirequest.NamespaceValue(ctx); ns != "" {
					return apierrors.NewBadRequest("namespace is not allowed on this type: " + ns)
				}
				if r.Spec.Token == "" {
					return apierrors.NewBadRequest("token is required for TokenReview in authentication")
				}
				return nil
			},
			answer: c.tokenReview,
		},
	}
}

// review is the storage of one kind of review.
type review[T runtime.Object] struct {
	create func() T
	// check returns an error if the question is invalid. Admission follows, then answer.
	check  func(context.Context, T) error
	answer func(context.Context, T) (runtime.Object, error)
}

// New returns an empty review.
func (r *review[T]) New() runtime.Object { return r.create() }

// Destroy does nothing: nothing is stored.
func (r *review[T]) Destroy() {}

// Create answers a question.
func (r *review[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	question, ok := obj.(T)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %T: %T", question, obj))
	}
	if err := r.check(ctx, question); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	return r.answer(ctx, question)
}

// invalid returns the error of a review that is not valid. As in kube-apiserver, it does not
// name the kind.
func invalid(errs field.ErrorList) error {
	return apierrors.NewInvalid(runtimeschema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

// userOf returns the user who makes a request.
func userOf(ctx context.Context) (user.Info, error) {
	u, ok := apirequest.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return u, nil
}

// checkLocal checks a review within a namespace.
func checkLocal(ctx context.Context, r *authorizationv1.LocalSubjectAccessReview) error {
	if errs := validateLocalSubjectAccessReview(r); len(errs) > 0 {
		return invalid(errs)
	}
	namespace := apirequest.NamespaceValue(ctx)
	if namespace == "" {
		return apierrors.NewBadRequest("namespace is required on this type: ")
	}
	if namespace != r.Namespace {
		return apierrors.NewBadRequest("spec.resourceAttributes.namespace must match namespace: " + namespace)
	}
	return nil
}

// decide asks the authorizer.
func (c *Config) decide(ctx context.Context, a authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := c.Authorizer.Authorize(ctx, a)
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed:         decision == authorizer.DecisionAllow,
		Denied:          decision == authorizer.DecisionDeny,
		Reason:          reason,
		EvaluationError: evaluationError(err, a),
	}
}

func (c *Config) selfSubjectAccessReview(ctx context.Context, r *authorizationv1.SelfSubjectAccessReview) (runtime.Object, error) {
	u, err := userOf(ctx)
	if err != nil {
		return nil, err
	}
	r.Status = c.decide(ctx, attributesFor(u, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes))
	return r, nil
}

func (c *Config) selfSubjectRulesReview(ctx context.Context, r *authorizationv1.SelfSubjectRulesReview) (runtime.Object, error) {
	u, err := userOf(ctx)
	if err != nil {
		return nil, err
	}
	resources, others, incomplete, err := c.Rules.RulesFor(ctx, u, r.Spec.Namespace)
	out := &authorizationv1.SelfSubjectRulesReview{}
	out.Status = authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    make([]authorizationv1.ResourceRule, 0, len(resources)),
		NonResourceRules: make([]authorizationv1.NonResourceRule, 0, len(others)),
		Incomplete:       incomplete,
	}
	for _, rule := range resources {
		out.Status.ResourceRules = append(out.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames(),
		})
	}
	for _, rule := range others {
		out.Status.NonResourceRules = append(out.Status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs(),
		})
	}
	if err != nil {
		out.Status.EvaluationError = err.Error()
	}
	return out, nil
}

// userInfo returns the attributes of a user for an answer.
func userInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(),
		Groups: u.GetGroups(), Extra: map[string]authenticationv1.ExtraValue{}}
	for key, values := range u.GetExtra() {
		info.Extra[key] = values
	}
	return info
}

func selfSubjectReview(ctx context.Context, _ *authenticationv1.SelfSubjectReview) (runtime.Object, error) {
	u, err := userOf(ctx)
	if err != nil {
		return nil, err
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(u)},
	}, nil
}

// tokenReview authenticates a request that has nothing but the token.
func (c *Config) tokenReview(ctx context.Context, r *authenticationv1.TokenReview) (runtime.Object, error) {
	if c.Authenticator == nil {
		return r, nil
	}
	audiences := authenticator.Audiences(r.Spec.Audiences)
	if len(audiences) == 0 {
		audiences = c.Audiences
	}
	// The values of the request's context are about the one who asks. Only its end matters.
	asked, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if len(audiences) > 0 {
		asked = authenticator.WithAudiences(asked, audiences)
	}
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{}}).WithContext(asked)
	req.Header.Set("Authorization", "Bearer "+r.Spec.Token)
	resp, ok, err := c.Authenticator.AuthenticateRequest(req)
	r.Status.Authenticated = ok
	if err != nil {
		r.Status.Error = err.Error()
	}
	if len(audiences) > 0 && resp != nil && len(audiences.Intersect(resp.Audiences)) == 0 {
		klog.FromContext(ctx).Error(nil, "An authenticator has returned none of the audiences that were asked for", "asked", audiences,
			"returned", resp.Audiences)
		return nil, apierrors.NewInternalError(errors.New("error validating audiences"))
	}
	if resp != nil && resp.User != nil {
		r.Status.User = userInfo(resp.User)
		r.Status.Audiences = resp.Audiences
	}
	return r, nil
}
