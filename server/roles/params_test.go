package roles

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestCheckPolicy checks which permissions a user needs to write a policy with parameters, or its
// binding.
func TestCheckPolicy(t *testing.T) {
	t.Parallel()
	kind := func(apiVersion, kind string) *admissionregistrationv1.ParamKind {
		return &admissionregistrationv1.ParamKind{APIVersion: apiVersion, Kind: kind}
	}
	policy := func(k *admissionregistrationv1.ParamKind) *admissionregistrationv1.ValidatingAdmissionPolicy {
		return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{ParamKind: k}}
	}
	mutating := func(k *admissionregistrationv1.ParamKind) *admissionregistrationv1.MutatingAdmissionPolicy {
		return &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{ParamKind: k}}
	}
	binding := func(to, namespace, name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: to, ParamRef: &admissionregistrationv1.ParamRef{Namespace: namespace, Name: name}}}
	}
	stored := map[string]runtime.Object{
		"maps": policy(kind("v1", "ConfigMap")), "none": policy(nil), "odd": policy(kind("a/b/c", "K")), "unknown": policy(kind("g/v1", "Unknown")),
	}
	parameters := Parameters{
		Resource: func(gvk runtimeschema.GroupVersionKind) (runtimeschema.GroupResource, bool, bool) {
			return runtimeschema.GroupResource{Resource: "configmaps"}, true, gvk.Kind == "ConfigMap"
		},
		Get: func(_ context.Context, gr runtimeschema.GroupResource, _, name string) (runtime.Object, error) {
			if obj, ok := stored[name]; ok && gr.Resource == "validatingadmissionpolicies" {
				return obj, nil
			}
			return nil, errors.New("not found")
		},
	}
	noParams := binding("maps", "n", "a")
	noParams.Spec.ParamRef = nil
	mutatingBinding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
		PolicyName: "maps", ParamRef: &admissionregistrationv1.ParamRef{Namespace: "n", Name: "a"}}}
	for name, test := range map[string]struct {
		obj, old runtime.Object
		asked    string // verb, group, version, resource, namespace and name
		says     string
	}{
		"no parameters":         {policy(nil), nil, "", ""},
		"binding without":       {noParams, nil, "", ""},
		"policy":                {policy(kind("v1", "ConfigMap")), nil, "get  v1 configmaps * *", `must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)`},
		"mutating policy":       {mutating(kind("v1", "ConfigMap")), nil, "get  v1 configmaps * *", "must have"},
		"unchanged":             {policy(kind("v1", "ConfigMap")), policy(kind("v1", "ConfigMap")), "", ""},
		"changed kind":          {policy(kind("v1", "ConfigMap")), policy(kind("v1", "Secret")), "get  v1 configmaps * *", "must have"},
		"unknown kind":          {policy(kind("g/v1", "Unknown")), nil, "get g v1 * * *", "must have"},
		"odd version":           {policy(kind("a/b/c", "K")), nil, "get * * * * *", "must have"},
		"binding":               {binding("maps", "n", "a"), nil, "get  v1 configmaps n a", `does not have "get" permission on the object referenced by paramRef`},
		"binding of all":        {binding("maps", "n", ""), nil, "list  v1 configmaps n ", `does not have "list" permission on the object referenced by paramRef`},
		"unchanged binding":     {binding("maps", "n", "a"), binding("maps", "n", "a"), "", ""},
		"binding, other policy": {binding("maps", "n", "a"), binding("none", "n", "a"), "get  v1 configmaps n a", "paramRef"},
		"binding, other object": {binding("maps", "n", "a"), binding("maps", "n", "b"), "get  v1 configmaps n a", "paramRef"},
		"no policy":             {binding("missing", "n", "a"), nil, "get * * * n a", "unable to get policy missing to determine minimum required permissions"},
		"policy without":        {binding("none", "n", "a"), nil, "get * * * n a", "on the object referenced by paramRef"},
		"policy of odd version": {binding("odd", "n", "a"), nil, "get * * * n a", "unable to parse paramKind"},
		"policy of unknown":     {binding("unknown", "n", "a"), nil, "get g v1 * n a", "unable to resolve paramKind"},
		"mutating binding":      {mutatingBinding, nil, "get * * * n a", "unable to get policy maps"},
	} {
		for _, allowed := range []bool{true, false} {
			asked := ""
			g := NewGuard(nil, authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				asked = strings.Join([]string{a.GetVerb(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetNamespace(), a.GetName()}, " ")
				if allowed {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			}), parameters)
			ctx := apirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u"})
			gr := admissionregistrationv1.Resource("x")
			err := g.checkPolicy(ctx, gr, test.obj, test.old)
			if fails := !allowed && test.says != ""; fails != (err != nil) || fails && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%s, allowed %v: %v", name, allowed, err)
			}
			if asked != test.asked {
				t.Errorf("%s: asked for %q", name, asked)
			}
			if err := g.checkPolicy(t.Context(), gr, test.obj, test.old); (err != nil) != (test.asked != "") || err != nil && !apierrors.IsInternalError(err) {
				t.Errorf("%s without a user: %v", name, err)
			}
		}
	}
	broken := NewGuard(nil, authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", errors.New("broken")
	}), parameters)
	ctx := apirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u"})
	if err := broken.checkPolicy(ctx, admissionregistrationv1.Resource("x"), policy(kind("v1", "ConfigMap")), nil); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
}
