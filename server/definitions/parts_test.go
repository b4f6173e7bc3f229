package definitions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/fields"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// definitionOf returns a CRD of widgets.
func definitionOf() *api.CustomResourceDefinition {
	return &api.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", UID: "u", Generation: 2},
		Spec: api.CustomResourceDefinitionSpec{Group: "example.com", Scope: api.NamespaceScoped,
			Names:    api.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}},
	}
}

// TestIsDeleting checks which CRDs the server deletes, and which finalizers are left.
func TestIsDeleting(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for _, test := range []struct {
		deleted    *metav1.Time
		finalizers []string
		want       bool
		others     int
	}{
		{nil, nil, false, 0},
		{nil, []string{api.CustomResourceCleanupFinalizer}, false, 0},
		{&now, nil, true, 0},
		{&now, []string{api.CustomResourceCleanupFinalizer}, true, 0},
		{&now, []string{"a", api.CustomResourceCleanupFinalizer}, true, 1},
		{&now, []string{"a", "b"}, false, 2},
	} {
		c := definitionOf()
		c.DeletionTimestamp, c.Finalizers = test.deleted, test.finalizers
		before := slices.Clone(test.finalizers)
		if got := isDeleting(c); got != test.want {
			t.Errorf("%v %v: got %v", test.deleted, test.finalizers, got)
		}
		if got := others(c.Finalizers); len(got) != test.others || slices.Contains(got, api.CustomResourceCleanupFinalizer) || !slices.Equal(c.Finalizers, before) {
			t.Errorf("%v: others are %v", c.Finalizers, got)
		}
	}
}

// TestSetTerminating checks that a condition is replaced, and that its time is that of its last
// change.
func TestSetTerminating(t *testing.T) {
	t.Parallel()
	c := definitionOf()
	c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue}}
	if !established(c) {
		t.Error("not established")
	}
	setTerminating(c, api.ConditionTrue, "R", "m")
	if len(c.Status.Conditions) != 2 || c.Status.Conditions[1].Reason != "R" || c.Status.Conditions[1].Message != "m" || c.Status.Conditions[1].ObservedGeneration != 2 {
		t.Fatalf("got %v", c.Status.Conditions)
	}
	before := metav1.NewTime(time.Unix(1000, 0))
	c.Status.Conditions[1].LastTransitionTime = before
	setTerminating(c, api.ConditionTrue, "S", "n")
	if got := c.Status.Conditions[1]; len(c.Status.Conditions) != 2 || got.Reason != "S" || !got.LastTransitionTime.Equal(&before) {
		t.Errorf("got %v", c.Status.Conditions)
	}
	setTerminating(c, api.ConditionFalse, "S", "n")
	if got := c.Status.Conditions[1]; len(c.Status.Conditions) != 2 || got.Status != api.ConditionFalse || got.LastTransitionTime.Equal(&before) {
		t.Errorf("got %v", c.Status.Conditions)
	}
	c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionFalse}, {Type: api.NamesAccepted, Status: api.ConditionTrue}}
	if established(c) {
		t.Error("established")
	}
}

