package explain

import "espalier.dev/schema"

// UnknownFields describes what happens to fields that a schema does not specify.
type UnknownFields struct {
	// Preserved reports whether they are kept rather than pruned.
	Preserved bool `json:"preserved"`
	// Because is the reason.
	Because string `json:"because"`
	// Everything reports whether the schema specifies no fields, so that all are unknown.
	Everything bool `json:"everything,omitempty"`
	// Semantics is the schema semantics that this describes.
	Semantics string `json:"semantics"`
	// Other describes the other semantics if it differs.
	Other *UnknownFields `json:"other,omitempty"`
}

// fate describes what happens to unknown fields at a place under one semantics, and why.
type fate struct {
	semantics schema.Semantics
	at        schema.Cursor
	because   string
}

// fates has the fate under each semantics.
type fates [2]fate

// rootFates returns the fates at the root of a resource. preserveAll is the
// preserveUnknownFields of the CRD.
func rootFates(s *schema.Structural, preserveAll bool) fates {
	if preserveAll {
		return newFates(s, schema.PruningOff, "spec.preserveUnknownFields of the CRD is true")
	}
	return newFates(s, schema.PruningOn, "nothing preserves them")
}

// metadataFates returns the fates in the metadata of a resource. The schema of ObjectMeta
// decides there, whatever the schemas around it specify.
func metadataFates(s *schema.Structural) fates {
	return newFates(s, schema.PruningOn, "metadata is always pruned")
}

func newFates(s *schema.Structural, p schema.Pruning, because string) (f fates) {
	for i, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		f[i] = fate{sem, schema.NewCursor(s, sem, p), because}.arrived("")
	}
	return f
}

// arrived returns the fate after applying the schema of the place itself.
func (f fate) arrived(path string) fate {
	if f.at.Entered() == schema.PruningOn && !f.at.Prunes() {
		f.because = "x-kubernetes-preserve-unknown-fields is set at " + orRoot(path)
	}
	return f
}

// enter returns the fates at a part of the value, at path.
func (f fates) enter(path string, part func(schema.Cursor) schema.Cursor) fates {
	for i := range f {
		preserved := !f[i].at.Prunes()
		f[i].at = part(f[i].at)
		if preserved && f[i].at.Entered() == schema.PruningOn {
			f[i].because = "pruning resumes at " + orRoot(path) + ", which the schema specifies"
		}
		f[i] = f[i].arrived(path)
	}
	return f
}

// withSchema returns the fates with another schema for the same value.
func (f fates) withSchema(s *schema.Structural) fates {
	for i := range f {
		f[i].at = f[i].at.WithSchema(s)
	}
	return f
}

// describe describes the given semantics, and the other one if it differs. It returns nil
// if the value is not an object, or is a map, all of whose keys are specified.
func (f fates) describe(sem schema.Semantics) *UnknownFields {
	s := f[0].at.Schema()
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
	if mine.at.Prunes() != other.at.Prunes() {
		u.Other = other.unknownFields()
		u.Other.Everything = len(s.Properties) == 0
	}
	u.Everything = len(s.Properties) == 0
	return u
}

func (f fate) unknownFields() *UnknownFields {
	return &UnknownFields{Preserved: !f.at.Prunes(), Because: f.because, Semantics: f.semantics.String()}
}

func orRoot(path string) string {
	if path == "" {
		return "the root"
	}
	return path
}
