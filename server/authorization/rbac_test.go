package authorization_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"espalier.dev/server/servertest"
)

// TestRBAC checks that a binding counts for the next request, and that users cannot grant more
// than they have.
func TestRBAC(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Authorization.Modes = []string{"RBAC"}
	s := servertest.Start(t, o)
	ctx := t.Context()
	admin := servertest.Clientset(t, s, nil, runtime.ContentTypeProtobuf).RbacV1()
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	subject := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	configMaps := rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	secrets := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(c rbacclient.RbacV1Interface, obj metav1.Object) (err error) {
		switch o := obj.(type) {
		case *rbacv1.Role:
			_, err = c.Roles("default").Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			_, err = c.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = c.RoleBindings("default").Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = c.ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	}
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("reads-maps"), Rules: []rbacv1.PolicyRule{configMaps}}))
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("reads-secrets"), Rules: []rbacv1.PolicyRule{secrets}}))
	reader := servertest.Clientset(t, s, servertest.User(t, s, "reader"), runtime.ContentTypeProtobuf)
	reads := func() error {
		_, err := reader.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	}
	for i := range 6 {
		if err := reads(); !apierrors.IsForbidden(err) {
			t.Fatalf("round %d: %v", i, err)
		}
		switch i % 3 {
		case 0:
			must(create(admin, &rbacv1.ClusterRoleBinding{ObjectMeta: named("b"), RoleRef: ref("ClusterRole", "reads-maps"), Subjects: subject("reader")}))
		case 1:
			must(create(admin, &rbacv1.RoleBinding{ObjectMeta: named("b"), RoleRef: ref("ClusterRole", "reads-maps"), Subjects: subject("reader")}))
		case 2:
			must(create(admin, &rbacv1.RoleBinding{ObjectMeta: named("b"), RoleRef: ref("ClusterRole", "reads-maps"), Subjects: subject("other")}))
			_, err := admin.RoleBindings("default").Patch(ctx, "b", types.JSONPatchType, []byte(`[{"op":"replace","path":"/subjects/0/name","value":"reader"}]`), metav1.PatchOptions{})
			must(err)
		}
		if err := reads(); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		switch i % 3 {
		case 0:
			must(admin.ClusterRoleBindings().Delete(ctx, "b", metav1.DeleteOptions{}))
		case 1:
			must(admin.RoleBindings("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		case 2:
			must(admin.RoleBindings("default").Delete(ctx, "b", metav1.DeleteOptions{}))
		}
	}

	// The user may write roles and bindings, and read config maps.
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("writes-roles"), Rules: []rbacv1.PolicyRule{
		configMaps, {Verbs: []string{"create", "update", "patch", "get"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"*"}},
	}}))
	must(create(admin, &rbacv1.ClusterRoleBinding{ObjectMeta: named("writer"), RoleRef: ref("ClusterRole", "writes-roles"), Subjects: subject("writer")}))
	writer := servertest.Clientset(t, s, servertest.User(t, s, "writer"), runtime.ContentTypeJSON).RbacV1()
	const held = `user "writer" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	const missing = `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`
	refused := func(err error, want string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	must(create(writer, &rbacv1.Role{ObjectMeta: named("mine"), Rules: []rbacv1.PolicyRule{configMaps}}))
	must(create(writer, &rbacv1.RoleBinding{ObjectMeta: named("mine"), RoleRef: ref("Role", "mine")}))
	must(create(writer, &rbacv1.ClusterRoleBinding{ObjectMeta: named("mine"), RoleRef: ref("ClusterRole", "reads-maps")}))
	refused(create(writer, &rbacv1.Role{ObjectMeta: named("more"), Rules: []rbacv1.PolicyRule{configMaps, secrets}}), `roles.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
	refused(create(writer, &rbacv1.RoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}), `rolebindings.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
	refused(create(writer, &rbacv1.ClusterRoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}), `clusterrolebindings.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
	// All ways to change a role that exists, and to create one by an update.
	mine := &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: named("mine"), Rules: []rbacv1.PolicyRule{secrets}}
	_, err := writer.Roles("default").Update(ctx, mine, metav1.UpdateOptions{})
	refused(err, `roles.rbac.authorization.k8s.io "mine" is forbidden: `+held+missing)
	other := mine.DeepCopy()
	other.Name = "other"
	_, err = writer.Roles("default").Update(ctx, other, metav1.UpdateOptions{})
	refused(err, `roles.rbac.authorization.k8s.io "other" is forbidden: `+held+missing)
	for media, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"replace","path":"/rules/0/resources/0","value":"secrets"},{"op":"replace","path":"/rules/0/verbs","value":["get"]}]`,
		types.MergePatchType:          `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
		types.StrategicMergePatchType: `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
		types.ApplyPatchType:          `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"mine"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
	} {
		force := true
		options := metav1.PatchOptions{}
		if media == types.ApplyPatchType {
			options = metav1.PatchOptions{FieldManager: "m", Force: &force}
		}
		_, err := writer.Roles("default").Patch(ctx, "mine", media, []byte(patch), options)
		refused(err, `roles.rbac.authorization.k8s.io "mine" is forbidden: `+held+missing)
	}
	if got, err := admin.Roles("default").Get(ctx, "mine", metav1.GetOptions{}); err != nil || !equality.Semantic.DeepEqual(got.Rules, []rbacv1.PolicyRule{configMaps}) {
		t.Errorf("the role has changed: %v %v", got, err)
	}

	// The verbs escalate and bind.
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("escalates"), Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"escalate"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}},
		{Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"reads-secrets"}},
	}}))
	must(create(admin, &rbacv1.RoleBinding{ObjectMeta: named("escalates"), RoleRef: ref("ClusterRole", "escalates"), Subjects: subject("writer")}))
	must(create(writer, &rbacv1.Role{ObjectMeta: named("more"), Rules: []rbacv1.PolicyRule{configMaps, secrets}}))
	must(create(writer, &rbacv1.RoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}))
	refused(create(writer, &rbacv1.ClusterRoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}), `clusterrolebindings.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
}
