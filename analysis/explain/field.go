package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// Field describes one value.
type Field struct {
	// Name is the name of the field. It is empty for the resource itself, for items and for
	// the values of maps.
	Name string `json:"name,omitempty"`
	// Path leads here from the root, such as spec.ports[].name or spec.labels.*.
	Path string `json:"path,omitempty"`
	// Type is written as kubectl explain does: string, Object, []Object, map[string]string,
	// IntOrString, or any.
	Type        string `json:"type"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Deprecated is the deprecation notice in the description, or "".
	Deprecated string `json:"deprecated,omitempty"`
	// Required reports whether the parent object must have the field.
	Required bool  `json:"required,omitempty"`
	Nullable bool  `json:"nullable,omitempty"`
	ReadOnly bool  `json:"readOnly,omitempty"`
	Default  any   `json:"default,omitempty"`
	Example  any   `json:"example,omitempty"`
	Enum     []any `json:"enum,omitempty"`
	// Constraints are the other conditions on the value itself.
	Constraints Constraints `json:"constraints,omitempty"`
	// Conditions describes the logical operators (allOf, anyOf, oneOf, not).
	Conditions []string `json:"conditions,omitempty"`
	Unions     []Union  `json:"unions,omitempty"`
	Rules      []Rule   `json:"rules,omitempty"`

	ListType    string   `json:"listType,omitempty"`
	ListMapKeys []string `json:"listMapKeys,omitempty"`
	MapType     string   `json:"mapType,omitempty"`
	// Embedded is set for a whole resource with apiVersion, kind and metadata.
	Embedded bool `json:"embeddedResource,omitempty"`
	// UnknownFields describes what happens to unspecified fields. It is nil if there can be
	// none.
	UnknownFields *UnknownFields `json:"unknownFields,omitempty"`

	// Fields are the fields of an object.
	Fields []*Field `json:"fields,omitempty"`
	// Items describes the items of an array.
	Items *Field `json:"items,omitempty"`
	// Values describes the values of a map.
	Values *Field `json:"values,omitempty"`

	ExternalDocs *api.ExternalDocumentation `json:"externalDocs,omitempty"`
}

// Constraint is a keyword of a schema with its operand.
type Constraint struct {
	Keyword string
	Value   any
}

// Constraints are the conditions on a value, in a fixed order.
type Constraints []Constraint

// MarshalJSON encodes the constraints as keywords of a schema.
func (c Constraints) MarshalJSON() ([]byte, error) {
	m := make(map[string]any, len(c))
	for _, x := range c {
		m[x.Keyword] = x.Value
	}
	return json.Marshal(m)
}

// Union is a set of fields of which exactly one must be set.
type Union struct {
	Discriminator string `json:"discriminator,omitempty"`
	// Fields maps each member to its discriminator value.
	Fields map[string]string `json:"fields"`
	// Enforced reports whether the schema semantics enforces unions.
	Enforced bool `json:"enforced"`
}

// Rule is a CEL rule.
type Rule struct {
	Rule              string `json:"rule"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
	Reason            string `json:"reason,omitempty"`
	FieldPath         string `json:"fieldPath,omitempty"`
	// Transition reports whether the rule refers to the old value.
	Transition bool `json:"transition,omitempty"`
	// OnCreate reports whether a transition rule also applies on creation.
	OnCreate bool `json:"onCreate,omitempty"`
}

// walker describes schemas.
type walker struct {
	semantics schema.Semantics
}

// place is the location of a value in a resource.
type place struct {
	name, path string
	required   bool
	// fates describe what happens to unknown fields there, under each semantics.
	fates fates
}

// schema returns the schema of the value. The schema of an embedded resource includes
// apiVersion, kind and metadata.
func (p place) schema() *schema.Structural { return p.fates[0].at.Schema() }

// enter returns the place of a part of the value, at path.
func (p place) enter(path string, part func(schema.Cursor) schema.Cursor) place {
	out := place{path: path, fates: p.fates.enter(path, part)}
	if s := out.schema(); s.XEmbeddedResource {
		out.fates = out.fates.withSchema(Resource(s))
	}
	return out
}

// items returns the place of the items of an array.
func (p place) items() place { return p.enter(p.path+"[]", schema.Cursor.Items) }

// values returns the place of the values of a map.
func (p place) values() place {
	return p.enter(below(p.path, "*"), func(c schema.Cursor) schema.Cursor {
		c, _ = c.MapValue()
		return c
	})
}

// field returns the place of a field that the schema specifies.
func (p place) field(name string) place {
	s := p.schema()
	out := p.enter(below(p.path, name), func(c schema.Cursor) schema.Cursor {
		c, _ = c.Field(name)
		return c
	})
	if name == "metadata" && p.fates[0].at.IsResource() {
		out.fates = metadataFates(out.schema())
	}
	// An embedded resource needs apiVersion and kind, whatever its schema specifies.
	required := s.XEmbeddedResource && (name == "apiVersion" || name == "kind")
	out.name = name
	out.required = required || s.ValueValidation != nil && slices.Contains(s.ValueValidation.Required, name)
	return out
}

