package yamlx

import (
	"encoding/json"

	yamlv2 "go.yaml.in/yaml/v2"

	"espalier.dev/internal/jsonx"
)

// Marshal returns v, which has the JSON form of its fields, as YAML in the format of
// sigs.k8s.io/yaml. It differs from that in one thing: it does not read the JSON with a parser of
// YAML, which takes most of the time there.
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	value, err := jsonx.Parse(text)
	if err != nil {
		return nil, err
	}
	return yamlv2.Marshal(value)
}
