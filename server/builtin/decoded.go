package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/quantity"
	"espalier.dev/internal/yamlx"
	"espalier.dev/kinds"
	"espalier.dev/server/keys"
)

const (
	// maxDecoded is the memory that the Go values of a body may need. A container without fields
	// has two or three bytes in a body, and hundreds in memory.
	maxDecoded = 48 << 20
	// smallBody is the size up to which no body needs as much.
	smallBody = 64 << 10
	// maxExpanded is the limit of YAML with its aliases resolved, as that of a request body.
	maxExpanded = 3 << 20
	// mapEntry is the memory for an entry of a map beside its key and its value.
	mapEntry = 48
)

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
)

// checkDecoded returns an error if a body, as JSON, YAML or protobuf, would need too much memory
// or too much time when it is decoded. Bodies that cannot be decoded have no error here.
func checkDecoded(t *kinds.Scheme, data []byte, isYAML bool, defaults *runtimeschema.GroupVersionKind, into runtime.Object) error {
	if u, ok, err := keys.Unwrap(data); ok {
		if err != nil {
			return nil
		}
		return walkMessage(u.Raw, goType(t, u.GroupVersionKind(), defaults, into))
	}
	data, ok := jsonOf(data, isYAML)
	if !ok {
		return nil
	}
	sent, err := kubejson.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil
	}
	return walkJSON(data, goType(t, *sent, defaults, into))
}

// jsonOf returns a body as JSON. It converts YAML as the decoder does, unless aliases expand it
// beyond the limit of a request body; ok is false if it cannot be converted.
func jsonOf(data []byte, isYAML bool) (_ []byte, ok bool) {
	if !isYAML || json.Valid(data) {
		return data, true
	}
	if yamlx.CheckExpanded(data, maxExpanded) != nil {
		return nil, false
	}
	data, err := yaml.YAMLToJSON(data)
	return data, err == nil
}

// goType returns the Go type that a body is decoded as, or nil if there is none. As in the
// decoders, what the kind of the body lacks comes from the kind of the request, and from the object
// that is decoded into.
func goType(t *kinds.Scheme, sent runtimeschema.GroupVersionKind,
	defaults *runtimeschema.GroupVersionKind, into runtime.Object) reflect.Type {
	known := t.AllKnownTypes()
	var others []runtimeschema.GroupVersionKind
	if defaults != nil {
		others = append(others, *defaults)
	}
	if into != nil {
		if gvks, _, err := t.ObjectKinds(into); err == nil {
			others = append(others, gvks[0])
		}
	}
	gvk := sent
	for _, other := range others {
		if gvk.Kind == "" {
			gvk.Kind = other.Kind
		}
		if gvk.Version == "" {
			gvk.Group, gvk.Version = other.Group, other.Version
		}
	}
	return known[gvk]
}

// walkJSON checks a JSON text that is decoded as a type.
func walkJSON(data []byte, t reflect.Type) error {
	if t == nil || len(data) <= smallBody && !hasQuantity(t) {
		return nil
	}
	w := walk{left: maxDecoded, small: len(data) <= smallBody, text: data}
	w.r.Reset(data)
	err := w.json(t)
	if syntax := (*jsonx.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil // the decoder reports it
	}
	return err
}

// walkMessage checks a protobuf message that is decoded as a type.
func walkMessage(data []byte, t reflect.Type) error {
	if t == nil || len(data) <= smallBody && !hasQuantity(t) {
		return nil
	}
	w := walk{left: maxDecoded, small: len(data) <= smallBody}
	return w.message(data, t)
}

// walk visits the values of a body by the Go types that they are decoded as, without decoding
// them. It adds up the memory of the Go values, and finds quantities that must not be parsed.
type walk struct {
	left int
	// small is set for a body that cannot need too much memory: then only quantities matter.
	small bool
	// text is the JSON text that r reads.
	text []byte
	r    jsonx.Reader
}

func (w *walk) add(n uintptr) error {
	if w.left -= int(n); w.left < 0 {
		return fmt.Errorf("the values of the object need too much memory: more than %d MiB, mostly for small or empty list items: use fewer items", maxDecoded>>20)
	}
	return nil
}

// costlyError is the error of a quantity that must not be parsed.
type costlyError struct{ path, text string }

func (e *costlyError) Error() string {
	const shown = 40
	text := e.text
	if len(text) > shown {
		text = fmt.Sprintf("%s… (%d characters)", text[:shown], len(text))
	}
	return fmt.Sprintf("%s: invalid value %q: the number is too long, or its exponent too large, for a quantity",
		strings.TrimPrefix(e.path, "."), text)
}

// below adds the step to the value in which an error has occurred to its path.
func below(err error, step string) error {
	if costly := (*costlyError)(nil); errors.As(err, &costly) {
		costly.path = step + costly.path
	}
	return err
}

