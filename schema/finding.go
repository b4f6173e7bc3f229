package schema

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Finding is something in a schema that a structural schema does not have.
type Finding struct {
	// Path leads to what is wrong or missing; its last step is a keyword.
	Path SchemaPath
	// Kind says what is wrong.
	Kind FindingKind
	// Value is the offending value, for the kinds that have one.
	Value any
	// Detail says what must be instead: it completes a sentence that begins with
	// the path.
	Detail string
	// Mention leads to the value validation that mentions what the core lacks, for
	// NotInCore alone.
	Mention SchemaPath
	// Rejected reports whether the finding makes the schema non-structural. If not, it
	// is only worth a warning.
	Refused bool
}

// FindingKind says what is wrong in a Finding.
type FindingKind uint8

// The kinds of findings.
const (
	// TypeMissing is a schema of the core without a type.
	TypeMissing FindingKind = iota
	// TypeWrong is a type that must be another one there.
	TypeWrong
	// ItemsMissing is an array whose items are not specified.
	ItemsMissing
	// PropertiesMissing is an embedded resource that neither specifies nor
	// preserves fields.
	PropertiesMissing
	// NotInCore is a field or item that only a value validation mentions.
	NotInCore
	// ForbiddenInJunctor is a keyword that must stand outside of allOf, anyOf,
	// oneOf and not.
	ForbiddenInJunctor
	// MapForbidden is additionalProperties at the root or in an embedded resource.
	MapForbidden
	// SeveralShapes is a schema with more than one of properties,
	// additionalProperties and items.
	SeveralShapes
	// ExtensionConflict is a pair of extensions that exclude each other.
	ExtensionConflict
	// MetadataRestricted is a root metadata that specifies more than names.
	MetadataRestricted
	// MetadataInJunctor is metadata under a logical operator.
	MetadataInJunctor
	// PatternInvalid is a pattern that is not a regular expression.
	PatternInvalid
	// UnionIncomplete is a union without a discriminator or without fields.
	UnionIncomplete
	// UnionMember is a member of a union that is not a field of its own.
	UnionMember
	// UnionDiscriminator is a discriminator that is no string field, or a value
	// that it cannot have.
	UnionDiscriminator
)

// String returns the kind's name.
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

// String is the finding in one line, as the documents write it:
// .properties[foo].items.properties[bar].type must be non-empty
func (f Finding) String() string {
	if f.Kind == NotInCore {
		return f.Path.String() + " must be specified " + f.Detail
	}
	return f.Path.String() + " " + f.Detail
}

// FieldError is the finding as an error of the field below root, which may be nil.
func (f Finding) FieldError(root *field.Path) *field.Error {
	path := f.Path.Field(root)
	switch f.Kind {
	case TypeMissing, ItemsMissing, PropertiesMissing, UnionIncomplete:
		return field.Required(path, f.Detail)
	case NotInCore:
		// The detail names a path, too, which has to start at the same root.
		return field.Required(path, becauseDefinedIn+f.Mention.Field(root).String())
	case ForbiddenInJunctor, MapForbidden, SeveralShapes, MetadataRestricted, MetadataInJunctor:
		return field.Forbidden(path, f.Detail)
	default:
		return field.Invalid(path, f.Value, f.Detail)
	}
}

const becauseDefinedIn = "because it is defined in "

// sortFindings orders findings by their text as field errors, the order in which
// kube-apiserver lists them.
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
