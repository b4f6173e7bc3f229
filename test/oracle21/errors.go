package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fieldError is a field.Error as JSON.
type fieldError struct {
	Field  string          `json:"field"`
	Type   field.ErrorType `json:"type"`
	Detail string          `json:"detail"`
	Text   string          `json:"text"`
	// Value is the bad value, if it is JSON.
	Value json.RawMessage `json:"value,omitempty"`
}

func fieldErrors(errs field.ErrorList) []fieldError {
	var out []fieldError
	for _, e := range errs {
		f := fieldError{Field: e.Field, Type: e.Type, Detail: e.Detail, Text: e.Error()}
		if plain(e.BadValue) {
			if b, err := json.Marshal(e.BadValue); err == nil {
				f.Value = b
			}
		}
		out = append(out, f)
	}
	return out
}

// plain reports whether a value is JSON: the reference also puts its own structures into
// errors, whose JSON form would be meaningless.
func plain(v interface{}) bool {
	switch v := v.(type) {
	case nil, string, bool, int, int32, int64, float64:
		return true
	case []string:
		return true
	case map[string]interface{}:
		return true
	case []interface{}:
		return true
	case *string:
		return v != nil
	}
	return false
}
