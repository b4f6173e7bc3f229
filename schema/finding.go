package schema

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Finding is a reason why a schema is not, or should not be, structural.
type Finding struct {
	// Path leads to the invalid or missing keyword.
	Path SchemaPath
	// Kind is the kind of the problem.
	Kind FindingKind
	// Value is the invalid value, for the kinds that have one.
	Value any
	// Detail is the requirement: it completes a sentence that begins with the path.
	Detail string
	// Mention leads to the value validation that mentions the unspecified field or
	// item. It is set for NotInCore only.
	Mention SchemaPath
	// True if the finding makes the schema non-structural, false if it is a warning.
	Refused bool
}

// FindingKind is the kind of a Finding.
type FindingKind uint8

// The kinds of findings.
const (
	// TypeMissing is a schema outside of logical operators that has no type.
	TypeMissing FindingKind = iota
	// TypeWrong is a type that is not allowed in this place.
	TypeWrong
	// ItemsMissing is an array whose items are not specified.
	ItemsMissing
	// PropertiesMissing is an embedded resource that neither specifies nor preserves
	// fields.
	PropertiesMissing
	// NotInCore is a field or item that only a value validation mentions.
	NotInCore
	// ForbiddenInJunctor is a keyword that must not be used under a logical operator.
	ForbiddenInJunctor
	// MapForbidden is additionalProperties at the root or in an embedded resource.
	MapForbidden
	// SeveralShapes is a schema with more than one of properties, additionalProperties
	// and items.
	SeveralShapes
	// ExtensionConflict is a pair of mutually exclusive extensions.
	ExtensionConflict
	// MetadataRestricted is metadata at the root that specifies more than name and
	// generateName.
	MetadataRestricted
	// MetadataInJunctor is metadata under a logical operator.
	MetadataInJunctor
	// PatternInvalid is a pattern that is not a regular expression.
	PatternInvalid
	// UnionIncomplete is a union without a discriminator or without fields.
	UnionIncomplete
	// UnionMember is a member of a union that is not a field, or belongs to another
	// union.
	UnionMember
	// UnionDiscriminator is a discriminator that is not a string field, or a
	// discriminator value that is not in its enum.
	UnionDiscriminator
)

// String returns the name of the kind.
func (k FindingKind) String() string {
	names := [...]string{
		TypeMissing:        "TypeMissing",
		TypeWrong:          "TypeWrong",
		ItemsMissing:       "ItemsMissing",
		PropertiesMissing:  "PropertiesMissing",
		NotInCore:          "NotInCore",
		ForbiddenInJunctor: "ForbiddenInJunctor",
		MapForbidden:       "MapForbidden",
		SeveralShapes:      "SeveralShapes",
		ExtensionConflict:  "ExtensionConflict",
		MetadataRestricted: "MetadataRestricted",
		MetadataInJunctor:  "MetadataInJunctor",
		PatternInvalid:     "PatternInvalid",
		UnionIncomplete:    "UnionIncomplete",
		UnionMember:        "UnionMember",
		UnionDiscriminator: "UnionDiscriminator",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// String returns the finding in one line, in the form of the design documents:
//
//	.properties[foo].items.properties[bar].type must be non-empty
func (f Finding) String() string {
	if f.Kind == NotInCore {
		return f.Path.String() + " must be specified " + f.Detail
	}
	return f.Path.String() + " " + f.Detail
}

// FieldError returns the finding as a field error below root, which may be nil.
func (f Finding) FieldError(root *field.Path) *field.Error {
	path := f.Path.Field(root)
	switch f.Kind {
	case TypeMissing:
		if f.Detail == mustBeNonEmpty {
			return field.Required(path, f.String())
		}
		return field.Required(path, f.Detail)
	case ItemsMissing, PropertiesMissing, UnionIncomplete:
		return field.Required(path, f.Detail)
	case NotInCore:
		// The detail contains a path too, which has to start at the same root.
		return field.Required(path, becauseDefinedIn+f.Mention.Field(root).String())
	case ForbiddenInJunctor, MapForbidden, SeveralShapes, MetadataRestricted, MetadataInJunctor:
		return field.Forbidden(path, f.Detail)
	default:
		return field.Invalid(path, f.Value, f.Detail)
	}
}

const (
	becauseDefinedIn = "because it is defined in "
	// mustBeNonEmpty is the detail of a missing type in the documents, where the path
	// within the schema precedes it.
	mustBeNonEmpty = "must be non-empty"
)

// sortFindings sorts findings by their text as field errors, as kube-apiserver does.
func sortFindings(findings []Finding) {
	type keyed struct {
		text string
		f    Finding
	}
	all := make([]keyed, len(findings))
	for i, f := range findings {
		all[i] = keyed{f.FieldError(nil).Error(), f}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return strings.Compare(a.text, b.text) })
	for i := range all {
		findings[i] = all[i].f
	}
}
