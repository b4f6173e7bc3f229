package explain

import "espalier.dev/schema"

// UnknownFields says what becomes of fields that a schema does not specify.
type UnknownFields struct {
	// Preserved says that they are kept; otherwise they are pruned.
	Preserved bool `json:"preserved"`
	// Because says why, in words.
	Because string `json:"because"`
	// Everything says that no fields are specified, so that all there can be is unknown.
	Everything bool `json:"everything,omitempty"`
	// Semantics are those in which it is so, Other is what happens in the other
	// ones, if that is something else.
	Semantics string         `json:"semantics"`
	Other     *UnknownFields `json:"other,omitempty"`
}

// fate is what becomes of unknown fields at a place.
type fate struct {
	semantics schema.Semantics
	// preserved says that they are kept, always that pruning never starts again.
	preserved, always bool
	because           string
}

// fates are the fates in both of the semantics.
type fates [2]fate

// rootFates are those that the root of a resource is entered with. preserveAll is
// preserveUnknownFields of the definition.
func rootFates(preserveAll bool) fates {
	out := fates{{semantics: schema.KEP}, {semantics: schema.Kubernetes}}
	for i := range out {
		out[i].because = "nothing here or around it preserves them"
		if preserveAll {
			out[i].preserved, out[i].always = true, true
			out[i].because = "spec.preserveUnknownFields of the definition is true"
		}
	}
	return out
}

// metadataFates are those of the metadata of a resource.
func metadataFates() fates {
	f := rootFates(false)
	for i := range f {
		f[i].because = "metadata is pruned always"
	}
	return f
}

// inside is what happens in a value of s, which stands at path.
func (f fates) inside(s *schema.Structural, path string) fates {
	for i := range f {
		if !f[i].preserved && s.XPreserveUnknownFields {
			f[i].preserved, f[i].because = true, "x-kubernetes-preserve-unknown-fields is set at "+orRoot(path)
		}
	}
	return f
}

// into is what a part of a value is entered with, given what happens in the value.
func (f fates) into(part *schema.Structural, viaItems bool, path string) fates {
	specifies := len(part.Properties) > 0 || part.AdditionalProperties != nil
	for i := range f {
		if f[i].preserved && !f[i].always && f[i].semantics.RestartsAt(viaItems, specifies) {
			f[i].preserved, f[i].because = false, "pruning starts again at "+orRoot(path)+", which the schema specifies"
		}
	}
	return f
}

// describe says what happens in a value of s in the given semantics, and in the
// others if that differs. It is nil if s is no object, or a map, all of whose keys
// are specified.
func (f fates) describe(s *schema.Structural, sem schema.Semantics) *UnknownFields {
	object := s.Type == "object" || s.Type == "" && (s.XPreserveUnknownFields || len(s.Properties) > 0)
	isMap := s.AdditionalProperties != nil && (s.AdditionalProperties.Structural != nil || s.AdditionalProperties.Bool)
	if !object || isMap || s.XIntOrString {
		return nil
	}
	mine, other := f[0], f[1]
	if mine.semantics != sem {
		mine, other = other, mine
	}
	u := mine.unknownFields()
	if mine.preserved != other.preserved {
		u.Other = other.unknownFields()
		u.Other.Everything = len(s.Properties) == 0
	}
	u.Everything = len(s.Properties) == 0
	return u
}

func (f fate) unknownFields() *UnknownFields {
	return &UnknownFields{Preserved: f.preserved, Because: f.because, Semantics: f.semantics.String()}
}

func orRoot(path string) string {
	if path == "" {
		return "the root"
	}
	return path
}
