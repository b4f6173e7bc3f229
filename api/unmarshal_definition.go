package api

import (
	"reflect"

	kjson "sigs.k8s.io/json"
)

// unmarshalDefinition decodes a CRD into crd, which must be zero. It decodes the schemas, which are
// almost all of the text, on their own: the JSON decoder would read each of them four times, to validate
// the text, to find the end of the value, and twice in its UnmarshalJSON. It returns false if it cannot,
// and does not change crd then; Unmarshal finds the error, if there is one.
func unmarshalDefinition(data []byte, crd *CustomResourceDefinition) bool {
	if !reflect.ValueOf(crd).Elem().IsZero() {
		return false
	}
	s := schemaScan{cursor: cursorAt(data)}
	if s.scan() != nil || s.repeated || len(s.found) == 0 {
		return false
	}
	head, at := make([]byte, 0, 4<<10), 0
	for _, f := range s.found {
		head = append(append(head, data[at:f.start]...), "null"...)
		at = f.end
	}
	var decoded CustomResourceDefinition
	if kjson.UnmarshalCaseSensitivePreserveInts(append(head, data[at:]...), &decoded) != nil {
		return false
	}
	for _, f := range s.found {
		schema := &JSONSchemaProps{}
		if cursorAt(data[f.start:f.end]).decode(reflect.ValueOf(schema).Elem()) != nil {
			return false
		}
		decoded.Spec.Versions[f.version].Schema.OpenAPIV3Schema = schema
	}
	*crd = decoded
	return true
}

// schemaScan finds the schemas in a CRD.
type schemaScan struct {
	*cursor
	found []schemaText
	// repeated is set if a member that contains schemas occurs twice: the decoder merges such members.
	repeated bool
}

// schemaText is the text of the schema of a version.
type schemaText struct{ version, start, end int }

// scan reads the whole text, and returns an error if it is not JSON.
func (s *schemaScan) scan() error {
	err := s.member("spec", func() error {
		return s.member("versions", func() error {
			if s.Peek() != '[' {
				return s.SkipRaw()
			}
			return s.Items(func(i int) error {
				return s.member("schema", func() error {
					return s.member("openAPIV3Schema", func() error { return s.schema(i) })
				})
			})
		})
	})
	if err != nil {
		return err
	}
	return s.End()
}

// member reads an object with a function for one of its members. It skips all others, and a value that
// is not an object.
func (s *schemaScan) member(name string, read func() error) error {
	if s.Peek() != '{' {
		return s.SkipRaw()
	}
	n := 0
	return s.Members(func(key string) error {
		if key != name {
			return s.SkipRaw()
		}
		if n++; n > 1 {
			s.repeated = true
		}
		return read()
	})
}

func (s *schemaScan) schema(version int) error {
	isObject := s.Peek() == '{'
	start := s.Offset()
	err := s.SkipRaw()
	if isObject {
		s.found = append(s.found, schemaText{version, start, s.Offset()})
	}
	return err
}
