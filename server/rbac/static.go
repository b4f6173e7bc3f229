package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/store"
)

// Static returns an Authorizer of given roles and bindings, which never change.
func Static(list ...runtime.Object) (*Authorizer, error) {
	c := (*index)(nil).change()
	for _, obj := range list {
		switch o := obj.(type) {
		case *rbacv1.Role:
			c.setRole(roleKey(o.Namespace, o.Name), compileRole(o.Rules))
		case *rbacv1.ClusterRole:
			c.setRole(roleKey("", o.Name), compileRole(o.Rules))
		case *rbacv1.RoleBinding:
			c.setBinding("rolebindings/"+o.Namespace+"/"+o.Name, newBinding(o.Namespace, o.Name, o.RoleRef, o.Subjects))
		case *rbacv1.ClusterRoleBinding:
			c.setBinding("clusterrolebindings/"+o.Name, newBinding("", o.Name, o.RoleRef, o.Subjects))
		default:
			return nil, fmt.Errorf("%T is neither a role nor a binding", obj)
		}
	}
	a := &Authorizer{}
	a.index.Store(c.apply())
	a.watchers.Store(&[]*store.Watcher{}) // nothing is ever pending
	return a, nil
}
