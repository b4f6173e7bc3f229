package plugins_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"espalier.dev/server/plugins"
)

// hidden are attributes that fail the test when a plugin asks for an object.
type hidden struct {
	admission.Attributes
	t *testing.T
}

func (h hidden) GetObject() runtime.Object {
	h.t.Error("the plugin has asked for the object")
	return nil
}

func (h hidden) GetOldObject() runtime.Object {
	h.t.Error("the plugin has asked for the old object")
	return nil
}

// TestCustomResources checks that no plugin that is on by default asks for a custom resource: the server makes a copy for one that
// does. Those whose configurations are stored objects, and quotas, have packages of their own.
func TestCustomResources(t *testing.T) {
	t.Parallel()
	for _, p := range plugins.All() {
		if p.Optional || p.New == nil || p.Name == "ResourceQuota" {
			continue
		}
		plugin, err := p.New(plugins.Config{Objects: stored(decode(t, `{apiVersion: v1, kind: Namespace, metadata: {name: ns}}`)),
			Dynamic: func(string, []byte) (admission.Interface, error) { return admission.NewHandler(), nil }})
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
			for _, subresource := range []string{"", "status"} {
				t.Run(p.Name+" "+string(op)+" "+subresource, func(t *testing.T) {
					gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
					a := hidden{admission.NewAttributesRecord(nil, nil, gv.WithKind("Widget"), "ns", "a", gv.WithResource("widgets"), subresource, op, nil, false, &user.DefaultInfo{Name: "tester"}), t}
					if !plugin.Handles(op) {
						return
					}
					if m, ok := plugin.(admission.MutationInterface); ok {
						if err := m.Admit(t.Context(), a, nil); err != nil {
							t.Error(err)
						}
					}
					if v, ok := plugin.(admission.ValidationInterface); ok {
						if err := v.Validate(t.Context(), a, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
}
