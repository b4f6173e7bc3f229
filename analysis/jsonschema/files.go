package jsonschema

import (
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// File returns the name of the file with the schema of a kind, as catalogs of such files have it:
// the group, and in it the kind in lower case with the version. The directory of the core group
// is named v1, as kubeconform expects.
func File(gvk runtimeschema.GroupVersionKind) string {
	group := gvk.Group
	if group == "" {
		group = gvk.Version
	}
	return group + "/" + strings.ToLower(gvk.Kind) + "_" + gvk.Version + ".json"
}

// Any returns a schema that applies the schema in the file of the kind that an object has. It
// accepts objects of other kinds.
func Any(kinds []runtimeschema.GroupVersionKind) Schema {
	choices := make([]any, len(kinds))
	for i, gvk := range kinds {
		choices[i] = Schema{
			"if": Schema{
				"properties": Schema{"apiVersion": Schema{"const": gvk.GroupVersion().String()}, "kind": Schema{"const": gvk.Kind}},
				"required":   []any{"apiVersion", "kind"},
			},
			"then": Schema{"$ref": File(gvk)},
		}
	}
	return Schema{
		"$schema": Draft, "type": "object", "required": []any{"apiVersion", "kind"},
		"properties": Schema{"apiVersion": Schema{"type": "string"}, "kind": Schema{"type": "string"}},
		"allOf":      choices,
	}
}
