package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
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

// protobufPrefix is the start of Kubernetes' envelope of protobuf messages.
var protobufPrefix = []byte("k8s\x00")

// errDecoded stops a sizer.
var errDecoded = errors.New("the values of the object need too much memory")

// checkDecoded returns an error if a body, as JSON, YAML or protobuf, would need too much memory
// when it is decoded. Bodies that cannot be decoded have no error here.
func (t *types) checkDecoded(data []byte, isYAML bool, defaults *runtimeschema.GroupVersionKind) error {
	if len(data) <= smallBody {
		return nil
	}
	s := sizer{left: maxDecoded}
	var err error
	if message, ok := bytes.CutPrefix(data, protobufPrefix); ok {
		var u runtime.Unknown
		if u.Unmarshal(message) == nil {
			err = s.message(u.Raw, t.goType(u.GroupVersionKind(), defaults))
		}
	} else {
		err = s.text(data, isYAML, t, defaults)
	}
	if !errors.Is(err, errDecoded) {
		return nil
	}
	return fmt.Errorf("%w: more than %d MiB, mostly for small or empty list items: use fewer items", errDecoded, maxDecoded>>20)
}

// goType returns the Go type of a kind, or nil if there is none. The kind of the request is used
// where the body names none.
func (t *types) goType(gvk runtimeschema.GroupVersionKind, defaults *runtimeschema.GroupVersionKind) reflect.Type {
	if gvk.Empty() && defaults != nil {
		gvk = *defaults
	}
	return t.AllKnownTypes()[gvk]
}

// sizer adds up the memory of the Go values of a body, without decoding it.
type sizer struct{ left int }

func (s *sizer) add(n uintptr) error {
	if s.left -= int(n); s.left < 0 {
		return errDecoded
	}
	return nil
}

// text adds a body in JSON or YAML.
func (s *sizer) text(data []byte, isYAML bool, t *types, defaults *runtimeschema.GroupVersionKind) error {
	if !json.Valid(data) {
		if !isYAML {
			return nil // the decoder reports it
		}
		var err error
		if data, err = yamlToJSON(data, maxExpanded); err != nil {
			return err
		}
	}
	sent, err := api.Identify(data)
	if err != nil {
		return err
	}
	typ := t.goType(sent.GroupVersionKind(), defaults)
	if typ == nil {
		return nil
	}
	var r jsonx.Reader
	r.Reset(data)
	return s.json(&r, typ)
}

// json adds the value of a type that r reads next.
func (s *sizer) json(r *jsonx.Reader, t reflect.Type) error {
	first := r.Peek()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		if first != 'n' {
			if err := s.add(t.Size()); err != nil {
				return err
			}
		}
	}
	// A type that reads its own JSON is a leaf, such as a quantity.
	if leaf := reflect.PointerTo(t).Implements(unmarshaler); leaf || first != '{' && first != '[' {
		return r.Skip()
	}
	switch {
	case first == '{' && t.Kind() == reflect.Struct:
		fields := fieldsOf(t)
		return r.Members(func(name string) error {
			if f, ok := fields.json[name]; ok {
				return s.json(r, f)
			}
			return r.Skip()
		})
	case first == '{' && t.Kind() == reflect.Map:
		return r.Members(func(string) error {
			if err := s.add(t.Key().Size() + t.Elem().Size() + mapEntry); err != nil {
				return err
			}
			return s.json(r, t.Elem())
		})
	case first == '[' && t.Kind() == reflect.Slice:
		return r.Items(func(int) error {
			if err := s.add(t.Elem().Size()); err != nil {
				return err
			}
			return s.json(r, t.Elem())
		})
	}
	return r.Skip()
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// message adds a protobuf message of a type.
func (s *sizer) message(data []byte, t reflect.Type) error {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := fieldsOf(t)
	for len(data) > 0 {
		number, value, rest, err := nextField(data)
		if err != nil {
			return err
		}
		data = rest
		if f := fields.protobuf[number]; f != nil && value != nil {
			if err := s.field(value, f); err != nil {
				return err
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
		return 0, nil, nil, protowire.ParseError(tag)
	}
	size := protowire.ConsumeFieldValue(n, kind, data[tag:])
	if size < 0 {
		return 0, nil, nil, protowire.ParseError(size)
	}
	if kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(data[tag:])
	}
	return int(n), value, data[tag+size:], nil
}

// field adds a field of a message.
func (s *sizer) field(value []byte, t reflect.Type) error {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		if err := s.add(t.Elem().Size()); err != nil {
			return err
		}
		return s.field(value, t.Elem())
	case reflect.Map:
		if err := s.add(t.Key().Size() + t.Elem().Size() + mapEntry); err != nil {
			return err
		}
		// An entry is a message with the key and the value.
		for len(value) > 0 {
			number, entry, rest, err := nextField(value)
			if err != nil {
				return err
			}
			value = rest
			if number == 2 && entry != nil {
				if err := s.field(entry, t.Elem()); err != nil {
					return err
				}
			}
		}
		return nil
	case reflect.Pointer:
		if err := s.add(t.Elem().Size()); err != nil {
			return err
		}
		return s.field(value, t.Elem())
	}
	return s.message(value, t)
}

// goFields are the fields of a Go type by their names in JSON and their numbers in protobuf.
type goFields struct {
	json     map[string]reflect.Type
	protobuf map[int]reflect.Type
}

// goFieldsByType holds the fields (*goFields) of Go types.
var goFieldsByType sync.Map

func fieldsOf(t reflect.Type) *goFields {
	if f, ok := goFieldsByType.Load(t); ok {
		return f.(*goFields)
	}
	out := &goFields{json: map[string]reflect.Type{}, protobuf: map[int]reflect.Type{}}
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
				out.protobuf[n] = f.Type
			}
		}
	}
	goFieldsByType.Store(t, out)
	return out
}
