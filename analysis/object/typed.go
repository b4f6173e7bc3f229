package object

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// compare reports what a decoder finds in an object: unknown and duplicate fields and, if the
// object cannot be decoded, all values of a wrong type. Decoders name fields
// without their position, and stop at the first wrong type. So the text is compared with the Go
// type a second time.
func (c *KindChecker) compare(r *kindRequest, fields FieldValidation) *typed {
	d := &typed{checker: c, source: r.source, fields: fields, wrong: r.undecodable != nil}
	if empty, err := r.rules.New(r.kind); err == nil {
		d.r.Reset(r.source)
		if err := d.value(reflect.TypeOf(empty).Elem()); err != nil {
			d.findings = nil
		}
	}
	failed := slices.ContainsFunc(d.findings, func(f analysis.Finding) bool { return f.Rule == RuleDecode })
	if err := r.undecodable; err != nil && !failed {
		d.findings = append(d.findings, analysis.Finding{Rule: RuleDecode, Severity: analysis.Error, Message: err.Error()})
	}
	return d
}

// typed compares the text of an object with its Go type.
type typed struct {
	checker *KindChecker
	source  []byte
	r       jsonx.Reader
	fields  FieldValidation
	// wrong is set if wrong types are reported.
	wrong    bool
	path     schema.Path
	findings []analysis.Finding
	// pruned are the unknown fields.
	pruned []schema.Change
}

// maxFindings limits the findings about the fields of one object.
const maxFindings = 1000

func (d *typed) add(f analysis.Finding) {
	if len(d.findings) < maxFindings {
		f.Path, f.Pointer = d.path.String(), d.path.Pointer()
		d.findings = append(d.findings, f)
	}
}

// below reads the value of a member or item.
func (d *typed) below(s schema.Step, read func() error) error {
	d.path = append(d.path, s)
	err := read()
	d.path = d.path[:len(d.path)-1]
	return err
}

// value reads a value that is decoded to a type.
func (d *typed) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c := d.r.Peek()
	if c == 'n' {
		return d.r.SkipRaw() // null leaves the field as it is
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return d.custom(t)
	}
	switch t.Kind() {
	case reflect.Struct:
		if c == '{' {
			return d.object(t)
		}
		return d.mismatch("an object")
	case reflect.Map:
		if c == '{' {
			return d.mapping(t)
		}
		return d.mismatch("an object")
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return d.custom(t)
		}
		if c != '[' {
			return d.mismatch("a list")
		}
		return d.r.Items(func(i int) error {
			return d.below(schema.Step{Kind: schema.Index, Index: i}, func() error { return d.value(t.Elem()) })
		})
	case reflect.Interface:
		return d.r.SkipRaw()
	}
	return d.custom(t)
}

// object reads an object that is decoded to a struct.
func (d *typed) object(t reflect.Type) error {
	known := d.checker.fieldsOf(t)
	seen := map[string]bool{}
	return d.r.Members(func(name string) error {
		name = strings.Clone(name)
		return d.below(schema.Step{Key: name}, func() error {
			if seen[name] {
				d.duplicate()
			}
			seen[name] = true
			t, ok := known[name]
			if ok {
				return d.value(t)
			}
			d.unknown(name, known)
			return d.r.SkipRaw()
		})
	})
}

// mapping reads an object that is decoded to a map.
func (d *typed) mapping(t reflect.Type) error {
	seen := map[string]bool{}
	return d.r.Members(func(name string) error {
		name = strings.Clone(name)
		return d.below(schema.Step{Kind: schema.MapKey, Key: name}, func() error {
			if seen[name] {
				d.duplicate()
			}
			seen[name] = true
			return d.value(t.Elem())
		})
	})
}

func (d *typed) duplicate() {
	if d.fields != Ignore {
		d.add(duplicateField(d.path, d.fields.severity()))
	}
}

func (d *typed) unknown(name string, known map[string]reflect.Type) {
	if d.fields == Ignore {
		return
	}
	d.pruned = append(d.pruned, schema.Change{Kind: schema.Pruned, Path: slices.Clone(d.path)})
	meant := nearest.Name(name, slices.Values(slices.Sorted(maps.Keys(known))))
	d.add(unknownField(d.path, meant, d.fields.severity()))
}

// custom reads a value whose type decides itself whether it is valid, or a scalar.
func (d *typed) custom(t reflect.Type) error {
	start := d.r.Offset()
	if err := d.r.SkipRaw(); err != nil {
		return err
	}
	text := d.source[start:d.r.Offset()]
	if !d.wrong {
		return nil
	}
	err := json.Unmarshal(text, reflect.New(t).Interface())
	if err == nil {
		return nil
	}
	d.report(expected(t, text, err), text)
	return nil
}

// mismatch reports the next value, which has the wrong type.
func (d *typed) mismatch(want string) error {
	start := d.r.Offset()
	if err := d.r.SkipRaw(); err != nil {
		return err
	}
	if d.wrong {
		d.report("must be "+want, d.source[start:d.r.Offset()])
	}
	return nil
}

// report reports a value of a wrong type.
func (d *typed) report(message string, text []byte) {
	message += ", is " + describe(text)
	if strings.HasPrefix(message, "must be a string,") && strings.IndexByte("-0123456789tf", text[0]) >= 0 {
		message += ": put it in quotes"
	}
	d.add(analysis.Finding{Rule: RuleDecode, Severity: analysis.Error, Message: message})
}

// expected says what a value of a type must be.
func expected(t reflect.Type, text []byte, err error) string {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return "must be a quantity like 500m or 1Gi"
	case reflect.TypeFor[metav1.Time]():
		return "must be a time like 2006-01-02T15:04:05Z"
	case reflect.TypeFor[metav1.MicroTime]():
		return "must be a time like 2006-01-02T15:04:05.000000Z"
	case reflect.TypeFor[metav1.Duration]():
		return "must be a duration like 1m30s"
	case reflect.TypeFor[intstr.IntOrString]():
		return "must be an integer of 32 bits or a string"
	}
	switch kind := t.Kind(); kind {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int32, reflect.Int64, reflect.Int:
		if _, err := strconv.ParseFloat(string(text), 64); err == nil && !strings.ContainsAny(string(text), ".eE") {
			return fmt.Sprintf("must be an integer of %d bits", t.Bits())
		}
		return "must be an integer"
	case reflect.Float32, reflect.Float64:
		return "must be a number"
	case reflect.Slice:
		return "must be a string in base64" + wrapped(text)
	}
	return "cannot be decoded (" + err.Error() + ")"
}

// wrapped explains what is wrong with a string in base64.
func wrapped(text []byte) string {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return ""
	}
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return fmt.Sprintf(" (%v)", err)
	}
	return ""
}

// describe describes a value.
func describe(text []byte) string {
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "the string " + truncate(text)
	}
	return truncate(text)
}

// fieldsOf returns the types of the fields of a struct by their names in JSON.
func (c *KindChecker) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := c.structs.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	known := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(known, c.fieldsOf(f.Type))
		case name == "-" || !f.IsExported():
		case name == "":
			known[f.Name] = f.Type
		default:
			known[name] = f.Type
		}
	}
	c.structs.Store(t, known)
	return known
}
