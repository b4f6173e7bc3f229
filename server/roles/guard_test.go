package roles_test

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/server/roles"
)

// memory is a storage that only remembers the last object. An update begins with old.
type memory struct {
	rest.StandardStorage
	old, written runtime.Object
}

func (m *memory) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	m.written = obj
	return obj, nil
}

func (m *memory) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, m.old)
	if err == nil {
		m.written = obj
	}
	return obj, false, err
}

func TestGuard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(
		clusterRole("getter", resourceRule("get", "core", "pods", "")), clusterRole("everything", resourceRule("*", "*", "*", ""), pathRule("*", "*")),
		role("ns", "getter", resourceRule("get", "core", "pods", "")), clusterRole("lister", resourceRule("list", "core", "pods", "")),
		clusterRole("escalates", resourceRule("escalate", rbacv1.GroupName, "roles", "")),
		clusterRole("binds", resourceRule("bind", rbacv1.GroupName, "clusterroles", "lister")),
		clusterBinding("a", "getter", userSubject("getter")), clusterBinding("b", "everything", userSubject("root")),
		roleBinding("ns", "c", "ClusterRole", "escalates", userSubject("escalates")),
		roleBinding("ns", "d", "ClusterRole", "binds", userSubject("binds")),
	)
	guard := roles.NewGuard(w.authorizer, w.authorizer, roles.Parameters{})
	get, list := resourceRule("get", "core", "pods", ""), resourceRule("list", "core", "pods", "")
	aggregated := clusterRole("new")
	aggregated.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}
	owned := role("ns", "new", list)
	owned.OwnerReferences = []metav1.OwnerReference{{Name: "x"}}
	owned.Finalizers = []string{"y"}
	labelled := role("ns", "new", list)
	labelled.Labels = map[string]string{"x": "y"}
	type object = interface {
		runtime.Object
		metav1.Object
	}
	for _, test := range []struct {
		who      string
		resource string
		obj, old object
		err      string // a part of the message, or empty if it succeeds
	}{
		{"getter", "roles", role("ns", "new", get), nil, ""},
		{"getter", "roles", role("ns", "new", get, list), nil, `roles.rbac.authorization.k8s.io "new" is forbidden: user "getter" (groups=[]) is attempting to grant RBAC permissions not currently held:` + "\n" + `{APIGroups:[""], Resources:["pods"], Verbs:["list"]}`},
		{"getter", "clusterroles", clusterRole("new", get), nil, ""},
		{"getter", "clusterroles", clusterRole("new", list), nil, `clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "getter"`},
		{"getter", "roles", role("ns", "new", get), role("ns", "new", get, list), ""},
		{"getter", "roles", role("ns", "new", list), role("ns", "new", get), "is attempting to grant"},
		{"getter", "roles", owned, role("ns", "new", list), ""},
		{"getter", "roles", labelled, role("ns", "new", list), "is attempting to grant"},
		{"masters", "roles", role("ns", "new", get, list), nil, ""},
		{"masters", "clusterrolebindings", clusterBinding("new", "everything"), nil, ""},
		{"masters", "clusterrolebindings", clusterBinding("new", "missing"), nil, ""},
		{"escalates", "roles", role("ns", "new", list), nil, ""},
		{"escalates", "roles", role("ns", "new", list), role("ns", "new"), ""},
		{"escalates", "roles", role("other", "new", list), nil, "is attempting to grant"},
		{"escalates", "clusterroles", clusterRole("new", list), nil, "is attempting to grant"},
		{"getter", "clusterroles", aggregated, nil, `clusterroles.rbac.authorization.k8s.io "new" is forbidden: must have cluster-admin privileges to use the aggregationRule`},
		{"getter", "clusterroles", clusterRole("new"), aggregated, "must have cluster-admin privileges"},
		{"root", "clusterroles", aggregated, nil, ""},
		{"getter", "rolebindings", roleBinding("ns", "new", "Role", "getter"), nil, ""},
		{"getter", "rolebindings", roleBinding("ns", "new", "ClusterRole", "getter"), nil, ""},
		{"getter", "rolebindings", roleBinding("ns", "new", "ClusterRole", "lister"), nil, `rolebindings.rbac.authorization.k8s.io "new" is forbidden: user "getter"`},
		{"getter", "rolebindings", roleBinding("ns", "new", "ClusterRole", "missing"), nil, `clusterroles.rbac.authorization.k8s.io "missing" not found`},
		{"getter", "rolebindings", roleBinding("other", "new", "Role", "getter"), nil, `roles.rbac.authorization.k8s.io "getter" not found`},
		{"getter", "rolebindings", roleBinding("ns", "new", "ClusterRole", "lister", userSubject("x")), roleBinding("ns", "new", "ClusterRole", "lister"), "is attempting to grant"},
		{"getter", "clusterrolebindings", clusterBinding("new", "getter"), nil, ""},
		{"getter", "clusterrolebindings", clusterBinding("new", "lister"), nil, `clusterrolebindings.rbac.authorization.k8s.io "new" is forbidden: user "getter"`},
		{"binds", "rolebindings", roleBinding("ns", "new", "ClusterRole", "lister"), nil, ""},
		{"binds", "rolebindings", roleBinding("ns", "new", "ClusterRole", "getter"), nil, "is attempting to grant"},
		{"binds", "rolebindings", roleBinding("other", "new", "ClusterRole", "lister"), nil, "is attempting to grant"},
		{"binds", "clusterrolebindings", clusterBinding("new", "lister"), nil, "is attempting to grant"},
		{"", "roles", role("ns", "new", get), nil, "no user on context"},
	} {
		gr := rbacv1.Resource(test.resource)
		ctx := apirequest.WithNamespace(context.Background(), test.obj.GetNamespace())
		ctx = apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{IsResourceRequest: true, APIGroup: gr.Group, Resource: gr.Resource, Namespace: test.obj.GetNamespace()})
		if test.who != "" {
			info := &user.DefaultInfo{Name: test.who}
			if test.who == "masters" {
				info.Groups = []string{"x", "system:masters"}
			}
			ctx = apirequest.WithUser(ctx, info)
		}
		m := &memory{old: test.old}
		guarded := guard.Wrap(gr, m)
		var err error
		if test.old == nil {
			_, err = guarded.Create(ctx, test.obj, nil, nil)
		} else {
			_, _, err = guarded.Update(ctx, "new", rest.DefaultUpdatedObjectInfo(test.obj), nil, nil, false, nil)
		}
		switch {
		case test.err == "" && (err != nil || m.written == nil):
			t.Errorf("%s writes %s %+v: %v", test.who, test.resource, test.obj, err)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || m.written != nil):
			t.Errorf("%s writes %s %+v: %v", test.who, test.resource, test.obj, err)
		case test.err != "" && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
			t.Errorf("%s writes %s: %#v", test.who, test.resource, err)
		}
	}
	for _, gr := range []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"} {
		m := &memory{}
		if guard.Wrap(rbacv1.Resource(gr), m) == rest.StandardStorage(m) {
			t.Errorf("%s are not guarded", gr)
		}
	}
	m := &memory{}
	if pods := rbacv1.Resource("pods"); guard.Wrap(pods, m) != rest.StandardStorage(m) {
		t.Error("other resources are guarded")
	}
}
