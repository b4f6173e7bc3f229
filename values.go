package espalier

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// copyObject copies an object, so that what the caller has stays as it is. Values
// that Go programs write where JSON has none of that type become what an API server
// would read if they were sent to it: all integers become int64, for instance.
func copyObject(obj Object) (Object, error) {
	v, err := copyValue(obj)
	if err != nil {
		return nil, err
	}
	return v.(Object), nil
}

// valueError says that a value is not one that JSON can hold.
type valueError struct {
	path string
	what string
}

func (e *valueError) Error() string { return e.path + ": " + e.what }

// below completes the path of an error that comes from below.
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
		return copyFloat(v), nil
	case map[string]any:
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
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = x
		}
		return m, nil
	case []string:
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
		return copyFloat(float64(v)), nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, &valueError{what: fmt.Sprintf("%q is not a number that JSON can hold", v)}
		}
		return f, nil
	}
	return nil, &valueError{what: fmt.Sprintf("a %T is not a JSON value", v)}
}

// copyFloat makes of f what an API server reads when f is sent to it: encoding/json
// writes a float without a fraction as an integer.
func copyFloat(f float64) any {
	if f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return f
	}
	if n, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, 64); err == nil {
		return n
	}
	return f
}

// copyUint makes an int64 of n, or a float64 if it is too large.
func copyUint(n uint64) any {
	if n > math.MaxInt64 {
		return float64(n)
	}
	return int64(n)
}
