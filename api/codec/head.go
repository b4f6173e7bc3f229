package codec

import (
	"bytes"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
)

// DecodeHead is DecodeLenient without the schemas and the managed fields, which are
// almost all of a CRD. Unlike the schemas of 2017, which are an annotation in v1, they
// are only checked to be JSON. The second result is the text of the spec, for
// comparisons: CRDs with the same text have the same spec.
func DecodeHead(data []byte) (crd *api.CustomResourceDefinition, spec []byte, err error) {
	s := headScan{}
	s.r.Borrow(data)
	if s.r.Peek() != '{' {
		crd, err = DecodeLenient(data)
		return crd, nil, err
	}
	if err := s.members(map[string]func() error{
		"metadata": func() error { return s.members(map[string]func() error{"managedFields": s.cut}) },
		"spec": func() error {
			start := s.r.Offset()
			err := s.members(map[string]func() error{
				"validation": s.validation,
				"versions": func() error {
					return s.items(func() error { return s.members(map[string]func() error{"schema": s.validation}) })
				},
			})
			spec = bytes.TrimSpace(data[start:s.r.Offset()])
			return err
		},
	}); err != nil {
		return nil, nil, err
	}
	if err := s.r.End(); err != nil {
		return nil, nil, err
	}
	head := make([]byte, 0, len(data)-s.saved+4*len(s.cuts))
	at := 0
	for _, c := range s.cuts {
		head = append(append(head, data[at:c.start]...), "null"...)
		at = c.end
	}
	crd, err = DecodeLenient(append(head, data[at:]...))
	return crd, spec, err
}

// headScan finds the values of a CRD to leave out.
type headScan struct {
	r jsonx.Reader
	// cuts are the positions of the values to leave out, and saved is their length.
	cuts  []span
	saved int
}

type span struct{ start, end int }

// cut skips a value and leaves it out.
func (s *headScan) cut() error {
	s.r.Peek()
	start := s.r.Offset()
	err := s.r.SkipRaw()
	s.cuts = append(s.cuts, span{start, s.r.Offset()})
	s.saved += s.r.Offset() - start
	return err
}

// validation leaves out the schema of a validation or of a version.
func (s *headScan) validation() error {
	return s.members(map[string]func() error{"openAPIV3Schema": s.cut})
}

// members reads an object with a function for each of some members. It skips all others,
// and a value that is not an object.
func (s *headScan) members(read map[string]func() error) error {
	if s.r.Peek() != '{' {
		return s.r.SkipRaw()
	}
	return s.r.Members(func(name string) error {
		if f := read[name]; f != nil {
			return f()
		}
		return s.r.SkipRaw()
	})
}

// items reads an array, and skips a value that is not an array.
func (s *headScan) items(read func() error) error {
	if s.r.Peek() != '[' {
		return s.r.SkipRaw()
	}
	return s.r.Items(func(int) error { return read() })
}
