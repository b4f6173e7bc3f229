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
	start, end, n, err := jsonx.Member(data, "status")
	if err != nil || n != 1 {
		return nil, false
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, false
	}
	return slices.Concat(data[:start], text, data[end:]), true
}
