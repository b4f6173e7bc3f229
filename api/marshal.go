package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonx"
)

// A schema encodes and decodes itself and its subschemas in one pass. The JSON package
// would scan every either-or value again on the way down, which takes minutes for
// deeply nested schemas.

var nullLiteral = []byte("null")

// fieldInfo is a field of a struct in a schema.
type fieldInfo struct {
	name string
	// member is the name as the beginning of a member in JSON: quoted, with a colon.
	member    string
	index     int
	omitEmpty bool
}

// structInfo has the fields of a struct in a schema.
type structInfo struct {
	fields []fieldInfo
	byName map[string]int
}

// schemaStructs are the structs in a schema that have fields in JSON.
var schemaStructs = newStructInfos(
	reflect.TypeFor[JSONSchemaProps](), reflect.TypeFor[ValidationRule](),
	reflect.TypeFor[Union](), reflect.TypeFor[ExternalDocumentation](),
)

func newStructInfos(types ...reflect.Type) map[reflect.Type]structInfo {
	out := map[reflect.Type]structInfo{}
	for _, t := range types {
		info := structInfo{byName: map[string]int{}}
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			info.fields = append(info.fields, fieldInfo{name, strconv.Quote(name) + ":", i, strings.Contains(options, "omitempty")})
			info.byName[name] = i
		}
		out[t] = info
	}
	return out
}

// MarshalJSON encodes the schema without empty values.
func (s JSONSchemaProps) MarshalJSON() ([]byte, error) {
	return appendJSON(nil, reflect.ValueOf(&s).Elem())
}

// ToUnstructuredWithError returns the schema as a tree. Field management calls it instead of
// decoding the result of MarshalJSON, which is slower.
func (s JSONSchemaProps) ToUnstructuredWithError() (any, error) {
	data, err := s.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var r jsonx.Reader
	r.Reset(data)
	return r.Value()
}

// UnmarshalJSON decodes a schema. Names are case-sensitive, unknown fields are dropped.
func (s *JSONSchemaProps) UnmarshalJSON(data []byte) error { return unmarshal(data, s) }

// MarshalJSON returns the original bytes.
func (j JSON) MarshalJSON() ([]byte, error) { return appendJSON(nil, reflect.ValueOf(&j).Elem()) }

// UnmarshalJSON keeps a copy of data. The literal null becomes no bytes.
func (j *JSON) UnmarshalJSON(data []byte) error { return unmarshal(data, j) }

// MarshalJSON encodes a single string as a string, and several as a list. A single
// empty string is encoded as a list, because an empty string would be decoded as no
// type.
func (s StringOrArray) MarshalJSON() ([]byte, error) {
	return appendJSON(nil, reflect.ValueOf(&s).Elem())
}

// UnmarshalJSON accepts a string or a list of strings.
func (s *StringOrArray) UnmarshalJSON(data []byte) error { return unmarshal(data, s) }

// MarshalJSON encodes the list, if there is one, or the schema.
func (s JSONSchemaPropsOrArray) MarshalJSON() ([]byte, error) {
	return appendJSON(nil, reflect.ValueOf(&s).Elem())
}

// UnmarshalJSON accepts a schema or a list of schemas, and ignores all other values.
func (s *JSONSchemaPropsOrArray) UnmarshalJSON(data []byte) error { return unmarshal(data, s) }

// MarshalJSON encodes the schema, if there is one, or the boolean.
func (s JSONSchemaPropsOrBool) MarshalJSON() ([]byte, error) {
	return appendJSON(nil, reflect.ValueOf(&s).Elem())
}

// UnmarshalJSON accepts a schema or a boolean.
func (s *JSONSchemaPropsOrBool) UnmarshalJSON(data []byte) error { return unmarshal(data, s) }

// MarshalJSON encodes the list, if there is one, or the schema.
func (s JSONSchemaPropsOrStringArray) MarshalJSON() ([]byte, error) {
	return appendJSON(nil, reflect.ValueOf(&s).Elem())
}

// UnmarshalJSON accepts a schema or a list of strings, and ignores all other values.
func (s *JSONSchemaPropsOrStringArray) UnmarshalJSON(data []byte) error { return unmarshal(data, s) }

