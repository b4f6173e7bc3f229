package rules_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/rules"
)

func TestObjectMeta(t *testing.T) {
	t.Parallel()
	meta := &metav1.ObjectMeta{Name: "a", Namespace: "b", Finalizers: []string{"kubernetes", "orphan", "foregroundDeletion2", "example.com/x"}}
	unqualified := `metadata.finalizers[2]: Invalid value: "foregroundDeletion2": name is neither a standard finalizer name nor is it fully qualified`
	path := field.NewPath("metadata")
	kindtest.Errors(t, rules.ObjectMeta(meta, true, apivalidation.NameIsDNSLabel, path), unqualified)
	kindtest.Errors(t, rules.ObjectMetaUpdate(meta, meta, path),
		`metadata.resourceVersion: Invalid value: "": must be specified for an update`, unqualified)
	kindtest.Errors(t, rules.Finalizer("-", path),
		`metadata: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`metadata: Invalid value: "-": name is neither a standard finalizer name nor is it fully qualified`)
}

func TestInternalValues(t *testing.T) {
	t.Parallel()
	path := field.NewPath("f")
	kindtest.Errors(t, rules.Immutable(rbacv1.RoleRef{Kind: "Role"}, rbacv1.RoleRef{Kind: "ClusterRole"}, path),
		`f: Invalid value: {"APIGroup":"","Kind":"Role","Name":""}: field is immutable`)
	kindtest.Errors(t, rules.Immutable(corev1.ResourceList{"cpu": resource.MustParse("1")}, nil, path),
		`f: Invalid value: {"cpu":"1"}: field is immutable`)
	kindtest.Errors(t, rules.Immutable([]corev1.LocalObjectReference{{Name: "a"}}, nil, path),
		`f: Invalid value: [{"Name":"a"}]: field is immutable`)
	kindtest.Errors(t, rules.Immutable(corev1.PersistentVolumeSource{}.NFS, &corev1.NFSVolumeSource{}, path),
		`f: Invalid value: null: field is immutable`)
	kindtest.Errors(t, rules.Immutable("a", "b", path), `f: Invalid value: "a": field is immutable`)
	kindtest.Errors(t, rules.Immutable([]string{}, []string(nil), path))
}

func TestEnums(t *testing.T) {
	t.Parallel()
	path := field.NewPath("f")
	kindtest.Errors(t, rules.Enum("x", path, "a", "b"), `f: Unsupported value: "x": supported values: "a", "b"`)
	kindtest.Errors(t, rules.RequiredEnum("", path, "a"), `f: Required value`)
	kindtest.Errors(t, rules.RequiredEnum("a", path, "a"))
}
