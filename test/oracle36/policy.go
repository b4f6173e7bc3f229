package main

import (
	"encoding/json"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// policy returns the roles and bindings that a server has from the start.
func policy() (a answer, err error) {
	add := func(kind string, obj runtime.Object) {
		obj.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
		data, marshalErr := json.Marshal(obj)
		if marshalErr != nil {
			err = marshalErr
		}
		a.Objects = append(a.Objects, data)
	}
	for _, o := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		add("ClusterRole", &o)
	}
	for _, o := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		add("ClusterRoleBinding", &o)
	}
	for namespace, all := range bootstrappolicy.NamespaceRoles() {
		for _, o := range all {
			o.Namespace = namespace
			add("Role", &o)
		}
	}
	for namespace, all := range bootstrappolicy.NamespaceRoleBindings() {
		for _, o := range all {
			o.Namespace = namespace
			add("RoleBinding", &o)
		}
	}
	slices.SortStableFunc(a.Objects, func(x, y json.RawMessage) int { return strings.Compare(string(x), string(y)) })
	return a, err
}