// appendJSON appends the JSON encoding of a value in a schema to b. Values are addressable, except
// those of maps: v.Interface() would copy a struct.
func appendJSON(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, nullLiteral...), nil
		}
		return appendJSON(b, v.Elem())
	case reflect.Slice:
		if v.Type() == typeList && v.Len() == 1 && v.Index(0).String() != "" {
			return appendString(b, v.Index(0).String())
		}
		return appendSlice(b, v)
	case reflect.Map:
		return appendMap(b, v)
	case reflect.Struct:
		if !v.CanAddr() {
			value := reflect.New(v.Type()).Elem()
			value.Set(v)
			v = value
		}
		switch x := v.Addr().Interface().(type) {
		case *JSON:
			return appendRaw(b, x.Raw)
		case *JSONSchemaPropsOrArray:
			if x.JSONSchemas != nil {
				return appendJSON(b, reflect.ValueOf(x.JSONSchemas))
			}
			return appendJSON(b, reflect.ValueOf(x.Schema))
		case *JSONSchemaPropsOrBool:
			if x.Schema == nil {
				return strconv.AppendBool(b, x.Allows), nil
			}
			return appendJSON(b, reflect.ValueOf(x.Schema))
		case *JSONSchemaPropsOrStringArray:
			if x.Property != nil {
				return appendJSON(b, reflect.ValueOf(x.Property))
			}
			return appendJSON(b, reflect.ValueOf(x.Schema))
		}
		return appendStruct(b, v)
	}
	scalar, err := json.Marshal(v.Interface())
	return append(b, scalar...), err
}

// typeList is the type of the types of a schema. A single one is encoded as a string.
var typeList = reflect.TypeFor[StringOrArray]()

// appendRaw appends JSON without white space.
func appendRaw(b, raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return append(b, nullLiteral...), nil
	}
	buf := bytes.NewBuffer(b)
	if err := json.Compact(buf, raw); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// appendString appends a string as the JSON package encodes it.
func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			return append(b, text...), err
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

func appendStruct(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '{')
	start := len(b)
	for _, f := range schemaStructs[v.Type()].fields {
		field := v.Field(f.index)
		if f.omitEmpty && isEmpty(field) {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, f.member...)
		var err error
		if b, err = appendJSON(b, field); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// isEmpty reports whether a field is omitted. An either-or value that is neither is
// omitted too: decoding would drop a null.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Pointer:
		if s, ok := v.Interface().(*JSONSchemaPropsOrArray); ok && s != nil {
			return s.Schema == nil && s.JSONSchemas == nil
		}
	}
	return v.IsZero()
}

