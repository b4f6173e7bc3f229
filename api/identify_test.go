package api_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
)

func TestIdentify(t *testing.T) {
	for text, want := range map[string]metav1.TypeMeta{
		`{"apiVersion":"example.com/v1","kind":"Thing","spec":{}}`:              {APIVersion: "example.com/v1", Kind: "Thing"},
		` {"spec":{"kind":"Other"},"kind":"Th\u0069ng","apiVersion":"v1"}`:      {APIVersion: "v1", Kind: "Thing"},
		`{"kind":"Thing","apiVersion":"v1","spec": this is never read`:          {APIVersion: "v1", Kind: "Thing"},
		`{"kind":5,"apiVersion":["v1"]}`:                                        {},
		`{"apiVersion":"v1","metadata":{"name":"a"}}`:                           {APIVersion: "v1"},
		`{"Kind":"Thing","APIVERSION":"v1"}`:                                    {},
		`{"kind":null,"kind":"Thing","kind":"Another","apiVersion":"v1","a":1}`: {APIVersion: "v1", Kind: "Thing"},
		`{}`:                 {},
		`[{"kind":"Thing"}]`: {},
		`"Thing"`:            {},
	} {
		if got, err := api.Identify([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %v and error %v, want %v", text, got, err, want)
		}
	}
	if id := api.IdentifyObject(map[string]any{"apiVersion": "v1", "kind": "Thing", "spec": "x"}); id != (metav1.TypeMeta{APIVersion: "v1", Kind: "Thing"}) {
		t.Errorf("got %v", id)
	}
	if id := api.IdentifyObject(map[string]any{"apiVersion": 1, "kind": nil}); id != (metav1.TypeMeta{}) {
		t.Errorf("got %v", id)
	}
	for _, text := range []string{``, `{`, `{"kind":}`, `{"kind":"Thing"`, `{"kind":"Thing","spec":{]}`, `[1`} {
		if got, err := api.Identify([]byte(text)); err == nil {
			t.Errorf("%s: got %v, want an error", text, got)
		}
	}
}

func TestIsDefinition(t *testing.T) {
	for id, want := range map[metav1.TypeMeta]bool{
		{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}:      true,
		{APIVersion: "apiextensions.k8s.io/v1beta1", Kind: "CustomResourceDefinition"}: true,
		{APIVersion: "apiextensions.k8s.io/v9", Kind: "CustomResourceDefinition"}:      true,
		{APIVersion: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:         false,
		{APIVersion: "example.com/v1", Kind: "CustomResourceDefinition"}:               false,
		{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"}:              false,
	} {
		if got := api.IsDefinition(id); got != want {
			t.Errorf("%v: got %v, want %v", id, got, want)
		}
	}
}
