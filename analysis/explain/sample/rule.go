package sample

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"espalier.dev/schema"
)

// rule suggests edits of the fields that a CEL rule names: set them to the values in the
// rule or to other values, add them, or remove them.
func (m *repairer) rule(obj schema.Object, v *schema.Violation) []edit {
	source := v.Want.Rule
	base := m.ruleBase(v.Path, source)
	clues := newClues(source)
	if s := schemaAt(m.root, base); s != nil {
		clues.join(s)
	}
	var likely, other, adding, all, rest []edit
	siblings := map[string][]edit{}
	// Rules compare fields with each other, so the value of one is a candidate for the
	// others.
	var related []any
	m.targets(obj, base, clues, 0, func(_ schema.Path, _ *schema.Structural, value any, _ bool) {
		switch value.(type) {
		case string, int64, float64:
			related = append(related, value)
		}
	})
	m.targets(obj, base, clues, 0, func(path schema.Path, s *schema.Structural, value any, present bool) {
		if !present {
			for _, x := range alternatives(s, nil, clues.values) {
				if slices.ContainsFunc(clues.values, func(c any) bool { return equal(c, x) }) {
					likely = append(likely, putting(path, x))
				}
			}
			edits := m.adding(path)
			adding = append(adding, edits[:min(len(edits), 12)]...)
			all = append(all, edits[0])
			return
		}
		for _, x := range alternatives(s, nil, clues.values) {
			if slices.ContainsFunc(clues.values, func(c any) bool { return equal(c, x) }) {
				likely = append(likely, putting(path, x))
			}
		}
		rest = append(rest, m.replacing(path, s, value, related)...)
		if len(path) > len(base) && m.removable(path) {
			other = append(other, removing(path))
			parent := path[:len(path)-1].Pointer()
			siblings[parent] = append(siblings[parent], removing(path))
		}
	})
	for _, parent := range slices.Sorted(maps.Keys(siblings)) {
		other = append(other, allButOne(siblings[parent])...)
	}
	if len(all) > 1 {
		adding = append(adding, together(all...))
	}
	return slices.Concat(likely, other, adding, rest[:min(len(rest), 200)])
}

// allButOne returns edits that keep one of several fields, and then none, for rules that
// make fields mutually exclusive.
func allButOne(removals []edit) (list []edit) {
	const most = 40
	if len(removals) < 3 || len(removals) > most {
		return nil
	}
	for i := range removals {
		list = append(list, together(slices.Concat(removals[:i], removals[i+1:])...))
	}
	return append(list, together(removals...))
}

// ruleBase returns the path of the value that a rule belongs to: the path of the violation
// or, if the rule reports elsewhere, the path of a parent.
func (m *repairer) ruleBase(path schema.Path, source string) schema.Path {
	for n := len(path); n >= 0; n-- {
		if s := schemaAt(m.root, path[:n]); s != nil {
			for _, r := range s.XValidations {
				if strings.TrimSpace(r.Rule) == source {
					return path[:n]
				}
			}
		}
	}
	return path
}

// maxTargetDepth limits how deep below its value a rule is assumed to look.
const maxTargetDepth = 8

