package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

func TestDefaults(t *testing.T) {
	defaulters := map[string]func(string) (any, error){
		"v1": func(text string) (any, error) {
			crd := &api.CustomResourceDefinition{}
			err := api.Unmarshal([]byte(text), crd)
			api.SetDefaults(crd)
			return crd, err
		},
		"v1beta1": func(text string) (any, error) {
			crd := &v1beta1.CustomResourceDefinition{}
			err := api.Unmarshal([]byte(text), crd)
			v1beta1.SetDefaults(crd)
			return crd, err
		},
	}
	for _, tt := range []struct{ version, name, spec, want, stored string }{
		{"v1", "nothing", `{}`, `{"conversion":{"strategy":"None"}}`, ``},
		{"v1", "names", `{"names":{"kind":"FooBar"}}`, `{"names":{"kind":"FooBar","singular":"foobar","listKind":"FooBarList"},"conversion":{"strategy":"None"}}`, ``},
		{"v1", "names that are there", `{"names":{"kind":"Foo","singular":"x","listKind":"y"}}`, `{"names":{"kind":"Foo","singular":"x","listKind":"y"},"conversion":{"strategy":"None"}}`, ``},
		{"v1", "stored versions", `{"versions":[{"name":"a"},{"name":"b","storage":true},{"name":"c","storage":true}]}`, `{"versions":[{"name":"a"},{"name":"b","storage":true},{"name":"c","storage":true}],"conversion":{"strategy":"None"}}`, `b`},
		{"v1", "webhook", `{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"s"}}}}}`, `{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"s","port":443}}}}}`, ``},
		{"v1", "webhook with a port", `{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"port":0}}}}}`, `{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"port":0}}}}}`, ``},
		{"v1", "no strategy", `{"conversion":{}}`, `{"conversion":{}}`, ``},
		{"v1beta1", "nothing", `{}`, `{"scope":"Namespaced","conversion":{"strategy":"None"},"preserveUnknownFields":true}`, ``},
		{"v1beta1", "version", `{"version":"v1","scope":"Cluster"}`, `{"version":"v1","versions":[{"name":"v1","served":true,"storage":true}],"scope":"Cluster","conversion":{"strategy":"None"},"preserveUnknownFields":true}`, `v1`},
		{"v1beta1", "versions", `{"versions":[{"name":"v1"},{"name":"v2","storage":true}],"preserveUnknownFields":false}`, `{"version":"v1","versions":[{"name":"v1"},{"name":"v2","storage":true}],"scope":"Namespaced","conversion":{"strategy":"None"},"preserveUnknownFields":false}`, `v2`},
		{"v1beta1", "webhook", `{"names":{"kind":"Foo"},"conversion":{"strategy":"Webhook","webhookClientConfig":{"service":{"name":"s"}}}}`, `{"names":{"kind":"Foo","singular":"foo","listKind":"FooList"},"scope":"Namespaced","conversion":{"strategy":"Webhook","webhookClientConfig":{"service":{"name":"s","port":443}},"conversionReviewVersions":["v1beta1"]},"preserveUnknownFields":true}`, ``},
		{"v1beta1", "review versions", `{"conversion":{"strategy":"Webhook","conversionReviewVersions":["v1"]}}`, `{"scope":"Namespaced","conversion":{"strategy":"Webhook","conversionReviewVersions":["v1"]},"preserveUnknownFields":true}`, ``},
	} {
		t.Run(tt.version+" "+tt.name, func(t *testing.T) {
			crd, err := defaulters[tt.version](`{"spec":` + tt.spec + `}`)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(crd)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"spec":` + tt.want + `}`
			if tt.stored != "" {
				want = `{"spec":` + tt.want + `,"status":{"storedVersions":["` + tt.stored + `"]}}`
			}
			var gotMeaning, wantMeaning any
			if tt.version == "v1" {
				gotMeaning, _ = meaning[api.CustomResourceDefinition](t, got)
				wantMeaning, _ = meaning[api.CustomResourceDefinition](t, []byte(want))
			} else {
				gotMeaning, _ = meaning[v1beta1.CustomResourceDefinition](t, got)
				wantMeaning, _ = meaning[v1beta1.CustomResourceDefinition](t, []byte(want))
			}
			if diff := differences(gotMeaning, wantMeaning, ""); diff != nil {
				t.Error(strings.Join(diff, "\n"))
			}
		})
	}
}
