package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
	"espalier.dev/server/keys"
	serverrest "espalier.dev/server/rest"
)

// tree parses an object.
func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := jsonx.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

// TestWithKind checks that an object of a Go type without apiVersion and kind gets those of its
// path.
func TestWithKind(t *testing.T) {
	t.Parallel()
	gvk := runtimeschema.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}
	for src, want := range map[string]string{
		`{"apiVersion":"a","kind":"b","x":1}`: `{"apiVersion":"a","kind":"b","x":1}`,
		` {"x":1}`:                            `{"apiVersion":"g/v1","kind":"K","x":1}`,
		`{}`:                                  `{"apiVersion":"g/v1","kind":"K"}`,
		`{"kind":"b"}`:                        `{"apiVersion":"g/v1","kind":"b"}`,
		`{"apiVersion":"a"}`:                  `{"apiVersion":"a","kind":"K"}`,
		`{"apiVersion":"","kind":"","x":1}`:   `{"apiVersion":"g/v1","kind":"K","x":1}`,
		`{"apiVersion":"","x":1}`:             `{"apiVersion":"g/v1","kind":"K","x":1}`,
		` null`:                               `{"apiVersion":"g/v1","kind":"K"}`,
	} {
		var typ metav1.TypeMeta
		got, sent, err := (&bodyDecoder{}).withKind([]byte(src), &gvk)
		if err != nil || !reflect.DeepEqual(tree(t, string(got)), tree(t, want)) || json.Unmarshal([]byte(want), &typ) != nil || *sent != typ.GroupVersionKind() {
			t.Errorf("%s: got %s, %v, %v", src, got, sent, err)
		}
	}
	// The last of two counts, but both stay to be reported.
	const twice = `{"kind":"x","apiVersion":"g/v1","kind":"K"}`
	if got, sent, err := (&bodyDecoder{}).withKind([]byte(twice), &gvk); err != nil || string(got) != twice || *sent != gvk {
		t.Errorf("got %s, %v, %v", got, sent, err)
	}
	for _, src := range []string{"", "[]", `{"kind":1}`, `{"x":`, `{"x":1}}`} {
		if got, _, err := (&bodyDecoder{}).withKind([]byte(src), &gvk); err == nil || !strings.Contains(err.Error(), "couldn't get version/kind; json parse error") {
			t.Errorf("%s: got %s, %v", src, got, err)
		}
	}
	if got := kindOf([]byte(`{"apiVersion":"g/v1","kind":"K","x":1}`)); got == nil || *got != gvk {
		t.Errorf("got %v", got)
	}
	if got := kindOf([]byte(`{"apiVersion":"g/v1","kind":"K","x":`)); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestTyper checks how the kind of an object is found.
func TestTyper(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Version: "v1"})
	u := func(apiVersion, kind string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	}
	for _, test := range []struct {
		obj  runtime.Object
		want string
	}{
		{u("g/v1", "K"), "g/v1, Kind=K"},
		{u("g/v1", ""), ""},
		{u("", "K"), ""},
		{&metav1.CreateOptions{}, "/v1, Kind=CreateOptions"},
		{&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}, "/v1, Kind=Pod"},
		{&corev1.Pod{}, ""},
	} {
		kinds, unversioned, err := typer{scheme}.ObjectKinds(test.obj)
		if (err == nil) != (test.want != "") || unversioned || err == nil && kinds[0].String() != test.want {
			t.Errorf("%v: got %v, %v", test.obj, kinds, err)
		}
	}
	if _, _, err := (typer{scheme}).ObjectKinds(&corev1.Pod{}); !runtime.IsNotRegisteredError(err) {
		t.Error(err)
	}
	if _, _, err := (typer{scheme}).ObjectKinds(u("g/v1", "")); !runtime.IsMissingKind(err) {
		t.Error(err)
	}
	if _, _, err := (typer{scheme}).ObjectKinds(u("", "K")); !runtime.IsMissingVersion(err) {
		t.Error(err)
	}
}