// TestSameButRevision checks which changes of a CRD affect how it is served.
func TestSameButRevision(t *testing.T) {
	t.Parallel()
	now, later := metav1.Now(), metav1.NewTime(time.Now().Add(time.Hour))
	for name, test := range map[string]struct {
		change func(*api.CustomResourceDefinition)
		same   bool
	}{
		"nothing":    {func(*api.CustomResourceDefinition) {}, true},
		"revision":   {func(c *api.CustomResourceDefinition) { c.ResourceVersion = "9" }, true},
		"label":      {func(c *api.CustomResourceDefinition) { c.Labels = map[string]string{"a": "b"} }, true},
		"uid":        {func(c *api.CustomResourceDefinition) { c.UID = "w" }, false},
		"generation": {func(c *api.CustomResourceDefinition) { c.Generation++ }, false},
		"deletion":   {func(c *api.CustomResourceDefinition) { c.DeletionTimestamp = &now }, false},
		"finalizers": {func(c *api.CustomResourceDefinition) { c.Finalizers = []string{"a"} }, false},
		"annotation": {func(c *api.CustomResourceDefinition) { c.Annotations = map[string]string{"a": "b"} }, false},
		"status":     {func(c *api.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v1"} }, false},
		"spec":       {func(c *api.CustomResourceDefinition) { c.Spec.Names.Kind = "Gadget" }, false},
	} {
		a, b := definitionOf(), definitionOf()
		test.change(b)
		if sameButRevision(a, b) != test.same || sameButRevision(b, a) != test.same || !sameButRevision(b, b) {
			t.Errorf("%s: same is %v", name, sameButRevision(a, b))
		}
	}
	a, b := definitionOf(), definitionOf()
	a.DeletionTimestamp, b.DeletionTimestamp = &now, &later
	if !sameButRevision(a, b) {
		t.Error("the time of a deletion affects how a CRD is served")
	}
}

// TestMarkDeleted checks that a stored CRD is marked, and keeps what cannot be read.
func TestMarkDeleted(t *testing.T) {
	t.Parallel()
	got, err := markDeleted([]byte(`{"kind":"K","metadata":{"name":"a","generation":3},"spec":{"odd":5}}`))
	if err != nil {
		t.Fatal(err)
	}
	var obj struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Spec     map[string]int
	}
	if err := json.Unmarshal(got, &obj); err != nil || obj.Kind != "K" || obj.Metadata.Name != "a" || obj.Metadata.Generation != 3 || obj.Metadata.DeletionTimestamp == nil ||
		!slices.Equal(obj.Metadata.Finalizers, []string{api.CustomResourceCleanupFinalizer}) || obj.Spec["odd"] != 5 {
		t.Errorf("got %s, %v", got, err)
	}
	for _, text := range []string{"", "[]", "{}", `{"metadata":[]}`, `{"metadata":{}`} {
		if got, err := markDeleted([]byte(text)); err == nil {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// kindsFor returns the versions of the CRD resource.
func kindsFor(t *testing.T, sem schema.Semantics) (v1, beta *kind) {
	t.Helper()
	d, err := definition(sem)
	if err != nil {
		t.Fatal(err)
	}
	k := &kinds{options: crd.Options{Semantics: sem}, warnings: func(context.Context, *api.CustomResourceDefinition) []string { return nil }}
	made := map[string]*kind{}
	for _, v := range d.Versions() {
		one, err := k.Kind(v)
		if err != nil {
			t.Fatal(err)
		}
		made[v.Name()] = one.(*kind)
	}
	return made["v1"], made["v1beta1"]
}

// TestConvert checks the conversions between the versions of CRDs, and of trees.
func TestConvert(t *testing.T) {
	t.Parallel()
	v1, beta := kindsFor(t, schema.KEP)
	toV1, toBeta := runtimeschema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}, runtimeschema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1beta1"}
	c := definitionOf()
	if got, err := v1.Convert(c, toV1); err != nil || got != runtime.Object(c) {
		t.Errorf("got %v, %v", got, err)
	}
	old, err := v1.Convert(c, toBeta)
	if b, ok := old.(*v1beta1.CustomResourceDefinition); err != nil || !ok || b.Spec.Version != "v1" {
		t.Fatalf("got %v, %v", old, err)
	}
	if got, err := v1.Convert(old, toBeta); err != nil || got != old {
		t.Errorf("got %v, %v", got, err)
	}
	back, err := v1.Convert(old, toV1)
	if got, ok := back.(*api.CustomResourceDefinition); err != nil || !ok || len(got.Spec.Versions) != 1 || got.Spec.Versions[0].Name != "v1" {
		t.Errorf("got %v, %v", back, err)
	}
	for _, version := range []runtimeschema.GroupVersion{toV1, toBeta} {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v1.Convert(&unstructured.Unstructured{Object: tree}, version)
		if err != nil || got.GetObjectKind().GroupVersionKind().GroupVersion() != version {
			t.Errorf("%s: got %v, %v", version, got, err)
		}
	}
	if got, err := v1.Convert(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "a/v1", "kind": "K"}}, toV1); err == nil {
		t.Errorf("got %v", got)
	}
	if got, err := v1.Convert(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "a/v1", "kind": "K", "a": math.Inf(1)}}, toV1); err == nil || !strings.Contains(err.Error(), "unsupported value") {
		t.Errorf("got %v, %v", got, err)
	}
	status := &metav1.Status{}
	if got, err := v1.Convert(status, toV1); err != nil || got != runtime.Object(status) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := hub(status); err == nil {
		t.Error("a status is a CRD")
	}
	for _, k := range []*kind{v1, beta} {
		for _, objects := range [][2]runtime.Object{{status, nil}, {c, status}, {status, c}} {
			if errs, _ := k.Validate(t.Context(), objects[0], objects[1]); len(errs) != 1 || errs[0].Type != field.ErrorTypeInternal {
				t.Errorf("got %v", errs)
			}
			if errs, _ := k.ValidateStatus(t.Context(), objects[0], objects[1]); objects[1] != nil && (len(errs) != 1 || errs[0].Type != field.ErrorTypeInternal) {
				t.Errorf("got %v", errs)
			}
		}
		if err := k.EncodeStored(status, nil, &bytes.Buffer{}); err == nil {
			t.Error("a status is stored")
		}
		broken := widgetsWith(func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].Schema.OpenAPIV3Schema.Default = &api.JSON{Raw: []byte("{")}
		})
		if err := k.EncodeStored(broken, nil, &bytes.Buffer{}); err == nil {
			t.Error("a default that is not JSON is stored")
		}
		if errs, _ := k.ValidateStatus(t.Context(), represent(definitionOf(), k.Name()), represent(definitionOf(), k.Name())); len(errs) == 0 {
			t.Error("a status without stored versions is valid")
		}
	}
	for _, k := range []*kind{v1, beta} {
		if got := k.New().GetObjectKind().GroupVersionKind(); got.Version != k.Name() || got.Kind != "CustomResourceDefinition" {
			t.Errorf("%s: new %v", k.Name(), got)
		}
		_, old := k.New().(*v1beta1.CustomResourceDefinition)
		_, oldList := k.NewList().(*v1beta1.CustomResourceDefinitionList)
		if old != (k == beta) || oldList != (k == beta) {
			t.Errorf("%s: new %T and %T", k.Name(), k.New(), k.NewList())
		}
		if got := k.NewList().GetObjectKind().GroupVersionKind(); got.Version != k.Name() || got.Kind != "CustomResourceDefinitionList" {
			t.Errorf("%s: new list %v", k.Name(), got)
		}
	}
}

