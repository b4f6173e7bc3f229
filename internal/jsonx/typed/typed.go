// Package typed reads JSON text into Go values, as sigs.k8s.io/json does with its strict rules, but reads the
// text once and prepares what depends on types. It knows the usual only: callers leave to sigs.k8s.io/json what
// Decode rejects, which has the errors, too.
package typed

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"sync"

	"espalier.dev/internal/jsonx"
)

// Decode reads an object into the zero value that into points to. It returns false if sigs.k8s.io/json would report anything, an
// unknown or duplicate field included, or if the type or the text is unusual: then the value is to be discarded.
func Decode(data []byte, into any) bool {
	v := reflect.ValueOf(into).Elem()
	read := readerOf(v.Type())
	d := readers.Get().(*decoder)
	d.Reset(data)
	d.data = data
	err := read(d, v)
	if err == nil {
		err = d.End()
	}
	ok := err == nil && !d.Duplicates
	d.Release()
	d.data = nil
	readers.Put(d)
	return ok
}

var readers = sync.Pool{New: func() any { return new(decoder) }}

type decoder struct {
	jsonx.Reader
	data []byte
}

// read reads the next value of a text into a zero value, which can be set.
type read func(d *decoder, v reflect.Value) error

// errUnusual is the error of everything that is left to sigs.k8s.io/json.
var errUnusual = errors.New("unusual")

var unusual read = func(*decoder, reflect.Value) error { return errUnusual }

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	number          = reflect.TypeFor[json.Number]()
	labels          = reflect.TypeFor[map[string]string]()
)

// types has the read of each type. There are as many as the program has types.
var types sync.Map

func readerOf(t reflect.Type) read {
	if known, ok := types.Load(t); ok {
		return known.(read)
	}
	// A type may contain itself: what refers to it while it is made waits for the result.
	var made read
	var once sync.Once
	wait := read(func(d *decoder, v reflect.Value) error {
		once.Do(func() { made = newReader(t) })
		return made(d, v)
	})
	known, _ := types.LoadOrStore(t, wait)
	return known.(read)
}

func newReader(t reflect.Type) read {
	switch pointer := reflect.PointerTo(t); {
	case t == number:
		return unusual // a string that must be a number
	case t.Kind() == reflect.Pointer: // what it points to decides
	case pointer.Implements(unmarshaler):
		return readUnmarshaler
	case pointer.Implements(textUnmarshaler):
		return unusual
	}
	switch t.Kind() {
	case reflect.Bool:
		return orNull(readBool)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return orNull(readInt)
	case reflect.Float32, reflect.Float64:
		return orNull(readFloat)
	case reflect.String:
		return orNull(readString)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return readAny
		}
	case reflect.Pointer:
		return orNull(newPointer(t.Elem()))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return orNull(readBytes)
		}
		return orNull(newSlice(t))
	case reflect.Map:
		if t == labels {
			return orNull(readLabels)
		}
		if t.Key().Kind() == reflect.String && !reflect.PointerTo(t.Key()).Implements(textUnmarshaler) {
			return orNull(newMap(t))
		}
	case reflect.Struct:
		if fields, ok := newFields(t); ok {
			return orNull(fields.read)
		}
	}
	return unusual
}

// orNull leaves the zero value if the value is null.
func orNull(next read) read {
	return func(d *decoder, v reflect.Value) error {
		if d.Peek() == 'n' {
			return d.Skip()
		}
		return next(d, v)
	}
}

func readUnmarshaler(d *decoder, v reflect.Value) error {
	d.Peek()
	start := d.Offset()
	if err := d.SkipRaw(); err != nil {
		return err
	}
	return v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(d.data[start:d.Offset()])
}

func readBool(d *decoder, v reflect.Value) error {
	c := d.Peek()
	if c != 't' && c != 'f' {
		return errUnusual
	}
	v.SetBool(c == 't')
	return d.Skip()
}

func readInt(d *decoder, v reflect.Value) error {
	value, err := d.Scalar(d.Peek())
	if err != nil {
		return err
	}
	n, ok := value.(int64)
	if !ok || v.OverflowInt(n) {
		return errUnusual
	}
	v.SetInt(n)
	return nil
}

func readFloat(d *decoder, v reflect.Value) error {
	if c := d.Peek(); c != '-' && (c < '0' || c > '9') {
		return errUnusual
	}
	start := d.Offset()
	if err := d.SkipRaw(); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(d.data[start:d.Offset()]), v.Type().Bits())
	v.SetFloat(f)
	return err
}

func readString(d *decoder, v reflect.Value) error {
	text, err := d.text()
	v.SetString(text)
	return err
}

func (d *decoder) text() (string, error) {
	if d.Peek() != '"' {
		return "", errUnusual
	}
	return d.String()
}

func readBytes(d *decoder, v reflect.Value) error {
	text, err := d.text()
	if err != nil {
		return err
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	v.SetBytes(decoded)
	return err
}

func readAny(d *decoder, v reflect.Value) error {
	value, err := d.Value()
	if err == nil && value != nil {
		v.Set(reflect.ValueOf(value))
	}
	return err
}

func newPointer(to reflect.Type) read {
	next := readerOf(to)
	return func(d *decoder, v reflect.Value) error {
		p := reflect.New(to)
		v.Set(p)
		return next(d, p.Elem())
	}
}

func newSlice(t reflect.Type) read {
	next := readerOf(t.Elem())
	return func(d *decoder, v reflect.Value) error {
		if d.Peek() != '[' {
			return errUnusual
		}
		if err := d.EnterArray(); err != nil {
			return err
		}
		for n := 0; ; n++ {
			more, err := d.NextItem(n)
			if err != nil {
				return err
			}
			if !more {
				if n == 0 {
					v.Set(reflect.MakeSlice(t, 0, 0))
				}
				return nil
			}
			if n == v.Cap() {
				v.Grow(1)
			}
			v.SetLen(n + 1)
			if err := next(d, v.Index(n)); err != nil {
				return err
			}
		}
	}
}

func readLabels(d *decoder, v reflect.Value) error {
	all := map[string]string{}
	*v.Addr().Interface().(*map[string]string) = all
	return d.members(func(name string) error {
		if _, ok := all[name]; ok {
			return errUnusual
		}
		if d.Peek() == 'n' {
			all[name] = ""
			return d.Skip()
		}
		text, err := d.text()
		all[name] = text
		return err
	})
}

func (d *decoder) members(visit func(name string) error) error {
	if d.Peek() != '{' {
		return errUnusual
	}
	return d.Members(visit)
}

func newMap(t reflect.Type) read {
	next := readerOf(t.Elem())
	return func(d *decoder, v reflect.Value) error {
		all := reflect.MakeMap(t)
		v.Set(all)
		key := reflect.New(t.Key()).Elem()
		return d.members(func(name string) error {
			key.SetString(name)
			if all.MapIndex(key).IsValid() {
				return errUnusual
			}
			item := reflect.New(t.Elem()).Elem()
			if err := next(d, item); err != nil {
				return err
			}
			all.SetMapIndex(key, item)
			return nil
		})
	}
}
