package schema

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/internal/jsonptr"
)

// Step is one step of a Path.
type Step struct {
	// Key is the name of a field, or the key of a map entry; unused for an index.
	Key   string
	Index int
	Kind  StepKind
}

// StepKind is the kind of a Step.
type StepKind uint8

// A Field is listed in properties, or is unspecified. A MapKey matches
// additionalProperties. An Index is a position in an array.
const (
	Field StepKind = iota
	MapKey
	Index
)

// Path leads from the root of an object to a value in it.
type Path []Step

// String returns the path as spec.containers[0].name, the form of strict decoding. The
// root is the empty string.
func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		if s.Kind == Index {
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.Key)
	}
	return b.String()
}

// Pattern returns the path with * for indices and keys of maps: spec.containers[*].name. Values
// with the same pattern have the same schema.
func (p Path) Pattern() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.Kind == Index:
			b.WriteString("[*]")
			continue
		case i > 0:
			b.WriteByte('.')
		}
		if s.Kind == MapKey {
			b.WriteByte('*')
		} else {
			b.WriteString(s.Key)
		}
	}
	return b.String()
}

// Pointer returns the path as a JSON pointer (RFC 6901).
func (p Path) Pointer() string {
	var b []byte
	for _, s := range p {
		token := s.Key
		if s.Kind == Index {
			token = strconv.Itoa(s.Index)
		}
		b = jsonptr.Append(b, token)
	}
	return string(b)
}

// FieldPath returns the path as in Kubernetes' field errors, with map keys in brackets.
// It returns nil for the root.
func (p Path) FieldPath() *field.Path { return p.Field(nil) }

// Field returns the path below root, which may be nil, in the form of FieldPath.
func (p Path) Field(root *field.Path) *field.Path {
	for _, s := range p {
		switch s.Kind {
		case Field:
			root = root.Child(s.Key)
		case MapKey:
			root = root.Key(s.Key)
		case Index:
			root = root.Index(s.Index)
		}
	}
	return root
}

// name returns the path as in the messages of kube-apiserver's schema validation: a map
// key always follows a dot, even at the root.
func (p Path) name() string {
	var b strings.Builder
	for _, s := range p {
		switch s.Kind {
		case Index:
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
			continue
		case MapKey:
			b.WriteByte('.')
		case Field:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
		}
		b.WriteString(s.Key)
	}
	return b.String()
}

// compare orders paths step by step.
func (p Path) compare(q Path) int {
	return slices.CompareFunc(p, q, func(a, b Step) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return a.Index - b.Index
	})
}

// clone returns a copy that later steps do not overwrite.
func (p Path) clone() Path { return append(Path(nil), p...) }

// Delete removes the field at the path from a value, if it has it.
func (p Path) Delete(value any) {
	if len(p) == 0 {
		return
	}
	last := len(p) - 1
	parent, _ := p[:last].Find(value)
	if fields, ok := parent.(map[string]any); ok && p[last].Kind != Index {
		delete(fields, p[last].Key)
	}
}

// Find returns the value at the path in a value, and reports whether it exists.
func (p Path) Find(value any) (any, bool) {
	for _, step := range p {
		switch step.Kind {
		case Index:
			list, _ := value.([]any)
			if step.Index >= len(list) {
				return nil, false
			}
			value = list[step.Index]
		default:
			m, _ := value.(map[string]any)
			var ok bool
			if value, ok = m[step.Key]; !ok {
				return nil, false
			}
		}
	}
	return value, true
}