// TestPrepareStatus checks that a write of the status changes nothing else but the managed fields.
func TestPrepareStatus(t *testing.T) {
	t.Parallel()
	v1, beta := kindsFor(t, schema.KEP)
	for _, k := range []*kind{v1, beta} {
		before := definitionOf()
		before.ResourceVersion = "5"
		next := before.DeepCopy()
		next.ResourceVersion, next.Labels, next.Spec.Names.Kind = "6", map[string]string{"a": "b"}, "Gadget"
		next.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		next.Status.StoredVersions = []string{"v1"}
		obj := represent(next, k.Name())
		if err := k.PrepareStatus(t.Context(), obj, represent(before.DeepCopy(), k.Name())); err != nil {
			t.Fatal(err)
		}
		got, err := hub(obj)
		if err != nil || got.ResourceVersion != "6" || got.Labels != nil || got.Spec.Names.Kind != "Widget" || len(got.ManagedFields) != 1 || !slices.Equal(got.Status.StoredVersions, []string{"v1"}) {
			t.Errorf("%s: got %v, %v", k.Name(), got, err)
		}
		if err := k.PrepareStatus(t.Context(), obj, &metav1.Status{}); err == nil {
			t.Error("prepared with a status")
		}
		if err := k.PrepareStatus(t.Context(), &metav1.Status{}, represent(before.DeepCopy(), k.Name())); err == nil {
			t.Error("a status is prepared")
		}
		if err := k.Prepare(t.Context(), obj, &metav1.Status{}); err == nil {
			t.Error("prepared with a status")
		}
		if err := k.Prepare(t.Context(), &metav1.Status{}, nil); err == nil {
			t.Error("a status is prepared")
		}
	}
}

// TestDropUnknown checks that applied fields that do not exist are dropped, and reported if asked, or are
// errors in kube-apiserver's semantics.
func TestDropUnknown(t *testing.T) {
	t.Parallel()
	const known = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"a"},"spec":{"group":"g"}}`
	const unknown = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"group":"g","bogus":1,"group":"g"}}`
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		v1, _ := kindsFor(t, sem)
		for _, report := range []bool{false, true} {
			text, complaints, err := v1.CheckApplied([]byte(known), report)
			if err != nil || len(complaints) != 0 || string(text) != known {
				t.Errorf("%v: %s, %v, %v", sem, text, complaints, err)
			}
			text, complaints, err = v1.CheckApplied([]byte(unknown), report)
			if sem == schema.Kubernetes {
				// They do not fit, as in kube-apiserver.
				if misfit := (*fields.MisfitError)(nil); !errors.As(err, &misfit) || misfit.Error() != ".spec.bogus: field not declared in schema" {
					t.Errorf("got %v", err)
				}
				continue
			}
			var got, want any
			if err != nil || json.Unmarshal(text, &got) != nil || json.Unmarshal([]byte(known), &want) != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v: %s, %v", sem, text, err)
			}
			if report != (len(complaints) == 2) {
				t.Errorf("%v: report %v: %v", sem, report, complaints)
			}
		}
		if _, _, err := v1.CheckApplied([]byte(`{`), false); err == nil {
			t.Error("a text that ends too early is applied")
		}
	}
}

