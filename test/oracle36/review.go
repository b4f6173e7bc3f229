package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	"k8s.io/kubernetes/pkg/registry/authentication/selfsubjectreview"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"
	"k8s.io/kubernetes/pkg/registry/authorization/localsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectrulesreview"
	"k8s.io/kubernetes/pkg/registry/authorization/subjectaccessreview"
)

// deciding decides by the verb of a request. Its reason shows all attributes.
type deciding struct{}

func (deciding) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	fields, fieldErr := a.GetFieldSelector()
	labels, labelErr := a.GetLabelSelector()
	u := a.GetUser()
	reason := fmt.Sprintf("%q %q %q %q %q %q %q %q %q %v %q %v fields %v %v labels %v %v", a.GetVerb(), a.GetNamespace(), a.GetAPIGroup(), a.GetAPIVersion(),
		a.GetResource(), a.GetSubresource(), a.GetName(), u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(), a.IsResourceRequest(), fields, fieldErr, labels, labelErr)
	reason += a.GetPath()
	switch a.GetVerb() {
	case "allow":
		return authorizer.DecisionAllow, reason, nil
	case "deny":
		return authorizer.DecisionDeny, reason, nil
	case "fail":
		return authorizer.DecisionNoOpinion, reason, errors.New("it fails")
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

func (deciding) RulesFor(_ context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var err error
	if namespace == "fail" {
		err = errors.New("it fails")
	}
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: u.GetGroups()}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"/" + namespace}}}, namespace == "partly", err
}

// review answers a review. The authorizer is deciding, and no token is known.
func review(req *request) (answer, error) {
	gv, err := schema.ParseGroupVersion(req.APIVersion)
	if err != nil {
		return answer{}, err
	}
	creaters := map[string]rest.Creater{
		"LocalSubjectAccessReview": localsubjectaccessreview.NewREST(deciding{}),
		"SelfSubjectAccessReview":  selfsubjectaccessreview.NewREST(deciding{}),
		"SelfSubjectRulesReview":   selfsubjectrulesreview.NewREST(deciding{}),
		"SubjectAccessReview":      subjectaccessreview.NewREST(deciding{}),
		"SelfSubjectReview":        selfsubjectreview.NewREST(),
		"TokenReview":              tokenreview.NewREST(nil, nil),
	}
	for kind, creater := range creaters {
		if !strings.EqualFold(kind+"s", req.Resource) {
			continue
		}
		c := &call{storage: gv}
		obj, err := decode(req.Object, gv.WithKind(kind))
		if err != nil {
			return c.answer(nil, err)
		}
		u := &user.DefaultInfo{Name: "admin"}
		if req.User != nil {
			u = req.User.info()
		}
		ctx := genericapirequest.WithNamespace(genericapirequest.WithUser(context.Background(), u), req.Namespace)
		out, err := creater.Create(ctx, obj, nil, nil)
		return c.answer(out, err)
	}
	return answer{}, fmt.Errorf("unknown resource %s", req.Resource)
}
