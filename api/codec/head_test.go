package codec_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/codec"
)

// TestDecodeHead compares heads with whole CRDs.
func TestDecodeHead(t *testing.T) {
	const crd = `{"apiVersion":"apiextensions.k8s.io/%s","kind":"CustomResourceDefinition",
"metadata":{"name":"things.example.com","managedFields":[{"manager":"a"}],"labels":{"a":"b"}},"spec": %s ,"status":{"storedVersions":["v1"]}}`
	const names = `"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"}`
	const schema = `{"openAPIV3Schema":{"type":"object","properties":{"openAPIV3Schema":{"type":"string"}}}}`
	for name, c := range map[string]struct{ version, spec string }{
		"v1":             {"v1", `{` + names + `,"versions":[{"name":"v1","served":true,"storage":true,"schema":` + schema + `,"subresources":{"status":{}}},{"name":"v2","schema":{}}]}`},
		"v1beta1":        {"v1beta1", `{` + names + `,"version":"v1","validation":` + schema + `}`},
		"v1beta1 of two": {"v1beta1", `{` + names + `,"versions":[{"name":"v1","schema":` + schema + `},{"name":"v2","schema":` + schema + `}]}`},
		"2017":           {"v1beta1", `{` + names + `,"version":"v1","validation":{"jsonSchema":{"type":"object"}}}`},
		"no schema":      {"v1", `{` + names + `,"versions":[{"name":"v1"}]}`},
		"empty":          {"v1", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(fmt.Sprintf(crd, c.version, c.spec))
			want, err := codec.DecodeLenient(text)
			if err != nil {
				t.Fatal(err)
			}
			want.ManagedFields = nil
			for i := range want.Spec.Versions {
				if s := want.Spec.Versions[i].Schema; s != nil {
					s.OpenAPIV3Schema = nil
				}
			}
			got, spec, err := codec.DecodeHead(text)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			if string(spec) != c.spec {
				t.Errorf("spec: got %s", spec)
			}
		})
	}
	for name, text := range map[string]string{
		"empty":         ``,
		"a list":        `[]`,
		"half":          strings.TrimSuffix(fmt.Sprintf(crd, "v1", `{}`), "}"),
		"no JSON":       fmt.Sprintf(crd, "v1", `{"versions":[{"schema":{"openAPIV3Schema":{"a":}}}]}`),
		"more":          fmt.Sprintf(crd, "v1", `{}`) + "{}",
		"another type":  fmt.Sprintf(crd, "v1", `{"versions":{}}`),
		"another kind":  `{"apiVersion":"apiextensions.k8s.io/v1","kind":"Thing","spec":{}}`,
		"no apiVersion": `{"kind":"` + api.Kind + `"}`,
	} {
		if got, _, err := codec.DecodeHead([]byte(text)); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