// targets visits the values below base that a rule names, including missing ones, and base
// itself.
func (m *repairer) targets(obj schema.Object, base schema.Path, c *clues, depth int,
	visit func(schema.Path, *schema.Structural, any, bool)) {
	s := schemaAt(m.root, base)
	value, ok := at(obj, base)
	if s == nil || !ok || depth > maxTargetDepth {
		return
	}
	switch x := value.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(s.Properties))
		if len(base) == 0 {
			// The schema need not specify these fields.
			names = slices.DeleteFunc(names, func(n string) bool { return n == "apiVersion" || n == "kind" || n == "metadata" })
			if name := join(base, field("metadata"), field("name")); c.words["metadata"] && c.words["name"] {
				given, ok := at(obj, name)
				visit(name, &schema.Structural{Generic: schema.Generic{Type: "string"}}, given, ok)
			}
		}
		for _, name := range names {
			path := join(base, field(name))
			child, present := x[name]
			mentioned := c.words[name]
			if mentioned {
				visit(path, s.Properties[name], child, present)
			}
			if present {
				m.targets(obj, path, c, depth+1, visit)
			}
		}
		if ap := s.AdditionalProperties; ap != nil && ap.Structural != nil {
			if depth == 0 {
				visit(base, s, value, true)
			}
			for _, name := range slices.Sorted(maps.Keys(x)) {
				path := join(base, schema.Step{Key: name, Kind: schema.MapKey})
				if s.Properties[name] == nil {
					visit(path, ap.Structural, x[name], true)
					m.targets(obj, path, c, depth+1, visit)
				}
			}
		}
	case []any:
		if depth == 0 {
			visit(base, s, value, true)
		}
		for i := range min(len(x), 3) {
			path := join(base, index(i))
			if s.Items != nil && s.Items.Type != "object" {
				visit(path, s.Items, x[i], true)
			}
			m.targets(obj, path, c, depth+1, visit)
		}
	default:
		if depth == 0 {
			visit(base, s, value, true)
		}
	}
}

// clues are the names and values in a rule.
type clues struct {
	words  map[string]bool
	values []any
}

// The patterns are compiled on first use: most runs of the program generate no samples.
var (
	wordPattern   = lazyPattern(`[A-Za-z_][A-Za-z0-9_]*`)
	quotedPattern = lazyPattern(`r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*'`)
	numberPattern = lazyPattern(`\b[0-9]+\b`)
	// escapes undoes the escaping of field names that are not identifiers in CEL.
	escapes = strings.NewReplacer("__underscores__", "__", "__dot__", ".", "__dash__", "-", "__slash__", "/")
)

func lazyPattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// join adds strings that satisfy several rules at once: the prefix that one requires with
// the suffix that another requires, encoded if the string is base64.
func (c *clues) join(s *schema.Structural) {
	if s.Type != "string" {
		return
	}
	var texts []string
	for _, r := range s.XValidations {
		for _, v := range newClues(r.Rule).values {
			if text, ok := v.(string); ok && len(texts) < 8 {
				texts = append(texts, text)
			}
		}
	}
	for _, a := range texts {
		for _, b := range texts {
			c.values = append(c.values, a+"example"+b, a+b)
		}
	}
	if s.ValueValidation != nil && s.ValueValidation.Format == "byte" {
		for i, v := range c.values {
			if text, ok := v.(string); ok {
				c.values[i] = base64.StdEncoding.EncodeToString([]byte(text))
			}
		}
	}
}

func newClues(source string) *clues {
	c := &clues{words: map[string]bool{}}
	add := func(v any) {
		if !slices.ContainsFunc(c.values, func(x any) bool { return equal(x, v) }) {
			c.values = append(c.values, v)
		}
	}
	for _, q := range quotedPattern().FindAllString(source, -1) {
		text := strings.TrimPrefix(q, "r")
		text = text[1 : len(text)-1]
		if !strings.HasPrefix(q, "r") {
			text = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\'`, `'`, `\n`, "\n").Replace(text)
		}
		c.words[text] = true
		// A pattern is not a value, but suggests some.
		if strings.ContainsAny(text, `^$[]+*`) {
			for i, s := range matching(text, 0, 0) {
				if i < 4 {
					add(s)
				}
			}
		}
		add(text)
		// Strings that start with, end with or contain it.
		for _, s := range []string{text + "example", "example" + text, "example" + text + "example"} {
			if strings.Contains(source, "With(") || strings.Contains(source, "contains(") || strings.Contains(source, "split(") {
				add(s)
			}
		}
	}
	plain := quotedPattern().ReplaceAllString(source, " ")
	for _, w := range wordPattern().FindAllString(plain, -1) {
		w = strings.TrimSuffix(strings.TrimPrefix(w, "__"), "__")
		c.words[w], c.words[escapes.Replace(w)] = true, true
	}
	for _, text := range numberPattern().FindAllString(plain, -1) {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			add(i)
		}
	}
	return c
}
