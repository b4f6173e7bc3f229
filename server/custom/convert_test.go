package custom

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/fields"
	"espalier.dev/server/served"
)

var errConversion = errors.New("the conversion fails")

// noConversion is a conversion that fails.
type noConversion struct{}

func (noConversion) Convert(schema.Object, runtimeschema.GroupVersion) (schema.Object, error) {
	return nil, errConversion
}

// widget returns a widget in a version.
func widget(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"size": int64(1), "name": "n"}}}
}

var (
	toV1 = runtimeschema.GroupVersion{Group: "example.com", Version: "v1"}
	toV2 = runtimeschema.GroupVersion{Group: "example.com", Version: "v2"}
)

// TestConvertKinds checks the conversion of objects and lists between versions.
func TestConvertKinds(t *testing.T) {
	t.Parallel()
	d := newWidgets(t, widgetCRD, schema.KEP)
	kinds := testKind(t, d)("v1").kinds
	obj := widget("v1")
	got, err := kinds.Convert(obj, toV2)
	if u, ok := got.(*unstructured.Unstructured); err != nil || !ok || u.GetAPIVersion() != "example.com/v2" || u.Object["spec"].(map[string]any)["name"] != nil || !reflect.DeepEqual(obj, widget("v1")) {
		t.Errorf("got %v, %v, and %v", got, err, obj)
	}
	if got, err := kinds.Convert(obj, toV1); err != nil || !reflect.DeepEqual(got, runtime.Object(widget("v1"))) {
		t.Errorf("got %v, %v", got, err)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList"}, Items: []unstructured.Unstructured{*widget("v1"), *widget("v2")}}
	if got, err := kinds.Convert(list, toV2); err != nil || got != runtime.Object(list) || list.GetAPIVersion() != "example.com/v2" || list.Items[0].GetAPIVersion() != "example.com/v2" || list.Items[1].GetAPIVersion() != "example.com/v2" {
		t.Errorf("got %v, %v", got, err)
	}
	status := &metav1.Status{}
	if got, err := kinds.Convert(status, toV2); err != nil || got != runtime.Object(status) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := kinds.Convert(widget("v1"), runtimeschema.GroupVersion{Group: "example.com", Version: "v9"}); err == nil {
		t.Errorf("got %v", got)
	}
	failing := *kinds
	failing.converter = noConversion{}
	for _, in := range []runtime.Object{widget("v1"), &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*widget("v1")}}} {
		if got, err := failing.Convert(in, toV2); !errors.Is(err, errConversion) || got != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	// The conversion for field management prunes, or is that of the CRD.
	if convert := kinds.convertOwned(); convert == nil {
		t.Error("no conversion prunes")
	} else if got, err := convert(widget("v1").Object, toV2); err != nil || got["spec"].(map[string]any)["name"] != nil {
		t.Errorf("got %v, %v", got, err)
	}
	plain := testKind(t, newWidgets(t, widgetCRD, schema.Kubernetes))("v1").kinds
	if plain.convertOwned() != nil {
		t.Error("a conversion that changes nothing but the version is called")
	}
	plain.converter = noConversion{}
	if convert := plain.convertOwned(); convert == nil {
		t.Error("a conversion is not called")
	} else if _, err := convert(widget("v1").Object, toV2); !errors.Is(err, errConversion) {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{"apiVersion":"example.com/v2"}`: "v2", `{"apiVersion":"example.com/v9"}`: "v1", `{"apiVersion":"other.com/v2"}`: "v1", `{"apiVersion":"a/b/c"}`: "v1", `{`: "v1",
	} {
		if got := kinds.writtenIn([]byte(text), "v1"); got != want {
			t.Errorf("%s was written in %s", text, got)
		}
	}
	if _, err := kinds.program("v9"); err == nil {
		t.Error("a version that does not exist has a program")
	}
}

// TestKindErrors checks the objects that a Kind does not accept.
func TestKindErrors(t *testing.T) {
	t.Parallel()
	kind := testKind(t, newWidgets(t, widgetCRD, schema.KEP))
	// v2 allows any status, but v1, in which objects are stored, does not.
	const text = `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"status":{"phase":5}}`
	contradiction := (*schema.ContradictionError)(nil)
	if obj, _, err := kind("v2").Decode([]byte(text), schema.DecodeOptions{}); !errors.As(err, &contradiction) || obj != nil {
		t.Error(obj, err)
	}
	if _, _, err := testKind(t, newWidgets(t, widgetCRD, schema.Kubernetes))("v2").Decode([]byte(text), schema.DecodeOptions{}); err != nil {
		t.Error(err)
	}
	if obj, _, err := kind("v2").Decode([]byte(strings.Replace(text, `"phase":5`, `"phase":"5"`, 1)), schema.DecodeOptions{}); err != nil || obj == nil {
		t.Error(obj, err)
	}
	failing := *kind("v2")
	kinds := *failing.kinds
	failing.kinds = &kinds
	kinds.converter = noConversion{}
	if obj, err := failing.DecodeStored([]byte(`{"apiVersion":"example.com/v1","kind":"Widget"}`)); !errors.Is(err, errConversion) || obj != nil {
		t.Error(obj, err)
	}
	if obj, err := failing.DecodeStored([]byte(`{"apiVersion":"example.com/v2","kind":"Widget"}`)); err != nil || obj == nil {
		t.Error(obj, err)
	}
	if obj, err := failing.DecodeStored([]byte(`{`)); err == nil || obj != nil {
		t.Error(obj, err)
	}
	kinds.kind = func(string) (Kind, error) { return nil, errConversion }
	if obj, err := failing.DecodeStored([]byte(`{"apiVersion":"example.com/v1","kind":"Widget"}`)); !errors.Is(err, errConversion) || obj != nil {
		t.Error(obj, err)
	}
	// A webhook converts an object to one that contradicts the storage version.
	hooked := *kind("v2")
	kinds = *hooked.kinds
	hooked.kinds = &kinds
	kinds.converter = oddPhase{}
	obj := &unstructured.Unstructured{Object: tree(t, strings.Replace(text, `"phase":5`, `"phase":"5"`, 1))}
	if err := hooked.EncodeStored(obj, nil, io.Discard); !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
	if err := hooked.EncodeStored(obj, []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"status":{"phase":5}}`), io.Discard); err != nil {
		t.Errorf("a value that is stored already: %v", err)
	}
	if err := hooked.EncodeStored(obj, []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"status":{"phase":"6"}}`), io.Discard); !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
	if err := hooked.EncodeStored(obj, []byte(`{`), io.Discard); err == nil || apierrors.IsBadRequest(err) {
		t.Error(err)
	}
	scaled := newWidgets(t, strings.Replace(widgetCRD, `"status":{}}`, `"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.n"}}`, 1), schema.KEP)
	if got := scaleOwnership(scaled); len(got) != 2 || got["example.com/v1"].String() != ".spec.size" || got["example.com/v2"].String() != "" {
		t.Error(got)
	}
	log := &undecodableLog{}
	log.found(errConversion)
	last := log.logged.Load()
	if log.found(errConversion); last == 0 || log.logged.Load() != last {
		t.Error("each value is logged")
	}
}

// oddPhase is a conversion that makes the phase a number.
type oddPhase struct{}

func (oddPhase) Convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	out, err := relabel{}.Convert(obj, to)
	out["status"] = map[string]any{"phase": int64(5)}
	return out, err
}

// TestObjectConvertor checks the conversions that k8s.io/apiserver asks for.
func TestObjectConvertor(t *testing.T) {
	t.Parallel()
	text := strings.Replace(widgetCRD, `"name":"v1",`, `"name":"v1","selectableFields":[{"jsonPath":".spec.name"}],`, 1)
	d := newWidgets(t, text, schema.KEP)
	c := &objectConvertor{definition: d, converter: testKind(t, d)("v1").kinds}
	scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": int64(3)}}}
	got, err := c.ConvertToVersion(scale, toV1)
	if s, ok := got.(*autoscalingv1.Scale); err != nil || !ok || s.Spec.Replicas != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	scale.Object["spec"] = "x"
	if _, err := c.ConvertToVersion(scale, toV1); err == nil {
		t.Error("a Scale that is not valid is converted")
	}
	other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "other.com/v1", "kind": "Other"}}
	if got, err := c.ConvertToVersion(other, toV2); err != nil || got != runtime.Object(other) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := c.ConvertToVersion(widget("v1"), toV2); err != nil || got.GetObjectKind().GroupVersionKind().Version != "v2" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := c.ConvertToVersion(widget("v1"), runtimeschema.GroupVersions{}); err == nil || got != nil || !strings.Contains(err.Error(), "example.com/v1, Kind=Widget cannot be converted to") {
		t.Errorf("got %v, %v", got, err)
	}

	from, into := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}, &autoscalingv1.Scale{}
	if err := c.Convert(from, into, nil); err != nil || into.Spec.Replicas != 5 {
		t.Errorf("got %v, %v", into, err)
	}
	for _, pair := range [][2]any{{"x", widget("v1")}, {widget("v1"), "x"}} {
		if err := c.Convert(pair[0], pair[1], nil); err == nil || !strings.Contains(err.Error(), "cannot be converted to") {
			t.Errorf("%v: %v", pair, err)
		}
	}
	for _, version := range []string{"other.com/v1", "example.com/v9"} {
		wrong := widget("v1")
		wrong.SetAPIVersion(version)
		if err := c.Convert(wrong, widget("v1"), nil); err == nil || err.Error() != "request to convert CR from an invalid group/version: "+version {
			t.Error(err)
		}
	}
	target := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v2", "kind": "Widget"}}
	if err := c.Convert(widget("v1"), target, nil); err != nil || target.GetAPIVersion() != "example.com/v2" || target.GetName() != "a" {
		t.Errorf("got %v, %v", target, err)
	}
	target = &unstructured.Unstructured{}
	if err := c.Convert(widget("v1"), target, nil); err != nil || target.GetAPIVersion() != "example.com/v1" || target.GetName() != "a" {
		t.Errorf("got %v, %v", target, err)
	}
	if err := c.Convert(widget("v1"), &corev1.Pod{}, nil); err == nil {
		t.Error("a widget is a pod")
	}
	failing := *testKind(t, d)("v1").kinds
	failing.converter = noConversion{}
	if err := (&objectConvertor{definition: d, converter: &failing}).Convert(widget("v1"), widget("v2"), nil); !errors.Is(err, errConversion) {
		t.Error(err)
	}

	gvk := func(version string) runtimeschema.GroupVersionKind {
		return runtimeschema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"}
	}
	clustered := &objectConvertor{definition: newWidgets(t, strings.Replace(text, "Namespaced", "Cluster", 1), schema.KEP)}
	for _, test := range []struct {
		c              *objectConvertor
		version, label string
		ok             bool
	}{
		{c, "v1", "metadata.name", true}, {c, "v1", "metadata.namespace", true}, {clustered, "v1", "metadata.name", true}, {clustered, "v1", "metadata.namespace", false},
		{c, "v1", "spec.name", true}, {c, "v2", "spec.name", false}, {c, "v1", ".spec.name", false}, {c, "v1", "spec.size", false}, {c, "v9", "spec.name", false},
	} {
		label, value, err := test.c.ConvertFieldLabel(gvk(test.version), test.label, "x")
		if (err == nil) != test.ok || test.ok && (label != test.label || value != "x") || !test.ok && label+value != "" {
			t.Errorf("%s of %s: %q, %q, %v", test.label, test.version, label, value, err)
		}
	}
}

// protobufKind is a Kind whose protobuf is its JSON after a letter.
type protobufKind struct {
	*customKind
	err error
}

func (k protobufKind) FromProtobuf(data []byte) ([]byte, error) { return data[1:], k.err }

func (k protobufKind) ToProtobuf(obj runtime.Object) ([]byte, bool, error) {
	_, tree := obj.(*unstructured.Unstructured)
	return []byte("p"), tree, k.err
}

// structKind is a Kind whose objects are Go structs.
type structKind struct{ *customKind }

func (structKind) Decode([]byte, schema.DecodeOptions) (runtime.Object, []error, error) {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}, nil, nil
}

// recordedObject is a serializer that keeps what it encodes.
type recordedObject struct {
	runtime.Serializer
	obj runtime.Object
}

func (r *recordedObject) Encode(obj runtime.Object, _ io.Writer) error {
	r.obj = obj
	return nil
}

// TestBodies checks how bodies are decoded.
func TestBodies(t *testing.T) {
	t.Parallel()
	d := newWidgets(t, widgetCRD, schema.KEP)
	kind := testKind(t, d)("v1")
	newSerializer := func(k Kind) *bodySerializer {
		return newBodySerializer(k, nil, runtime.NewScheme(), creator{func(string) (Kind, error) { return k, nil }}, typer{runtime.NewScheme()})
	}
	s := newSerializer(kind)
	if p := (protobufKind{customKind: kind}); len(s.standardMedia()) != 2 || len(newSerializer(p).standardMedia()) != 3 || !newSerializer(p).supports(runtime.ContentTypeProtobuf) || s.supports(runtime.ContentTypeProtobuf) || !s.supports(runtime.ContentTypeYAML) {
		t.Error("the wrong formats")
	}
	if d := s.DecoderToVersion(kubejson.NewSerializerWithOptions(kubejson.DefaultMetaFactory, nil, nil, kubejson.SerializerOptions{}), nil); reflect.TypeOf(d) == reflect.TypeFor[*bodyDecoder]() {
		t.Error("the decoder of another format is replaced")
	}
	stored := func() (schema.Object, error) { return widget("v1").Object, nil }
	const good = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`
	for name, test := range map[string]struct {
		kind     Kind
		media    int
		strict   bool
		replaced replacement
		body     string
		into     runtime.Object
		says     string // the error, or empty
		strictly bool   // whether there is an object with an error of strict decoding
	}{
		"json":                          {kind, 0, true, nil, good, nil, "", false},
		"into":                          {kind, 0, true, nil, good, &unstructured.Unstructured{}, "", false},
		"yaml":                          {kind, 1, true, nil, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 1}\n", nil, "", false},
		"broken yaml":                   {kind, 1, true, nil, "a: b: c", nil, "mapping values are not allowed", false},
		"duplicate in yaml":             {kind, 1, true, nil, "apiVersion: example.com/v1\nkind: Widget\nkind: Widget\n", nil, `key "kind" already set in map`, true},
		"duplicate in yaml, not strict": {kind, 1, false, nil, "apiVersion: example.com/v1\nkind: Widget\nkind: Widget\n", nil, "", false},
		"protobuf":                      {kind, 2, true, nil, "p" + good, nil, "custom resources cannot be sent as protobuf", false},
		"protobuf of a kind":            {protobufKind{kind, nil}, 2, true, nil, "p" + good, nil, "", false},
		"broken protobuf":               {protobufKind{kind, errConversion}, 2, true, nil, "p" + good, nil, "does not appear to be a protobuf message", false},
		"unknown":                       {kind, 0, true, nil, strings.Replace(good, `"size"`, `"bogus":1,"size"`, 1), nil, `unknown field "spec.bogus"`, true},
		"unknown, not strict":           {kind, 0, false, nil, strings.Replace(good, `"size"`, `"bogus":1,"size"`, 1), nil, "", false},
		"no kind":                       {kind, 0, true, nil, strings.Replace(good, `"kind":"Widget",`, "", 1), nil, "Object 'Kind' is missing", false},
		"no version":                    {kind, 0, true, nil, strings.Replace(good, `"apiVersion":"example.com/v1",`, "", 1), nil, "Object 'apiVersion' is missing", false},
		"contradiction":                 {kind, 0, true, nil, strings.Replace(good, `"size":1`, `"size":"x"`, 1), nil, "spec.size", false},
		"other contradiction":           {kind, 0, true, stored, strings.Replace(good, `"size":1`, `"size":"x"`, 1), nil, "spec.size", false},
		"revision":                      {kind, 0, true, stored, strings.Replace(good, `"name":"a"`, `"name":"a","resourceVersion":"12"`, 1), nil, "", false},
		"invalid revision":              {kind, 0, true, stored, strings.Replace(good, `"name":"a"`, `"name":"a","resourceVersion":"1x"`, 1), nil, `metadata.resourceVersion: Invalid value: "1x"`, false},
		"invalid revision, created":     {kind, 0, true, nil, strings.Replace(good, `"name":"a"`, `"name":"a","resourceVersion":"1x"`, 1), nil, "", false},
	} {
		s := newSerializer(test.kind).replacing(test.replaced)
		format := s.media[test.media].Serializer
		if test.strict {
			format = s.media[test.media].StrictSerializer
		}
		obj, gvk, err := s.DecoderToVersion(format, nil).Decode([]byte(test.body), nil, test.into)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) || (obj != nil) != (err == nil || test.strictly) || runtime.IsStrictDecodingError(err) != test.strictly {
			t.Errorf("%s: %v, %v", name, obj, err)
		}
		if obj != nil && (gvk == nil || gvk.Kind != "Widget" || gvk.Version != "v1") || test.into != nil && obj != test.into {
			t.Errorf("%s: %v, %v", name, gvk, obj)
		}
	}
	// A Kind may convert what it decodes: the version that was sent counts.
	structs := newSerializer(structKind{kind})
	if obj, gvk, err := structs.DecoderToVersion(structs.media[0].Serializer, nil).Decode([]byte(good), nil, nil); err != nil || reflect.TypeOf(obj) != reflect.TypeFor[*corev1.Pod]() || gvk.Kind != "Widget" || gvk.Group != "example.com" {
		t.Error(obj, gvk, err)
	}
	// A stored value that contradicts the schema may be sent back.
	odd := func() (schema.Object, error) {
		o := widget("v1").Object
		o["spec"].(map[string]any)["size"] = "x"
		return o, nil
	}
	if _, _, err := s.replacing(odd).DecoderToVersion(s.media[0].Serializer, nil).Decode([]byte(strings.Replace(good, `"size":1`, `"size":"x"`, 1)), nil, nil); err != nil {
		t.Error(err)
	}

	for name, test := range map[string]struct {
		obj   runtime.Object
		err   error
		wraps bool
	}{
		"object": {widget("v1"), nil, true}, "status": {&metav1.Status{}, nil, false}, "broken": {widget("v1"), errConversion, false},
	} {
		rec := &recordedObject{}
		err := protobufEncoder{rec, protobufKind{kind, test.err}}.Encode(test.obj, io.Discard)
		u, wrapped := rec.obj.(*runtime.Unknown)
		if !errors.Is(err, test.err) || wrapped != test.wraps || wrapped && (u.Kind != "Widget" || u.APIVersion != "example.com/v1" || string(u.Raw) != "p") || err == nil && !wrapped && rec.obj != test.obj {
			t.Errorf("%s: %v, %v", name, rec.obj, err)
		}
	}
}

