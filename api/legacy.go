package api

import (
	"encoding/json"
	"errors"
	"fmt"
)

// LegacySchema returns the draft-4 schema of 2017, which is spec.validation.jsonSchema
// in v1beta1, or nil if there is none.
func LegacySchema(crd *CustomResourceDefinition) (*JSONSchemaProps, error) {
	text, ok := crd.Annotations[JSONSchemaAnnotation]
	if !ok {
		return nil, nil
	}
	if firstByte([]byte(text)) != '{' {
		return nil, legacyError(errors.New("must be a JSON object"))
	}
	s := &JSONSchemaProps{}
	if err := Unmarshal([]byte(text), s); err != nil {
		return nil, legacyError(err)
	}
	return s, nil
}

func legacyError(err error) error {
	return fmt.Errorf("metadata.annotations[%s]: not a JSON schema: %w", JSONSchemaAnnotation, err)
}

// SetLegacySchema sets the draft-4 schema of crd. If s is nil, it removes the schema.
func SetLegacySchema(crd *CustomResourceDefinition, s *JSONSchemaProps) error {
	if s == nil {
		delete(crd.Annotations, JSONSchemaAnnotation)
		if len(crd.Annotations) == 0 {
			crd.Annotations = nil
		}
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return legacyError(err)
	}
	if crd.Annotations == nil {
		crd.Annotations = map[string]string{}
	}
	crd.Annotations[JSONSchemaAnnotation] = string(text)
	return nil
}
