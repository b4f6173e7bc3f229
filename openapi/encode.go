package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
)

// EncodeMember returns a member of an object of a document, as json.Marshal would write it. The types of
// OpenAPI write compact JSON, which json.Marshal would read once more.
func EncodeMember(name string, value json.Marshaler) ([]byte, error) {
	key, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	data, err := value.MarshalJSON()
	if err != nil {
		return nil, err
	}
	// The bytes are those with which U+2028 and U+2029 begin.
	if bytes.ContainsAny(data, "<>&") || bytes.Contains(data, []byte("\xe2\x80")) {
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, data)
		data = escaped.Bytes()
	}
	return slices.Concat(key, []byte{':'}, data), nil
}