// TestAssign checks that only objects of the same type are assigned.
func TestAssign(t *testing.T) {
	t.Parallel()
	from, into := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Pod{}
	if err := assign(into, from); err != nil || into.Name != "a" {
		t.Error(into, err)
	}
	if err := assign(from, from); err != nil || from.Name != "a" {
		t.Error(from, err)
	}
	if err := assign(&corev1.Secret{}, from); err == nil || !strings.Contains(err.Error(), "*v1.Pod cannot be assigned to *v1.Secret") {
		t.Error(err)
	}
}

// TestSelection checks which objects selectors select, by their JSON.
func TestSelection(t *testing.T) {
	t.Parallel()
	field := func(path string) selectableField {
		p := jsonpath.New("").AllowMissingKeys(true)
		if err := p.Parse("{" + path + "}"); err != nil {
			t.Fatal(err)
		}
		return newSelectableField(path, p)
	}
	r := &reader{namespaced: true, prefix: keys.Root("/r/").Custom(runtimeschema.GroupResource{Group: "g", Resource: "things"}),
		fields: []selectableField{field(".spec.color"), field(".spec.n"), field(".spec.on"), field(`.spec.list[0]`)}}
	if r.fields[0].steps == nil || r.fields[3].steps != nil {
		t.Errorf("steps: %v", r.fields)
	}
	key := r.prefix.Key("ns", "x")
	v := &view{text: []byte(`{"apiVersion":"g/v1","metadata":{"labels":{"app":"w","odd":1},"name":"x"},"spec":{"color":"red","list":["c"],"n":3,"on":true,"z":null}}`)}
	for _, test := range []struct {
		labels, fields string
		want           bool
	}{
		{"", "", true},
		{"app=w", "", true},
		{"app=v", "", false},
		{"odd", "", false},
		{"!app", "", false},
		{"", "metadata.name=x", true},
		{"", "metadata.name=y", false},
		{"", "metadata.namespace=ns", true},
		{"", "metadata.namespace=other", false},
		{"", "spec.color=red", true},
		{"", "spec.color!=red", false},
		{"", "spec.n=3", true},
		{"", "spec.on=true", true},
		{"", "spec.list=c", false},
		{"", "spec.list[0]=c", true},
		{"", "spec.unknown=", true},
		{"app=w", "spec.color=blue", false},
		{"app=v", "spec.color=red", false},
		{"app=w", "spec.color=red,spec.n=3", true},
		{"app=w", "spec.color=red,spec.n=4", false},
	} {
		label, err := labels.Parse(test.labels)
		if err != nil {
			t.Fatal(err)
		}
		selector, err := fields.ParseSelector(test.fields)
		if err != nil {
			t.Fatal(err)
		}
		s := r.selecting(label, selector)
		if got, err := s.matches(key, v); err != nil || got != test.want {
			t.Errorf("%s %s: got %v, %v", test.labels, test.fields, got, err)
		}
		if s.empty() != (test.labels == "" && test.fields == "") {
			t.Errorf("%s %s: empty is %v", test.labels, test.fields, s.empty())
		}
	}
	if !r.selecting(nil, nil).empty() {
		t.Error("no selectors are not empty")
	}

	// Objects without what is selected, and texts that end too early.
	for text, color := range map[string]string{
		`{"metadata":{"name":"x"}}`: "", `{"metadata":{"labels":null},"spec":null}`: "", `{"metadata":[],"spec":{"color":null}}`: "", `[]`: "",
		`{"spec":{"color":{"a":1}}}`: "map[a:1]", `{"spec":{"z":[1],"color":""}}`: "",
	} {
		v := &view{text: []byte(text)}
		if set, err := v.labels(); err != nil || len(set) != 0 {
			t.Errorf("%s: labels %v, %v", text, set, err)
		}
		s := r.selecting(nil, fields.OneTermEqualSelector("spec.color", color))
		if ok, err := s.matches(key, v); err != nil || !ok {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
	for _, text := range []string{`{"a":`, `{"spec":{"color":"re`, `{"spec":{"b":[1,"color":1}}`, `{"spec" 1}`, `{"metadata":{"labels":{"app":"w`, `{"metadata":{"a":[,"labels":{}}}`} {
		v := &view{text: []byte(text)}
		_, err := r.selecting(nil, fields.OneTermEqualSelector("spec.color", "red")).matches(key, v)
		_, labelErr := r.selecting(labels.SelectorFromSet(labels.Set{"app": "w"}), nil).matches(key, v)
		_, pathErr := r.selecting(nil, fields.OneTermEqualSelector(`spec.list[0]`, "red")).matches(key, v)
		if strings.Contains(text, "spec") && err == nil || strings.Contains(text, "labels") && labelErr == nil || pathErr == nil {
			t.Errorf("%s: %v, %v, %v", text, err, labelErr, pathErr)
		}
	}
	r.namespaced = false
	if ok, _ := r.selecting(nil, fields.OneTermEqualSelector("metadata.namespace", "ns")).matches(key, v); ok {
		t.Error("an object without a namespace is selected by its namespace")
	}
}

// TestViewOutline checks where the resourceVersion of an object belongs.
func TestViewOutline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, want string
		outline    outline
	}{
		{`{"apiVersion":"g/v1","metadata":{"name":"a"}}`, `{"apiVersion":"g/v1","metadata":{"name":"a","resourceVersion":"10"}}`, outline{"g/v1", true, false, false}},
		{`{"apiVersion":"g/v1","metadata":{"generation":1,"name":"a","uid":"u"}}`, `{"apiVersion":"g/v1","metadata":{"generation":1,"name":"a","resourceVersion":"10","uid":"u"}}`, outline{"g/v1", true, true, false}},
		{`{"kind":"K","metadata":{"uid":"u","v":1}}`, `{"kind":"K","metadata":{"resourceVersion":"10","uid":"u","v":1}}`, outline{"", true, false, false}},
		{`{"metadata":{}}`, `{"metadata":{"resourceVersion":"10"}}`, outline{"", true, false, false}},
		{`{"metadata":{"resourceVersion":"1"}}`, "", outline{"", true, false, true}},
		{`{"apiVersion":1,"metadata":[]}`, "", outline{}},
		{`{}`, "", outline{}},
	} {
		v := &view{text: []byte(test.text)}
		o, ok := v.outline()
		if !ok || o != test.outline {
			t.Errorf("%s: got %+v, %v", test.text, o, ok)
		}
		if test.want == "" {
			continue
		}
		if got := string(v.append(nil, 10)); got != test.want || v.size(10) != len(got) {
			t.Errorf("%s: got %s, size %d", test.text, got, v.size(10))
		}
	}
	for _, text := range []string{"", "[]", "{", `{"a":`, `{"apiVersion":"`, `{"metadata":{`, `{"metadata":{"a":`, `{"metadata":{"a" 1}}`} {
		if _, ok := (&view{text: []byte(text)}).outline(); ok {
			t.Errorf("%s has an outline", text)
		}
	}
	for n, want := range map[int64]int{0: 1, 9: 1, 10: 2, 99: 2, 100: 3, 1234567: 7} {
		if got := decimals(n); got != want {
			t.Errorf("%d has %d digits", n, got)
		}
	}
}

