package crd

import (
	"k8s.io/apimachinery/pkg/conversion"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
)

// equal compares parts of CRDs by meaning, as kube-apiserver does: empty lists equal
// missing ones, and JSON values are compared regardless of formatting.
func equal(a, b any) bool { return conversion.EqualitiesOrDie(equalJSON).DeepEqual(a, b) }

func equalJSON(a, b api.JSON) bool {
	va, errA := parseJSON(a)
	vb, errB := parseJSON(b)
	return errA == nil && errB == nil && conversion.EqualitiesOrDie().DeepEqual(va, vb)
}

// parseJSON decodes a value in a schema. No bytes mean null.
func parseJSON(j api.JSON) (v any, err error) {
	if len(j.Raw) == 0 {
		return nil, nil
	}
	return v, kjson.UnmarshalCaseSensitivePreserveInts(j.Raw, &v)
}
