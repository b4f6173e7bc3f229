package impact

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// knownValue is what is known about a value that alters: what it becomes, or that it is absent.
type knownValue struct {
	value  any
	absent bool
}

// dependents adds the effects of a change on the conditions around path: they may no
// longer hold, because the value that they depend on alters. known is nil if it is not known
// what the value becomes.
func (c *comparer) dependents(ch *Change, trail []*schema.Structural, path schema.SchemaPath, how alteration, known *knownValue) {
	for i, s := range trail {
		if i == len(path) && how != retyped {
			break
		}
		around, rel := path[:i], path[i:]
		if r := c.transitionDepends(s, rel, how); r != "" {
			ch.Effects = append(ch.Effects, at(Clients, around, fmt.Sprintf("rule %s of %s may reject updates", r, placeName(around))))
		}
		if why := c.depends(s, i == 0, rel, how, known); why != "" {
			ch.Effects = append(ch.Effects, at(Invalid, around, fmt.Sprintf("%s of %s may no longer hold", why, placeName(around))))
		}
		if how == gone && len(rel) == 1 {
			// A missing field is reported at its own path.
			for _, name := range vv(s).Required {
				if missing(s, name, rel[0]) {
					ch.Effects = append(ch.Effects, Effect{Class: Invalid,
						Path: extend(around, property(name)), Reason: name + " is required", missing: true})
				}
			}
		}
	}
}

func placeName(p schema.SchemaPath) string {
	if len(p) == 0 {
		return "the object"
	}
	return FieldPath(p)
}

// Parts of what leniency returns.
const (
	readable      = "stored objects can still be read and deleted; "
	unlessChanged = readable + "updates are accepted unless they change "
)

// leniency describes which updates of an object still pass if the change makes it invalid.
// Ratcheting tolerates what an update does not change, as far as the old and the new
// value can be correlated.
func leniency(ch *Change, trail []*schema.Structural) string {
	i := slices.IndexFunc(ch.Effects, func(e Effect) bool { return e.Class == Invalid })
	if i < 0 {
		return ""
	}
	switch ch.Kind {
	case "unions", "embedded-resource", "scale-subresource":
		return readable + "updates are rejected until the object is fixed"
	case "list-type":
		return readable + "updates of objects that already violate it are accepted"
	}
	path := ch.Effects[i].Path
	if ch.Effects[i].missing {
		path = path[:len(path)-1]
	}
	for j, step := range path {
		if step.Keyword == "items" && (j >= len(trail) || listType(trail[j]) != "map") {
			path = path[:j]
			break
		}
	}
	if len(path) == 0 {
		return readable + "updates that change the object are rejected until it is fixed"
	}
	return unlessChanged + FieldPath(path)
}

// missing reports whether a required field may be missing once step is gone.
func missing(s *schema.Structural, name string, step schema.SchemaStep) bool {
	if step.Keyword == "properties" {
		return step.Name == name
	}
	return step.Keyword == "additionalProperties" && s.Properties[name] == nil
}

// depends names the condition of s that depends on the value at rel below it. Transition rules
// are not evaluated on a stored object.
func (c *comparer) depends(s *schema.Structural, isRoot bool, rel schema.SchemaPath, how alteration, known *knownValue) string {
	for _, r := range s.XValidations {
		if !c.rules.isTransition(r) && ruleDepends(s, r, rel, how) && !c.holds(s, isRoot, r, rel, known) {
			return "rule " + show(r.Rule)
		}
	}
	if how == retyped {
		return ""
	}
	v := vv(s)
	if why := conditionDepends(v, rel, how); why != "" {
		return why
	}
	switch listType(s) {
	case "set":
		return "list type set"
	case "map":
		if len(rel) < 2 || rel[1].Form != schema.StepNamed || slices.Contains(s.XListMapKeys, rel[1].Name) {
			return "list type map"
		}
	}
	if c.Semantics.KnowsUnions() && slices.ContainsFunc(s.XUnions, func(u api.Union) bool { return unionDepends(u, rel[0]) }) {
		return "union"
	}
	return ""
}