// TestConverted checks the responses of conversion webhooks that are accepted.
func TestConverted(t *testing.T) {
	t.Parallel()
	review := func(version string) *api.ConversionReview {
		return &api.ConversionReview{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/" + version, Kind: "ConversionReview"}}
	}
	answer := func(version, uid, status, message string) *api.ConversionReview {
		r := review(version)
		r.Response = &api.ConversionResponse{UID: "u", Result: metav1.Status{Status: status, Message: message},
			ConvertedObjects: []runtime.RawExtension{{Raw: []byte("{}")}}}
		if uid != "" {
			r.Response.UID = ""
		}
		return r
	}
	for name, test := range map[string]struct {
		got, asked *api.ConversionReview
		err        string
	}{
		"success":            {answer("v1", "", "Success", ""), review("v1"), ""},
		"v1beta1":            {answer("v1beta1", "", "Success", ""), review("v1beta1"), ""},
		"other type":         {answer("v1beta1", "", "Success", ""), review("v1"), "expected webhook response of"},
		"v1beta1 other type": {answer("v1", "", "Success", ""), review("v1beta1"), ""},
		"other uid":          {answer("v1", "other", "Success", ""), review("v1"), "expected response.uid="},
		"v1beta1 other uid":  {answer("v1beta1", "other", "Success", ""), review("v1beta1"), ""},
		"no response":        {review("v1"), review("v1"), "no response provided"},
		"message":            {answer("v1", "", "Failure", "broken"), review("v1"), "broken"},
		"no message":         {answer("v1", "", "Failure", ""), review("v1"), "response.result.status was 'Failure', not 'Success'"},
	} {
		objects, err := convertedObjects(test.got, test.asked, "u")
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || err == nil && len(objects) != 1 {
			t.Errorf("%s: %v, %v", name, objects, err)
		}
	}

	to := runtimeschema.GroupVersion{Group: "g", Version: "v2"}
	const sent = `{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a","namespace":"n","uid":"u"}}`
	for got, says := range map[string]string{
		`{"apiVersion":"g/v2","kind":"K","metadata":{"name":"a","namespace":"n","uid":"u"}}`:     "",
		`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a","namespace":"n","uid":"u"}}`:     "invalid groupVersion (expected g/v2, received g/v1)",
		`{"apiVersion":"g/v2","kind":"Other","metadata":{"name":"a","namespace":"n","uid":"u"}}`: "must have the same kind: K != Other",
		`{"apiVersion":"g/v2","kind":"K","metadata":{"name":"b","namespace":"n","uid":"u"}}`:     "must have the same name: a != b",
		`{"apiVersion":"g/v2","kind":"K","metadata":{"name":"a","uid":"u"}}`:                     "must have the same namespace: n != ",
		`{"apiVersion":"g/v2","kind":"K","metadata":{"name":"a","namespace":"n","uid":"w"}}`:     "must have the same UID: u != w",
	} {
		if err := checkConverted(tree(t, sent), tree(t, got), to); (err == nil) != (says == "") || err != nil && err.Error() != says {
			t.Errorf("%s: %v", got, err)
		}
	}

	const stored = `{"metadata":{"name":"a","generation":3,"labels":{"app":"w","Bad Key":"stored"},"annotations":{"a":"b"}}}`
	for got, want := range map[string]string{
		`{"metadata":{"labels":{"app":"v"},"annotations":{"c":"d"}}}`: `{"name":"a","generation":3,"labels":{"app":"v"},"annotations":{"c":"d"}}`,
		`{"metadata":{"name":"b","generation":9,"finalizers":["x"]}}`: `{"name":"a","generation":3}`,
		`{"metadata":{"labels":{"app":"w","Bad Key":"stored"}}}`:      `{"name":"a","generation":3,"labels":{"app":"w","Bad Key":"stored"}}`,
		`{"metadata":{"labels":{"app":"v","Bad Key":"stored"}}}`:      "metadata.labels",
		`{"metadata":{"annotations":{"Bad Key":"x"}}}`:                "metadata.annotations",
		`{"metadata":{"labels":[]}}`:                                  "metadata.labels: must be an object, not []interface {}",
		`{"metadata":{"annotations":{"a":1}}}`:                        "metadata.annotations: [a] must be a string, not int64",
		`{"metadata":[]}`:                                             "metadata must be an object, not []interface {}",
		`{}`:                                                          "metadata must be an object, not <nil>",
		`{"metadata":{"labels":null,"annotations":{}}}`:               `{"name":"a","generation":3,"annotations":{}}`,
	} {
		obj := tree(t, got)
		err := keepMetadata(tree(t, stored), obj)
		if !strings.HasPrefix(want, "{") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", got, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(obj["metadata"], any(tree(t, want))) {
			t.Errorf("%s: %v, %v", got, obj["metadata"], err)
		}
	}
	obj := tree(t, `{"metadata":{"labels":{"a":"b"}}}`)
	if err := keepMetadata(schema.Object{}, obj); err != nil || !reflect.DeepEqual(obj["metadata"], any(tree(t, `{"labels":{"a":"b"}}`))) {
		t.Error(obj, err)
	}
	for _, c := range []*api.CustomResourceConversion{{}, {Webhook: &api.WebhookConversion{}}} {
		if _, err := newWebhookConverter(t.Context(), nil, &api.CustomResourceDefinition{Spec: api.CustomResourceDefinitionSpec{Conversion: c}}); err == nil {
			t.Error("a webhook without a configuration")
		}
	}
	w := &webhookConverter{reviews: []string{"v2"}}
	if _, err := w.Convert(tree(t, sent), to); !IsConversionError(err) || !strings.Contains(err.Error(), "no supported conversion review versions") {
		t.Error(err)
	}
	if out, err := w.Convert(schema.Object{"apiVersion": "g/v1", "kind": "K"}, to); err != nil || out["apiVersion"] != "g/v2" {
		t.Error(out, err)
	}
}

