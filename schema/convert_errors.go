package schema

import (
	"slices"
	"strings"

	"espalier.dev/api"
)

// ConversionError reports a keyword that a Structural cannot represent.
type ConversionError struct {
	// Path leads to the schema that has the keyword.
	Path SchemaPath
	// Keyword is the keyword.
	Keyword string
	// Reason is what is wrong with the keyword.
	Reason string
	// Err is the cause, if there is one besides Reason.
	Err error
}

// Error returns the path, the keyword and the reason.
func (e *ConversionError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path.String())
	b.WriteByte('.')
	b.WriteString(e.Keyword)
	b.WriteByte(' ')
	b.WriteString(e.Reason)
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *ConversionError) Unwrap() error { return e.Err }

// ConversionErrors lists all keywords of a schema that a Structural cannot represent,
// sorted by path. It is never empty.
type ConversionErrors []*ConversionError

// Error returns all errors as text.
func (e ConversionErrors) Error() string {
	msgs := make([]string, len(e))
	for i, err := range e {
		msgs[i] = err.Error()
	}
	return strings.Join(msgs, "; ")
}

// Unwrap returns the errors.
func (e ConversionErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// conversionErrors returns the errors of NewStructural for s, sorted by path. The total
// length of their paths is bounded, as for findings.
func conversionErrors(s *api.JSONSchemaProps) ConversionErrors {
	var f faultFinder
	WalkSubschemas(s, func(path SchemaPath, s *api.JSONSchemaProps) bool {
		if len(path) > 0 && !isStructuralStep(path[len(path)-1]) {
			return false
		}
		f.path = path
		f.schema(s)
		return true
	})
	slices.SortStableFunc(f.errs, func(a, b *ConversionError) int {
		if n := a.Path.Compare(b.Path); n != 0 {
			return n
		}
		return strings.Compare(a.Keyword, b.Keyword)
	})
	return f.errs
}

// isStructuralStep reports whether a structural schema can have the step. Other
// keywords are errors themselves, so the search does not continue below them.
func isStructuralStep(step SchemaStep) bool {
	switch step.Keyword {
	case "items":
		return step.Form == StepPlain
	case "patternProperties", "definitions", "additionalItems", "dependencies":
		return false
	}
	return true
}

// faultFinder collects the errors of a schema that cannot be converted.
type faultFinder struct {
	// path leads to the current schema.
	path  SchemaPath
	errs  ConversionErrors
	steps int
}

func (f *faultFinder) check(bad bool, keyword, reason string) {
	if bad {
		f.fail(keyword, reason, nil)
	}
}

func (f *faultFinder) fail(keyword, reason string, err error) {
	if f.steps > maxFindingSteps {
		return
	}
	f.steps += len(f.path)
	f.errs = append(f.errs, &ConversionError{
		Path: slices.Clone(f.path), Keyword: keyword, Reason: reason, Err: err,
	})
}

func (f *faultFinder) schema(s *api.JSONSchemaProps) {
	const unsupported = "is not supported in a structural schema"
	f.check(s.ID != "", "id", unsupported)
	f.check(s.Schema != "", "$schema", unsupported)
	f.check(s.Ref != nil && *s.Ref != "", "$ref", unsupported)
	f.check(len(s.PatternProperties) > 0, "patternProperties", unsupported)
	f.check(len(s.Dependencies) > 0, "dependencies", unsupported)
	f.check(s.AdditionalItems != nil, "additionalItems", unsupported)
	f.check(len(s.Definitions) > 0, "definitions", unsupported)
	f.check(len(s.Type) > 1, "type", "must be a single type, not a list of types")
	f.check(s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields,
		"x-kubernetes-preserve-unknown-fields", "must be true or absent")
	if s.Default != nil {
		f.json("default", *s.Default)
	}
	if s.Example != nil {
		f.json("example", *s.Example)
	}
	f.json("enum", s.Enum...)
	f.check(s.Items != nil && len(s.Items.JSONSchemas) > 0, "items", "must be a schema, not a list of schemas")
}

func (f *faultFinder) json(keyword string, values ...api.JSON) {
	for _, v := range values {
		if _, err := decodeJSON(v.Raw); err != nil {
			f.fail(keyword, "is not valid JSON", err)
		}
	}
}
