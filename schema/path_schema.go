package schema

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/internal/jsonptr"
)

// SchemaPath leads from the root of a schema to a schema or keyword in it. (Path leads
// into an object.)
type SchemaPath []SchemaStep

// SchemaStep is one step of a SchemaPath: a keyword and, if the keyword holds several
// schemas, a name or an index.
type SchemaStep struct {
	// Keyword is properties, items, anyOf and so on.
	Keyword string
	// Form determines which of Name and Index is used.
	Form StepForm
	// Name is the key, for a keyword that holds a map.
	Name string
	// Index is the position, for a keyword that holds a list.
	Index int
}

// StepForm is what follows the keyword of a SchemaStep.
type StepForm uint8

const (
	// StepPlain is the keyword alone: .items
	StepPlain StepForm = iota
	// StepNamed is a key of the keyword's map: .properties[foo]
	StepNamed
	// StepIndexed is an entry of the keyword's list: .anyOf[0]
	StepIndexed
)

func keyword(k string) SchemaStep { return SchemaStep{Keyword: k} }

func named(k, name string) SchemaStep {
	return SchemaStep{Keyword: k, Form: StepNamed, Name: name}
}

func indexed(k string, i int) SchemaStep {
	return SchemaStep{Keyword: k, Form: StepIndexed, Index: i}
}

// String returns the path in the form of the design documents:
// .properties[foo].items.anyOf[0]. The root is the empty string.
func (p SchemaPath) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('.')
		b.WriteString(s.Keyword)
		switch s.Form {
		case StepNamed:
			b.WriteByte('[')
			b.WriteString(s.Name)
			b.WriteByte(']')
		case StepIndexed:
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(s.Index))
			b.WriteByte(']')
		}
	}
	return b.String()
}

// Pointer returns the path as a JSON pointer (RFC 6901) into the schema.
func (p SchemaPath) Pointer() string {
	var b []byte
	for _, s := range p {
		b = jsonptr.Append(b, s.Keyword)
		switch s.Form {
		case StepNamed:
			b = jsonptr.Append(b, s.Name)
		case StepIndexed:
			b = jsonptr.Append(b, strconv.Itoa(s.Index))
		}
	}
	return string(b)
}

// Field returns the path as a field path below root, which may be nil.
func (p SchemaPath) Field(root *field.Path) *field.Path {
	for _, s := range p {
		root = root.Child(s.Keyword)
		switch s.Form {
		case StepNamed:
			root = root.Key(s.Name)
		case StepIndexed:
			root = root.Index(s.Index)
		}
	}
	return root
}

// Compare compares paths step by step. Keywords and names are compared as bytes.
func (p SchemaPath) Compare(q SchemaPath) int {
	return slices.CompareFunc(p, q, func(a, b SchemaStep) int {
		if c := strings.Compare(a.Keyword, b.Keyword); c != 0 {
			return c
		}
		if a.Form != b.Form {
			return int(a.Form) - int(b.Form)
		}
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return a.Index - b.Index
	})
}