// TestScalePaths checks what a Scale shows of an object, and what it sets.
func TestScalePaths(t *testing.T) {
	t.Parallel()
	selector, none := ".status.selector", ""
	sub := &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.n", StatusReplicasPath: ".status.n", LabelSelectorPath: &selector}
	p := newScalePaths(sub)
	sub.LabelSelectorPath = &none
	if p := newScalePaths(sub); p.selector != nil {
		t.Errorf("a selector: %v", p)
	}
	for text, want := range map[string]struct {
		n, have  int32
		selector string
		found    bool
		fails    bool
	}{
		`{"spec":{"n":3},"status":{"n":2,"selector":"a=b"}}`: {3, 2, "a=b", true, false},
		`{"status":{"n":2}}`:          {0, 2, "", false, false},
		`{"spec":{"n":"3"}}`:          {fails: true},
		`{"status":{"n":"3"}}`:        {fails: true},
		`{"status":{"selector":[1]}}`: {fails: true},
	} {
		got, found, err := p.Scale(&unstructured.Unstructured{Object: tree(t, text)})
		if (err != nil) != want.fails || found != want.found {
			t.Errorf("%s: %v, %v, %v", text, got, found, err)
			continue
		}
		if err == nil && (got.Spec.Replicas != want.n || got.Status.Replicas != want.have || got.Status.Selector != want.selector) {
			t.Errorf("%s: %v", text, got)
		}
	}
	if _, _, err := p.Scale(&corev1.Pod{}); err == nil {
		t.Error("a pod is scaled")
	}
	if err := p.NoReplicas(); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `the spec replicas field ".spec.n" does not exist`) {
		t.Error(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := p.SetScale(u, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 7}}); err != nil || !reflect.DeepEqual(u.Object, tree(t, `{"spec":{"n":7}}`)) {
		t.Error(u, err)
	}
	if err := p.SetScale(u, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: serverrest.UnsetReplicas}}); !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
	if err := p.SetScale(&unstructured.Unstructured{Object: map[string]any{"spec": "x"}}, &autoscalingv1.Scale{}); err == nil {
		t.Error("replicas were set in a string")
	}
}

