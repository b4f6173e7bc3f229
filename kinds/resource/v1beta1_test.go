package resource

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta1"
)

// TestExact makes sure that exact has all fields that are in another place in v1beta1, and that
// those of a device are the same in both versions.
func TestExact(t *testing.T) {
	names := func(t reflect.Type) map[string]bool {
		out := map[string]bool{}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			out[name] = true
		}
		return out
	}
	want, request := names(reflect.TypeFor[v1.ExactDeviceRequest]()), names(reflect.TypeFor[v1beta1.DeviceRequest]())
	for _, name := range exact {
		if !want[name] || !request[name] {
			t.Errorf("there is no field %s", name)
		}
	}
	if len(exact) != len(want) {
		t.Errorf("the fields are %v", want)
	}
	device := names(reflect.TypeFor[v1.Device]())
	delete(device, "name")
	if basic := names(reflect.TypeFor[v1beta1.BasicDevice]()); !reflect.DeepEqual(device, basic) {
		t.Errorf("v1 has %v, v1beta1 %v", device, basic)
	}
}

func TestV1beta1(t *testing.T) {
	for _, test := range []struct{ beta, v1 string }{
		{`{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c","count":2,"selectors":[{"cel":{"expression":"true"}}]}]}}}`,
			`{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","count":2,"selectors":[{"cel":{"expression":"true"}}]}}]}}}`},
		{`{"spec":{"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"s","deviceClassName":"c"}]}]}}}}`,
			`{"spec":{"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"s","deviceClassName":"c"}]}]}}}}`},
		{`{"items":[{"spec":{"nodeName":"n","devices":[{"name":"d","basic":{"attributes":{"a":{"string":"b"}}}},{"name":"e","basic":{}}]}}]}`,
			`{"items":[{"spec":{"nodeName":"n","devices":[{"name":"d","attributes":{"a":{"string":"b"}}},{"name":"e"}]}}]}`},
		{`{"spec":{}}`, `{"spec":{}}`},
		{`{"spec":{"selectors":[]}}`, `{"spec":{"selectors":[]}}`},
	} {
		parse := func(text string) (out map[string]any) {
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		got := parse(test.beta)
		FromV1beta1(got)
		if !reflect.DeepEqual(got, parse(test.v1)) {
			t.Errorf("%s becomes %v", test.beta, got)
		}
		got = parse(test.v1)
		ToV1beta1(got)
		if !reflect.DeepEqual(got, parse(test.beta)) {
			t.Errorf("%s becomes %v", test.v1, got)
		}
	}
	// A typed client always sends the name of the class.
	got := map[string]any{"spec": map[string]any{"devices": map[string]any{"requests": []any{map[string]any{"name": "r", "deviceClassName": ""}}}}}
	FromV1beta1(got)
	if text, err := json.Marshal(got); err != nil || string(text) != `{"spec":{"devices":{"requests":[{"name":"r"}]}}}` {
		t.Errorf("got %s, %v", text, err)
	}
}
