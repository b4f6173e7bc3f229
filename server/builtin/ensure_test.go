package builtin

import (
	"net/netip"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/handlers"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
	"espalier.dev/server/builtin/bootstrap"
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
		obj.SetManagedFields(nil) // without the part of the status
		types.Default(obj)
		empty, err := types.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		sent := obj.DeepCopyObject()
		sent.GetObjectKind().SetGroupVersionKind(gvk)
		live := empty.DeepCopyObject()
		live.GetObjectKind().SetGroupVersionKind(gvk)
		want := scope.FieldManager.UpdateNoErrors(live, sent, "kube-apiserver").(kind.Object).GetManagedFields()
		if err := bootstrap.SetManager(bootstrap.Manager, obj, empty.(kind.Object), gvk.GroupVersion().String(), rules.Main.Reset); err != nil {
			t.Fatal(err)
		}
		got := obj.GetManagedFields()
		if len(want) != 1 || len(got) != 1 {
			t.Fatalf("%T: %v instead of %v", obj, got, want)
		}
		if g, w := string(got[0].FieldsV1.Raw), string(want[0].FieldsV1.Raw); g != w {
			t.Errorf("%T %s:\n got %s\nwant %s", obj, obj.GetName(), g, w)
		}
		got[0].FieldsV1, want[0].FieldsV1, got[0].Time, want[0].Time = nil, nil, nil, nil
		if got[0] != want[0] {
			t.Errorf("%T %s:\n got %+v\nwant %+v", obj, obj.GetName(), got[0], want[0])
		}
	}
}
