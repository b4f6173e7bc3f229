package schema

import (
	"fmt"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/internal/jsonptr"
)

// draft4URI identifies JSON Schema draft 4 in $schema.
const draft4URI = "http://json-schema.org/draft-04/schema#"

// checkDraft4 returns an error for the first $schema that is not draft 4 and the first
// $ref that does not refer to a definition of the root. It visits every schema, also
// those that no value is ever validated against: unused definitions and the keywords
// beside a $ref. An id has no effect on what a $ref means.
func checkDraft4(s *api.JSONSchemaProps) error {
	definitions := s.Definitions
	var err *ConversionError
	WalkSubschemas(s, func(path SchemaPath, s *api.JSONSchemaProps) bool {
		if err != nil {
			return false
		}
		keyword, reason := "$schema", wrongDraft(s.Schema)
		if reason == "" && s.Ref != nil {
			keyword = "$ref"
			_, reason = referredDefinition(*s.Ref, definitions)
		}
		if reason != "" {
			err = &ConversionError{Path: slices.Clone(path), Keyword: keyword, Reason: reason}
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return nil
}

// referredDefinition returns the name of the definition that ref refers to, or what is
// wrong with ref.
func referredDefinition(ref string, definitions map[string]api.JSONSchemaProps) (name, reason string) {
	name, ok := strings.CutPrefix(ref, "#/definitions/")
	if !ok {
		return "", fmt.Sprintf("must have the form #/definitions/<name>, got %q", ref)
	}
	name = jsonptr.Unescape(name)
	if _, ok := definitions[name]; !ok {
		return "", fmt.Sprintf("refers to %q, which is not in definitions", ref)
	}
	return name, ""
}

// maxHops is the number of definitions that Resolve follows.
const maxHops = 100

// Resolve returns the definition that s refers to, directly or through a few others. It returns s
// if that is not a reference, or refers to something else.
func Resolve(s *api.JSONSchemaProps, definitions map[string]api.JSONSchemaProps) *api.JSONSchemaProps {
	for at, left := s, maxHops; ; left-- {
		if at == nil || at.Ref == nil {
			return at
		}
		name, reason := referredDefinition(*at.Ref, definitions)
		if reason != "" || left == 0 {
			return s
		}
		definition := definitions[name]
		at = &definition
	}
}

// wrongDraft returns what is wrong with the value of $schema, or "".
func wrongDraft(uri string) string {
	if uri == "" || isDraft(uri, "draft-04") {
		return ""
	}
	got := fmt.Sprintf("%q", uri)
	for _, draft := range [...]struct{ id, name string }{
		{"draft-01", "draft 1"}, {"draft-02", "draft 2"}, {"draft-03", "draft 3"}, {"draft-05", "draft 5"},
		{"draft-06", "draft 6"}, {"draft-07", "draft 7"},
		{"draft/2019-09", "draft 2019-09"}, {"draft/2020-12", "draft 2020-12"},
	} {
		if isDraft(uri, draft.id) {
			got = fmt.Sprintf("%s (%s)", draft.name, got)
		}
	}
	return fmt.Sprintf("must be draft 4 (%q) or absent, got %s", draft4URI, got)
}

// isDraft reports whether the value of $schema identifies a draft, with or without the
// empty fragment.
func isDraft(uri, draft string) bool {
	_, rest, _ := strings.Cut(strings.TrimSuffix(uri, "#"), "://")
	scheme := strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")
	return scheme && rest == "json-schema.org/"+draft+"/schema"
}
