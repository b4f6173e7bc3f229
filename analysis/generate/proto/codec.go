package proto

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
)

// Codec converts the objects of a kind between JSON and their message. Unlike the JSON of
// protojson, it is the JSON of Kubernetes: integers are numbers, null and absent differ, and
// so do empty and absent lists.
//
// A Codec is immutable and safe for concurrent use.
type Codec struct {
	root  protoreflect.MessageDescriptor
	plans map[protoreflect.FullName]*plan
}

// NewCodec returns the codec of a generated message. The descriptor is that of [File.Descriptor],
// of a compiled .proto file, or of a generated Go type.
func NewCodec(root protoreflect.MessageDescriptor) (*Codec, error) {
	all, err := plans(root)
	if err != nil {
		return nil, err
	}
	return &Codec{root, all}, nil
}

// Descriptor returns the descriptor of the message that the codec converts.
func (c *Codec) Descriptor() protoreflect.MessageDescriptor { return c.root }

// ConversionError is why a value cannot be converted without loss.
type ConversionError struct {
	// Path is the JSON pointer of the value.
	Path string
	// Problem is what is wrong with the value.
	Problem ConversionProblem
	// Detail has the types or the value in question. It may be empty.
	Detail string
}

// ConversionProblem is a reason why a value cannot be converted.
type ConversionProblem string

const (
	// InvalidJSON is text that is not JSON.
	InvalidJSON ConversionProblem = "invalid JSON"
	// WrongType is a value of a type that the field does not have.
	WrongType ConversionProblem = "wrong type"
	// UnknownField is a field that the message does not have.
	UnknownField ConversionProblem = "unknown field"
	// OutOfRange is a number that the field cannot hold exactly.
	OutOfRange ConversionProblem = "number out of range"
	// WrongMessage is a message of another type.
	WrongMessage ConversionProblem = "wrong message"
	// MissingValue is a message in which neither of two alternatives is set.
	MissingValue ConversionProblem = "missing value"
)

// Error returns the path and the problem.
func (e *ConversionError) Error() string {
	text := string(e.Problem)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Path == "" {
		return text
	}
	return jsonptr.Display(e.Path) + ": " + text
}

// Unmarshal replaces the content of m with an object in JSON. It fails if m cannot hold the
// object without loss. Null in metadata counts as absent, as for the API server.
func (c *Codec) Unmarshal(data []byte, m proto.Message) error {
	v, err := jsonx.Parse(data)
	if err != nil {
		return &ConversionError{"", InvalidJSON, err.Error()}
	}
	r := m.ProtoReflect()
	if r.Descriptor().FullName() != c.root.FullName() {
		return &ConversionError{"", WrongMessage, fmt.Sprintf("%s instead of %s", r.Descriptor().FullName(), c.root.FullName())}
	}
	proto.Reset(m)
	return (&reader{conversion{codec: c}}).message(r, v)
}

// conversion is a conversion in progress. Its path leads to the current value.
type conversion struct {
	codec *Codec
	path  []string
}

func (c *conversion) fail(problem ConversionProblem, format string, args ...any) error {
	return &ConversionError{jsonptr.New(c.path...), problem, fmt.Sprintf(format, args...)}
}

func (c *conversion) wrongType(want string, v any) error {
	return c.fail(WrongType, "%s instead of %s", typeOf(v), want)
}

// typeOf returns the name of the type of a JSON value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// below calls visit with the path extended by a step.
func (c *conversion) below(step string, visit func() error) error {
	c.path = append(c.path, step)
	err := visit()
	c.path = c.path[:len(c.path)-1]
	return err
}

// reader fills messages from JSON.
type reader struct{ conversion }

func (r *reader) message(m protoreflect.Message, v any) error {
	p := r.codec.plans[m.Descriptor().FullName()]
	switch p.kind {
	case nullableMessage:
		if v == nil {
			m.Set(p.first, protoreflect.ValueOfBool(true))
			return nil
		}
		return r.single(m, p.second, v)
	case intOrStringMessage:
		switch v := v.(type) {
		case string:
			m.Set(p.second, protoreflect.ValueOfString(v))
		case int64:
			m.Set(p.first, protoreflect.ValueOfInt64(v))
		default:
			return r.wrongType("integer or string", v)
		}
		return nil
	case resourceMessage:
		if _, ok := v.(map[string]any); !ok {
			return r.wrongType("object", v)
		}
		m.Set(p.first, jsonText(v))
		return nil
	case listMessage:
		return r.list(m, p.first, v)
	case mapMessage:
		return r.entries(m, p.first, v)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return r.wrongType("object", v)
	}
	return r.object(m, p, object)
}

