package yamlx

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"

	"espalier.dev/internal/jsonx"
)

// unmarshal reads src with the library that sigs.k8s.io/yaml uses, and turns its panics into
// errors.
func unmarshal(src []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return yamlv2.Unmarshal(src, v)
}

// slowJSON returns the document's value as the library reads it.
func (d *Document) slowJSON() ([]byte, error) {
	if at, verdict := expand(d.src, d.o.MaxExpanded); verdict == expandsTooFar {
		return nil, &Error{Line: d.line + at.Line - 1, Column: at.Column, Message: tooFar(d.o.MaxExpanded)}
	}
	var v any
	err := unmarshal(d.src, &v)
	if err != nil {
		return nil, d.libraryError(err)
	}
	w := valueWriter{limit: d.o.MaxExpanded}
	if err := w.value(v); err != nil {
		return nil, d.valueError(err)
	}
	if text, ok := d.treeJSON(); ok && sameValue(text, w.out) {
		return text, nil
	}
	return w.out, nil
}

// sameValue reports whether two valid JSON texts have the same value.
func sameValue(a, b []byte) bool {
	x, err := jsonx.Parse(a)
	if err != nil {
		return false
	}
	y, err := jsonx.Parse(b)
	return err == nil && reflect.DeepEqual(x, y)
}

// treeJSON writes the document's value from its tree: in the order of the text, and with
// duplicate keys, which the library drops.
func (d *Document) treeJSON() ([]byte, bool) {
	ix := d.indexed()
	if ix.inexact != nil {
		return nil, false
	}
	return ix.root.Value(d.o.MaxExpanded)
}

// valueError returns why a value has no JSON form, with its position.
func (d *Document) valueError(err error) *Error {
	if e := d.ownError(); e != nil {
		return e
	}
	return d.errorAt(d.start(), "%v", err)
}

// ownError returns the error of the parser, if the parser is certain. Its position is exact;
// the library names only lines, and sometimes the wrong one.
func (d *Document) ownError() *Error {
	var p parser
	p.reset(d.src, true)
	if _, ok := p.document(); !ok && !p.failed.unusual {
		return d.errorAt(p.failed.offset, "%s", p.failed.problem)
	}
	return nil
}

var lineOfError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\n  )?(?:line (\d+): )?`)

// libraryError converts an error of the library.
func (d *Document) libraryError(err error) *Error {
	if e := d.ownError(); e != nil {
		return e
	}
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	var te *yamlv2.TypeError
	if errors.As(err, &te) && len(te.Errors) > 0 {
		msg = te.Errors[0]
	}
	e := d.errorAt(d.start(), "")
	if m := lineOfError.FindStringSubmatch(msg); m != nil {
		msg = msg[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			e.Line, e.Column = d.line+n-1, 1
		}
	}
	e.Message = msg
	return e
}

// errExpanded is returned for an alias bomb that expand cannot measure.
func errExpanded(limit int) error {
	return fmt.Errorf("aliases expand the document to more than %d bytes, the limit: use fewer aliases, or split the document", limit)
}

// valueWriter writes a value of the library as JSON text.
type valueWriter struct {
	out   []byte
	limit int
}

func (w *valueWriter) value(v any) error {
	if len(w.out) > w.limit {
		return errExpanded(w.limit)
	}
	switch v := v.(type) {
	case map[any]any:
		w.out = append(w.out, '{')
		named := make(map[string]any, len(v))
		for k, v := range v {
			name, err := keyString(k)
			if err != nil {
				return err
			}
			named[name] = v
		}
		for i, name := range slices.Sorted(maps.Keys(named)) {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.out = append(jsonx.AppendString(w.out, name), ':')
			if err := w.value(named[name]); err != nil {
				return err
			}
		}
		w.out = append(w.out, '}')
	case []any:
		w.out = append(w.out, '[')
		for i, v := range v {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if err := w.value(v); err != nil {
				return err
			}
		}
		w.out = append(w.out, ']')
	case string:
		w.out = jsonx.AppendString(w.out, v)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Errorf("JSON cannot represent the number %v", v)
		}
		w.out = jsonx.AppendFloat(w.out, v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		w.out = append(w.out, text...)
	}
	return nil
}

// keyString returns the name that sigs.k8s.io/yaml gives an entry with key k.
func keyString(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		// In 32 bits, which makes large numbers infinite.
		switch s := strconv.FormatFloat(k, 'g', -1, 32); s {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return s, nil
		}
	case nil:
		return "", errors.New("null cannot be a key")
	}
	return "", fmt.Errorf("%v cannot be a key", k)
}
