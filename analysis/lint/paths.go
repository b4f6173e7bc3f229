package lint

import (
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// paths reports the paths of printer columns and of the scale subresource that lead to no
// field: the column stays empty, and the scale subresource does not work.
func (c *check) paths() {
	if !c.on[unspecifiedPath] {
		return
	}
	spec := root().child("spec")
	versions := c.d.versions()
	if c.d.v1 != nil {
		for i := range c.d.v1.Spec.Versions {
			v, at := &c.d.v1.Spec.Versions[i], spec.child("versions").index(i)
			for j, column := range v.AdditionalPrinterColumns {
				c.path(at.child("additionalPrinterColumns").index(j).child("jsonPath"), column.JSONPath, versions[i].schema)
			}
			c.scalePaths(at, v.Subresources, versions[i].schema)
		}
		return
	}
	// Without a schema of its own, a version has the one at the top.
	var all []*schemaSite
	for _, s := range c.d.schemas {
		if s.at.around.token == "validation" {
			all = []*schemaSite{s}
			break
		}
		all = append(all, s)
	}
	for j, column := range c.d.beta.Spec.AdditionalPrinterColumns {
		c.path(spec.child("additionalPrinterColumns").index(j).child("JSONPath"), column.JSONPath, all...)
	}
	c.scalePaths(spec, c.d.beta.Spec.Subresources, all...)
	for i := range c.d.beta.Spec.Versions {
		v, at := &c.d.beta.Spec.Versions[i], spec.child("versions").index(i)
		own := all
		if versions[i].schema != nil {
			own = []*schemaSite{versions[i].schema}
		}
		for j, column := range v.AdditionalPrinterColumns {
			c.path(at.child("additionalPrinterColumns").index(j).child("JSONPath"), column.JSONPath, own...)
		}
		c.scalePaths(at, v.Subresources, own...)
	}
}

func (c *check) scalePaths(at *place, s *api.CustomResourceSubresources, sites ...*schemaSite) {
	if s == nil || s.Scale == nil {
		return
	}
	at = at.child("subresources", "scale")
	c.path(at.child("specReplicasPath"), s.Scale.SpecReplicasPath, sites...)
	c.path(at.child("statusReplicasPath"), s.Scale.StatusReplicasPath, sites...)
	if p := s.Scale.LabelSelectorPath; p != nil {
		c.path(at.child("labelSelectorPath"), *p, sites...)
	}
}

// path reports a path that leads to no field in any of the schemas.
func (c *check) path(at *place, text string, sites ...*schemaSite) {
	steps, ok := parsePath(text)
	if !ok || c.rejected[at.pointer()] {
		return
	}
	var gap *pathGap
	for _, s := range sites {
		if s == nil || s.structural == nil {
			return
		}
		pruning := schema.PruningOff
		if s.prunes {
			pruning = schema.PruningOn
		}
		if gap = findGap(schema.NewCursor(s.structural, c.sem, pruning), steps); gap == nil {
			return
		}
	}
	if gap == nil {
		return
	}
	n := note{severity: analysis.Warning}
	if gap.list {
		c.add(unspecifiedPath, at, n, fmt.Sprintf("%s leads to no field: %s is a list, so its items need an index or [*]", text, gap.around))
		return
	}
	if meant := nearest.Name(gap.name, slices.Values(gap.fields)); meant != "" {
		n.detail = []string{"did you mean " + meant + "?"}
	}
	around := "the object"
	if gap.around != "" {
		around = gap.around
	}
	c.add(unspecifiedPath, at, n, fmt.Sprintf("%s leads to no field: %s has no field %q", text, around, gap.name))
}

// pathGap is the first step of a path that leads nowhere.
type pathGap struct {
	// around is the path up to the step, name the field that is missing, and fields are
	// those that exist.
	around, name string
	fields       []string
	// list is set if a list is used as an object.
	list bool
}

// findGap follows a path in a schema. It returns nil if objects can have a value there.
func findGap(at schema.Cursor, steps []pathStep) *pathGap {
	around := ""
	for _, s := range steps {
		typ := ""
		if here := at.Schema(); here != nil {
			typ = here.Type
		}
		switch {
		case s.items && typ == "object":
			// The values of a map.
			at, _ = at.MapValue()
		case s.items:
			at = at.Items()
		case typ == "array":
			return &pathGap{around: around, name: s.name, list: true}
		default:
			inside, kept := at.Field(s.name)
			if !kept {
				return &pathGap{around: around, name: s.name, fields: fieldsAt(at)}
			}
			if at.IsResource() && s.name == "metadata" {
				inside = schema.NewCursor(schema.ObjectMeta(), schema.KEP, schema.PruningOn)
			}
			at = inside
		}
		if at.Schema() == nil {
			return nil
		}
		around += s.text
	}
	return nil
}

func fieldsAt(at schema.Cursor) []string {
	names := sortedNames(at.Schema().Properties)
	if at.IsResource() {
		names = append(names, "apiVersion", "kind", "metadata")
	}
	return names
}

// pathStep is a step of a JSONPath expression: to a field, or to the items of a list.
type pathStep struct {
	text, name string
	items      bool
}

// parsePath parses the JSONPath expressions that are common in CRDs. It returns false for
// others.
func parsePath(text string) (steps []pathStep, ok bool) {
	for text != "" {
		var s pathStep
		rest := ""
		switch {
		case strings.HasPrefix(text, "[?("):
			end := strings.Index(text, ")]")
			if end < 0 {
				return nil, false
			}
			s.items, rest = true, text[end+2:]
		case text[0] == '[':
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return nil, false
			}
			inside := text[1:end]
			rest = text[end+1:]
			if quoted := strings.Trim(inside, `'"`); len(quoted) == len(inside)-2 {
				s.name = quoted
			} else if strings.Trim(inside, "0123456789:*-") == "" {
				s.items = true
			} else {
				return nil, false
			}
		case text[0] == '.':
			s.name, rest = fieldName(text[1:])
			if s.name == "" || strings.ContainsAny(s.name, "*'\"{}()@ ") {
				return nil, false
			}
		default:
			return nil, false
		}
		s.text = text[:len(text)-len(rest)]
		steps, text = append(steps, s), rest
	}
	return steps, true
}

// fieldName cuts off a field name. A backslash escapes the next character.
func fieldName(text string) (name, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '.', '[':
			return b.String(), text[i:]
		case '\\':
			if i++; i == len(text) {
				return "", ""
			}
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}