// TestMetadataOfApplied checks that field management reports malformed metadata in kube-apiserver's
// semantics.
func TestMetadataOfApplied(t *testing.T) {
	t.Parallel()
	const text = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"labels":"x"}}`
	for sem, rejected := range map[schema.Semantics]bool{schema.KEP: true, schema.Kubernetes: false} {
		v1, _ := kindsFor(t, sem)
		if _, _, err := v1.CheckApplied([]byte(text), true); (err != nil) != rejected {
			t.Errorf("%v: %v", sem, err)
		}
	}
}

// TestRepeatedIdentity checks that the last of several apiVersions and kinds counts.
func TestRepeatedIdentity(t *testing.T) {
	t.Parallel()
	const text = `{"kind":"x","apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.g","bogus":1},"spec":{"group":"g"}}`
	v1, _ := kindsFor(t, schema.Kubernetes)
	obj, complaints, err := v1.Decode([]byte(text), schema.DecodeOptions{Report: true})
	if err != nil || obj.(*api.CustomResourceDefinition).Spec.Group != "g" || fmt.Sprint(complaints) != `[duplicate field "kind" unknown field "metadata.bogus"]` {
		t.Errorf("got %v, %v, %v", obj, complaints, err)
	}
	if _, _, err := v1.Decode([]byte(`{"kind":"x","apiVersion":"apiextensions.k8s.io/v1"}`), schema.DecodeOptions{}); err == nil {
		t.Error("another kind is decoded")
	}
}

// TestDecode checks what is reported about a CRD that a client sends.
func TestDecode(t *testing.T) {
	t.Parallel()
	const text = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.g"},"spec":{"group":"g","bogus":1,"names":{"plural":"a","kind":"A"},"scope":"Cluster","versions":[{"name":"v1","served":true,"storage":true}]}}`
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		v1, _ := kindsFor(t, sem)
		for _, report := range []bool{false, true} {
			obj, complaints, err := v1.Decode([]byte(text), schema.DecodeOptions{Report: report})
			if c, ok := obj.(*api.CustomResourceDefinition); err != nil || !ok || c.Spec.Names.Kind != "A" {
				t.Errorf("%v: got %v, %v", sem, obj, err)
			}
			if report != (len(complaints) == 1) || report && !strings.Contains(complaints[0].Error(), `unknown field "spec.bogus"`) {
				t.Errorf("%v: report %v: %v", sem, report, complaints)
			}
			for _, broken := range []string{"{", strings.Replace(text, `"names":{`, `"names":5,"x":{`, 1)} {
				if obj, _, err := v1.Decode([]byte(broken), schema.DecodeOptions{Report: report}); err == nil || obj != nil {
					t.Errorf("%v: %s: got %v", sem, broken, obj)
				}
			}
		}
	}
}

