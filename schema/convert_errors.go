package schema

import (
	"slices"
	"strings"

	"espalier.dev/api"
)

// ConversionError says that a keyword of a schema has no place in a Structural.
type ConversionError struct {
	// Path leads to the schema that has the keyword.
	Path SchemaPath
	// Keyword is the keyword.
	Keyword string
	// Reason says what is wrong with it.
	Reason string
	// Err is the cause, if there is one beyond Reason.
	Err error
}

// Error names the keyword with its path, and the reason.
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

// ConversionErrors are all the keywords of one schema that have no place in a
// Structural, ordered by path. There is at least one.
type ConversionErrors []*ConversionError

// Error lists all of them.
func (e ConversionErrors) Error() string {
	msgs := make([]string, len(e))
	for i, err := range e {
		msgs[i] = err.Error()
	}
	return strings.Join(msgs, "; ")
}

// Unwrap returns each of them.
func (e ConversionErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// conversionErrors returns what NewStructural has to say against s, ordered by
// path. The paths of all errors together are bounded, as those of findings are.
func conversionErrors(s *api.JSONSchemaProps) ConversionErrors {
	var f faultFinder
	f.schema(s)
	slices.SortStableFunc(f.errs, func(a, b *ConversionError) int {
		if n := a.Path.Compare(b.Path); n != 0 {
			return n
		}
		return strings.Compare(a.Keyword, b.Keyword)
	})
	return f.errs
}

// faultFinder walks a schema that failed to convert.
type faultFinder struct {
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
	f.steps += len(f.path) + 1
	f.errs = append(f.errs, &ConversionError{
		Path: slices.Clone(f.path), Keyword: keyword, Reason: reason, Err: err,
	})
}

func (f *faultFinder) below(step SchemaStep, s *api.JSONSchemaProps) {
	if s == nil {
		return
	}
	f.path = append(f.path, step)
	f.schema(s)
	f.path = f.path[:len(f.path)-1]
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
	if s.Items != nil {
		f.check(len(s.Items.JSONSchemas) > 0, "items", "must be a schema, not a list of schemas")
		f.below(keyword("items"), s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		f.below(keyword("additionalProperties"), s.AdditionalProperties.Schema)
	}
	f.below(keyword("not"), s.Not)
	for i := range s.AllOf {
		f.below(indexed("allOf", i), &s.AllOf[i])
	}
	for i := range s.AnyOf {
		f.below(indexed("anyOf", i), &s.AnyOf[i])
	}
	for i := range s.OneOf {
		f.below(indexed("oneOf", i), &s.OneOf[i])
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		prop := s.Properties[name]
		f.below(named("properties", name), &prop)
	}
}

func (f *faultFinder) json(keyword string, values ...api.JSON) {
	for _, v := range values {
		if _, err := decodeJSON(v.Raw); err != nil {
			f.fail(keyword, "is not valid JSON", err)
		}
	}
}
