package protobuf

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/api"
	v1beta1api "espalier.dev/api/v1beta1"
)

func TestEncode(t *testing.T) {
	text, err := Decode(envelope(t, api.APIVersion, sampleMessage(t)))
	if err != nil {
		t.Fatal(err)
	}
	crd := &api.CustomResourceDefinition{}
	if err := json.Unmarshal(text, crd); err != nil {
		t.Fatal(err)
	}
	crd.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0).UTC())}}
	crd.Annotations = map[string]string{"a": "b"}
	for _, obj := range []runtime.Object{crd, v1beta1api.FromV1(crd)} {
		message, ok, err := Encode(obj)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		text, err := Decode(envelope(t, obj.GetObjectKind().GroupVersionKind().GroupVersion().String(), message))
		if err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
		if err := json.Unmarshal(text, again); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(again)
		want, _ := json.Marshal(obj)
		if string(got) != string(want) {
			t.Errorf("%T: got\n%s\nwant\n%s", obj, got, want)
		}
	}
}

func TestEncodeOthers(t *testing.T) {
	if _, ok, err := Encode(&metav1.Status{}); ok || err != nil {
		t.Errorf("Status: %v, %v", ok, err)
	}
	schema := &api.JSONSchemaProps{Type: api.StringOrArray{"string", "integer"}}
	if _, _, err := Encode(withSchema(schema)); err == nil {
		t.Error("several types were encoded as one")
	}
}

// TestEncodeDeep encodes a large value below many levels: copying it at each level would
// take minutes.
func TestEncodeDeep(t *testing.T) {
	schema := &api.JSONSchemaProps{Description: string(make([]byte, 4<<20))}
	for range maxDepth - 10 {
		schema = &api.JSONSchemaProps{Not: schema}
	}
	start := time.Now()
	message, _, err := Encode(withSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := Decode(envelope(t, api.APIVersion, message)); err != nil {
		t.Error(err)
	}
}

func withSchema(s *api.JSONSchemaProps) *api.CustomResourceDefinition {
	return &api.CustomResourceDefinition{Spec: api.CustomResourceDefinitionSpec{
		Versions: []api.CustomResourceDefinitionVersion{{Schema: &api.CustomResourceValidation{OpenAPIV3Schema: s}}},
	}}
}
