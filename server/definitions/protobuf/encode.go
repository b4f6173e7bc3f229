package protobuf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/api"
	v1beta1api "espalier.dev/api/v1beta1"
)

// Encode returns the message of a CRD or of a list of CRDs, without Kubernetes' envelope.
// It reports false if obj is neither. Fields that Kubernetes does not have are left out.
func Encode(obj runtime.Object) (message []byte, ok bool, err error) {
	var l layouts
	switch obj.(type) {
	case *api.CustomResourceDefinition, *api.CustomResourceDefinitionList:
		l = v1Layouts()
	case *v1beta1api.CustomResourceDefinition, *v1beta1api.CustomResourceDefinitionList:
		l = v1beta1Layouts()
	default:
		return nil, false, nil
	}
	e := encoder{layouts: l}
	if err := e.message(reflect.ValueOf(obj).Elem()); err != nil {
		return nil, true, fmt.Errorf("protobuf: %w", err)
	}
	return e.buf[e.start:], true, nil
}

// slot is a field of a message with its number and its place in a Go struct.
type slot struct {
	field
	number protowire.Number
	index  int
}

// layouts are the slots of the Go structs that are messages, the highest number first.
type layouts map[reflect.Type][]slot

var (
	v1Layouts = sync.OnceValue(func() layouts {
		return newLayouts(v1, reflect.TypeFor[api.CustomResourceDefinitionList]())
	})
	v1beta1Layouts = sync.OnceValue(func() layouts {
		return newLayouts(v1beta1, reflect.TypeFor[v1beta1api.CustomResourceDefinitionList]())
	})
)

// newLayouts returns the layouts of a list of CRDs and of everything in it.
func newLayouts(messages map[string]fields, list reflect.Type) layouts {
	l := layouts{}
	l.add(messages, api.ListKind, list)
	return l
}

func (l layouts) add(messages map[string]fields, message string, t reflect.Type) {
	for t.Kind() != reflect.Struct {
		t = t.Elem()
	}
	if _, done := l[t]; done {
		return
	}
	places := map[string]int{}
	for i := range t.NumField() {
		places[fieldName(t.Field(i))] = i
	}
	l[t] = nil
	for number, f := range messages[message] {
		i, ok := places[f.name]
		if !ok {
			continue
		}
		l[t] = append(l[t], slot{f, number, i})
		if f.kind == messageKind {
			l.add(messages, f.of, t.Field(i).Type)
		}
	}
	slices.SortFunc(l[t], func(a, b slot) int { return int(b.number - a.number) })
}

// fieldName returns the name of a Go field in the tables: its name in JSON or, for the
// fields of structs that write their own JSON, the Go name.
func fieldName(f reflect.StructField) string {
	if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
		return name
	}
	return strings.ToLower(f.Name[:1]) + f.Name[1:]
}

// encoder fills a buffer from its end. The length of a message precedes it, so each message
// is copied once, however deep it is nested.
type encoder struct {
	layouts layouts
	buf     []byte
	start   int      // of what is written
	scratch [10]byte // for a number, which is a varint of at most 10 bytes
}

func (e *encoder) prepend(data []byte) {
	if len(data) > e.start {
		free := len(e.buf) + len(data) + 1024
		buf := make([]byte, free+len(e.buf))
		copy(buf[free+e.start:], e.buf[e.start:])
		e.buf, e.start = buf, free+e.start
	}
	e.start -= len(data)
	copy(e.buf[e.start:], data)
}

// tag completes a value with its tag.
func (e *encoder) tag(number protowire.Number, wire protowire.Type) {
	e.prepend(protowire.AppendTag(e.scratch[:0], number, wire))
}

// length completes what has been written since the buffer had size bytes with its length
// and its tag.
func (e *encoder) length(number protowire.Number, size int) {
	e.prepend(protowire.AppendVarint(e.scratch[:0], uint64(e.size()-size)))
	e.tag(number, protowire.BytesType)
}

func (e *encoder) size() int { return len(e.buf) - e.start }

// message writes a struct.
func (e *encoder) message(v reflect.Value) error {
	for _, s := range e.layouts[v.Type()] {
		if err := e.field(s, v.Field(s.index)); err != nil {
			return err
		}
	}
	return nil
}

// field writes all values of a field. As in Kubernetes, only nil is left out.
func (e *encoder) field(s slot, v reflect.Value) error {
	switch {
	case s.keyed:
		return e.entries(s, v)
	case s.many:
		for i := v.Len() - 1; i >= 0; i-- {
			if err := e.value(s, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case v.Kind() == reflect.Pointer && v.IsNil(), s.kind == bytesKind && v.IsNil():
		return nil
	}
	return e.value(s, reflect.Indirect(v))
}

// entries writes a map, sorted by its keys.
func (e *encoder) entries(s slot, v reflect.Value) error {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(b.String(), a.String()) })
	for _, key := range keys {
		size := e.size()
		if err := e.value(slot{field: s.field, number: 2}, v.MapIndex(key)); err != nil {
			return err
		}
		if err := e.value(slot{number: 1}, key); err != nil {
			return err
		}
		e.length(s.number, size)
	}
	return nil
}

// value writes one value of a field.
func (e *encoder) value(s slot, v reflect.Value) error {
	size := e.size()
	switch s.kind {
	case integerKind:
		e.prepend(protowire.AppendVarint(e.scratch[:0], uint64(v.Int())))
		e.tag(s.number, protowire.VarintType)
		return nil
	case boolKind:
		e.prepend(protowire.AppendVarint(e.scratch[:0], protowire.EncodeBool(v.Bool())))
		e.tag(s.number, protowire.VarintType)
		return nil
	case doubleKind:
		e.prepend(protowire.AppendFixed64(e.scratch[:0], math.Float64bits(v.Float())))
		e.tag(s.number, protowire.Fixed64Type)
		return nil
	case bytesKind:
		e.prepend(v.Bytes())
	case stringKind:
		text, err := stringOf(v)
		if err != nil {
			return err
		}
		e.prepend([]byte(text))
	case messageKind:
		if err := e.nested(s.of, v); err != nil {
			return err
		}
	}
	e.length(s.number, size)
	return nil
}

// nested writes a message without its length.
func (e *encoder) nested(message string, v reflect.Value) error {
	switch message {
	case "ObjectMeta", "ListMeta", "Time":
		data, err := v.Addr().Interface().(interface{ Marshal() ([]byte, error) }).Marshal()
		e.prepend(data)
		return err
	}
	return e.message(v)
}

// stringOf returns the text of a string, or of a list that stands for one.
func stringOf(v reflect.Value) (string, error) {
	if v.Kind() == reflect.String {
		return v.String(), nil
	}
	types := v.Interface().(api.StringOrArray)
	if len(types) > 1 {
		return "", errors.New("a schema has several types, which protobuf cannot express")
	}
	return types.Single(), nil
}
