package schema

import "fmt"

// Semantics says which of the two readings of a schema applies. The design
// documents and Kubernetes disagree in places; every place is a method here, so
// that all the differences can be read in this one file.
type Semantics int

const (
	// KEP is what the design documents say.
	KEP Semantics = iota
	// Kubernetes is what kube-apiserver does, to the letter.
	Kubernetes
)

// ParseSemantics reads "kep" or "kubernetes".
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

// restartsAt reports whether pruning, once stopped by
// x-kubernetes-preserve-unknown-fields, starts again at a value below, given how
// the schema reaches it and what it specifies there. The documents restart where
// fields are specified; kube-apiserver restarts wherever the schema names the
// value, except at items. A Cursor tells the result for any value.
func (s Semantics) restartsAt(viaItems, specifiesFields bool) bool {
	if s == Kubernetes {
		return !viaItems
	}
	return specifiesFields
}

// KnowsUnions reports whether x-kubernetes-unions is enforced.
func (s Semantics) KnowsUnions() bool { return s == KEP }

// KnowsReadOnly reports whether readOnly is kept.
func (s Semantics) KnowsReadOnly() bool { return s == KEP }

// KnowsForeignFields reports whether the fields of a CRD that only the documents have
// are read. kube-apiserver drops them, whatever is in them (see api.DropForeign).
func (s Semantics) KnowsForeignFields() bool { return s == KEP }

// KnowsJSONSchema reports whether the draft-4 schema of 2017 counts
// (spec.validation.jsonSchema). kube-apiserver does not know it.
func (s Semantics) KnowsJSONSchema() bool { return s == KEP }

// RefusesContradictions reports whether a value whose type contradicts the schema's
// is a decoding error. For kube-apiserver it is a validation error, later.
func (s Semantics) RefusesContradictions() bool { return s == KEP }

// The rest is about which schemas are structural (see Check).

// RefusesDeepIncompleteness reports whether a field that only value validations
// mention makes a schema non-structural at any depth, or only where the
// logical operators of the root mention it.
func (s Semantics) RefusesDeepIncompleteness() bool { return s == KEP }

// ImpliesEmbeddedTypeMeta reports whether apiVersion, kind and metadata of an
// embedded resource are specified by being there: that they need no type, and
// value validations may mention them. kube-apiserver treats them as any field.
func (s Semantics) ImpliesEmbeddedTypeMeta() bool { return s == KEP }

// RefusesEmbeddedMetadataInJunctors reports whether metadata is rejected under any
// logical operator, or only when it is the root's.
func (s Semantics) RefusesEmbeddedMetadataInJunctors() bool { return s == Kubernetes }

// AcceptsIntOrStringOneOf reports whether int-or-string may be spelled with oneOf.
func (s Semantics) AcceptsIntOrStringOneOf() bool { return s == KEP }

// ReportsLooseIntOrString reports whether two liberties that kube-apiserver takes are
// reported, not rejected: the patterns of int-or-string without its marker, and
// the marker beside a type.
func (s Semantics) ReportsLooseIntOrString() bool { return s == KEP }

// ReportsNestedAdditionalPropertiesFalse reports whether additionalProperties: false
// under a logical operator is reported. kube-apiserver does not see it; beside properties
// it rejects it, for another reason, and so do the documents then.
func (s Semantics) ReportsNestedAdditionalPropertiesFalse() bool { return s == KEP }

// ReportsSeveralShapes reports whether a schema with more than one of properties,
// additionalProperties and items is reported here. kube-apiserver rejects some
// combinations elsewhere, in the validation of the CustomResourceDefinition.
func (s Semantics) ReportsSeveralShapes() bool { return s == KEP }

// SaysTypeMustBeNonEmpty reports whether a missing type is reported in the words of
// the documents. kube-apiserver's depend on where the type is missing.
func (s Semantics) SaysTypeMustBeNonEmpty() bool { return s == KEP }

// ExcusesMetaFields reports whether additionalProperties: false at the root allows
// apiVersion, kind and metadata all the same.
func (s Semantics) ExcusesMetaFields() bool { return s == KEP }

// UnfoldsAsDocumented reports whether publication unfolds int-or-string, embedded
// resources and unions as the documents show, or int-or-string alone and in
// kube-apiserver's way.
func (s Semantics) UnfoldsAsDocumented() bool { return s == KEP }

// PublishesPatternInV2 reports whether pattern is part of what OpenAPI v2 can say.
// The documents hold that v2 does not have it; it does, and kube-apiserver
// publishes it.
func (s Semantics) PublishesPatternInV2() bool { return s == Kubernetes }