// TestStoredMetadata checks that a CRD whose spec cannot be decoded has its metadata, and that a
// value without a name is an error.
func TestStoredMetadata(t *testing.T) {
	t.Parallel()
	v1, _ := kindsFor(t, schema.KEP)
	got, err := v1.DecodeStored([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":5}`))
	if c, ok := got.(*api.CustomResourceDefinition); err != nil || !ok || c.Name != "a" || !unreadable(c) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{`{`, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{},"spec":5}`} {
		if got, err := v1.DecodeStored([]byte(text)); err == nil {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

// TestIfReadable checks that a CRD that cannot be decoded is not overwritten.
func TestIfReadable(t *testing.T) {
	t.Parallel()
	d := &Definitions{}
	next := definitionOf()
	for name, test := range map[string]struct {
		old   runtime.Object
		fails bool
	}{
		"readable":   {definitionOf(), false},
		"new":        {&api.CustomResourceDefinition{}, false},
		"unreadable": {&api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, true},
		"no CRD":     {&metav1.Status{}, true},
	} {
		got, err := d.ifReadable(rest.DefaultUpdatedObjectInfo(next)).UpdatedObject(t.Context(), test.old)
		if (err != nil) != test.fails || err == nil && !reflect.DeepEqual(got, runtime.Object(next)) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if revision("12") != 12 || revision("") != 0 || revision("9223372036854775808") == 0 || formatRevision(12) != "12" {
		t.Error("revisions")
	}
}

// TestRead checks which stored CRDs can be read, and which states share a spec.
func TestRead(t *testing.T) {
	t.Parallel()
	v1, _ := kindsFor(t, schema.Kubernetes)
	d := &Definitions{kinds: v1.kinds, crds: keys.Root("/registry/").CRDs(), reader: &reader{kinds: v1.kinds}}
	const text = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.g","uid":"u","generation":1},"spec":{"group":"g","names":{"plural":"a"},"versions":[{"name":"v1"}]}}`
	entry := func(name, text string) *store.Entry {
		return &store.Entry{Key: d.crds.Key("", name), Value: []byte(text), Revision: 7}
	}
	first := d.read(entry("a.g", text), nil)
	if first == nil || first.crd.Name != "a.g" || first.crd.ResourceVersion != "7" {
		t.Fatalf("got %v", first)
	}
	for name, e := range map[string]*store.Entry{
		"another name": entry("b.g", text),
		"no group":     entry("a.g", strings.Replace(text, `"group":"g",`, "", 1)),
		"not JSON":     entry("a.g", text[1:]),
		"not read":     {Key: d.crds.Key("", "a.g"), Value: []byte(text), Err: errors.New("encrypted")},
	} {
		if got := d.read(e, nil); got != nil {
			t.Errorf("%s: got %v", name, got.crd)
		}
	}
	for name, test := range map[string]struct {
		old, new string
		same     bool
	}{
		"the same":                {"", "", true},
		"a label":                 {`"generation":1`, `"generation":1,"labels":{"a":"b"}`, true},
		"another form":            {`"group":"g",`, `"group": "g",`, true},
		"another UID":             {`"uid":"u"`, `"uid":"w"`, false},
		"another spec":            {`"plural":"a"`, `"plural":"b"`, false},
		"another spec, generated": {`"generation":1},"spec":{"group":"g"`, `"generation":2},"spec":{"group": "g"`, false},
	} {
		if next := d.read(entry("a.g", strings.Replace(text, test.old, test.new, 1)), first); next == nil || (next.text == first.text) != test.same {
			t.Errorf("%s: shared is not %v", name, test.same)
		}
		first = d.read(entry("a.g", text), nil)
	}
	// The definition of a state that is served in another way is a new one.
	for change, renewed := range map[string]bool{`"labels":{"a":"b"}`: false, `"annotations":{"a":"b"}`: true} {
		first := d.read(entry("a.g", text), nil)
		definition := first.define()
		next := d.read(entry("a.g", strings.Replace(text, `"generation":1`, `"generation":1,`+change, 1)), first)
		if got := next.define(); (got != definition) != renewed || renewed && got.CRD() != next.crd {
			t.Errorf("%s: renewed is not %v", change, renewed)
		}
	}
	noGroup := &source{reader: d.reader}
	noGroup.entry.Store(entry("a.g", strings.Replace(text, `"group":"g",`, "", 1)))
	if c, err := noGroup.load(); c != nil || err == nil || !strings.Contains(err.Error(), "the stored CRD a.g cannot be read: repair or delete the value of "+d.crds.Key("", "a.g")+" in etcd: it has no group") {
		t.Errorf("got %v, %v", c, err)
	}
	// A schema that cannot be decoded is not known to be the same as any other.
	bad := strings.Replace(text, `{"name":"v1"}`, `{"name":"v1","schema":{"openAPIV3Schema":{"description":5}}}`, 1)
	for _, texts := range [][2]string{{bad, text}, {text, bad}, {bad, strings.Replace(bad, `"group":"g"`, `"group": "g"`, 1)}} {
		old := d.read(entry("a.g", texts[0]), nil)
		if next := d.read(entry("a.g", texts[1]), old); old == nil || next == nil || next.text == old.text {
			t.Errorf("%s and %s share a spec", texts[0], texts[1])
		}
	}
	// What kube-apiserver does not have is not read, also if it is not valid.
	foreign := strings.Replace(text, `"versions":`, `"validation":{"jsonSchema":5},"versions":`, 1)
	if got := d.read(entry("a.g", foreign), nil); got == nil {
		t.Error("a field that kube-apiserver does not have makes a CRD unreadable")
	}
}

// peersThat are other servers of a test.
type peersThat struct {
	reached bool
	err     error
}

func (p peersThat) Reach(int64)                                  {}
func (p peersThat) Reached(context.Context, int64) (bool, error) { return p.reached, p.err }
func (p peersThat) Await(context.Context, int64) error           { return p.err }

// TestHold checks which statuses wait for other servers.
func TestHold(t *testing.T) {
	t.Parallel()
	yes := api.CustomResourceDefinitionStatus{Conditions: []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue}}}
	established := definitionOf()
	established.Status = yes
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		peers  Peers
		crd    *api.CustomResourceDefinition
		status api.CustomResourceDefinitionStatus
		held   bool
	}{
		"alone":                {nil, definitionOf(), yes, false},
		"established before":   {peersThat{}, established, yes, false},
		"not established":      {peersThat{}, definitionOf(), api.CustomResourceDefinitionStatus{}, false},
		"reached":              {peersThat{reached: true}, definitionOf(), yes, false},
		"not reached":          {peersThat{}, definitionOf(), yes, true},
		"not known":            {peersThat{reached: true, err: broken}, definitionOf(), yes, true},
		"not reached, unknown": {peersThat{err: broken}, definitionOf(), yes, true},
	} {
		d := &Definitions{config: Config{Peers: test.peers}, holding: map[string]*held{}, released: make(chan *held, 2), again: make(chan string), known: map[string]*stored{}, retries: map[string]*retry{}}
		if got := d.hold(t.Context(), test.crd, test.status); got != test.held {
			t.Errorf("%s: held is %v", name, got)
		}
		if !test.held {
			if len(d.holding) != 0 {
				t.Errorf("%s: something is held", name)
			}
			continue
		}
		first := d.holding[test.crd.Name]
		if !d.hold(t.Context(), test.crd, test.status) || d.holding[test.crd.Name] != first {
			t.Errorf("%s: it is held twice", name)
		}
		// A newer state waits for itself.
		if newer := definitionOf(); !d.hold(t.Context(), newer, test.status) || d.holding[test.crd.Name] == first {
			t.Errorf("%s: a newer state waits for an older one", name)
		}
		d.holding[test.crd.Name] = first
		h := <-d.released
		if h != first {
			h = <-d.released
		}
		if h != first || !errors.Is(h.err, test.peers.(peersThat).err) {
			t.Errorf("%s: %v is released, %v", name, h, h.err)
		}
		// The CRD is gone, or has changed since: its new state has a status of its own.
		if d.release(t.Context(), nil, h); len(d.holding) != 0 || len(d.retries) != 0 {
			t.Errorf("%s: held %v, retries %v", name, d.holding, d.retries)
		}
		d.holding[test.crd.Name] = first
		d.known[test.crd.Name] = &stored{crd: definitionOf()}
		if d.release(t.Context(), nil, h); len(d.holding) != 0 || len(d.retries) != 0 {
			t.Errorf("%s: held %v, retries %v", name, d.holding, d.retries)
		}
		d.known[test.crd.Name] = &stored{crd: test.crd}
		if h.err == nil {
			continue
		}
		if d.release(t.Context(), nil, h); len(d.retries) != 1 {
			t.Errorf("%s: no retry", name)
		}
		d.retries[test.crd.Name].timer.Stop()
	}
}