// transitionDepends returns the first transition rule that depends on the value at rel.
func (c *comparer) transitionDepends(s *schema.Structural, rel schema.SchemaPath, how alteration) string {
	for _, r := range s.XValidations {
		if c.rules.isTransition(r) && ruleDepends(s, r, rel, how) {
			return show(r.Rule)
		}
	}
	return ""
}

// holds reports whether a rule of s is proven to hold for every object in which the value at
// rel is as known.
func (c *comparer) holds(s *schema.Structural, isRoot bool, r api.ValidationRule, rel schema.SchemaPath, known *knownValue) bool {
	if c.Rules == nil || known == nil {
		return false
	}
	var path []string
	for _, step := range rel {
		if step.Keyword != "properties" {
			return false
		}
		path = append(path, step.Name)
	}
	return c.Rules.Holds(schema.RuleCase{
		Rule: r, Schema: s, IsResource: isRoot || s.XEmbeddedResource, Path: path, Value: known.value, Absent: known.absent,
	})
}

func unionDepends(u api.Union, step schema.SchemaStep) bool {
	if step.Form != schema.StepNamed {
		return true
	}
	_, member := u.Fields[step.Name]
	return member || u.Discriminator == step.Name
}

// conditionDepends names the condition that depends on the value at rel.
func conditionDepends(v *schema.ValueValidation, rel schema.SchemaPath, how alteration) string {
	switch {
	case len(v.Enum) > 0:
		return "enum"
	case v.UniqueItems:
		return "uniqueItems"
	case v.MinProperties != nil && len(rel) == 1 && how == gone:
		return "minProperties"
	case v.MaxProperties != nil && len(rel) == 1 && how == appears:
		return "maxProperties"
	}
	for _, j := range []struct {
		name     string
		branches []schema.NestedValueValidation
	}{{"allOf", v.AllOf}, {"anyOf", v.AnyOf}, {"oneOf", v.OneOf}} {
		for i := range j.branches {
			if branchDepends(&j.branches[i], rel) {
				return j.name
			}
		}
	}
	if v.Not != nil && branchDepends(v.Not, rel) {
		return "not"
	}
	return ""
}

// branchDepends reports whether a branch of a logical operator depends on the value at rel.
// The branch need not hold, so every alteration matters.
func branchDepends(n *schema.NestedValueValidation, rel schema.SchemaPath) bool {
	if len(n.XValidations) > 0 || n.AdditionalProperties != nil || n.MinProperties != nil || n.MaxProperties != nil ||
		conditionDepends(&n.ValueValidation, rel, gone) != "" {
		return true
	}
	switch step := rel[0]; {
	case step.Keyword == "items":
		return n.Items != nil && (len(rel) == 1 || branchDepends(n.Items, rel[1:]))
	case step.Keyword == "additionalProperties":
		return len(n.Required) > 0 || len(n.Properties) > 0
	case len(rel) == 1:
		return slices.Contains(n.Required, step.Name) || n.Properties[step.Name] != nil
	default:
		return n.Properties[step.Name] != nil && branchDepends(n.Properties[step.Name], rel[1:])
	}
}

// selfUse matches a use of self or oldSelf: whether it is the operand of has, and the
// selected field, if any. It is compiled on first use, because most runs of the program
// compare nothing.
var selfUse = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(\bhas\s*\(\s*)?\b(?:self|oldSelf)\b(?:\s*\.\s*([A-Za-z_][A-Za-z0-9_]*))?(\s*\))?`)
})

// ruleDepends reports whether a rule may depend on the value at rel. It does not if it
// selects only other fields of self, by their plain names, or if it only asks whether the
// field is present and the alteration is inside of it.
func ruleDepends(s *schema.Structural, r api.ValidationRule, rel schema.SchemaPath, how alteration) bool {
	if s.AdditionalProperties != nil || len(rel) == 0 || rel[0].Form != schema.StepNamed || strings.Contains(r.Rule, "`") {
		return true
	}
	inside := len(rel) > 1 || how == retyped
	for _, use := range selfUse().FindAllStringSubmatch(r.Rule, -1) {
		isPresence := use[1] != "" && use[3] != ""
		// CEL escapes names that are not identifiers with double underscores.
		switch name := use[2]; {
		case name == "" || strings.Contains(name, "__"):
			return true
		case name == rel[0].Name && !(isPresence && inside):
			return true
		}
	}
	return false
}
