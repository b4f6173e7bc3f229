package kinds

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// TestMetaFactory compares the kinds of objects with those that Kubernetes finds.
func TestMetaFactory(t *testing.T) {
	for text, fast := range map[string]bool{
		`{"apiVersion":"apps/v1","kind":"Deployment"}`:                      true,
		` {"metadata":{"kind":1},"kind":"Pod","apiVersion":"v1"} `:          true,
		`{"apiVersion":"v1","kind":"P\u006fd","x":1e999}`:                   true,
		`{"apiVersion":"a/b/c","kind":"Pod"}`:                               true,
		`{"apiVersion":"v1","kind":"Pod","Kind":"Service"}`:                 false,
		`{"apiVersion":"v1","kind":"Pod","APIVERSION":"v2"}`:                false,
		`{"apiVersion":"v1","apiVersion":"v2","kind":"Pod"}`:                false,
		`{"apiVersion":"v1","kind":"Pod","\u212aind":"Service"}`:            false,
		`{"ApiVersion":"v1","KIND":"Pod"}`:                                  true,
		`{"apiVersion":"v1"}`:                                               false,
		`{"apiVersion":1,"kind":"Pod"}`:                                     false,
		`{"apiVersion":null,"kind":"Pod"}`:                                  false,
		`{"apiVersion":"v1","kind":"Pod"`:                                   false,
		`{"apiVersion":"v1","kind":"Pod"}{}`:                                false,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b",}}}`: false,
		`[]`:   false,
		``:     false,
		`null`: false,
	} {
		if _, _, ok := typeMetaOf([]byte(text)); ok != fast {
			t.Errorf("%s: found %v, want %v", text, ok, fast)
		}
		got, gotErr := metaFactory{}.Interpret([]byte(text))
		want, wantErr := json.DefaultMetaFactory.Interpret([]byte(text))
		if (gotErr != nil) != (wantErr != nil) || wantErr == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v, %v", text, got, gotErr, want, wantErr)
		}
	}
}
