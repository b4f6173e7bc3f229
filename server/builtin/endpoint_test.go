package builtin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
)

// TestManagedFields checks that the fields of all kinds that clients write can be managed, also of
// those that are only written below other objects.
func TestManagedFields(t *testing.T) {
	t.Parallel()
	h := New(Config{Reader: NewReader(nil, kinds.Rules(cel.New()), kinds.All())})
	types, err := h.types()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range kinds.All() {
		if r.CreateOnly {
			continue
		}
		for _, sub := range append([]kinds.Subresource{{Kind: r.GroupVersionKind()}}, r.Subresources...) {
			gvk := sub.Kind
			if gvk.Kind == "" || strings.HasSuffix(gvk.Kind, "Options") { // of the object itself, or without fields
				continue
			}
			scope, err := h.managed(handlers.RequestScope{
				UnsafeConvertor: &kinds.Converter{Scheme: types}, Defaulter: types, Creater: types.Scheme, Kind: gvk, HubGroupVersion: gvk.GroupVersion(),
			}, sub.Name, nil)
			if err != nil {
				t.Fatal(err)
			}
			create := func(name string) kind.Object {
				obj, err := types.New(gvk)
				if err != nil {
					t.Fatal(err)
				}
				obj.GetObjectKind().SetGroupVersionKind(gvk)
				named := obj.(kind.Object)
				named.SetName(name)
				named.SetLabels(map[string]string{"a": name})
				if b, ok := obj.(*corev1.Binding); ok {
					b.Target = corev1.ObjectReference{Kind: "Node", Name: name}
				}
				return named
			}
			got, err := scope.FieldManager.Update(create(""), create("x"), "test")
			if err != nil {
				t.Errorf("%s %s: %v", r.GroupVersionResource(), sub.Name, err)
				continue
			}
			fields := got.(metav1.Object).GetManagedFields()
			if len(fields) != 1 {
				t.Errorf("%s %s: %v", r.GroupVersionResource(), sub.Name, fields)
			} else if text := string(fields[0].FieldsV1.Raw); gvk.Kind == "Binding" && text != `{"f:metadata":{"f:labels":{"f:a":{}}},"f:target":{}}` {
				t.Errorf("a binding: %s", text)
			}
		}
	}
}
