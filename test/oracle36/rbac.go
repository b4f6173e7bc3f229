package main

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	rbacvalidation "k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// attributes is a request to authorize.
type attributes struct {
	User        userInfo `json:"user"`
	Verb        string   `json:"verb"`
	Namespace   string   `json:"namespace"`
	APIGroup    string   `json:"apiGroup"`
	APIVersion  string   `json:"apiVersion"`
	Resource    string   `json:"resource"`
	Subresource string   `json:"subresource"`
	Name        string   `json:"name"`
	// Path is that of a request for something else than a resource.
	Path string `json:"path"`
	// Rules are the rules that the user wants to grant: the question is whether the user has
	// all of them.
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// decision is the answer to attributes.
type decision struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (u *userInfo) info() *user.DefaultInfo {
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

// authorize decides requests with the roles and bindings that exist.
func authorize(req *request) (answer, error) {
	var roles []*rbacv1.Role
	var roleBindings []*rbacv1.RoleBinding
	var clusterRoles []*rbacv1.ClusterRole
	var clusterRoleBindings []*rbacv1.ClusterRoleBinding
	for _, data := range req.Existing {
		obj, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return answer{}, fmt.Errorf("existing: %w", err)
		}
		legacyscheme.Scheme.Default(obj)
		switch o := obj.(type) {
		case *rbacv1.Role:
			roles = append(roles, o)
		case *rbacv1.RoleBinding:
			roleBindings = append(roleBindings, o)
		case *rbacv1.ClusterRole:
			clusterRoles = append(clusterRoles, o)
		case *rbacv1.ClusterRoleBinding:
			clusterRoleBindings = append(clusterRoleBindings, o)
		default:
			return answer{}, fmt.Errorf("existing: unexpected %T", obj)
		}
	}
	resolver, static := rbacvalidation.NewTestRuleResolver(roles, roleBindings, clusterRoles, clusterRoleBindings)
	a := rbac.New(static, static, static, static)
	var out answer
	for _, attr := range req.Attributes {
		out.Decisions = append(out.Decisions, decide(a, resolver, &attr))
	}
	return out, nil
}

func decide(a *rbac.RBACAuthorizer, resolver rbacvalidation.AuthorizationRuleResolver, attr *attributes) decision {
	var d decision
	if attr.Rules != nil {
		ctx := genericapirequest.WithUser(context.Background(), attr.User.info())
		ctx = genericapirequest.WithNamespace(ctx, attr.Namespace)
		err := rbacvalidation.ConfirmNoEscalation(ctx, resolver, attr.Rules)
		if d.Allowed = err == nil; err != nil {
			d.Error = err.Error()
		}
		return d
	}
	verdict, reason, err := a.Authorize(context.Background(), authorizer.AttributesRecord{
		User: attr.User.info(), Verb: attr.Verb, Namespace: attr.Namespace, APIGroup: attr.APIGroup, APIVersion: attr.APIVersion,
		Resource: attr.Resource, Subresource: attr.Subresource, Name: attr.Name, ResourceRequest: attr.Path == "", Path: attr.Path,
	})
	d.Allowed, d.Reason = verdict == authorizer.DecisionAllow, reason
	if err != nil {
		d.Error = err.Error()
	}
	return d
}
