package compare

import (
	"regexp"
	"slices"
	"strings"
)

// Drift is a change of Kubernetes between 1.21 and 1.37. The product does what 1.37 does.
type Drift struct {
	ID string
	// Cites names the code that changed: file and function.
	Cites string
	// Why describes the change.
	Why string
	// Matches reports whether a difference is this one. It is as narrow as possible.
	Matches func(d *Difference) bool
}

// Drifts returns all known drifts.
func Drifts() []Drift {
	return []Drift{
		{
			ID:    "ratcheting",
			Cites: "pkg/apiserver/validation/validation.go, ValidateCustomResourceUpdate; pkg/registry/customresource/validator.go, ValidateUpdate",
			Why:   "1.21 validates an update like a new object; 1.37 ignores errors in values that the update does not change",
			Matches: func(d *Difference) bool {
				return d.What == "validation"+forgivenSuffix && d.Reference != "" && d.Ours == ""
			},
		},
		{
			ID: "indices-in-paths",
			Cites: "kube-openapi pkg/validation/validate/slice_validator.go, schemaSliceValidator.Validate; " +
				"pkg/validation/validate/schema.go, SchemaValidator.SetPath",
			Why: "1.21 writes spec.rules.name for spec.rules[0].name: it passed the index to the validator of the items, but not to those below it",
			Matches: func(d *Difference) bool {
				return d.What == "validation" && withoutIndices(d.Ours) == d.Reference && d.Ours != d.Reference
			},
		},
		{
			ID: "numeric-formats",
			Cites: "kube-openapi pkg/validation/validate/schema.go, SchemaValidator.numberValidator; " +
				"apiextensions-apiserver pkg/apiserver/validation/formats.go, StripUnsupportedFormatsPostProcess",
			Why: "1.21 drops int32, int64, float and double from the schema before it validates; 1.37 checks numbers against them, and its errors name the format instead of the type",
			Matches: func(d *Difference) bool {
				if d.What != "validation" {
					return false
				}
				if d.Reference == "" {
					return numericFormat.MatchString(d.Ours)
				}
				ref, typ, ok := strings.Cut(d.Reference, " in body must be of type ")
				ours, format, ok2 := strings.Cut(d.Ours, " in body must be of type ")
				return ok && ok2 && withoutIndices(ours) == ref &&
					(strings.HasPrefix(typ, "integer: ") && strings.HasPrefix(format, "int") ||
						strings.HasPrefix(typ, "number: ") && (strings.HasPrefix(format, "float: ") || strings.HasPrefix(format, "double: ")))
			},
		},
		{
			ID:    "dots-in-labels",
			Cites: "apimachinery pkg/api/validate/content/dns.go, IsDNS1123Label (in 0.21 pkg/util/validation/validation.go)",
			Why:   "for a DNS label with a dot, 1.37 reports that it must not contain dots, while 1.21 quotes the regular expression",
			Matches: func(d *Difference) bool {
				ref, _, ok := strings.Cut(d.Reference, ": Invalid value: a lowercase RFC 1123 label must consist of ")
				ours, _, ok2 := strings.Cut(d.Ours, ": Invalid value: must not contain dots")
				return ok && ok2 && ref == ours
			},
		},
		{
			ID:    "example-in-metadata",
			Cites: "pkg/apiserver/schema/convert.go, newGenerics; pkg/apiserver/schema/structural.go, Generic",
			Why:   "in 1.21 an example is not part of the structural form, so the root's metadata may have one; in 1.37 it is, so the metadata may not",
			Matches: func(d *Difference) bool {
				return isVerdict(d.What) && d.Reference == "" && strings.Contains(d.Input, `"example"`) &&
					strings.Contains(d.Ours, "properties[metadata]: Forbidden: must not specify anything other than name and generateName")
			},
		},
		{
			ID:    "nested-additional-properties",
			Cites: "pkg/apiserver/schema/validation.go, validateNestedValueValidation",
			Why:   "1.37 allows additionalProperties: false in a logical operator, 1.21 does not",
			Matches: func(d *Difference) bool {
				return isVerdict(d.What) && d.Ours == "" && nestedAdditional.MatchString(d.Reference)
			},
		},
		{
			ID:    "defaults-unvalidated",
			Cites: "pkg/apis/apiextensions/validation/validation.go, validateCustomResourceDefinitionValidation",
			Why:   "defaults are validated in structural schemas only: the side that finds the schema not structural, because of another drift, does not report errors in them",
			Matches: func(d *Difference) bool {
				refused := d.Ours == "" && slices.Contains(d.Beside, "example-in-metadata") ||
					d.Reference == "" && slices.Contains(d.Beside, "nested-additional-properties")
				return refused && isVerdict(d.What) && ofDefault.MatchString(d.Reference+d.Ours)
			},
		},
		{
			ID:    "webhook-service-required",
			Cites: "apiserver pkg/util/webhook/validation.go, ValidateWebhookService",
			Why:   "1.37 reports a missing name or namespace of a webhook's service without repeating it in the detail",
			Matches: func(d *Difference) bool {
				m := requiredOfService.FindStringSubmatch(d.Ours)
				return isVerdict(d.What) && m != nil &&
					d.Reference == strings.Replace(d.Ours, "Required value: ", "Required value: service "+m[1]+" is required", 1)
			},
		},
		{
			ID:    "embedded-type-required",
			Cites: "pkg/apiserver/schema/objectmeta/validation.go, validateEmbeddedResource",
			Why:   "1.37 reports a missing apiVersion or kind of an embedded resource without repeating it in the detail",
			Matches: func(d *Difference) bool {
				return d.Reference == strings.Replace(d.Ours, "Required value: ", "Required value: must not be empty", 1) &&
					(strings.Contains(d.Ours, "kind: Required value: ") || strings.Contains(d.Ours, "apiVersion: Required value: "))
			},
		},
		{
			ID:    "values-in-errors-of-metadata-defaults",
			Cites: "apimachinery pkg/util/validation/field/errors.go, Error.ErrorBody; apimachinery pkg/runtime/serializer/json, which read JSON with json-iterator",
			Why:   "the text of an error within the text of an error: 1.37 shows values as JSON, 1.21 as Go, and their decoders word errors differently",
			Matches: func(d *Difference) bool {
				const text = ": Invalid value: must result in valid metadata: "
				ref, a, ok := strings.Cut(d.Reference, text)
				ours, b, ok2 := strings.Cut(d.Ours, text)
				refField, _, _ := strings.Cut(a, ": ")
				ourField, _, _ := strings.Cut(b, ": ")
				return isVerdict(d.What) && ok && ok2 && ref == ours && refField == ourField
			},
		},
	}
}

// isVerdict reports whether a difference is about the errors of a CRD or schema.
func isVerdict(what string) bool { return what == "create" || what == "update" || what == "structural" }

var (
	indices           = regexp.MustCompile(`\[\d+\]`)
	ofDefault         = regexp.MustCompile(`^spec\.[^:]*\.openAPIV3Schema\.[^:]*\bdefault\b[^:]*: `)
	requiredOfService = regexp.MustCompile(`\.service\.(name|namespace): Required value: `)
	// nestedAdditional matches 1.21's error about additionalProperties in a logical operator.
	nestedAdditional = regexp.MustCompile(`(allOf|anyOf|oneOf|not)\b.*additionalProperties: Forbidden: must be undefined to be structural`)
	numericFormat    = regexp.MustCompile(`^<nil>: Invalid value: Checked value must be of type (integer with format int|number with format (float|double))`)
)

// withoutIndices drops the list indices from the paths of an error.
func withoutIndices(text string) string {
	return indices.ReplaceAllString(text, "")
}

// explain returns the ID of the drift that matches d, or "".
func explain(d *Difference) string {
	for _, k := range Drifts() {
		if k.Matches(d) {
			return k.ID
		}
	}
	return ""
}
