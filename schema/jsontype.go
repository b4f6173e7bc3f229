package schema

import "math"

// jsonType is the JSON type of a Go value.
type jsonType uint8

const (
	kNull jsonType = iota
	kBool
	kInt
	kFloat
	kString
	kArray
	kObject
	kOther // not a JSON value
)

// jsonTypeOf returns the type of v.
func jsonTypeOf(v any) jsonType {
	switch v.(type) {
	case string:
		return kString
	case map[string]any:
		return kObject
	case int64:
		return kInt
	case bool:
		return kBool
	case []any:
		return kArray
	case float64:
		return kFloat
	case nil:
		return kNull
	}
	return kOther
}

// typeName returns kube-apiserver's name of the type in messages.
func (k jsonType) typeName() string {
	return [...]string{"null", "boolean", "integer", "number", "string", "array", "object", "unknown"}[k]
}

// formatName returns the format that kube-apiserver assigns to values of the type.
func (k jsonType) formatName() string {
	switch k {
	case kInt:
		return "int64"
	case kFloat:
		return "float64"
	}
	return ""
}

// accepts is a set of types. It distinguishes floats that count as integers from other
// floats.
type accepts uint16

const (
	aIntegralFloat accepts = 1 << 8

	acceptsAll     = accepts(1<<kOther-1) | aIntegralFloat
	acceptsNumbers = accepts(1<<kInt|1<<kFloat) | aIntegralFloat
)

func (k jsonType) bit() accepts { return 1 << k }

// has reports whether the set contains v, whose type is k.
func (a accepts) has(k jsonType, v any) bool {
	if a&k.bit() != 0 {
		return true
	}
	return k == kFloat && a&aIntegralFloat != 0 && isJSONInteger(v.(float64))
}

// typeSet returns the set of values that a type name allows.
func typeSet(name string) accepts {
	switch name {
	case "null":
		return kNull.bit()
	case "boolean":
		return kBool.bit()
	case "integer":
		return kInt.bit() | aIntegralFloat
	case "number":
		return acceptsNumbers
	case "string":
		return kString.bit()
	case "array":
		return kArray.bit()
	case "object":
		return kObject.bit()
	}
	return 0
}

// isJSONInteger reports whether f counts as an integer. kube-apiserver allows a
// relative error of 1e-9, up to the largest integer that a float64 represents exactly.
func isJSONInteger(f float64) bool {
	const limit = 1<<53 - 1
	if !(f >= -limit && f <= limit) {
		return false
	}
	rounded := math.Round(f)
	if f == rounded {
		return true
	}
	return math.Abs(f-rounded) < 1e-9*math.Abs(rounded)
}
