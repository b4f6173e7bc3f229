package compliance

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
)

// plainDefinition returns a CRD of widgets.
func plainDefinition(t *testing.T, scope api.ResourceScope) *crd.Definition {
	t.Helper()
	d, err := crd.New(&api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", Generation: 3, UID: "u"},
		Spec: api.CustomResourceDefinitionSpec{Group: "example.com", Scope: scope, Names: api.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}}}, crd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCondition checks the condition of each result.
func TestCondition(t *testing.T) {
	t.Parallel()
	d := plainDefinition(t, api.ClusterScoped)
	const hint = "; kubectl get noncompliantobjects -A --field-selector crd=widgets.example.com lists them"
	failing := func(n, objects int64, kinds ...compliance.Kind) *result {
		r := &result{definition: d, complete: true}
		var set compliance.KindSet
		for _, k := range kinds {
			set |= 1 << k
		}
		r.counts.AddKinds(set, n)
		r.counts.AddKinds(0, objects-n)
		return r
	}
	for name, test := range map[string]struct {
		r       *result
		late    bool
		status  api.ConditionStatus
		reason  string
		message string
	}{
		"unfinished":      {&result{definition: d}, false, "", "", ""},
		"late":            {&result{definition: d}, true, api.ConditionUnknown, reasonInspecting, "the stored objects are being inspected"},
		"broken":          {&result{definition: d, err: errors.New("broken")}, false, api.ConditionUnknown, reasonCannot, "broken"},
		"broken and late": {&result{definition: d, err: errors.New("broken")}, true, api.ConditionUnknown, reasonCannot, "broken"},
		"none":            {failing(0, 0), true, api.ConditionTrue, reasonComply, "all stored objects comply"},
		"all":             {failing(0, 5), false, api.ConditionTrue, reasonComply, "all stored objects comply"},
		"one":             {failing(1, 1, compliance.Unspecified), false, api.ConditionFalse, reasonNot, "1 of 1 stored object does not comply: 1 with unspecified fields"},
		"one of two":      {failing(1, 2, compliance.Contradiction), false, api.ConditionFalse, reasonNot, "1 of 2 stored objects does not comply: 1 with values of the wrong type"},
		"several": {failing(2, 3, compliance.Unspecified, compliance.Invalid, compliance.Malformed, compliance.OtherVersion, compliance.Unreadable), false, api.ConditionFalse, reasonNot,
			"2 of 3 stored objects do not comply: 2 with unspecified fields, 2 with invalid values, 2 with malformed parts, 2 stored in another version, 2 that cannot be read"},
	} {
		got := condition(test.r, test.late)
		if test.reason == "" {
			if got != nil {
				t.Errorf("%s: got %v", name, got)
			}
			continue
		}
		message := test.message
		if test.reason == reasonNot {
			message += hint
		}
		if got == nil || got.Type != api.Compliant || got.Status != test.status || got.Reason != test.reason || got.Message != message || got.ObservedGeneration != 3 {
			t.Errorf("%s: got %v, want %s", name, got, message)
		}
		for change, is := range map[*api.CustomResourceDefinitionCondition]bool{
			{Type: got.Type, Status: got.Status, Reason: got.Reason, Message: got.Message, ObservedGeneration: 3}:       true,
			{Type: got.Type, Status: got.Status, Reason: got.Reason, Message: got.Message, ObservedGeneration: 4}:       false,
			{Type: got.Type, Status: got.Status, Reason: got.Reason, Message: got.Message + "x", ObservedGeneration: 3}: false,
			{Type: got.Type, Status: got.Status, Reason: got.Reason + "x", Message: got.Message, ObservedGeneration: 3}: false,
			{Type: got.Type, Status: got.Status + "x", Reason: got.Reason, Message: got.Message, ObservedGeneration: 3}: false,
			nil: false,
		} {
			if same(got, change) != is || same(change, got) != is {
				t.Errorf("%s: the same as %v: %v", name, change, !is)
			}
		}
	}
	if same(nil, nil) {
		t.Error("two missing conditions are the same")
	}
}
