package builtin

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind"
	"espalier.dev/server/builtin/bootstrap"
	"espalier.dev/server/roles/defaults"
)

// aggregationManager is the field manager of the rules of aggregated cluster roles, as in Kubernetes.
const aggregationManager = "clusterrole-aggregation-controller"

// owner sets the managed fields of default roles and bindings, as if kube-apiserver had created them, and its
// controller had filled in the rules of the aggregated ones. There are more than a hundred, and few
// different sets of fields, so each set is made once.
type owner struct {
	fields map[string][]metav1.ManagedFieldsEntry
}

func newOwner() *owner { return &owner{map[string][]metav1.ManagedFieldsEntry{}} }

// own sets the managed fields of a role or binding. empty is an object of the same kind without fields.
func (o *owner) own(obj defaults.Object, empty kind.Object, apiVersion string) error {
	shape := shapeOf(obj)
	key := fmt.Sprintf("%T %q %q %s", obj, slices.Sorted(maps.Keys(obj.GetLabels())), slices.Sorted(maps.Keys(obj.GetAnnotations())), shape)
	fields, ok := o.fields[key]
	if !ok {
		made := obj.DeepCopyObject().(kind.Object)
		role, isRole := made.(*rbacv1.ClusterRole)
		aggregated := isRole && role.AggregationRule != nil
		if aggregated {
			role.Rules = nil
		}
		if err := bootstrap.SetManager(bootstrap.Manager, made, empty, apiVersion, nil); err != nil {
			return err
		}
		if aggregated {
			bootstrap.AddManager(made, aggregationManager, metav1.ManagedFieldsOperationApply, apiVersion, `{"f:rules":{}}`)
		}
		fields = made.GetManagedFields()
		o.fields[key] = fields
	}
	obj.SetManagedFields(fields) // writes copy them
	return nil
}

// shapeOf returns which fields besides the metadata a role or binding has.
func shapeOf(obj defaults.Object) string {
	switch obj := obj.(type) {
	case *rbacv1.ClusterRole:
		return fmt.Sprint(obj.AggregationRule != nil, len(obj.Rules) > 0)
	case *rbacv1.Role:
		return fmt.Sprint(len(obj.Rules) > 0)
	case *rbacv1.ClusterRoleBinding:
		return fmt.Sprint(len(obj.Subjects) > 0)
	case *rbacv1.RoleBinding:
		return fmt.Sprint(len(obj.Subjects) > 0)
	}
	return ""
}