// object fills the message of an object.
func (r *reader) object(m protoreflect.Message, p *plan, object map[string]any) error {
	var unknown map[string]any
	for name, v := range object {
		f := p.fields[name]
		switch {
		case f == nil && p.unknown == nil:
			return r.below(name, func() error { return r.fail(UnknownField, "") })
		case f == nil:
			if unknown == nil {
				unknown = map[string]any{}
			}
			unknown[name] = v
			continue
		case v == nil && p.isMeta:
			continue
		}
		if err := r.below(name, func() error { return r.field(m, f, v) }); err != nil {
			return err
		}
		if f.Cardinality() == protoreflect.Repeated && isEmpty(v) {
			m.Mutable(p.empty).List().Append(protoreflect.ValueOfUint32(uint32(f.Number())))
		}
	}
	if unknown != nil {
		m.Set(p.unknown, jsonText(unknown))
	}
	return nil
}

// jsonText returns a value that was decoded from JSON as text.
func jsonText(v any) protoreflect.Value {
	text, _ := jsonx.Append(nil, v)
	return protoreflect.ValueOfBytes(text)
}

// isEmpty reports whether v, a list or map, is empty.
func isEmpty(v any) bool {
	list, _ := v.([]any)
	object, _ := v.(map[string]any)
	return len(list)+len(object) == 0
}

func (r *reader) field(m protoreflect.Message, f protoreflect.FieldDescriptor, v any) error {
	switch {
	case f.IsList():
		return r.list(m, f, v)
	case f.IsMap():
		return r.entries(m, f, v)
	}
	return r.single(m, f, v)
}

func (r *reader) list(m protoreflect.Message, f protoreflect.FieldDescriptor, v any) error {
	items, ok := v.([]any)
	if !ok {
		return r.wrongType("array", v)
	}
	list := m.Mutable(f).List()
	for i, item := range items {
		err := r.below(strconv.Itoa(i), func() error {
			value, err := r.value(f, item, list.NewElement)
			if err == nil {
				list.Append(value)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) entries(m protoreflect.Message, f protoreflect.FieldDescriptor, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return r.wrongType("object", v)
	}
	entries := m.Mutable(f).Map()
	for key, v := range object {
		err := r.below(key, func() error {
			value, err := r.value(f.MapValue(), v, entries.NewValue)
			if err == nil {
				entries.Set(protoreflect.ValueOfString(key).MapKey(), value)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) single(m protoreflect.Message, f protoreflect.FieldDescriptor, v any) error {
	value, err := r.value(f, v, func() protoreflect.Value { return m.NewField(f) })
	if err == nil {
		m.Set(f, value)
	}
	return err
}

// value returns a value of the type of f. If that is a message, newMessage returns an empty one.
func (r *reader) value(f protoreflect.FieldDescriptor, v any, newMessage func() protoreflect.Value) (protoreflect.Value, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		out := newMessage()
		return out, r.message(out.Message(), v)
	case protoreflect.BytesKind:
		return jsonText(v), nil
	case protoreflect.StringKind:
		s, ok := v.(string)
		if !ok {
			return protoreflect.Value{}, r.wrongType("string", v)
		}
		return protoreflect.ValueOfString(s), nil
	case protoreflect.BoolKind:
		b, ok := v.(bool)
		if !ok {
			return protoreflect.Value{}, r.wrongType("boolean", v)
		}
		return protoreflect.ValueOfBool(b), nil
	case protoreflect.DoubleKind:
		return r.number(v)
	}
	return r.integer(f.Kind(), v)
}

// number returns a double. It rejects integers that it cannot hold exactly.
func (r *reader) number(v any) (protoreflect.Value, error) {
	switch n := v.(type) {
	case float64:
		return protoreflect.ValueOfFloat64(n), nil
	case int64:
		size := uint64(n)
		if n < 0 {
			size = -size
		}
		if bits.Len64(size)-bits.TrailingZeros64(size) <= 53 { // the digits of a double
			return protoreflect.ValueOfFloat64(float64(n)), nil
		}
		return protoreflect.Value{}, r.fail(OutOfRange, "%d is not exact as a double", n)
	}
	return protoreflect.Value{}, r.wrongType("number", v)
}

// integer returns an int32 or int64. Numbers such as 1.0 are integers.
func (r *reader) integer(kind protoreflect.Kind, v any) (protoreflect.Value, error) {
	var n int64
	switch v := v.(type) {
	case int64:
		n = v
	case float64:
		switch {
		case v != math.Trunc(v):
			return protoreflect.Value{}, r.wrongType("integer", v)
		case v <= -1<<63 || v >= 1<<63: // the smallest int64 is one, unless it was rounded
			return protoreflect.Value{}, r.fail(OutOfRange, "%v is not an int64", v)
		}
		n = int64(v)
	default:
		return protoreflect.Value{}, r.wrongType("integer", v)
	}
	if kind == protoreflect.Int64Kind {
		return protoreflect.ValueOfInt64(n), nil
	}
	if n != int64(int32(n)) {
		return protoreflect.Value{}, r.fail(OutOfRange, "%d is not an int32", n)
	}
	return protoreflect.ValueOfInt32(int32(n)), nil
}