// TestTable checks the columns and cells of a table.
func TestTable(t *testing.T) {
	t.Parallel()
	column := func(name, typ, path string) api.CustomResourceColumnDefinition {
		return api.CustomResourceColumnDefinition{Name: name, Type: typ, JSONPath: path}
	}
	columns := []api.CustomResourceColumnDefinition{
		column("S", "string", ".s"), column("I", "integer", ".i"), column("F", "integer", ".f"), column("N", "number", ".i"), column("M", "number", ".f"), column("B", "boolean", ".b"),
		column("D", "date", ".s"), column("X", "integer", ".s"), column("Y", "boolean", ".s"), column("Z", "number", ".s"), column("O", "string", ".o"), column("Missing", "string", ".missing"),
		column("E", "date", ".i"), column("Odd", "odd", ".s"),
	}
	obj := &unstructured.Unstructured{Object: tree(t, `{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a","resourceVersion":"5"},"s":"x","i":3,"f":2.5,"b":true,"o":{"a":1}}`)}
	got, err := newTable(columns).ConvertToTable(t.Context(), obj, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{"a", "x", int64(3), int64(2), float64(3), 2.5, true, "<invalid>", nil, nil, nil, `{"a":1}`, nil, nil, nil}
	if len(got.Rows) != 1 || !reflect.DeepEqual(got.Rows[0].Cells, want) || got.ResourceVersion != "5" {
		t.Errorf("got %v, %s", got.Rows, got.ResourceVersion)
	}
	if len(got.ColumnDefinitions) != len(want) || got.ColumnDefinitions[1].Description != "Custom resource definition column (in JSONPath format): .s" {
		t.Errorf("got %v", got.ColumnDefinitions)
	}
	columns[0].Description = "described"
	columns[2].JSONPath = "{"
	list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "7", "continue": "c", "remainingItemCount": int64(4)}}, Items: []unstructured.Unstructured{*obj, *obj}}
	got, err = newTable(columns).ConvertToTable(t.Context(), list, &metav1.TableOptions{})
	if err != nil || len(got.Rows) != 2 || len(got.Rows[0].Cells) != 3 || got.ResourceVersion != "7" || got.Continue != "c" || got.RemainingItemCount == nil || got.ColumnDefinitions[1].Description != "described" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := newTable(nil).ConvertToTable(t.Context(), obj, &metav1.TableOptions{NoHeaders: true}); err != nil || got.ColumnDefinitions != nil || len(got.Rows[0].Cells) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	scale := serverrest.NewScale(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, 3, 2, "")
	if got, err := newScaleTable().ConvertToTable(t.Context(), scale, nil); err != nil || !reflect.DeepEqual(got.Rows[0].Cells[:3], []any{"a", int64(3), int64(2)}) {
		t.Errorf("got %v, %v", got, err)
	}
	named := newTable([]api.CustomResourceColumnDefinition{column("Name", "string", ".metadata.name"), column("Spec", "string", ".spec.nodeName")})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}}
	if got, err := named.ConvertToTable(t.Context(), pod, nil); err != nil || !reflect.DeepEqual(got.Rows[0].Cells, []any{"a", "a", nil}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// failing is a writer that fails after a number of writes.
type failing struct{ left int }

var errWrite = errors.New("the client has gone")

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errWrite
	}
	return len(p), nil
}