// TestRetryAfter checks that a full etcd is asked again soon.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	d := &Definitions{again: make(chan string), retries: map[string]*retry{}}
	for err, want := range map[error]time.Duration{rpctypes.ErrNoSpace: fullRetry, errors.New("broken"): 16 * time.Second} {
		name := err.Error()
		for range 5 {
			d.retryAfter(t.Context(), name, err, "failed")
		}
		if got := d.retries[name].pause; got != want {
			t.Errorf("%v: a pause of %v", err, got)
		}
		d.retries[name].timer.Stop()
	}
	// A full etcd is logged elsewhere, so this is for those who want to know more.
	for verbosity, logged := range map[int]bool{1: false, 2: true} {
		log := &lines{}
		d.retryAfter(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log), textlogger.Verbosity(verbosity)))), "full", rpctypes.ErrNoSpace, "failed")
		if got := log.String(); strings.Contains(got, "failed") != logged {
			t.Errorf("verbosity %d: logged %q", verbosity, got)
		}
	}
	d.retries["full"].timer.Stop()
	// The CRD is reconciled after the pause.
	d.retries["soon"] = &retry{pause: 0, timer: time.NewTimer(time.Hour)}
	d.retry(t.Context(), "soon", lastRetry)
	if name := <-d.again; name != "soon" {
		t.Errorf("%s is reconciled", name)
	}
}
