package generate

import (
	"crypto/sha256"
	"encoding/hex"
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

// Fingerprint identifies the type of an object in JSON: the digest of its schema without
// descriptions, and without the keywords that belong to a field and not to its type.
func Fingerprint(s *schema.Structural) string {
	return NewFingerprints().Of(s)
}

// Fingerprints computes the fingerprints of many schemas of a tree, each of them once.
type Fingerprints struct{ digests digests }

// NewFingerprints returns an empty set.
func NewFingerprints() *Fingerprints { return &Fingerprints{digests{}} }

// Of returns the fingerprint of a schema.
func (f *Fingerprints) Of(s *schema.Structural) string {
	if _, known := f.digests[s]; !known {
		f.digests.walk(s, withoutDescription)
	}
	sum := f.digests[s]
	return hex.EncodeToString(sum[:12])
}

// withoutDescription returns the keywords of a field, without its description.
func withoutDescription(s *schema.Structural) any {
	c := *s
	c.Description = ""
	return ownKeywords(&c)
}

// add computes the digests of s and of all schemas below it, each of them once.
func (d digests) add(s *schema.Structural) { d.walk(s, ownKeywords) }

// walk is add, given the keywords of a field that count as part of the type around it.
func (d digests) walk(s *schema.Structural, own func(*schema.Structural) any) {
	h := sha256.New()
	write := func(key string, sub *schema.Structural) {
		d.walk(sub, own)
		typ := d[sub]
		_ = json.NewEncoder(h).Encode([]any{key, typ[:], own(sub)})
	}
	shallow := *s
	shallow.Items, shallow.Properties, shallow.AdditionalProperties = nil, nil, nil
	shallow.Generic = schema.Generic{Type: s.Type, ReadOnly: s.ReadOnly}
	if v := s.ValueValidation; v != nil {
		sorted := *v
		sorted.Required = slices.Sorted(slices.Values(v.Required))
		shallow.ValueValidation = &sorted
	}
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