// describe describes the value at a place and the values in it, down to the given depth of
// objects.
func (w *walker) describe(at place, objects int) *Field {
	s := at.schema()
	f := &Field{
		Name: at.name, Path: at.path, Required: at.required,
		Type: typeName(s), Title: s.Title, Description: strings.TrimSpace(s.Description), Deprecated: deprecation(s.Description),
		Nullable: s.Nullable, ReadOnly: s.ReadOnly && w.semantics.KnowsReadOnly(), ExternalDocs: s.ExternalDocs,
		ListMapKeys: s.XListMapKeys, Embedded: s.XEmbeddedResource,
	}
	if s.Default != nil {
		f.Default = s.Default.Value
	}
	if s.Example != nil {
		f.Example = s.Example.Value
	}
	if s.XListType != nil {
		f.ListType = *s.XListType
	}
	if s.XMapType != nil {
		f.MapType = *s.XMapType
	}
	for _, u := range s.XUnions {
		f.Unions = append(f.Unions, Union{Discriminator: u.Discriminator, Fields: u.Fields, Enforced: w.semantics.KnowsUnions()})
	}
	for _, r := range s.XValidations {
		f.Rules = append(f.Rules, newRule(r))
	}
	if v := s.ValueValidation; v != nil {
		for _, e := range v.Enum {
			f.Enum = append(f.Enum, e.Value)
		}
		f.Constraints = constraints(v)
		if f.Type == "Quantity" {
			f.Constraints = slices.DeleteFunc(f.Constraints, func(c Constraint) bool { return c.Keyword == "format" })
		}
		f.Conditions = conditions(v)
	}
	f.UnknownFields = at.fates.describe(w.semantics)
	if s.Items != nil {
		f.Items = w.describe(at.items(), objects)
	}
	if ap := s.AdditionalProperties; ap != nil && ap.Structural != nil {
		f.Values = w.describe(at.values(), objects)
	}
	if objects > 0 {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			f.Fields = append(f.Fields, w.describe(at.field(name), objects-1))
		}
	}
	return f
}

// below appends a step to a path. It quotes a name that would read as several steps.
func below(path, name string) string {
	if name == "" || strings.ContainsAny(name, ".[]'\"") {
		return path + fmt.Sprintf("[%q]", name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// typeName names a type as kubectl explain does.
func typeName(s *schema.Structural) string {
	switch {
	case s == nil:
		return "any"
	case s.XIntOrString && s.ValueValidation != nil && s.ValueValidation.Format == "quantity":
		return "Quantity"
	case s.XIntOrString:
		return "IntOrString"
	case s.Items != nil && (s.Type == "array" || s.Type == ""):
		return "[]" + typeName(s.Items)
	case s.Type == "array":
		return "[]any"
	case s.Type == "object" && s.AdditionalProperties != nil && len(s.Properties) == 0 &&
		(s.AdditionalProperties.Structural != nil || s.AdditionalProperties.Bool):
		return "map[string]" + typeName(s.AdditionalProperties.Structural)
	case s.Type == "object":
		return "Object"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// deprecation returns the text after "Deprecated" in a description, to the end of the
// paragraph, by the convention of Go doc comments.
func deprecation(description string) string {
	for _, line := range strings.Split(description, "\n") {
		line = strings.TrimSpace(line)
		at := -1
		for _, mark := range []string{"Deprecated:", "DEPRECATED:", "Deprecated.", "DEPRECATED.", "Deprecated ", "DEPRECATED "} {
			if i := strings.Index(line, mark); i == 0 || i > 1 && line[i-2:i] == ". " {
				at = i
				break
			}
		}
		if at >= 0 {
			return line[at:]
		}
	}
	return ""
}

func newRule(r api.ValidationRule) Rule {
	rule := Rule{
		Rule: strings.TrimSpace(r.Rule), Message: r.Message, MessageExpression: r.MessageExpression,
		FieldPath: r.FieldPath, Transition: mentionsOldSelf(r.Rule),
	}
	if r.Reason != nil {
		rule.Reason = string(*r.Reason)
	}
	rule.OnCreate = rule.Transition && r.OptionalOldSelf != nil && *r.OptionalOldSelf
	return rule
}

// The patterns of string literals and of oldSelf are compiled on first use.
var (
	quotedText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`) })
	oldSelf    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\boldSelf\b`) })
)

// mentionsOldSelf reports whether oldSelf occurs as a word outside string literals.
func mentionsOldSelf(rule string) bool {
	return oldSelf().MatchString(quotedText().ReplaceAllString(rule, " "))
}