func appendSlice(b []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(b, nullLiteral...), nil
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendJSON(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(b, nullLiteral...), nil
	}
	if schemas, ok := v.Interface().(map[string]JSONSchemaProps); ok {
		return appendSchemas(b, schemas)
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendJSON(b, k); err != nil {
			return nil, err
		}
		if b, err = appendJSON(append(b, ':'), v.MapIndex(k)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendSchemas appends the encoding of a map of schemas, with one copy of a schema at a time.
func appendSchemas(b []byte, schemas map[string]JSONSchemaProps) ([]byte, error) {
	names := make([]string, 0, len(schemas))
	for name := range schemas {
		names = append(names, name)
	}
	slices.Sort(names)
	var one JSONSchemaProps
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, name); err != nil {
			return nil, err
		}
		one = schemas[name]
		if b, err = appendStruct(append(b, ':'), reflect.ValueOf(&one).Elem()); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// unmarshal decodes data into a value in a schema.
func unmarshal(data []byte, into any) error {
	if !json.Valid(data) {
		var raw json.RawMessage
		return json.Unmarshal(data, &raw) // the error says where
	}
	c := cursorAt(data)
	return c.decode(reflect.ValueOf(into).Elem())
}

// decode sets v to the value at the cursor.
func (c *cursor) decode(v reflect.Value) error {
	kind := c.Peek()
	switch x := v.Addr().Interface().(type) {
	case *JSON:
		x.Raw = nil
		if raw := c.skip(); kind != 'n' {
			x.Raw = bytes.Clone(raw)
		}
		return nil
	case *StringOrArray:
		return c.decodeType(x, kind)
	case *JSONSchemaPropsOrBool:
		*x = JSONSchemaPropsOrBool{}
		switch kind {
		case '{':
			x.Allows = true
			return c.decode(reflect.ValueOf(&x.Schema).Elem())
		case 't', 'f':
			return c.decode(reflect.ValueOf(&x.Allows).Elem())
		}
		return mismatch("a boolean or a schema", c.skip())
	case *JSONSchemaPropsOrArray:
		*x = JSONSchemaPropsOrArray{}
		return c.decodeEither(kind, &x.Schema, reflect.ValueOf(&x.JSONSchemas).Elem())
	case *JSONSchemaPropsOrStringArray:
		*x = JSONSchemaPropsOrStringArray{}
		return c.decodeEither(kind, &x.Schema, reflect.ValueOf(&x.Property).Elem())
	}
	if kind == 'n' {
		c.skip()
		switch v.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			v.SetZero()
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return c.decode(v.Elem())
	case reflect.Struct:
		return c.decodeStruct(v, kind)
	case reflect.Slice:
		return c.decodeSlice(v, kind)
	case reflect.Map:
		return c.decodeMap(v, kind)
	}
	return c.decodeScalar(v, kind)
}

// decodeType decodes a type. The empty string means no type.
func (c *cursor) decodeType(s *StringOrArray, kind byte) error {
	*s = nil
	switch kind {
	case '[':
		return c.decodeSlice(reflect.ValueOf((*[]string)(s)).Elem(), kind)
	case '"':
		var one string
		if err := c.decodeScalar(reflect.ValueOf(&one).Elem(), kind); err != nil {
			return err
		}
		if one != "" {
			*s = StringOrArray{one}
		}
		return nil
	}
	if raw := c.skip(); kind != 'n' {
		return mismatch("a string or a list of strings", raw)
	}
	return nil
}

// decodeEither decodes a schema or a list, and skips all other values.
func (c *cursor) decodeEither(kind byte, schema **JSONSchemaProps, list reflect.Value) error {
	switch kind {
	case '{':
		return c.decode(reflect.ValueOf(schema).Elem())
	case '[':
		return c.decodeSlice(list, kind)
	}
	c.skip()
	return nil
}

func (c *cursor) decodeStruct(v reflect.Value, kind byte) error {
	if kind != '{' {
		return mismatch("an object", c.skip())
	}
	info := schemaStructs[v.Type()]
	return c.Members(func(name string) error {
		i, known := info.byName[name]
		if !known {
			c.skip()
			return nil
		}
		return below(Step{Name: name}, c.decode(v.Field(i)))
	})
}

func (c *cursor) decodeSlice(v reflect.Value, kind byte) error {
	if kind != '[' {
		return mismatch("a list", c.skip())
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return c.Items(func(i int) error {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		return below(Step{Kind: ItemStep, Index: i}, c.decode(v.Index(i)))
	})
}

func (c *cursor) decodeMap(v reflect.Value, kind byte) error {
	if kind != '{' {
		return mismatch("an object", c.skip())
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	var e reflect.Value
	var set func(name string)
	if properties, ok := v.Interface().(map[string]JSONSchemaProps); ok {
		schema := c.spareSchema()
		defer c.keepSpare(schema)
		e = reflect.ValueOf(schema).Elem()
		set = func(name string) { properties[name] = *schema }
	} else {
		e = reflect.New(v.Type().Elem()).Elem()
		set = func(name string) { v.SetMapIndex(reflect.ValueOf(name), e) }
	}
	return c.Members(func(name string) error {
		e.SetZero()
		err := below(Step{Kind: KeyStep, Name: name}, c.decode(e))
		// Cloning avoids keeping the whole text in memory.
		set(strings.Clone(name))
		return err
	})
}

// decodeScalar decodes a string, boolean or number that starts with kind.
func (c *cursor) decodeScalar(v reflect.Value, kind byte) error {
	switch {
	case v.Kind() == reflect.String && kind == '"':
		text, err := c.String()
		// Cloning avoids keeping the whole text in memory.
		v.SetString(strings.Clone(text))
		return err
	case v.Kind() == reflect.Bool && (kind == 't' || kind == 'f'):
		v.SetBool(kind == 't')
		c.skip()
		return nil
	}
	raw := c.skip()
	if v.Kind() == reflect.Int64 {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			v.SetInt(n)
			return nil
		}
	}
	return setScalar(v, raw)
}

// setScalar sets a string, boolean or number.
func setScalar(v reflect.Value, raw []byte) error {
	var want string
	var err error
	switch v.Kind() {
	case reflect.String:
		var s string
		if s, err = jsonx.Unquote(raw); err == nil {
			v.SetString(s)
		}
		want = "a string"
	case reflect.Bool:
		err = json.Unmarshal(raw, v.Addr().Interface())
		want = "a boolean"
	case reflect.Int64, reflect.Int32:
		err = json.Unmarshal(raw, v.Addr().Interface())
		want = fmt.Sprintf("an integer of %d bits", v.Type().Bits())
	case reflect.Float64:
		err = json.Unmarshal(raw, v.Addr().Interface())
		want = "a number of 64 bits"
	}
	if err != nil {
		return mismatch(want, raw)
	}
	return nil
}
