package golang

import (
	"espalier.dev/analysis/generate"
	"espalier.dev/schema"
)

// expression is a Go type.
type expression struct {
	text  string
	shape shape
	// elem is the type that a pointer, slice or map refers to.
	elem *expression
}

// shape determines how values of a type are copied, and whether nil is one of them.
type shape uint8

const (
	// plain values are copied by assignment.
	plain shape = iota
	// deep values have a method DeepCopyInto.
	deep
	pointer
	slice
	mapping
)

func (e *expression) isNilable() bool {
	return e.shape == pointer || e.shape == slice || e.shape == mapping
}

func pointerTo(e *expression) *expression { return &expression{"*" + e.text, pointer, e} }

// The types of other packages that stand for a schema.
var (
	timeType     = &expression{text: "metav1.Time", shape: deep}
	bytesType    = &expression{text: "[]byte", shape: slice, elem: &expression{text: "byte"}}
	quantityType = &expression{text: "resource.Quantity", shape: deep}
	intstrType   = &expression{text: "intstr.IntOrString"}
	jsonType     = &expression{text: "apiextensionsv1.JSON", shape: deep}
	rawType      = &expression{text: "runtime.RawExtension", shape: deep}
	metaType     = &expression{text: "metav1.ObjectMeta", shape: deep}
)

// quantityPattern is the pattern that controller-gen emits for resource.Quantity.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// scalar returns the Go type of a value that is neither a list, a map nor an object of a named
// type. elem reports that it is an item or a map value, where markers cannot change the schema.
func scalar(v *generate.Value, elem bool) *expression {
	format := formatOf(v.Schema)
	switch v.Kind {
	case generate.String:
		switch {
		case format == "byte":
			return bytesType
		case format == "date-time" && !validatesMore(v.Schema):
			return timeType
		}
		return &expression{text: "string"}
	case generate.Integer:
		switch format {
		case "int32", "int64":
			return &expression{text: format}
		case "":
			return &expression{text: "int"}
		}
		return &expression{text: "int64"}
	case generate.Number:
		return &expression{text: "float64"}
	case generate.Boolean:
		return &expression{text: "bool"}
	case generate.IntOrString:
		if v.Schema.ValueValidation != nil && v.Schema.ValueValidation.Pattern == quantityPattern && isIntOrStringPattern(v.Schema) {
			return quantityType
		}
		return intstrType
	case generate.Resource:
		return rawType
	case generate.JSON:
		if elem && v.Schema.Type == "object" {
			return rawType
		}
	}
	return jsonType
}

func formatOf(s *schema.Structural) string {
	if s.ValueValidation == nil {
		return ""
	}
	return s.ValueValidation.Format
}

// validatesMore reports whether a schema validates more than a type and a format.
func validatesMore(s *schema.Structural) bool {
	if len(s.XValidations) > 0 || s.Default != nil {
		return true
	}
	if s.ValueValidation == nil {
		return false
	}
	v := *s.ValueValidation
	v.Format = ""
	without := schema.Structural{ValueValidation: &v}
	return !isEmpty(without.ToJSONSchemaProps())
}

// isIntOrStringPattern reports whether the anyOf of a schema is [integer, string], the form
// that controller-gen emits.
func isIntOrStringPattern(s *schema.Structural) bool {
	if s.ValueValidation == nil || len(s.ValueValidation.AnyOf) != 2 {
		return false
	}
	for i, typ := range []string{"integer", "string"} {
		alone := schema.Structural{ValueValidation: &schema.ValueValidation{AllOf: []schema.NestedValueValidation{s.ValueValidation.AnyOf[i]}}}
		want := schema.Structural{ValueValidation: &schema.ValueValidation{AllOf: []schema.NestedValueValidation{{ForbiddenGenerics: schema.Generic{Type: typ}}}}}
		if marshal(alone.ToJSONSchemaProps()) != marshal(want.ToJSONSchemaProps()) {
			return false
		}
	}
	return true
}

// elemType is a named type of list items or map values.
type elemType struct {
	name string
	// doc and markers are comments, and of is the type that it is declared as.
	doc     string
	markers []string
	of      *expression
}

// value returns the Go type of a value, and the markers of the field that holds it. name is
// the name of a type that has to be declared for items or map values.
func (w *writer) value(v *generate.Value, name string) (*expression, []string) {
	switch v.Kind {
	case generate.Object:
		return w.object(v), newMarkers(v, atField).own().lines
	case generate.List:
		elem, items := w.elem(v.Elem, name+"Item", true)
		return &expression{"[]" + elem.text, slice, elem}, append(newMarkers(v, atField).all(nil).lines, items...)
	case generate.Map:
		elem, items := w.elem(v.Elem, name+"Value", false)
		return &expression{"map[string]" + elem.text, mapping, elem}, append(newMarkers(v, atField).all(nil).lines, items...)
	}
	e := scalar(v, false)
	return e, newMarkers(v, atField).all(e).lines
}

// elem returns the Go type of the items of a list or of the values of a map, and markers for
// the field. controller-gen reads markers of items only from a named type, or for lists from
// the field.
func (w *writer) elem(v *generate.Value, name string, list bool) (*expression, []string) {
	var e *expression
	var markers []string
	nameable := true
	m := newMarkers(v, atType)
	switch v.Kind {
	case generate.Object:
		e, nameable = w.object(v), false
		markers = m.onlyRest().lines
	case generate.List:
		var inner *expression
		inner, markers = w.elem(v.Elem, name+"Item", false)
		e = &expression{"[]" + inner.text, slice, inner}
		m = m.all(nil)
	case generate.Map:
		var inner *expression
		inner, markers = w.elem(v.Elem, name+"Value", false)
		e = &expression{"map[string]" + inner.text, mapping, inner}
		m = m.all(nil)
	default:
		e = scalar(v, true)
		nameable = e.shape == plain && e != intstrType
		if !nameable {
			m = newMarkers(v, atItems)
			m.items = list
		}
		m = m.all(e)
		if !nameable {
			markers = m.lines
		}
	}
	if nameable && (len(m.lines) > 0 || v.Schema.Description != "") {
		e = w.declare(e, m.lines, v.Schema.Description, name)
	}
	if v.Schema.Nullable && !e.isNilable() {
		e = pointerTo(e)
	}
	return e, markers
}

// declare returns a named type with markers and a description. Equal types are declared once.
func (w *writer) declare(of *expression, markers []string, doc, name string) *expression {
	text := of.text + "\n" + doc
	for _, m := range markers {
		text += "\n" + m
	}
	t := w.elemsByText[text]
	if t == nil {
		t = &elemType{w.names.Unique(name), doc, markers, of}
		w.elemsByText[text] = t
		w.elems = append(w.elems, t)
	}
	return &expression{t.name, of.shape, of.elem}
}