// TestStorageCodec checks how objects are stored and read.
func TestStorageCodec(t *testing.T) {
	t.Parallel()
	d := newWidgets(t, widgetCRD, schema.KEP)
	kind := testKind(t, d)
	c := &storageCodec{kind: kind("v1"), memory: toV1, stored: toV1}
	other := &storageCodec{kind: kind("v2"), memory: toV2, stored: toV1}
	if c.Identifier() == other.Identifier() || c.Identifier() == "" {
		t.Error(c.Identifier(), other.Identifier())
	}
	const text = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"generation":1,"name":"a"},"spec":{"name":"n","size":1},"status":{"phase":"new"}}`
	if c.unchanged([]byte(text)) == nil || other.unchanged([]byte(text)) != nil || !c.RoundTrips(widget("v1"), []byte(text)) || other.RoundTrips(widget("v2"), []byte(text)) {
		t.Error("the wrong values are returned as they are")
	}
	var b bytes.Buffer
	tree := &storedTree{Unstructured: widget("v1")}
	tree.SetGeneration(1)
	tree.Object["status"] = map[string]any{"phase": "new"}
	if err := c.Encode(tree, &b); err != nil || b.String() != text+"\n" || string(tree.value) != b.String() || tree.view == nil || !c.RoundTrips(tree, tree.value) || tree.Unwrap() != runtime.Object(tree.Unstructured) {
		t.Errorf("%s, %v, %v", b.String(), tree.view, err)
	}
	tree.view = nil
	if c.RoundTrips(tree, tree.value) || !c.RoundTrips(tree, []byte(text)) {
		t.Error("what was written of an object is not used")
	}
	if err := c.Encode(&metav1.Status{}, &b); err == nil || !strings.Contains(err.Error(), "*v1.Status cannot be stored") {
		t.Error(err)
	}
	failing := *kind("v2")
	kinds := *failing.kinds
	kinds.converter = noConversion{}
	failing.kinds = &kinds
	if err := (&storageCodec{kind: &failing, memory: toV2, stored: toV1}).Encode(&storedTree{Unstructured: widget("v2")}, &b); !errors.Is(err, errConversion) {
		t.Error(err)
	}
	obj, gvk, err := c.Decode([]byte(text), nil, nil)
	if err != nil || gvk.Kind != "Widget" || obj.(*unstructured.Unstructured).GetName() != "a" {
		t.Error(obj, gvk, err)
	}
	into := &unstructured.Unstructured{}
	if obj, _, err := c.Decode([]byte(text), nil, into); err != nil || obj != runtime.Object(into) || into.GetName() != "a" {
		t.Error(obj, err)
	}
	if obj, _, err := c.Decode([]byte(text), nil, &corev1.Pod{}); err == nil || obj != nil {
		t.Error(obj, err)
	}
	if obj, _, err := c.Decode([]byte(text[1:]), nil, nil); err == nil || obj != nil {
		t.Error(obj, err)
	}
	hooked := *kind("v1")
	kinds.converter = &webhookConverter{}
	hooked.kinds = &kinds
	for _, test := range []struct {
		codec *storageCodec
		calls bool
	}{{c, false}, {other, false}, {&storageCodec{kind: &hooked, memory: toV2, stored: toV1}, true}, {&storageCodec{kind: &hooked, memory: toV1, stored: toV1}, false}} {
		if test.codec.Calls() != test.calls {
			t.Errorf("%v calls a webhook: %v", test.codec.Identifier(), !test.calls)
		}
	}
}

// defaulted is a defaulter that counts.
type defaulted struct{ n int }

func (d *defaulted) Default(runtime.Object) { d.n++ }

// TestMadeObjects checks which objects are made and defaulted for requests.
func TestMadeObjects(t *testing.T) {
	t.Parallel()
	d := newWidgets(t, widgetCRD, schema.KEP)
	kinds := func(version string) (Kind, error) {
		if version != "v1" {
			return nil, errConversion
		}
		return testKind(t, d)(version), nil
	}
	gvk := runtimeschema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	c := scaleCreator{creator{kinds}}
	if obj, err := c.New(gvk); err != nil || obj.GetObjectKind().GroupVersionKind() != gvk {
		t.Error(obj, err)
	}
	gvk.Version = "v2"
	if obj, err := c.New(gvk); !errors.Is(err, errConversion) || obj != nil {
		t.Error(obj, err)
	}
	if obj, err := c.New(served.ScaleKind()); err != nil || reflect.TypeOf(obj) != reflect.TypeFor[*autoscalingv1.Scale]() || obj.GetObjectKind().GroupVersionKind() != served.ScaleKind() {
		t.Error(obj, err)
	}
	rest := &defaulted{}
	def := &defaulter{ObjectDefaulter: rest, kinds: kinds, group: gvk.GroupKind()}
	obj := widget("v1")
	delete(obj.Object["spec"].(map[string]any), "name")
	if def.Default(obj); obj.Object["spec"].(map[string]any)["name"] != "x" || rest.n != 0 {
		t.Error(obj, rest.n)
	}
	def.Default(widget("v2")) // it has no kind
	if def.Default(&corev1.Pod{}); rest.n != 1 {
		t.Error("an object of another kind has no defaults")
	}
	if obj := content(&corev1.Pod{}); obj != nil {
		t.Error(obj)
	}
	generation := schema.Object{}
	if setGeneration(generation, 4); generation["metadata"].(map[string]any)["generation"] != int64(4) {
		t.Error(generation)
	}
	if outcomeOf(t.Context()) == nil || outcomeOf(withOutcome(t.Context())).warnings != nil {
		t.Error("no outcome")
	}
}

// appliedKind is a Kind that checks configurations.
type appliedKind struct {
	*customKind
	known      string
	complaints []error
	err        error
	report     *bool
}

func (k appliedKind) New() runtime.Object { return &corev1.Pod{} }

func (k appliedKind) CheckStrategic(patch []byte) ([]byte, error) {
	if k.err != nil {
		return nil, k.err
	}
	return bytes.ReplaceAll(patch, []byte(`"foreign":1,`), nil), nil
}

func (k appliedKind) CheckApplied(src []byte, report bool) ([]byte, []error, error) {
	if *k.report = report; !report {
		k.complaints = nil
	}
	if k.known == "" {
		return src, k.complaints, k.err
	}
	return []byte(k.known), k.complaints, k.err
}

// warnings collects warnings.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// TestCheckApplied checks what becomes of a configuration before it is applied.
func TestCheckApplied(t *testing.T) {
	t.Parallel()
	h := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil).handler
	bogus := errors.New("unknown field bogus")
	for name, test := range map[string]struct {
		query, body string
		kind        appliedKind
		code        int
		next        string // the body that is applied
		warns       int
		report      bool
	}{
		"plain":          {"", `a: 1`, appliedKind{}, http.StatusOK, `a: 1`, 0, true},
		"not an object":  {"", `[1]`, appliedKind{err: bogus}, http.StatusOK, `[1]`, 0, false},
		"not YAML":       {"", "a: b: c", appliedKind{err: bogus}, http.StatusOK, "a: b: c", 0, false},
		"dropped":        {"", `{"a":1,"b":2}`, appliedKind{known: `{"a":1}`, complaints: []error{bogus}}, http.StatusOK, `{"a":1}`, 1, true},
		"dropped, twice": {"", "a: 1\na: 2\n", appliedKind{known: `{"a":3}`, complaints: []error{bogus}}, http.StatusOK, `{"a":3}`, 2, true},
		"same, twice":    {"", "a: 1\na: 2\n", appliedKind{complaints: []error{bogus}}, http.StatusOK, "a: 1\na: 2\n", 1, true},
		"ignored":        {"?fieldValidation=Ignore", "a: 1\na: 2\n", appliedKind{known: `{"a":3}`, complaints: []error{bogus}}, http.StatusOK, `{"a":3}`, 0, false},
		"strict":         {"?fieldValidation=Strict", `{"a":1,"b":2}`, appliedKind{known: `{"a":1}`, complaints: []error{bogus}}, http.StatusBadRequest, "", 0, true},
		"strict, clean":  {"?fieldValidation=Strict", `{"a":1}`, appliedKind{}, http.StatusOK, `{"a":1}`, 0, true},
		"error":          {"", `{"a":1}`, appliedKind{err: bogus}, http.StatusBadRequest, "", 0, true},
	} {
		var report bool
		test.kind.report = &report
		got := ""
		next := func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Error(err)
			}
			got = string(body)
			w.WriteHeader(http.StatusOK)
		}
		var warned warnings
		req := httptest.NewRequest(http.MethodPatch, "/"+test.query, strings.NewReader(test.body))
		w := httptest.NewRecorder()
		h.checkApplied(test.kind, &apirequest.RequestInfo{}, next)(w, req.WithContext(warning.WithWarningRecorder(context.Background(), &warned)))
		if w.Code != test.code || got != test.next || len(warned) != test.warns || report != test.report || test.code != http.StatusOK && !strings.Contains(w.Body.String(), "error decoding patch: ") {
			t.Errorf("%s: %d %s, applied %q, warnings %q, reported: %v", name, w.Code, w.Body, got, warned, report)
		}
	}
}

// TestCheckStrategic checks what becomes of a strategic merge patch before it is applied.
func TestCheckStrategic(t *testing.T) {
	t.Parallel()
	h := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil).handler
	for _, test := range []struct {
		body string
		err  error
		code int
		next string
	}{
		{`{"a":1}`, nil, http.StatusOK, `{"a":1}`}, {`{"foreign":1,"a":1}`, nil, http.StatusOK, `{"a":1}`}, {`{"a":1}`, errors.New("superseded"), http.StatusBadRequest, ""},
	} {
		got := ""
		next := func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Error(err)
			}
			got = string(body)
		}
		w := httptest.NewRecorder()
		h.checkStrategic(appliedKind{err: test.err}, &apirequest.RequestInfo{}, next)(w, httptest.NewRequest(http.MethodPatch, "/", strings.NewReader(test.body)))
		if w.Code != test.code || got != test.next || test.err != nil && !strings.Contains(w.Body.String(), "superseded") {
			t.Errorf("%s: %d %s, patch %s", test.body, w.Code, w.Body, got)
		}
	}
}

// TestCheckStrategicAudit shows that a rejected strategic merge patch is recorded.
func TestCheckStrategicAudit(t *testing.T) {
	t.Parallel()
	h := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil).handler
	for level, want := range map[auditinternal.Level]bool{auditinternal.LevelMetadata: false, auditinternal.LevelRequest: true} {
		req := httptest.NewRequest(http.MethodPatch, "/", strings.NewReader(`{"a":1}`))
		ctx, recorder := audit.WithAuditContext(req.Context()), &auditRecorder{}
		if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: level}, recorder); err != nil {
			t.Fatal(err)
		}
		h.checkStrategic(appliedKind{err: errors.New("superseded")}, &apirequest.RequestInfo{}, nil)(httptest.NewRecorder(), req.WithContext(ctx))
		audit.AuditContextFrom(ctx).ProcessEventStage(ctx, auditinternal.StageResponseComplete)
		if recorded := strings.HasPrefix(recorder.text, `{"a":1}`); recorded != want {
			t.Errorf("%s: records %s", level, recorder.text)
		}
	}
}

// TestAppliedMisfit checks the error for fields that do not exist, if they are not dropped.
func TestAppliedMisfit(t *testing.T) {
	t.Parallel()
	h := newMemoryServer(t, fixedSource{crd.NewCatalog()}, nil).handler
	w := httptest.NewRecorder()
	misfit := appliedKind{err: &fields.MisfitError{Err: errors.New(".b: field not declared in schema")}, report: new(bool)}
	info := &apirequest.RequestInfo{Name: "n"}
	h.checkApplied(misfit, info, nil)(w, httptest.NewRequest(http.MethodPatch, "/", strings.NewReader(`{"b":1}`)))
	const want = `"status":"Failure","message":"failed to create typed patch object (/n; /, Kind=): .b: field not declared in schema","code":500}`
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// Of several documents, the first one counts.
	w = httptest.NewRecorder()
	next := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	h.checkApplied(appliedKind{report: new(bool)}, info, next)(w, httptest.NewRequest(http.MethodPatch, "/", strings.NewReader("{\"a\":1}\n---\n{\"b\":1}\n")))
	if w.Code != http.StatusTeapot {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