// json visits the value of a type that w.r reads next.
func (w *walk) json(t reflect.Type) error {
	r := &w.r
	first := r.Peek()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		if first != 'n' {
			if err := w.add(t.Size()); err != nil {
				return err
			}
		}
	}
	if t == quantityType {
		return w.quantity(first)
	}
	// A type that reads its own JSON is a leaf.
	if first != '{' && first != '[' || w.small && !hasQuantity(t) || reflect.PointerTo(t).Implements(unmarshaler) {
		return r.Skip()
	}
	switch {
	case first == '{' && t.Kind() == reflect.Struct:
		fields := fieldsOf(t)
		return r.Members(func(name string) error {
			f, ok := fields.json[name]
			if !ok {
				return r.Skip()
			}
			if err := w.json(f); err != nil {
				return below(err, "."+name)
			}
			return nil
		})
	case first == '{' && t.Kind() == reflect.Map:
		return r.Members(func(key string) error {
			err := w.add(t.Key().Size() + t.Elem().Size() + mapEntry)
			if err == nil {
				err = w.json(t.Elem())
			}
			if err != nil {
				return below(err, "["+key+"]")
			}
			return nil
		})
	case first == '[' && t.Kind() == reflect.Slice:
		return r.Items(func(i int) error {
			err := w.add(t.Elem().Size())
			if err == nil {
				err = w.json(t.Elem())
			}
			if err != nil {
				return below(err, "["+strconv.Itoa(i)+"]")
			}
			return nil
		})
	}
	return r.Skip()
}

// quantity visits a quantity in JSON, a string or a number.
func (w *walk) quantity(first byte) error {
	var text string
	start, err := w.r.Offset(), error(nil)
	if first == '"' {
		text, err = w.r.String()
	} else if err = w.r.Skip(); err == nil {
		text = string(w.text[start:w.r.Offset()])
	}
	if err == nil && quantity.IsCostly(text) {
		err = &costlyError{text: text}
	}
	return err
}

// message visits a protobuf message of a type. A message that cannot be read has an error: the
// decoder accepts lengths that the protocol does not have.
func (w *walk) message(data []byte, t reflect.Type) error {
	if t.Kind() != reflect.Struct || w.small && !hasQuantity(t) {
		return nil
	}
	fields := fieldsOf(t)
	for len(data) > 0 {
		number, value, rest, err := nextField(data)
		if err != nil {
			return err
		}
		data = rest
		if t == quantityType {
			if number == 1 && quantity.IsCostly(string(value)) {
				return &costlyError{text: string(value)}
			}
		} else if f, ok := fields.protobuf[number]; ok && value != nil {
			if err := w.field(value, f.typ); err != nil {
				return below(err, "."+f.name)
			}
		}
	}
	return nil
}

// nextField returns the number of the first field of a message, its value if that has a length,
// otherwise nil, and the rest of the message.
func nextField(data []byte) (number int, value, rest []byte, _ error) {
	n, kind, tag := protowire.ConsumeTag(data)
	if tag < 0 {
		return 0, nil, nil, fmt.Errorf("malformed protobuf: %w", protowire.ParseError(tag))
	}
	size := protowire.ConsumeFieldValue(n, kind, data[tag:])
	if size < 0 {
		return 0, nil, nil, fmt.Errorf("malformed protobuf: %w", protowire.ParseError(size))
	}
	if kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(data[tag:])
	}
	return int(n), value, data[tag+size:], nil
}

// field visits a field of a message.
func (w *walk) field(value []byte, t reflect.Type) error {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		fallthrough
	case reflect.Pointer:
		if err := w.add(t.Elem().Size()); err != nil {
			return err
		}
		return w.field(value, t.Elem())
	case reflect.Map:
		if err := w.add(t.Key().Size() + t.Elem().Size() + mapEntry); err != nil {
			return err
		}
		// An entry is a message with the key and the value.
		key := ""
		for len(value) > 0 {
			number, entry, rest, err := nextField(value)
			if err != nil {
				return err
			}
			value = rest
			switch {
			case number == 1:
				key = string(entry)
			case number == 2 && entry != nil:
				if err := w.field(entry, t.Elem()); err != nil {
					return below(err, "["+key+"]")
				}
			}
		}
		return nil
	}
	return w.message(value, t)
}

// withQuantities has what hasQuantity has found out about types.
var withQuantities sync.Map

// hasQuantity reports whether values of a type contain quantities.
func hasQuantity(t reflect.Type) bool {
	known, ok := withQuantities.Load(t)
	if !ok {
		known = reachesQuantity(t, map[reflect.Type]bool{})
		withQuantities.Store(t, known)
	}
	return known.(bool)
}

func reachesQuantity(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == quantityType {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		return reachesQuantity(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if reachesQuantity(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// goFields are the fields of a Go type by their names in JSON and their numbers in protobuf.
type goFields struct {
	json     map[string]reflect.Type
	protobuf map[int]protoField
}

// protoField is a field of a message.
type protoField struct {
	name string
	typ  reflect.Type
}

// goFieldsByType holds the fields (*goFields) of Go types.
var goFieldsByType sync.Map

func fieldsOf(t reflect.Type) *goFields {
	if f, ok := goFieldsByType.Load(t); ok {
		return f.(*goFields)
	}
	out := &goFields{json: map[string]reflect.Type{}, protobuf: map[int]protoField{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && (f.Anonymous || strings.Contains(options, "inline")) && f.Type.Kind() == reflect.Struct {
			for name, typ := range fieldsOf(f.Type).json {
				out.json[name] = typ
			}
		} else if name != "" && name != "-" {
			out.json[name] = f.Type
		}
		if parts := strings.Split(f.Tag.Get("protobuf"), ","); len(parts) > 1 {
			if n, err := strconv.Atoi(parts[1]); err == nil {
				out.protobuf[n] = protoField{name, f.Type}
			}
		}
	}
	goFieldsByType.Store(t, out)
	return out
}
