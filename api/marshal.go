package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"
)

var nullLiteral = []byte("null")

// first returns the first byte of a JSON value, which tells its type.
func first(data []byte) byte {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return 0
	}
	return data[0]
}

// MarshalJSON writes the value as it was read.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j.Raw) == 0 {
		return nullLiteral, nil
	}
	return j.Raw, nil
}

// UnmarshalJSON keeps a copy of data. The literal null becomes no bytes.
func (j *JSON) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, nullLiteral) {
		j.Raw = nil
		return nil
	}
	j.Raw = bytes.Clone(data)
	return nil
}

// MarshalJSON writes a single string as a string and several as a list.
func (s StringOrArray) MarshalJSON() ([]byte, error) {
	if len(s) == 1 {
		return json.Marshal(s[0])
	}
	return json.Marshal([]string(s))
}

// UnmarshalJSON takes a string or a list of strings.
func (s *StringOrArray) UnmarshalJSON(data []byte) error {
	switch first(data) {
	case '"':
		var one string
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &one); err != nil {
			return err
		}
		*s = nil
		if one != "" {
			*s = StringOrArray{one}
		}
		return nil
	case '[':
		return kjson.UnmarshalCaseSensitivePreserveInts(data, (*[]string)(s))
	case 'n':
		*s = nil
		return nil
	}
	return fmt.Errorf("string or list of strings expected, not %s", data)
}

// MarshalJSON writes the schema, or else the list.
func (s JSONSchemaPropsOrArray) MarshalJSON() ([]byte, error) {
	if len(s.JSONSchemas) > 0 {
		return json.Marshal(s.JSONSchemas)
	}
	return json.Marshal(s.Schema)
}

// UnmarshalJSON takes a schema or a list of schemas; anything else reads as neither.
func (s *JSONSchemaPropsOrArray) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrArray{}
	switch first(data) {
	case '{':
		s.Schema = &JSONSchemaProps{}
		return kjson.UnmarshalCaseSensitivePreserveInts(data, s.Schema)
	case '[':
		return kjson.UnmarshalCaseSensitivePreserveInts(data, &s.JSONSchemas)
	}
	return nil
}

// MarshalJSON writes the schema, or else the boolean.
func (s JSONSchemaPropsOrBool) MarshalJSON() ([]byte, error) {
	if s.Schema != nil {
		return json.Marshal(s.Schema)
	}
	return json.Marshal(s.Allows)
}

// UnmarshalJSON takes a schema or a boolean.
func (s *JSONSchemaPropsOrBool) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrBool{}
	switch first(data) {
	case '{':
		s.Allows = true
		s.Schema = &JSONSchemaProps{}
		return kjson.UnmarshalCaseSensitivePreserveInts(data, s.Schema)
	case 't', 'f':
		return kjson.UnmarshalCaseSensitivePreserveInts(data, &s.Allows)
	}
	return errors.New("boolean or JSON schema expected")
}

// MarshalJSON writes the list, or else the schema.
func (s JSONSchemaPropsOrStringArray) MarshalJSON() ([]byte, error) {
	if len(s.Property) > 0 {
		return json.Marshal(s.Property)
	}
	return json.Marshal(s.Schema)
}

// UnmarshalJSON takes a schema or a list of strings; anything else reads as neither.
func (s *JSONSchemaPropsOrStringArray) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrStringArray{}
	switch first(data) {
	case '{':
		s.Schema = &JSONSchemaProps{}
		return kjson.UnmarshalCaseSensitivePreserveInts(data, s.Schema)
	case '[':
		return kjson.UnmarshalCaseSensitivePreserveInts(data, &s.Property)
	}
	return nil
}
