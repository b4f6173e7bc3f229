package codec

import (
	"encoding/json"
	"slices"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
)

// ReplaceStatus replaces the status in the JSON of a CRD of any version and keeps the rest
// of the text, so the schemas need not be decoded. It returns false if the text does not
// have exactly one status.
func ReplaceStatus(data []byte, status *api.CustomResourceDefinitionStatus) ([]byte, bool) {
	var r jsonx.Reader
	r.Reset(data)
	if r.Peek() != '{' {
		return nil, false
	}
	start, end, found := 0, 0, 0
	if err := r.Members(func(name string) error {
		r.Peek()
		at := r.Offset()
		if err := r.SkipRaw(); err != nil {
			return err
		}
		if name == "status" {
			start, end = at, r.Offset()
			found++
		}
		return nil
	}); err != nil || found != 1 || r.End() != nil {
		return nil, false
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, false
	}
	return slices.Concat(data[:start], text, data[end:]), true
}
