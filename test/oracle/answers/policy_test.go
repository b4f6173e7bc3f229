package answers

import (
	"encoding/json"
	"reflect"
	"testing"

	"espalier.dev/server/roles/defaults"
	"espalier.dev/test/oracle/builtin"
)

// objectName identifies a role or binding.
func objectName(tree map[string]any) string {
	metadata, _ := tree["metadata"].(map[string]any)
	return text([]any{tree["kind"], metadata["namespace"], metadata["name"]})
}

// TestPolicy compares the roles and bindings that exist from the start with those of Kubernetes
// 1.36. There, aggregated cluster roles get their rules later.
func TestPolicy(t *testing.T) {
	answer, err := builtin.Open(t).Ask(&builtin.Request{Op: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	rules := func(tree map[string]any) string {
		for key, value := range tree {
			if value == nil {
				delete(tree, key)
			}
		}
		if tree["aggregationRule"] != nil {
			delete(tree, "rules")
		}
		return text(tree)
	}
	for _, data := range answer.Objects {
		var tree map[string]any
		if err := json.Unmarshal(data, &tree); err != nil {
			t.Fatal(err)
		}
		want[objectName(tree)] = rules(tree)
	}
	p, err := defaults.New()
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 130 {
		t.Errorf("the reference has %d objects", len(want))
	}
	for _, obj := range p.Objects() {
		var tree map[string]any
		if err := json.Unmarshal([]byte(text(obj)), &tree); err != nil {
			t.Fatal(err)
		}
		tree["apiVersion"] = "rbac.authorization.k8s.io/v1"
		tree["kind"] = reflect.TypeOf(obj).Elem().Name()
		name := objectName(tree)
		if got := rules(tree); got != want[name] {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}