// TestGzipStreamFails checks that all writes of a stream report that the client has gone.
func TestGzipStreamFails(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), storedBytes+1)
	succeeded := false
	for left := 1; left < 20; left++ {
		w := &failing{left}
		z := newGzipStream(w, newDeflaters())
		var err error
		for _, do := range []func() error{
			func() error { _, err := z.Write([]byte("a")); return err }, z.flush, z.store, z.store, z.flush,
			func() error {
				n, err := z.Write(large)
				if (err == nil) != (n == len(large)) || n != 0 && n != storedBytes && n != len(large) {
					t.Errorf("%d writes: %d bytes, %v", left, n, err)
				}
				return err
			},
			z.Close,
		} {
			if err = do(); (err != nil) != (w.left < 0) {
				t.Errorf("%d writes: the client has gone: %v, %v", left, w.left < 0, err)
			}
			if err != nil {
				break
			}
		}
		if failed := w.left < 0; failed != errors.Is(err, errWrite) {
			t.Errorf("%d writes: %v", left, err)
		} else if !failed {
			succeeded = true
		}
	}
	if !succeeded {
		t.Error("no stream was written")
	}
	var _ io.Writer = &gzipStream{}
}

// TestMergePatchErrors checks texts that are no patches.
func TestMergePatchErrors(t *testing.T) {
	t.Parallel()
	for _, test := range [][2]string{{`{`, `{}`}, {`{}`, `{`}, {`{}`, `null`}, {`{}`, `"x"`}, {`{}`, `1`}} {
		if out, err := mergePatch([]byte(test[0]), []byte(test[1])); err == nil {
			t.Errorf("%v: got %s", test, out)
		}
	}
	for _, doc := range []string{`[]`, `null`, `1`} {
		if out, err := mergePatch([]byte(doc), []byte(`{"a":null,"b":{"c":null,"d":1}}`)); err != nil || string(out) != `{"b":{"d":1}}` {
			t.Errorf("%s: got %s, %v", doc, out, err)
		}
	}
}
