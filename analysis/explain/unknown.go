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

// fate is what becomes of unknown fields at a place, in one of the semantics, and why.
type fate struct {
	semantics schema.Semantics
	at        schema.Cursor
	because   string
}

// fates are the fates in both of the semantics.
type fates [2]fate

// rootFates are those at the root of a resource. preserveAll is preserveUnknownFields
// of the definition.
func rootFates(s *schema.Structural, preserveAll bool) fates {
	if preserveAll {
		return newFates(s, schema.PruningOff, "spec.preserveUnknownFields of the CRD is true")
	}
	return newFates(s, schema.PruningOn, "nothing preserves them")
}

// metadataFates are those of the metadata of a resource: the schema of ObjectMeta
// decides there, whatever is around it.
func metadataFates(s *schema.Structural) fates {
	return newFates(s, schema.PruningOn, "metadata is always pruned")
}

func newFates(s *schema.Structural, p schema.Pruning, because string) (f fates) {
	for i, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		f[i] = fate{sem, schema.NewCursor(s, sem, p), because}.arrived("")
	}
	return f
}

// arrived returns the fate with what the place itself changes about it.
func (f fate) arrived(path string) fate {
	if f.at.Entered() == schema.PruningOn && !f.at.Prunes() {
		f.because = "x-kubernetes-preserve-unknown-fields is set at " + orRoot(path)
	}
	return f
}

// enter returns the fates at a part of the value, which is at path.
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

// describe says what happens in the value in the given semantics, and in the others if
// that differs. It is nil if the value is no object, or a map, all of whose keys are
// specified.
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
