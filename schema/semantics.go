package schema

import "fmt"

// Semantics selects one of the two schema semantics. The design documents and
// Kubernetes disagree in places. Each difference is a method of this type, so that this
// file lists all of them.
type Semantics int

const (
	// KEP follows the design documents.
	KEP Semantics = iota
	// Kubernetes does exactly what kube-apiserver does.
	Kubernetes
)

// ParseSemantics parses "kep" or "kubernetes".
func ParseSemantics(s string) (Semantics, error) {
	switch s {
	case "kep":
		return KEP, nil
	case "kubernetes":
		return Kubernetes, nil
	}
	return KEP, fmt.Errorf("unknown semantics %q: use kep or kubernetes", s)
}

// String returns "kep" or "kubernetes".
func (s Semantics) String() string {
	if s == Kubernetes {
		return "kubernetes"
	}
	return "kep"
}

// Other returns the other semantics.
func (s Semantics) Other() Semantics {
	if s == Kubernetes {
		return KEP
	}
	return Kubernetes
}

// restartsAt reports whether pruning that x-kubernetes-preserve-unknown-fields has
// stopped resumes at a value below, given how the schema reaches the value and what it
// specifies there. According to the documents it resumes where fields are specified. In
// kube-apiserver it resumes at every value that the schema specifies, except at items.
// A Cursor has the result for each value.
func (s Semantics) restartsAt(viaItems, specifiesFields bool) bool {
	if s == Kubernetes {
		return !viaItems
	}
	return specifiesFields
}

// KnowsUnions reports whether x-kubernetes-unions is enforced.
func (s Semantics) KnowsUnions() bool { return s == KEP }

// KnowsReadOnly reports whether the keyword readOnly is kept.
func (s Semantics) KnowsReadOnly() bool { return s == KEP }

// KnowsForeignFields reports whether the CRD fields that only the documents define are
// used. kube-apiserver drops them, whatever they contain (see api.DropForeign).
func (s Semantics) KnowsForeignFields() bool { return s == KEP }

// KnowsJSONSchema reports whether the draft-4 schema of 2017
// (spec.validation.jsonSchema) is used. kube-apiserver does not support it.
func (s Semantics) KnowsJSONSchema() bool { return s == KEP }

// RefusesContradictions reports whether a value that contradicts the type in the schema
// is a decoding error. In kube-apiserver it is a validation error.
func (s Semantics) RefusesContradictions() bool { return s == KEP }

// SaysViolationsAsDocumented reports whether violations have the messages of the documents.
// kube-apiserver has others for required and enum, and adds to that of allOf.
func (s Semantics) SaysViolationsAsDocumented() bool { return s == KEP }

// PrunesOwnedFields reports whether server-side apply prunes an object when it converts it to
// the version in which some of its fields are owned. kube-apiserver does not, and fails if
// that version lacks one of the object's fields.
func (s Semantics) PrunesOwnedFields() bool { return s == KEP }

// DropsAppliedNulls reports whether server-side apply drops the nulls of fields that are not
// nullable and have no default, as other writes do. In kube-apiserver they are validation errors.
func (s Semantics) DropsAppliedNulls() bool { return s == KEP }

// DropsAppliedUnknownFields reports whether server-side apply of a CRD drops fields that CRDs do not have,
// with a warning, as other writes do. In kube-apiserver they are errors.
func (s Semantics) DropsAppliedUnknownFields() bool { return s == KEP }

// NormalizesMutations reports whether an object is pruned and normalized after each change of an
// admission webhook or policy. kube-apiserver only fills in defaults: unknown fields are stored,
// and reads hide them.
func (s Semantics) NormalizesMutations() bool { return s == KEP }

// The remaining methods are about which schemas are structural (see Check).

// RefusesDeepIncompleteness reports whether a field that only value validations mention
// makes a schema non-structural at any depth. In kube-apiserver it does so only if the
// logical operators of the root mention it.
func (s Semantics) RefusesDeepIncompleteness() bool { return s == KEP }

// ImpliesEmbeddedTypeMeta reports whether apiVersion, kind and metadata of an embedded
// resource are specified implicitly: they need no type, and value validations may
// mention them. kube-apiserver treats them like any other field.
func (s Semantics) ImpliesEmbeddedTypeMeta() bool { return s == KEP }

// RefusesEmbeddedMetadataInJunctors reports whether a logical operator must not mention
// the metadata of embedded resources either. That of the root is always rejected.
func (s Semantics) RefusesEmbeddedMetadataInJunctors() bool { return s == Kubernetes }

// AcceptsIntOrStringOneOf reports whether int-or-string may be written with oneOf.
func (s Semantics) AcceptsIntOrStringOneOf() bool { return s == KEP }

// ReportsLooseIntOrString reports whether two patterns that kube-apiserver accepts are
// reported as warnings: the anyOf of int-or-string without x-kubernetes-int-or-string,
// and x-kubernetes-int-or-string beside a type.
func (s Semantics) ReportsLooseIntOrString() bool { return s == KEP }

// ReportsNestedAdditionalPropertiesFalse reports whether additionalProperties: false
// under a logical operator is reported. kube-apiserver ignores it; beside properties it
// rejects it for another reason, and so do the documents.
func (s Semantics) ReportsNestedAdditionalPropertiesFalse() bool { return s == KEP }

// ReportsSeveralShapes reports whether a schema with more than one of properties,
// additionalProperties and items is reported here. kube-apiserver rejects some
// combinations elsewhere, in the validation of the CRD.
func (s Semantics) ReportsSeveralShapes() bool { return s == KEP }

// ReportsOtherPruning reports whether values that the other semantics prunes differently are
// reported. With kube-apiserver's semantics, the values do not get to a server with the other one.
func (s Semantics) ReportsOtherPruning() bool { return s == KEP }

// SaysTypeMustBeNonEmpty reports whether a missing type is reported with the message of
// the documents. kube-apiserver's message depends on where the type is missing.
func (s Semantics) SaysTypeMustBeNonEmpty() bool { return s == KEP }

// ExcusesMetaFields reports whether additionalProperties: false at the root still
// allows apiVersion, kind and metadata.
func (s Semantics) ExcusesMetaFields() bool { return s == KEP }

// UnfoldsAsDocumented reports whether the published schema unfolds int-or-string,
// embedded resources and unions as the documents show. kube-apiserver unfolds
// int-or-string only, and in another form.
func (s Semantics) UnfoldsAsDocumented() bool { return s == KEP }

// PublishesPatternInV2 reports whether pattern is published in OpenAPI v2. According to
// the documents v2 does not have it; it does, and kube-apiserver publishes it.
func (s Semantics) PublishesPatternInV2() bool { return s == Kubernetes }

// ChecksStoredObjects reports whether a server checks, unless it is told otherwise, if stored
// objects comply with their CRDs, as the documents propose. kube-apiserver does not.
func (s Semantics) ChecksStoredObjects() bool { return s == KEP }

// WarnsOfDifferences reports whether a server warns the writer of a CRD that the two semantics
// interpret differently. A server that does what kube-apiserver does has nothing to warn of.
func (s Semantics) WarnsOfDifferences() bool { return s == KEP }
