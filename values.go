package espalier

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/internal/jsonx"
)

// ToObject converts v to an Object: a struct such as the Go type of a custom resource,
// an unstructured object, or a map. It marshals structs to JSON, as a client does. An
// Admitter needs the apiVersion and kind of the object. Kubernetes clients leave them
// out of the structs that they return: set them in TypeMeta first. The Object shares no
// memory with v.
func ToObject(v any) (Object, error) {
	if u, ok := v.(unstructured.Unstructured); ok {
		v = u.Object // its methods belong to the pointer
	}
	if u, ok := v.(*unstructured.Unstructured); ok && u != nil {
		v = u.Object
	}
	if obj, ok := v.(Object); ok && obj != nil {
		return copyObject(obj)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("marshal a %T: %w", v, err)
	}
	parsed, err := jsonx.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("marshal a %T: %w", v, err)
	}
	obj, ok := parsed.(Object)
	if !ok {
		return nil, fmt.Errorf("a %T is not a JSON object but %s", v, kindOf(parsed))
	}
	return obj, nil
}

// kindOf returns the kind of a JSON value that is not an object.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case []any:
		return "a list"
	case bool:
		return "a boolean"
	}
	return "a number"
}

// copyObject returns a copy of an object. Go values that JSON does not have become what
// an API server would read if they were sent to it; all integers become int64, for
// instance.
func copyObject(obj Object) (Object, error) {
	v, err := copyValue(obj)
	if err != nil {
		return nil, err
	}
	copied, _ := v.(Object)
	return copied, nil
}

// valueError is returned for a value that JSON cannot represent.
type valueError struct {
	path string
	what string
}

func (e *valueError) Error() string { return strings.TrimPrefix(e.path, ".") + ": " + e.what }

// below adds a step to the front of the path of a valueError.
func below(step string, err error) error {
	if e, ok := err.(*valueError); ok {
		e.path = step + e.path
	}
	return err
}

func copyValue(v any) (any, error) {
	switch v := v.(type) {
	case nil, string, bool, int64:
		return v, nil
	case float64:
		return copyFloat(v, 64)
	case map[string]any:
		if v == nil {
			return nil, nil
		}
		m := make(map[string]any, len(v))
		for k, x := range v {
			c, err := copyValue(x)
			if err != nil {
				return nil, below("."+k, err)
			}
			m[k] = c
		}
		return m, nil
	case []any:
		if v == nil {
			return nil, nil
		}
		a := make([]any, len(v))
		for i, x := range v {
			c, err := copyValue(x)
			if err != nil {
				return nil, below(fmt.Sprintf("[%d]", i), err)
			}
			a[i] = c
		}
		return a, nil
	case map[string]string:
		if v == nil {
			return nil, nil
		}
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = x
		}
		return m, nil
	case []string:
		if v == nil {
			return nil, nil
		}
		a := make([]any, len(v))
		for i, x := range v {
			a[i] = x
		}
		return a, nil
	case int:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint:
		return copyUint(uint64(v)), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint64:
		return copyUint(v), nil
	case float32:
		return copyFloat(float64(v), 32)
	case json.Number:
		switch n, err := jsonx.Parse([]byte(v)); n.(type) {
		case int64, float64:
			if err == nil {
				return n, nil
			}
		}
		return nil, &valueError{what: fmt.Sprintf("%q is not a JSON number", v)}
	}
	return nil, &valueError{what: fmt.Sprintf("a %T is not a JSON value", v)}
}

// copyFloat returns what an API server reads when f, a float of the given size, is sent
// to it: encoding/json writes a float without a fraction as an integer.
func copyFloat(f float64, bits int) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, &valueError{what: fmt.Sprintf("%v is not a JSON number", f)}
	}
	text := strconv.FormatFloat(f, 'f', -1, bits)
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	if bits == 32 {
		return strconv.ParseFloat(text, 64)
	}
	return f, nil
}

// copyUint returns n as an int64, or as a float64 if it is too large.
func copyUint(n uint64) any {
	if n > math.MaxInt64 {
		return float64(n)
	}
	return int64(n)
}
