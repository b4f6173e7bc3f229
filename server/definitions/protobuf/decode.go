package protobuf

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
	v1beta1api "espalier.dev/api/v1beta1"
	"espalier.dev/server/keys"
)

// maxDepth is how deep messages may nest, which is how deep JSON may.
const maxDepth = 10000

// prefixBytes is the length of what a message begins with.
const prefixBytes = len("k8s\x00")

// Decode returns the JSON of a CRD that a client sent in Kubernetes' envelope.
func Decode(data []byte) ([]byte, error) {
	envelope, ok, err := keys.Unwrap(data)
	if !ok {
		return nil, errors.New("protobuf: the body does not begin with the bytes k8s and zero")
	}
	if err != nil {
		return nil, fmt.Errorf("protobuf: %w", err)
	}
	if len(data) == prefixBytes {
		return nil, errors.New("protobuf: the body has nothing after its first bytes")
	}
	d := decoder{v1}
	if envelope.APIVersion == v1beta1api.APIVersion {
		d = decoder{v1beta1}
	}
	obj, err := d.message(api.Kind, envelope.Raw, 0)
	if err != nil {
		return nil, fmt.Errorf("protobuf: %w", err)
	}
	obj["apiVersion"], obj["kind"] = envelope.APIVersion, envelope.Kind
	return json.Marshal(obj)
}

type decoder struct{ messages map[string]fields }

// message reads a message into the object that it stands for.
func (d decoder) message(name string, data []byte, depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, errors.New("messages nest too deep")
	}
	known, out := d.messages[name], map[string]any{}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, fmt.Errorf("%s: %w", name, protowire.ParseError(n))
		}
		data = data[n:]
		f, ok := known[number]
		if !ok {
			if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
				return nil, fmt.Errorf("%s: %w", name, protowire.ParseError(n))
			}
			data = data[n:]
			continue
		}
		raw, scalar, n, err := consume(f, wire, data)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name, f.name, err)
		}
		data = data[n:]
		// The message in which something is wrong is named, not the way there: that can
		// be long.
		if err := d.set(out, f, raw, scalar, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// consume reads one value: the bytes of what has a length, otherwise a number.
func consume(f field, wire protowire.Type, data []byte) (raw []byte, scalar uint64, n int, err error) {
	want := protowire.BytesType
	switch f.kind {
	case integerKind, boolKind:
		want = protowire.VarintType
	case doubleKind:
		want = protowire.Fixed64Type
	}
	if wire != want {
		return nil, 0, 0, fmt.Errorf("wire type %d is expected, not %d", want, wire)
	}
	switch want {
	case protowire.VarintType:
		scalar, n = protowire.ConsumeVarint(data)
	case protowire.Fixed64Type:
		scalar, n = protowire.ConsumeFixed64(data)
	default:
		raw, n = protowire.ConsumeBytes(data)
	}
	if n < 0 {
		return nil, 0, 0, protowire.ParseError(n)
	}
	return raw, scalar, n, nil
}

// set puts a value into the object.
func (d decoder) set(out map[string]any, f field, raw []byte, scalar uint64, depth int) error {
	if f.keyed {
		key, value, err := d.entry(f, raw, depth)
		if err != nil {
			return err
		}
		m, ok := out[f.name].(map[string]any)
		if !ok {
			m = map[string]any{}
			out[f.name] = m
		}
		m[key] = value
		return nil
	}
	value, zero, err := d.value(f, raw, scalar, depth)
	if err != nil {
		return err
	}
	switch {
	case f.many:
		list, _ := out[f.name].([]any)
		out[f.name] = append(list, value)
	case zero && !f.optional:
	default:
		out[f.name] = value
	}
	return nil
}

// entry reads an entry of a map.
func (d decoder) entry(f field, data []byte, depth int) (key string, value any, err error) {
	value = map[string]any{}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return "", nil, protowire.ParseError(n)
		}
		raw, _, m, err := consume(field{kind: bytesKind}, wire, data[n:])
		if err != nil {
			return "", nil, err
		}
		data = data[n+m:]
		switch number {
		case 1:
			key = string(raw)
		case 2:
			if value, _, err = d.value(f, raw, 0, depth); err != nil {
				return "", nil, err
			}
		}
	}
	return key, value, nil
}

func (d decoder) value(f field, raw []byte, scalar uint64, depth int) (value any, zero bool, err error) {
	switch f.kind {
	case stringKind:
		return string(raw), len(raw) == 0, nil
	case bytesKind:
		return base64.StdEncoding.EncodeToString(raw), len(raw) == 0, nil
	case integerKind:
		return int64(scalar), scalar == 0, nil
	case doubleKind:
		return math.Float64frombits(scalar), false, nil
	case boolKind:
		return scalar != 0, scalar == 0, nil
	}
	switch f.of {
	case "ObjectMeta":
		meta := &metav1.ObjectMeta{}
		if err := meta.Unmarshal(raw); err != nil {
			return nil, false, err
		}
		value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
		return value, false, err
	case "Time":
		at := &metav1.Time{}
		if err := at.Unmarshal(raw); err != nil {
			return nil, false, err
		}
		return at.ToUnstructured(), at.IsZero(), nil
	}
	m, err := d.message(f.of, raw, depth+1)
	if err != nil {
		return nil, false, err
	}
	if value, err = either(f.of, m); err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.name, err)
	}
	return value, false, nil
}

// either resolves the messages that stand for one of two things.
func either(message string, m map[string]any) (any, error) {
	first := func(names ...string) any {
		for _, name := range names {
			if v, ok := m[name]; ok {
				return v
			}
		}
		return nil
	}
	switch message {
	case "JSON":
		text, _ := m["raw"].(string)
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(data) == 0 {
			return nil, err
		}
		var v any
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &v)
		return v, err
	case "JSONSchemaPropsOrArray":
		return first("jSONSchemas", "schema"), nil
	case "JSONSchemaPropsOrBool":
		if v := first("schema", "allows"); v != nil {
			return v, nil
		}
		return false, nil
	case "JSONSchemaPropsOrStringArray":
		return first("property", "schema"), nil
	}
	return m, nil
}
