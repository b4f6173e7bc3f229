package objects

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"espalier.dev/internal/jsonx"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// Metadata reads the metadata of a stored object, and as little of the rest as possible.
func Metadata(e *store.Entry) (*metav1.ObjectMeta, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	if envelope, ok, err := keys.Unwrap(e.Value); ok {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		// All kinds have their metadata in the first field.
		var obj metav1.PartialObjectMetadata
		if err := obj.Unmarshal(envelope.Raw); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		return &obj.ObjectMeta, nil
	}
	start, end, n, err := jsonx.Member(e.Value, "metadata")
	if err == nil && n == 0 {
		err = errors.New("the object has no metadata")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Key, err)
	}
	var m metav1.ObjectMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.Value[start:end], &m); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Key, err)
	}
	return &m, nil
}
