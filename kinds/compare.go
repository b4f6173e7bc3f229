package kinds

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"espalier.dev"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/upstream"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema"
)

// Comparison is the difference between the text of an object and its Go type.
type Comparison struct {
	// Changes are the fields that a decoder drops: unknown fields, all but the last of equal names,
	// and nulls in place of fields.
	Changes []schema.Change
	// Wrong are the values of a wrong type.
	Wrong []*espalier.FieldError
	// Later are the fields that an older release of Kubernetes drops, the outermost ones.
	Later []LaterField
}

// LaterField is a field that a release does not have, or not by default.
type LaterField struct {
	Path schema.Path
	*releases.Field
}

// Compare compares the object in source, which is JSON, with the Go type of its kind. Decoders name
// unknown fields without their position, and stop at the first wrong type.
func (o *Offline) Compare(gvk runtimeschema.GroupVersionKind, source []byte) Comparison {
	d := &comparer{structs: &o.structs, source: source}
	empty, err := o.New(gvk)
	if err != nil {
		return Comparison{}
	}
	return d.compare(empty)
}

// CompareAt compares the object in source, which is JSON, with the fields that a release of
// Kubernetes has. The kind may be one that is not built in, because no current release serves it.
// ok is false if its Go type is not known.
func (o *Offline) CompareAt(gvk runtimeschema.GroupVersionKind, source []byte, release releases.Release) (_ Comparison, ok bool) {
	empty, err := o.New(gvk)
	if err != nil {
		if empty, err = upstream.Scheme().New(gvk); err != nil {
			return Comparison{}, false
		}
	}
	return (&comparer{structs: &o.structs, source: source, release: release}).compare(empty), true
}

func (d *comparer) compare(empty runtime.Object) Comparison {
	d.r.Reset(d.source)
	if err := d.value(reflect.TypeOf(empty).Elem()); err != nil {
		return Comparison{} // it is no JSON
	}
	return d.found
}

// comparer compares the text of an object with its Go type.
type comparer struct {
	// structs caches the fields of Go types.
	structs *sync.Map
	source  []byte
	// release is the release whose fields are known, or zero for the latest.
	release releases.Release
	r       jsonx.Reader
	path    schema.Path
	found   Comparison
	// later is set in a field that the release does not have.
	later bool
}

// maxChanges limits each list of a Comparison.
const maxChanges = 1000

func (d *comparer) change(c schema.Change) {
	if len(d.found.Changes) < maxChanges {
		c.Path = slices.Clone(d.path)
		d.found.Changes = append(d.found.Changes, c)
	}
}

// below reads the value of a member or item.
func (d *comparer) below(s schema.Step, read func() error) error {
	d.path = append(d.path, s)
	err := read()
	d.path = d.path[:len(d.path)-1]
	return err
}

// value reads a value that is decoded to a type.
func (d *comparer) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c := d.r.Peek()
	if c == 'n' {
		return d.r.SkipRaw()
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
func (d *comparer) object(t reflect.Type) error {
	known := fieldsOf(d.structs, t)
	seen := map[string]bool{}
	var laterThan map[string]*releases.Field
	if d.release != 0 {
		laterThan = releases.Fields(t.PkgPath(), t.Name())
	}
	return d.r.Members(func(name string) error {
		name = strings.Clone(name)
		return d.below(schema.Step{Key: name}, func() error {
			if seen[name] {
				d.change(schema.Change{Kind: schema.Duplicate})
			}
			seen[name] = true
			t, ok := known[name]
			switch {
			case !ok:
				d.change(schema.Change{Kind: schema.Pruned, Known: slices.Sorted(maps.Keys(known))})
				return d.r.SkipRaw()
			case d.r.Peek() == 'n':
				d.change(schema.Change{Kind: schema.NullDropped})
			}
			if f := laterThan[name]; !d.later && !f.In(d.release) {
				if len(d.found.Later) < maxChanges {
					d.found.Later = append(d.found.Later, LaterField{slices.Clone(d.path), f})
				}
				d.later = true
				defer func() { d.later = false }()
			}
			return d.value(t)
		})
	})
}

// mapping reads an object that is decoded to a map.
func (d *comparer) mapping(t reflect.Type) error {
	seen := map[string]bool{}
	return d.r.Members(func(name string) error {
		name = strings.Clone(name)
		return d.below(schema.Step{Kind: schema.MapKey, Key: name}, func() error {
			if seen[name] {
				d.change(schema.Change{Kind: schema.Duplicate})
			}
			seen[name] = true
			return d.value(t.Elem())
		})
	})
}

// custom reads a value whose type decides itself whether it is valid, or a scalar.
func (d *comparer) custom(t reflect.Type) error {
	start := d.r.Offset()
	if err := d.r.SkipRaw(); err != nil {
		return err
	}
	text := d.source[start:d.r.Offset()]
	err := json.Unmarshal(text, reflect.New(t).Interface())
	if err == nil {
		return nil
	}
	d.report(expected(t, text, err), text)
	return nil
}

// mismatch reports the next value, which has the wrong type.
func (d *comparer) mismatch(want string) error {
	start := d.r.Offset()
	if err := d.r.SkipRaw(); err != nil {
		return err
	}
	d.report("must be "+want, d.source[start:d.r.Offset()])
	return nil
}

// report reports a value of a wrong type.
func (d *comparer) report(message string, text []byte) {
	message += ", is " + describe(text)
	if strings.HasPrefix(message, "must be a string,") && strings.IndexByte("-0123456789tf", text[0]) >= 0 {
		message += ": put it in quotes"
	}
	if len(d.found.Wrong) < maxChanges {
		d.found.Wrong = append(d.found.Wrong, &espalier.FieldError{Path: slices.Clone(d.path), Problem: message})
	}
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
		return "the string " + jsonx.Excerpt(text)
	}
	return jsonx.Excerpt(text)
}

// fieldsOf returns the types of the fields of a struct by their names in JSON.
func fieldsOf(cache *sync.Map, t reflect.Type) map[string]reflect.Type {
	if known, ok := cache.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	known := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(known, fieldsOf(cache, f.Type))
		case name == "-" || !f.IsExported():
		case name == "":
			known[f.Name] = f.Type
		default:
			known[name] = f.Type
		}
	}
	cache.Store(t, known)
	return known
}
