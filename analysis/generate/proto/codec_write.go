package proto

import (
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"espalier.dev/internal/jsonx"
)

// Marshal returns the object that a message holds as JSON, with sorted names and without white
// space. Fields that the message type does not have are left out, as an API server drops
// unknown fields.
func (c *Codec) Marshal(m proto.Message) ([]byte, error) {
	r := m.ProtoReflect()
	if r.Descriptor().FullName() != c.root.FullName() {
		return nil, &ConversionError{"", WrongMessage, fmt.Sprintf("%s instead of %s", r.Descriptor().FullName(), c.root.FullName())}
	}
	v, err := (&writer{conversion{codec: c}}).message(r)
	if err != nil {
		return nil, err
	}
	return jsonx.Append(nil, v)
}

// writer makes JSON of messages.
type writer struct{ conversion }

func (w *writer) message(m protoreflect.Message) (any, error) {
	p := w.codec.plans[m.Descriptor().FullName()]
	switch p.kind {
	case nullableMessage:
		switch {
		case m.Has(p.first):
			return nil, nil
		case m.Has(p.second):
			return w.value(p.second, m.Get(p.second))
		}
		return nil, w.fail(MissingValue, "neither %s nor %s is set", p.first.Name(), p.second.Name())
	case intOrStringMessage:
		switch {
		case m.Has(p.first):
			return m.Get(p.first).Int(), nil
		case m.Has(p.second):
			return m.Get(p.second).String(), nil
		}
		return nil, w.fail(MissingValue, "neither %s nor %s is set", p.first.Name(), p.second.Name())
	case resourceMessage:
		return w.object(m, p.first)
	case listMessage:
		return w.list(p.first, m.Get(p.first).List())
	case mapMessage:
		return w.entries(p.first, m.Get(p.first).Map())
	}
	out := map[string]any{}
	if p.unknown != nil && m.Has(p.unknown) {
		var err error
		if out, err = w.object(m, p.unknown); err != nil {
			return nil, err
		}
	}
	if p.empty != nil {
		w.addEmpty(out, m, p)
	}
	for _, name := range p.names {
		f := p.fields[name]
		if !m.Has(f) {
			continue
		}
		err := w.below(name, func() (err error) {
			out[name], err = w.field(f, m.Get(f))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addEmpty adds the lists and maps that are present and empty.
func (w *writer) addEmpty(out map[string]any, m protoreflect.Message, p *plan) {
	numbers := m.Get(p.empty).List()
	empty := map[protoreflect.FieldNumber]bool{}
	for i := range numbers.Len() {
		empty[protoreflect.FieldNumber(numbers.Get(i).Uint())] = true
	}
	for _, name := range p.names {
		switch f := p.fields[name]; {
		case !empty[f.Number()]:
		case f.IsList():
			out[name] = []any{}
		case f.IsMap():
			out[name] = map[string]any{}
		}
	}
}

// object returns the JSON object in a field.
func (w *writer) object(m protoreflect.Message, f protoreflect.FieldDescriptor) (map[string]any, error) {
	v, err := w.json(m.Get(f).Bytes())
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, w.wrongType("object", v)
	}
	return object, nil
}

func (w *writer) json(text []byte) (any, error) {
	v, err := jsonx.Parse(text)
	if err != nil {
		return nil, w.fail(InvalidJSON, "%v", err)
	}
	return v, nil
}

func (w *writer) field(f protoreflect.FieldDescriptor, v protoreflect.Value) (any, error) {
	switch {
	case f.IsList():
		return w.list(f, v.List())
	case f.IsMap():
		return w.entries(f, v.Map())
	}
	return w.value(f, v)
}

func (w *writer) list(f protoreflect.FieldDescriptor, list protoreflect.List) (any, error) {
	out := make([]any, list.Len())
	for i := range out {
		err := w.below(strconv.Itoa(i), func() (err error) {
			out[i], err = w.value(f, list.Get(i))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (w *writer) entries(f protoreflect.FieldDescriptor, entries protoreflect.Map) (_ any, err error) {
	out := make(map[string]any, entries.Len())
	entries.Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
		err = w.below(key.String(), func() (err error) {
			out[key.String()], err = w.value(f.MapValue(), v)
			return err
		})
		return err == nil
	})
	return out, err
}

func (w *writer) value(f protoreflect.FieldDescriptor, v protoreflect.Value) (any, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return w.message(v.Message())
	case protoreflect.BytesKind:
		return w.json(v.Bytes())
	case protoreflect.StringKind:
		return v.String(), nil
	case protoreflect.BoolKind:
		return v.Bool(), nil
	case protoreflect.DoubleKind:
		n := v.Float()
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, w.fail(OutOfRange, "%v is not a number in JSON", n)
		}
		return n, nil
	}
	return v.Int(), nil
}
