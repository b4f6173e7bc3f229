package generate

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"

	"espalier.dev/schema"
)

// digest identifies a schema.
type digest [sha256.Size]byte

// digests has the digest of each schema of a tree, without the keywords that belong to the
// field and not to its type.
type digests map[*schema.Structural]digest

// add computes the digests of s and of all schemas below it, each of them once.
func (d digests) add(s *schema.Structural) {
	if s == nil {
		return
	}
	h := sha256.New()
	write := func(key string, sub *schema.Structural) {
		d.add(sub)
		typ := d[sub]
		_ = json.NewEncoder(h).Encode([]any{key, typ[:], ownKeywords(sub)})
	}
	shallow := *s
	shallow.Items, shallow.Properties, shallow.AdditionalProperties = nil, nil, nil
	shallow.Generic = schema.Generic{Type: s.Type, ReadOnly: s.ReadOnly}
	_ = json.NewEncoder(h).Encode(shallow.ToJSONSchemaProps())
	if s.Items != nil {
		write("items", s.Items)
	}
	if ap := s.AdditionalProperties; ap != nil {
		_ = json.NewEncoder(h).Encode([]any{"additionalProperties", ap.Bool})
		if ap.Structural != nil {
			write("additionalProperties", ap.Structural)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		write("properties/"+name, s.Properties[name])
	}
	d[s] = digest(h.Sum(nil))
}

// ownKeywords returns the keywords that belong to a field and not to its type.
func ownKeywords(s *schema.Structural) any {
	own := schema.Structural{Generic: s.Generic}
	own.Type, own.ReadOnly = "", false
	return own.ToJSONSchemaProps()
}
