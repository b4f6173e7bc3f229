package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Unmarshal decodes JSON into one of the types of this package or of v1beta1, as
// Kubernetes does: names are case-sensitive, unknown fields are dropped. Unlike the
// errors of the JSON decoder, its errors contain the path of the value that does not
// fit its type.
func Unmarshal(data []byte, into any) error {
	if crd, ok := into.(*CustomResourceDefinition); ok && unmarshalDefinition(data, crd) {
		return nil
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(data, into)
	if err == nil {
		return nil
	}
	if ok, offset := kjson.SyntaxErrorOffset(err); ok {
		line, column := position(data, int(offset))
		return fmt.Errorf("invalid JSON at line %d, column %d: %w", line, column, err)
	}
	// The decoder does not have the paths inside types that decode themselves, such as
	// schemas. So search for the value, now that there is an error.
	c := cursorAt(data)
	if found := c.misfit(reflect.TypeOf(into).Elem()); found != nil {
		return found
	}
	return err
}

// position converts an offset to a line and a column, both starting at 1.
func position(data []byte, offset int) (line, column int) {
	before := data[:min(max(offset, 0), len(data))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// MisfitError is returned by Unmarshal for a value that does not fit its type.
type MisfitError struct {
	// Path leads from the decoded value to the one that does not fit.
	Path []Step
	// Err is what is wrong with the value.
	Err error
}

// Step is a step of the path of a MisfitError.
type Step struct {
	Kind StepKind
	// Name is the name of a field or a key.
	Name string
	// Index is the index of an item.
	Index int
}

// StepKind is the kind of a Step.
type StepKind uint8

// The kinds of steps.
const (
	// FieldStep leads into a field of a struct.
	FieldStep StepKind = iota
	// KeyStep leads to the value of a key of a map.
	KeyStep
	// ItemStep leads to an item of a list.
	ItemStep
)

// Error returns the path and the problem. In the path, indices and keys are in
// brackets.
func (e *MisfitError) Error() string {
	if len(e.Path) == 0 {
		return e.Err.Error()
	}
	var b strings.Builder
	for i, s := range e.Path {
		switch s.Kind {
		case KeyStep:
			b.WriteString("[" + s.Name + "]")
		case ItemStep:
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Name)
		}
	}
	return b.String() + ": " + e.Err.Error()
}

// Unwrap returns the problem.
func (e *MisfitError) Unwrap() error { return e.Err }

// below adds a step to the front of the path of an error.
func below(step Step, err error) error {
	if err == nil {
		return nil
	}
	// Cloning avoids keeping the whole text in memory.
	step.Name = strings.Clone(step.Name)
	if e, ok := errors.AsType[*MisfitError](err); ok {
		return &MisfitError{append([]Step{step}, e.Path...), e.Err}
	}
	return &MisfitError{[]Step{step}, err}
}

// mismatch returns an error about a value that has another type than expected.
func mismatch(want string, raw []byte) error {
	got := string(raw)
	switch firstByte(raw) {
	case '"':
		got = "a string"
	case '[':
		got = "a list"
	case '{':
		got = "an object"
	}
	return &MisfitError{Err: fmt.Errorf("expected %s, got %s", want, got)}
}

// misfit returns an error about the first value that does not fit t.
func (c *cursor) misfit(t reflect.Type) error {
	kind := c.Peek()
	if kind == 'n' {
		c.skip()
		return nil
	}
	if t.Kind() == reflect.Pointer {
		return c.misfit(t.Elem())
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return kjson.UnmarshalCaseSensitivePreserveInts(c.skip(), reflect.New(t).Interface())
	}
	switch t.Kind() {
	case reflect.Struct:
		if kind != '{' {
			return mismatch("an object", c.skip())
		}
		fields := map[string]reflect.Type{}
		wireFields(t, fields)
		return c.Members(func(name string) error {
			if f, known := fields[name]; known {
				return below(Step{Name: name}, c.misfit(f))
			}
			c.skip()
			return nil
		})
	case reflect.Map:
		if kind != '{' {
			return mismatch("an object", c.skip())
		}
		return c.Members(func(name string) error { return below(Step{Kind: KeyStep, Name: name}, c.misfit(t.Elem())) })
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return misfitBytes(c.skip())
		}
		if kind != '[' {
			return mismatch("a list", c.skip())
		}
		return c.Items(func(i int) error { return below(Step{Kind: ItemStep, Index: i}, c.misfit(t.Elem())) })
	}
	return setScalar(reflect.New(t).Elem(), c.skip())
}

// wireFields adds the fields of a struct by their JSON names.
func wireFields(t reflect.Type, out map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			wireFields(f.Type, out)
			continue
		}
		out[name] = f.Type
	}
}

func misfitBytes(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return mismatch("a string in base64", raw)
	}
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return fmt.Errorf("expected a string in base64: %w", err)
	}
	return nil
}
