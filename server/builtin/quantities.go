package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/quantity"
	"espalier.dev/internal/yamlx"
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// boundQuantities rejects a request with a quantity that would take seconds to parse, or to compare
// with another one. It looks for one in the body before anything decodes it.
func (h *Handler) boundQuantities(req *http.Request, r *Resource) error {
	if req.Body == nil || req.Body == http.NoBody || req.Method == http.MethodGet || req.Method == http.MethodHead {
		return nil
	}
	types, err := h.types()
	if err != nil {
		return err
	}
	obj, err := types.New(r.GroupVersionKind())
	if err != nil {
		return nil // it is not stored
	}
	typ := reflect.TypeOf(obj)
	if !hasQuantity(typ) {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, h.config.MaxRequestBodyBytes+1))
	req.Body = &readBody{Reader: io.MultiReader(bytes.NewReader(body), failing{err}, req.Body), Closer: req.Body}
	if err != nil || int64(len(body)) > h.config.MaxRequestBodyBytes || !quantity.MayBeIn(body) {
		return nil // the handler reports other problems
	}
	mediaType, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if mediaType == runtime.ContentTypeProtobuf {
		if hasMessage(body) {
			return apierrors.NewBadRequest("the request has a quantity that is too long, or has too large an exponent")
		}
		return nil
	}
	text := body
	if mediaType == runtime.ContentTypeYAML || mediaType == string(apitypes.ApplyYAMLPatchType) {
		if text, err = yamlToJSON(body, int(h.config.MaxRequestBodyBytes)); err != nil {
			return nil
		}
	}
	var bad *field.Error
	if mediaType == string(apitypes.JSONPatchType) {
		bad = costlyInOperations(text)
	} else {
		bad = costlyIn(newTokens(text), typ, nil)
	}
	if bad == nil {
		return nil
	}
	return apierrors.NewInvalid(r.GroupVersionKind().GroupKind(), "", field.ErrorList{bad})
}

// yamlToJSON converts YAML as the decoder does, unless aliases expand it beyond a limit.
func yamlToJSON(text []byte, limit int) ([]byte, error) {
	if err := yamlx.CheckExpanded(text, limit); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(text)
}

// readBody is a body that was read.
type readBody struct {
	io.Reader
	io.Closer
}

// failing returns an error that has occurred before, or the end of the text.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// withQuantities has what hasQuantity has found out about types.
var withQuantities sync.Map

// hasQuantity reports whether values of a type contain quantities.
func hasQuantity(t reflect.Type) bool {
	known, ok := withQuantities.Load(t)
	if !ok {
		known = reachesQuantity(t, map[reflect.Type]bool{})
		withQuantities.Store(t, known)
	}
	return known.(bool)
}

func reachesQuantity(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == quantityType {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		return reachesQuantity(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if reachesQuantity(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// newTokens reads JSON by its tokens: a value counts even if another one with the same key
// follows it, because decoders parse both.
func newTokens(text []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d
}

// costlyIn returns the error of the first costly quantity in the next JSON value, which will be
// decoded as a type, or nil. The decoder reports what is not JSON.
func costlyIn(d *json.Decoder, t reflect.Type, at *field.Path) *field.Error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || !hasQuantity(t) {
		_ = d.Decode(new(json.RawMessage))
		return nil
	}
	token, err := d.Token()
	if err != nil {
		return nil
	}
	if text, ok := scalar(token); ok {
		if t == quantityType && quantity.IsCostly(text) {
			return tooCostly(at, text)
		}
		return nil
	}
	for i := 0; d.More(); i++ {
		child, below := at.Index(i), elem(t, reflect.Slice)
		if token == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return nil
			}
			name, _ := key.(string)
			if child, below = at.Key(name), elem(t, reflect.Map); t.Kind() == reflect.Struct {
				child, below = at.Child(name), fieldOf(t, name)
			}
		}
		if bad := costlyIn(d, below, child); bad != nil {
			return bad
		}
	}
	_, _ = d.Token()
	return nil
}

// scalar returns the text of a string or a number.
func scalar(token json.Token) (string, bool) {
	switch token := token.(type) {
	case json.Delim:
		return "", false
	case string:
		return token, true
	case json.Number:
		return token.String(), true
	}
	return "", true
}

// elem returns the type of the elements of a type of a kind, or nil.
func elem(t reflect.Type, kind reflect.Kind) reflect.Type {
	if t.Kind() != kind {
		return nil
	}
	return t.Elem()
}

// fieldOf returns the type of a field, or nil if there is none.
func fieldOf(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		switch known, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case known == name:
			return f.Type
		case known == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			if inner := fieldOf(f.Type, name); inner != nil {
				return inner
			}
		}
	}
	return nil
}

// costlyInOperations is costlyIn for a JSON patch. Where a value ends up depends on the object,
// but metadata has no quantities.
func costlyInOperations(text []byte) *field.Error {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(text, &operations) != nil {
		return nil
	}
	for _, o := range operations {
		var path string
		if json.Unmarshal(o["path"], &path) == nil && strings.HasPrefix(path, "/metadata/") {
			continue
		}
		for d := newTokens(o["value"]); ; {
			token, err := d.Token()
			if err != nil {
				break
			}
			if text, ok := scalar(token); ok && quantity.IsCostly(text) {
				return tooCostly(field.NewPath("patch"), text)
			}
		}
	}
	return nil
}

func tooCostly(at *field.Path, text string) *field.Error {
	const shown = 40
	if len(text) > shown {
		text = fmt.Sprintf("%s… (%d characters)", text[:shown], len(text))
	}
	return field.Invalid(at, text, "the number is too long, or its exponent too large, for a quantity")
}

// hasMessage reports whether protobuf has a message that consists of a costly quantity. A
// string alone, such as the value of a label, is not in a message of its own.
func hasMessage(data []byte) bool {
	const tag = 0x0a // the first field, of variable length
	for i := 0; i+2 < len(data); i++ {
		if data[i] != tag {
			continue
		}
		length, n := protoLength(data[i+1:])
		start := i + 1 + n
		if n == 0 || length > len(data)-start {
			continue
		}
		outer := appendLength(nil, 1+n+length)
		if bytes.HasSuffix(data[:i], outer) && quantity.IsCostly(string(data[start:start+length])) {
			return true
		}
	}
	return false
}

// protoLength decodes a length, and returns the number of its bytes, or zero.
func protoLength(data []byte) (length, n int) {
	for n < min(len(data), 4) {
		c := data[n]
		length |= int(c&0x7f) << (7 * n)
		if n++; c < 0x80 {
			return length, n
		}
	}
	return 0, 0
}

// appendLength encodes a length.
func appendLength(to []byte, length int) []byte {
	for ; length >= 0x80; length >>= 7 {
		to = append(to, byte(length)|0x80)
	}
	return append(to, byte(length))
}
