package compliance

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

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

// TestQuery checks which CRDs and objects a list selects.
func TestQuery(t *testing.T) {
	t.Parallel()
	namespaced, cluster := plainDefinition(t, api.NamespaceScoped), plainDefinition(t, api.ClusterScoped)
	item := &unstructured.Unstructured{Object: map[string]any{"crd": "widgets.example.com"}}
	item.SetName("widgets.example.com:a")
	item.SetNamespace("n")
	item.SetLabels(map[string]string{"app": "w"})
	for _, test := range []struct {
		namespace, labels, fields    string
		namespaced, cluster, matches bool
	}{
		{"", "", "", true, true, true},
		{"n", "", "", true, false, true},
		{"m", "", "", true, false, false},
		{"", "app=w", "", true, true, true},
		{"", "app=v", "", true, true, false},
		{"", "", "crd=widgets.example.com", true, true, true},
		{"", "", "crd=others.example.com", false, false, false},
		{"", "", "crd!=widgets.example.com", true, true, false},
		{"", "", "metadata.name=widgets.example.com:a", true, true, true},
		{"", "", "metadata.name=widgets.example.com:b", true, true, false},
		{"", "", "metadata.name=others.example.com:a", false, false, false},
		{"", "", "metadata.name=widgets.example.com", false, false, false},
		{"", "", "metadata.namespace=n", true, true, true},
		{"", "", "metadata.namespace=m", true, true, false},
		{"n", "app=w", "crd=widgets.example.com", true, false, true},
		{"n", "app=v", "crd=widgets.example.com", true, false, false},
	} {
		q := query{namespace: test.namespace}
		var err error
		if test.labels != "" {
			if q.labels, err = labels.Parse(test.labels); err != nil {
				t.Fatal(err)
			}
		}
		if test.fields != "" {
			if q.fields, err = fields.ParseSelector(test.fields); err != nil {
				t.Fatal(err)
			}
		}
		if q.admits(namespaced) != test.namespaced || q.admits(cluster) != test.cluster || q.matches(item) != test.matches {
			t.Errorf("%+v: got %v, %v, %v", test, q.admits(namespaced), q.admits(cluster), q.matches(item))
		}
	}
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

// TestScanState checks what a scan knows and counts.
func TestScanState(t *testing.T) {
	t.Parallel()
	var none *result
	for r, want := range map[*result]bool{
		none: false, {}: false, {complete: true}: true, {complete: true, overflow: true}: false, {complete: true, err: errors.New("broken")}: false,
	} {
		if r.knows() != want {
			t.Errorf("%+v: knows is %v", r, !want)
		}
	}
	c := &scan{start: "c", cursor: "f", revision: 10}
	for _, test := range []struct {
		key      string
		revision int64
		want     bool
	}{
		{"b", 1, true}, {"b", 11, true}, {"c", 10, false}, {"c", 11, true}, {"e", 9, false}, {"e", 11, true}, {"f", 11, false}, {"g", 11, false},
	} {
		if got := c.counted(test.key, test.revision); got != test.want {
			t.Errorf("%s at %d: got %v", test.key, test.revision, got)
		}
	}
	if c.err = errors.New("broken"); c.counted("b", 11) {
		t.Error("a scan that has failed counts")
	}
	c = &scan{}
	bad := problems{KindSet: 1 << compliance.Invalid}
	for _, key := range []string{"a", "b", "a"} {
		c.keep(key, bad, 2)
	}
	if c.failing.Len() != 2 || c.overflow {
		t.Errorf("%d keys, overflow %v", c.failing.Len(), c.overflow)
	}
	if c.keep("a", problems{}, 2); c.failing.Len() != 1 {
		t.Errorf("%d keys", c.failing.Len())
	}
	c.keep("c", bad, 2)
	if c.keep("d", bad, 2); c.failing.Len() != 0 || !c.overflow {
		t.Errorf("%d keys, overflow %v", c.failing.Len(), c.overflow)
	}
	if c.keep("e", bad, 2); c.failing.Len() != 0 {
		t.Error("keys are kept after an overflow")
	}
	for p, want := range map[problems]bool{{}: false, bad: false, {KindSet: 1 << compliance.Unspecified}: true, {truncated: true}: true} {
		if p.mayHide() != want {
			t.Errorf("%v: may hide is %v", p, !want)
		}
	}
	a := &api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 1}}
	for b, want := range map[*api.CustomResourceDefinition]bool{
		a: true, {ObjectMeta: metav1.ObjectMeta{UID: "w", Generation: 1}}: false, {ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 2}}: false,
	} {
		if sameSpec(a, b) != want {
			t.Errorf("%v: same spec is %v", b.ObjectMeta, !want)
		}
	}
	if reason(compliance.OtherVersion) != "OtherVersion" || reason(compliance.Unspecified) != "Unspecified" {
		t.Error(reason(compliance.OtherVersion), reason(compliance.Unspecified))
	}
}
