package oracle

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/internal/testcase"
	"espalier.dev/server/definitions/protobuf"
)

// message is a type that the reference generates from its protobuf messages.
type message interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// TestProtobuf compares the protobuf of the CRDs of the corpus, byte by byte.
func TestProtobuf(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	c := readCorpus(t)
	for _, version := range []string{"v1", "v1beta1"} {
		compared := 0
		for _, file := range testcase.Part(c.files(t, version)) {
			tree := c.read(t, file)
			theirs, _ := protobufTypes(version)
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, theirs); err != nil {
				continue // kube-apiserver rejects it
			}
			// kube-apiserver converts what it writes from its internal type.
			internal := &apiextensions.CustomResourceDefinition{}
			if err := scheme.Convert(theirs, internal, nil); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			theirs, _ = protobufTypes(version)
			if err := scheme.Convert(internal, theirs, nil); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			compareProtobuf(t, file, version, theirs)
			compared++
		}
		if compared < 50 || compared < 500 && testcase.WholeCorpus() {
			t.Errorf("only %d CRDs of %s were compared", compared, version)
		}
	}
}

// TestProtobufFields compares the protobuf of CRDs in which every field is set.
func TestProtobufFields(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		for _, either := range []bool{false, true} {
			theirs, _ := protobufTypes(version)
			fill(reflect.ValueOf(theirs).Elem(), either, 0)
			compareProtobuf(t, version, version, theirs)
		}
	}
}

// TestProtobufList compares the protobuf of lists.
func TestProtobufList(t *testing.T) {
	theirs := &apiextensionsv1.CustomResourceDefinitionList{Items: make([]apiextensionsv1.CustomResourceDefinition, 3)}
	for i := range theirs.Items {
		fill(reflect.ValueOf(&theirs.Items[i]).Elem(), false, 0)
	}
	theirs.ResourceVersion, theirs.Continue = "7", "more"
	equalProtobuf(t, "list", theirs, &api.CustomResourceDefinitionList{})
}

// protobufTypes returns an empty CRD of each side.
func protobufTypes(version string) (theirs message, ours runtime.Object) {
	if version == "v1beta1" {
		return &apiextensionsv1beta1.CustomResourceDefinition{}, &v1beta1.CustomResourceDefinition{}
	}
	return &apiextensionsv1.CustomResourceDefinition{}, &api.CustomResourceDefinition{}
}

// compareProtobuf compares both directions for a CRD of the reference.
func compareProtobuf(t *testing.T, name, version string, theirs message) {
	t.Helper()
	again, ours := protobufTypes(version)
	want := equalProtobuf(t, name, theirs, ours)

	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: api.GroupName + "/" + version, Kind: api.Kind}, Raw: want}
	data, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text, err := protobuf.Decode(append([]byte("k8s\x00"), data...))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := json.Unmarshal(text, again); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	read, _ := protobufTypes(version)
	if err := read.Unmarshal(want); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	equalObjects(t, name+": decoded", again, read)
}

// equalObjects compares the JSON of two objects, apart from apiVersion and kind, which are
// not in the messages.
func equalObjects(t *testing.T, name string, got, want runtime.Object) {
	t.Helper()
	got.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
	if short(got) == short(want) {
		return
	}
	tree, err := asTree(got, nil)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := asTree(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	compareTrees(name, tree, wanted, func(d string) { t.Error(d) })
}

// equalProtobuf encodes the same object with both sides and returns the reference's result.
func equalProtobuf(t *testing.T, name string, theirs message, ours runtime.Object) []byte {
	t.Helper()
	want, err := theirs.Marshal()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := json.Unmarshal([]byte(short(theirs)), ours); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, ok, err := protobuf.Encode(ours)
	if err != nil || !ok {
		t.Fatalf("%s: %v, %v", name, ok, err)
	}
	if !bytes.Equal(got, want) {
		read := reflect.New(reflect.TypeOf(theirs).Elem()).Interface().(message)
		t.Errorf("%s: %d bytes are not the expected %d (read: %v)", name, len(got), len(want), read.Unmarshal(got))
		equalObjects(t, name, read, theirs)
	}
	return want
}

// fill sets every field of a value, schemas down to a certain depth. either decides which
// of two alternatives is set.
func fill(v reflect.Value, either bool, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.ObjectMeta:
		*x = metav1.ObjectMeta{Name: "things.example.com", Labels: map[string]string{"a": "b", "c": ""}, Generation: 3,
			CreationTimestamp: metav1.NewTime(time.Unix(1700000000, 0).UTC()), Finalizers: []string{"example.com/wait"}}
		return
	case *metav1.Time:
		*x = metav1.NewTime(time.Unix(1700000001, 0).UTC())
		return
	case *apiextensionsv1.JSON:
		x.Raw = []byte(`{"a":[1,1.5,"x",null]}`)
		return
	case *apiextensionsv1beta1.JSON:
		x.Raw = []byte(`{"a":[1,1.5,"x",null]}`)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		t := v.Type()
		for i := range t.NumField() {
			f := t.Field(i)
			// The alternatives have no names in JSON.
			alternative := f.Tag.Get("json") == ""
			if alternative && f.Type.Kind() != reflect.Bool && !f.Anonymous && (f.Name == "Schema") != either {
				continue
			}
			if t.Name() == "JSONSchemaProps" && depth > 1 && f.Type.Kind() != reflect.String {
				continue
			}
			next := depth
			if t.Name() == "JSONSchemaProps" {
				next++
			}
			fill(v.Field(i), either, next)
		}
		// A schema allows something; JSON does not say so.
		if allows := v.FieldByName("Allows"); allows.IsValid() {
			allows.SetBool(either)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), either, depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), either, depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"b", "a", ""} {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(e, either, depth)
			v.SetMapIndex(reflect.ValueOf(key), e)
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(-7)
	case reflect.Uint8:
		v.SetUint(200)
	case reflect.Float64:
		v.SetFloat(-1.5)
	}
}
