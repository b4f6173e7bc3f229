package builtin

import (
	"net/netip"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
	"espalier.dev/server/builtin/bootstrap"
	"espalier.dev/server/roles/defaults"
)

// TestFirstManagers compares the managed fields of the first objects with those that a request of
// kube-apiserver would get.
func TestFirstManagers(t *testing.T) {
	t.Parallel()
	h := New(Config{Reader: NewReader(nil, kinds.Rules(cel.New()), nil)})
	types, err := h.types()
	if err != nil {
		t.Fatal(err)
	}
	c := &bootstrap.Config{
		ServiceRange: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/112")},
		Address:      netip.MustParseAddr("192.0.2.1"), Port: 6443, Trust: map[string]string{"client-ca-file": "ca"},
	}
	all := append(append(bootstrap.Namespaces(), c.Objects()...), c.Endpoints()...)
	for _, obj := range all {
		obj.SetManagedFields(nil) // without the part of the status
		want, empty := requested(t, h, types, obj)
		gvk := want.GetObjectKind().GroupVersionKind()
		if err := bootstrap.SetManager(bootstrap.Manager, obj, empty, gvk.GroupVersion().String(), h.rules(h.stored[gvk]).Main.Reset); err != nil {
			t.Fatal(err)
		}
		sameManagers(t, obj, want.GetManagedFields())
	}
}

// TestRoleManagers does the same for the default roles and bindings.
func TestRoleManagers(t *testing.T) {
	t.Parallel()
	h := New(Config{Reader: NewReader(nil, kinds.Rules(cel.New()), nil)})
	types, err := h.types()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := defaults.New()
	if err != nil {
		t.Fatal(err)
	}
	owner := newOwner()
	aggregated := 0
	for _, obj := range policy.Objects() {
		sent := obj.DeepCopyObject().(kind.Object)
		role, ok := sent.(*rbacv1.ClusterRole)
		fills := ok && role.AggregationRule != nil
		if fills {
			role.Rules = nil // a controller adds them
		}
		wanted, empty := requested(t, h, types, sent)
		want := wanted.GetManagedFields()
		if fills {
			aggregated++
			want = append(want, metav1.ManagedFieldsEntry{Manager: "clusterrole-aggregation-controller", Operation: "Apply", FieldsType: "FieldsV1",
				APIVersion: "rbac.authorization.k8s.io/v1", FieldsV1: metav1.NewFieldsV1(`{"f:rules":{}}`)})
		}
		if err := owner.own(obj, empty, "rbac.authorization.k8s.io/v1"); err != nil {
			t.Fatal(err)
		}
		sameManagers(t, obj, want)
	}
	if aggregated == 0 || len(owner.fields) > 20 {
		t.Errorf("%d aggregated roles, %d sets of fields", aggregated, len(owner.fields))
	}
}

// requested returns an object as a request of kube-apiserver creates it, and an empty one.
func requested(t *testing.T, h *Handler, types *kinds.Scheme, obj kind.Object) (created, none kind.Object) {
	t.Helper()
	gvks, _, err := types.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	gvk := gvks[0]
	rules := h.rules(h.stored[gvk])
	scope, err := h.managed(handlers.RequestScope{
		UnsafeConvertor: &kinds.Converter{Scheme: types}, Defaulter: types, Creater: types.Scheme, Kind: gvk, HubGroupVersion: gvk.GroupVersion(),
	}, "", &strategy{resource: h.stored[gvk], rules: &rules, write: &rules.Main})
	if err != nil {
		t.Fatal(err)
	}
	types.Default(obj)
	empty, err := types.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	sent := obj.DeepCopyObject()
	sent.GetObjectKind().SetGroupVersionKind(gvk)
	live := empty.DeepCopyObject()
	live.GetObjectKind().SetGroupVersionKind(gvk)
	return scope.FieldManager.UpdateNoErrors(live, sent, "kube-apiserver").(kind.Object), empty.(kind.Object)
}

// sameManagers compares the managed fields of an object with others, apart from the time.
func sameManagers(t *testing.T, obj kind.Object, want []metav1.ManagedFieldsEntry) {
	t.Helper()
	got := slices.Clone(obj.GetManagedFields())
	if len(want) != len(got) || len(got) == 0 {
		t.Fatalf("%T: %v instead of %v", obj, got, want)
	}
	for i := range got {
		if g, w := string(got[i].FieldsV1.Raw), string(want[i].FieldsV1.Raw); g != w {
			t.Errorf("%T %s:\n got %s\nwant %s", obj, obj.GetName(), g, w)
		}
		if got[i].Time == nil {
			t.Errorf("%T %s: no time", obj, obj.GetName())
		}
		got[i].FieldsV1, want[i].FieldsV1, got[i].Time, want[i].Time = nil, nil, nil, nil
		if got[i] != want[i] {
			t.Errorf("%T %s:\n got %+v\nwant %+v", obj, obj.GetName(), got[i], want[i])
		}
	}
}
