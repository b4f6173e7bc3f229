package api

import (
	"fmt"
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"
)

// TestUnmarshalDefinition compares the decoding of CRDs with that of the JSON decoder.
func TestUnmarshalDefinition(t *testing.T) {
	version := func(members string) string {
		return `{"metadata":{"name":"a"},"spec":{"group":"g","versions":[{"name":"v1","schema":` + members + `},{"name":"v2"}]}}`
	}
	for name, tt := range map[string]struct {
		text string
		// alone is set if the schemas are decoded on their own.
		alone bool
	}{
		"schema":               {version(`{"openAPIV3Schema":{"type":"object","properties":{"a":{"maximum":1e3,"enum":[1,"\u00e9"]}}}}`), true},
		"space":                {" \n" + version(" { \"openAPIV3Schema\" : { } } ") + " ", true},
		"two schemas":          {`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":"string"}}},null,{"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, true},
		"unknown fields":       {version(`{"other":[1],"openAPIV3Schema":{"other":1},"x":null}`), true},
		"null":                 {version(`{"openAPIV3Schema":null}`), false},
		"no object":            {version(`{"openAPIV3Schema":[]}`), false},
		"another case":         {version(`{"OpenAPIV3Schema":{"type":"object"}}`), false},
		"twice":                {version(`{"openAPIV3Schema":{"type":"object"},"openAPIV3Schema":{"title":"a"}}`), false},
		"after null":           {version(`{"openAPIV3Schema":null,"openAPIV3Schema":{"title":"a"}}`), false},
		"two specs":            {`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":"object"}}}]},"spec":{"group":"g"}}`, false},
		"two lists":            {`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":"object"}}}],"versions":[{"name":"v1"}]}}`, false},
		"wrong type":           {version(`{"openAPIV3Schema":{"type":1}}`), false},
		"wrong type elsewhere": {`{"spec":{"group":1,"versions":[{"schema":{"openAPIV3Schema":{}}}]}}`, false},
		"huge number":          {version(`{"openAPIV3Schema":{"maximum":1e999}}`), false},
		"no JSON":              {version(`{"openAPIV3Schema":{"type":"object",}}`), false},
		"no end":               {`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{}}}]}`, false},
		"more text":            {version(`{"openAPIV3Schema":{}}`) + "{}", false},
		"list":                 {`[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want CustomResourceDefinition
			if alone := unmarshalDefinition([]byte(tt.text), &got); alone != tt.alone {
				t.Errorf("decoded on their own: %v, want %v", alone, tt.alone)
			}
			got = CustomResourceDefinition{}
			gotErr := Unmarshal([]byte(tt.text), &got)
			wantErr := kjson.UnmarshalCaseSensitivePreserveInts([]byte(tt.text), &want)
			if (gotErr != nil) != (wantErr != nil) || !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%+v, %v\nwant\n%+v, %v", got, gotErr, want, wantErr)
			}
		})
	}
	given := CustomResourceDefinition{Spec: CustomResourceDefinitionSpec{Group: "g"}}
	if unmarshalDefinition(fmt.Appendf(nil, "%s", version(`{"openAPIV3Schema":{}}`)), &given) {
		t.Error("fields that the text does not have are lost")
	}
}
