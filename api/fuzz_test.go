package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
)

// stable checks that a value which was decoded once comes out of a second round
// of encoding and decoding unchanged, and so does its copy. It returns its JSON.
func stable[T any](t *testing.T, v *T) []byte {
	t.Helper()
	once, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("decoded, but cannot be encoded: %v", err)
	}
	again := new(T)
	if err := api.Unmarshal(once, again); err != nil {
		t.Fatalf("encoded, but cannot be decoded: %v\n%s", err, once)
	}
	twice, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := differences(generic(t, once), generic(t, twice), ""); diff != nil {
		t.Fatalf("not stable:\n%s\n%s", once, twice)
	}
	return once
}

func FuzzJSONSchemaProps(f *testing.F) {
	for _, text := range schemas {
		f.Add([]byte(text))
	}
	for _, text := range []string{
		`{"type":[""]}`, `{"type":[]}`, `{"items":5}`, `{"items":null}`, `{"dependencies":{"a":null,"b":5}}`, `{"type":5}`,
		`{"default":"\ud800"}`, "{\"default\":\"\xff\"}", `{"default":1e999}`, `{"maximum":1e308,"minimum":-0.0}`, `{"enum":[1.0,-0,1E2]}`,
		`{"properties":{"0":{},"0":{"type":"a"}},"properties":{}}`,
		`{"additionalProperties":null,"not":{"not":{"not":{}}}}`, strings.Repeat(`{"items":`, 50) + `{}` + strings.Repeat(`}`, 50),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &api.JSONSchemaProps{}
		if err := api.Unmarshal(data, s); err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		once := stable(t, s)
		copied, err := json.Marshal(s.DeepCopy())
		if err != nil || string(copied) != string(once) {
			t.Fatalf("the copy differs (%v):\n%s\n%s", err, once, copied)
		}
		if !json.Valid(data) {
			t.Fatalf("decoded what is not JSON: %s", data)
		}
		var tree any
		if duplicates, err := kjson.UnmarshalStrict(data, &tree); tree == nil || duplicates != nil || err != nil {
			return // of two fields with one name the decoder merges the values
		}
		want, _ := meaning[api.JSONSchemaProps](t, data)
		got, unknown := meaning[api.JSONSchemaProps](t, once)
		if diff := differences(got, want, ""); diff != nil || unknown != nil {
			t.Fatalf("%s became %s: %v %v", data, once, diff, unknown)
		}
	})
}

func FuzzCustomResourceDefinition(f *testing.F) {
	const two = `,"versions":[{"name":"v1","served":true,"storage":true},{"name":"v2","served":true,"storage":false`
	for _, text := range []string{
		v1Head + `"spec":{` + names + two + `,"schema":{"openAPIV3Schema":{"type":"object","default":{"a":1.0}}}}],"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"s","namespace":"n","path":"/p"},"caBundle":"AA=="},"conversionReviewVersions":["v1"]}}}}`,
		v1Head + `"spec":{` + names + two + `,"selectableFields":[{"jsonPath":".a"}],"subresources":{"status":{},"scale":{"specReplicasPath":".a","statusReplicasPath":".b","labelSelectorPath":".c"}}}]},"status":{"conditions":[{"type":"Established","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`,
		v1Head + `"spec":{` + names + `,"versions":[],"preserveUnknownFields":true,"conversion":{"strategy":"None","webhook":{}}}}`,
		strings.Replace(v1Head, `"metadata":{`, `"metadata":{"annotations":{"espalier.dev/json-schema":"{\"type\":[\"a\"]}"},`, 1) + `"spec":{` + names + `,"versions":[{"name":"v1","schema":{}}]}}`,
		v1beta1Head + `"spec":{` + names + `,"version":"v1","validation":{"jsonSchema":{"type":"object"}},"additionalPrinterColumns":[{"name":"n","type":"string","JSONPath":".a","priority":1}],"subresources":{"status":{}}}}`,
		v1beta1Head + `"spec":{` + names + two + `,"schema":{"openAPIV3Schema":{"enum":[1,1.0,null]}},"deprecated":true,"deprecationWarning":""}],"validation":{"jsonSchema":{}},"preserveUnknownFields":false}}`,
		v1beta1Head + `"spec":{` + names + two + `}],"validation":{},"subresources":{},"additionalPrinterColumns":[],"conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"https://a"},"conversionReviewVersions":[]}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &v1beta1.CustomResourceDefinition{}
		if err := api.Unmarshal(data, b); err == nil {
			stable(t, b)
			v1beta1.SetDefaults(b)
			throughV1(t, b)
		}
		hub, err := codec.DecodeLenient(data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		stable(t, hub)
		throughV1beta1(t, hub)
	})
}

// throughV1 checks that a v1beta1 definition with its defaults is the same after a
// client read it as v1 and wrote it, as far as v1beta1 allows its form.
func throughV1(t *testing.T, b *v1beta1.CustomResourceDefinition) {
	t.Helper()
	hub, err := v1beta1.ToV1(b)
	if err != nil {
		t.Fatal(err)
	}
	if v1beta1.CheckForm(b) != nil || len(b.Spec.Versions) == 0 {
		return // v1 has no room for it all
	}
	if _, reserved := b.Annotations[api.JSONSchemaAnnotation]; reserved {
		return // is shown as the field
	}
	read := &api.CustomResourceDefinition{}
	if err := api.Unmarshal(stable(t, hub), read); err != nil {
		t.Fatal(err)
	}
	b.APIVersion, b.Kind = v1beta1.APIVersion, api.Kind
	sameMeaning(t, v1beta1.FromV1(read), b)
}

// throughV1beta1 is the same the other way round.
func throughV1beta1(t *testing.T, hub *api.CustomResourceDefinition) {
	t.Helper()
	if c := hub.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig == nil && len(c.Webhook.ConversionReviewVersions) == 0 {
		c.Webhook = nil // as Kubernetes reads it: there is nothing in it
	}
	if s, err := api.LegacySchema(hub); err == nil && s != nil {
		if err := api.SetLegacySchema(hub, s); err != nil { // the annotation as we write it
			t.Fatal(err)
		}
	}
	read := &v1beta1.CustomResourceDefinition{}
	if err := api.Unmarshal(stable(t, v1beta1.FromV1(hub)), read); err != nil {
		t.Fatal(err)
	}
	back, err := v1beta1.ToV1(read)
	if err != nil {
		t.Fatal(err)
	}
	sameMeaning(t, back, hub)
}

func sameMeaning[T any](t *testing.T, got, want *T) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	gm, _ := meaning[T](t, g)
	wm, _ := meaning[T](t, w)
	if diff := differences(gm, wm, ""); diff != nil {
		t.Fatalf("%s\ngot  %s\nwant %s", strings.Join(diff, "\n"), g, w)
	}
}
