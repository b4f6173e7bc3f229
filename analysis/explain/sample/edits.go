package sample

import (
	"maps"
	"math"
	"slices"
	"strings"

	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// edit changes an object. It reports whether the change was possible.
type edit func(schema.Object) bool

func putting(path schema.Path, v any) edit {
	return func(obj schema.Object) bool { return put(obj, path, jsonx.Copy(v)) }
}

// making returns an edit that generates its value only when it is applied.
func making(path schema.Path, value func() any) edit {
	return func(obj schema.Object) bool { return put(obj, path, value()) }
}

func removing(path schema.Path) edit {
	return func(obj schema.Object) bool { return remove(obj, path) }
}

// together combines several edits into one. It succeeds if any of them does.
func together(edits ...edit) edit {
	return func(obj schema.Object) bool {
		done := false
		for _, e := range edits {
			done = e(obj) || done
		}
		return done
	}
}

// edits returns edits that may fix a violation, the most likely first.
func (m *repairer) edits(obj schema.Object, v *schema.Violation) []edit {
	list := m.direct(obj, v)
	// Removing the value or one of its parents also removes the violation. This loses the
	// most data, so it comes last, from the innermost value to the outermost.
	for n := len(v.Path); n > 0; n-- {
		if m.removable(v.Path[:n]) {
			list = append(list, removing(v.Path[:n]))
		}
	}
	return list
}

// removable reports whether a value may be removed: its parent does not require it and it
// does not identify the object.
func (m *repairer) removable(path schema.Path) bool {
	if len(path) == 1 && slices.Contains([]string{"apiVersion", "kind", "metadata"}, path[0].Key) {
		return false
	}
	parent := schemaAt(m.root, path[:len(path)-1])
	last := path[len(path)-1]
	return last.Kind == schema.Index || parent == nil || parent.ValueValidation == nil ||
		!slices.Contains(parent.ValueValidation.Required, last.Key)
}

// direct returns edits of the value itself or of its content.
func (m *repairer) direct(obj schema.Object, v *schema.Violation) []edit {
	s := schemaAt(m.root, v.Path)
	switch v.Kind {
	case schema.Required:
		return m.adding(v.Path)
	case schema.ForbiddenField:
		name, _ := v.Value.(string)
		return []edit{removing(join(v.Path, field(name)))}
	case schema.AllOf:
		return m.branch(obj, slices.Concat(v.Branches...))
	case schema.AnyOf, schema.OneOf:
		return m.logicalOperator(obj, v, s)
	case schema.Not:
		return m.breaking(obj, v.Path, s)
	case schema.UnionMembers, schema.WrongDiscriminator:
		return m.union(v, s)
	case schema.Rule:
		return m.rule(obj, v)
	case schema.MaxItems, schema.MinItems, schema.MaxProperties, schema.MinProperties:
		return m.sizes(obj, v, s)
	case schema.DuplicateItem:
		return m.varied(v.Path, s)
	}
	return m.replacing(v.Path, s, v.Value, literals(v))
}

// adding returns edits that add a missing field.
func (m *repairer) adding(path schema.Path) (list []edit) {
	s := schemaAt(m.root, path)
	if s == nil {
		for _, x := range []any{"example", int64(1), true, map[string]any{}, []any{}} {
			list = append(list, putting(path, x))
		}
		return list
	}
	least := &generator{kep: m.kep}
	for _, g := range []*generator{m.generator, least} {
		list = append(list, making(path, func() any { return g.make(s, 0) }))
	}
	return append(list, m.replacing(path, s, nil, nil)...)
}

// branch fixes all violations of one branch of a logical operator together, then one by one.
func (m *repairer) branch(obj schema.Object, violations schema.Violations) []edit {
	var first, rest []edit
	for i := range violations {
		edits := m.direct(obj, &violations[i])
		if len(edits) > 0 {
			first = append(first, edits[0])
			rest = append(rest, edits[:min(len(edits), 8)]...)
		}
	}
	if len(first) > 1 {
		return append([]edit{together(first...)}, rest...)
	}
	return rest
}

// logicalOperator makes a branch of a logical operator hold or, if too many do, makes one fail.
func (m *repairer) logicalOperator(obj schema.Object, v *schema.Violation, s *schema.Structural) (list []edit) {
	if v.Holding > 0 {
		return m.breaking(obj, v.Path, s)
	}
	order := make([]int, len(v.Branches))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return len(v.Branches[i]) - len(v.Branches[j]) })
	for _, i := range order {
		list = append(list, m.branch(obj, v.Branches[i])...)
	}
	return list
}

// breaking changes a value in any way: removes a field, or replaces the value.
func (m *repairer) breaking(obj schema.Object, path schema.Path, s *schema.Structural) (list []edit) {
	v, _ := at(obj, path)
	fields, ok := v.(map[string]any)
	if !ok {
		return m.replacing(path, s, v, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if child := join(path, field(name)); m.removable(child) {
			list = append(list, removing(child))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		child := join(path, field(name))
		if prop := schemaAt(m.root, child); prop != nil && prop.Type != "object" {
			list = append(list, m.replacing(child, prop, fields[name], nil)...)
		}
	}
	if s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if _, ok := fields[name]; !ok {
				list = append(list, m.adding(join(path, field(name)))...)
			}
		}
	}
	return list
}

// union sets one member of each union of a value.
func (m *repairer) union(v *schema.Violation, s *schema.Structural) (list []edit) {
	if s == nil {
		return nil
	}
	for _, u := range s.XUnions {
		members := slices.Sorted(maps.Keys(u.Fields))
		for _, member := range members {
			var edits []edit
			for _, other := range members {
				if other != member {
					edits = append(edits, removing(join(v.Path, field(other))))
				}
			}
			if prop := s.Properties[member]; prop != nil {
				path := join(v.Path, field(member))
				edits = append(edits, func(obj schema.Object) bool {
					if _, ok := at(obj, path); ok {
						return false
					}
					return put(obj, path, m.make(prop, 0))
				})
			}
			if u.Discriminator != "" {
				edits = append(edits, putting(join(v.Path, field(u.Discriminator)), u.Fields[member]))
			}
			list = append(list, together(edits...))
		}
	}
	return list
}

// sizes makes a list or map shorter or longer.
func (m *repairer) sizes(obj schema.Object, v *schema.Violation, s *schema.Structural) (list []edit) {
	value, _ := at(obj, v.Path)
	switch x := value.(type) {
	case []any:
		for n := len(x) - 1; n >= 0 && n >= len(x)-4; n-- {
			list = append(list, putting(v.Path, x[:n]))
		}
		longer := slices.Clone(x)
		for i := len(x); i < len(x)+4 && s != nil && s.Items != nil; i++ {
			longer = append(longer, m.make(s.Items, i))
			list = append(list, putting(v.Path, slices.Clone(longer)))
		}
	case map[string]any:
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(x))) {
			list = append(list, removing(join(v.Path, field(name))))
		}
		if s == nil {
			return list
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if _, ok := x[name]; !ok {
				list = append(list, putting(join(v.Path, field(name)), m.make(s.Properties[name], 0)))
			}
		}
		if ap := s.AdditionalProperties; ap != nil && ap.Structural != nil {
			list = append(list, putting(join(v.Path, field("another")), m.make(ap.Structural, len(x))))
		}
	}
	return list
}

// varied makes an item different from the others.
func (m *repairer) varied(path schema.Path, s *schema.Structural) (list []edit) {
	if s == nil {
		return nil
	}
	for i := 1; i < 6; i++ {
		list = append(list, putting(path, m.make(s, i)))
	}
	return list
}

// replacing puts other values of s at a path. clues are values that the violation mentions.
func (m *repairer) replacing(path schema.Path, s *schema.Structural, v any, clues []any) (list []edit) {
	if s != nil {
		n := needs(s.ValueValidation, nil)
		switch kind := typeOf(s, n); {
		case len(n.enum) > 0:
		case kind == "object":
			for _, g := range []*generator{{full: true, kep: m.kep}, {kep: m.kep}} {
				list = append(list, making(path, func() any { return g.make(s, 0) }))
			}
			return append(list, putting(path, map[string]any{}))
		case kind == "array":
			return m.arrays(path, s, clues)
		}
	}
	for _, x := range alternatives(s, v, clues) {
		list = append(list, putting(path, x))
	}
	return list
}

// arrays puts arrays of s of several lengths at a path, and arrays that clues suggest.
func (m *repairer) arrays(path schema.Path, s *schema.Structural, clues []any) []edit {
	list := []edit{putting(path, []any{})}
	if s.Items == nil {
		return list
	}
	if t := s.Items.Type; t != "object" && t != "array" {
		items := alternatives(s.Items, nil, clues)
		for _, x := range items[:min(8, len(items))] {
			list = append(list, putting(path, []any{x}))
		}
	}
	for length := 1; length <= 3; length++ {
		list = append(list, making(path, func() any {
			var items []any
			for i := range length {
				items = append(items, m.make(s.Items, i))
			}
			return items
		}))
	}
	return list
}

// alternatives returns values of s, a schema of scalars, that differ from v. clues are
// values that the violation mentions.
func alternatives(s *schema.Structural, v any, clues []any) (list []any) {
	if s == nil {
		return clues
	}
	n := needs(s.ValueValidation, nil)
	add := func(values ...any) {
		for _, x := range values {
			if !equal(x, v) && !slices.ContainsFunc(list, func(y any) bool { return equal(x, y) }) {
				list = append(list, x)
			}
		}
	}
	kind := typeOf(s, n)
	switch {
	case len(n.enum) > 0:
		for _, c := range clues {
			if slices.ContainsFunc(n.enum, func(e any) bool { return equal(c, e) }) {
				add(c)
			}
		}
		add(n.enum...)
	case s.XIntOrString:
		add(clues...)
		add(int64(1), "1", "50%", "example", int64(0), "1Gi", "100m")
	case kind == "boolean":
		add(true, false)
	case kind == "integer" || kind == "number":
		add(numbers(n, clues, v)...)
	case kind == "string":
		for _, c := range clues {
			if c, ok := c.(string); ok && n.takes(c) {
				add(c)
			}
		}
		for variation := range 3 {
			for _, x := range texts(n, variation) {
				if x = n.fit(x); n.takes(x) {
					add(x)
				}
			}
		}
	}
	return list
}

// numbers returns numbers close to the bounds and clues.
func numbers(n *need, clues []any, v any) (list []any) {
	add := func(x float64) {
		if x >= n.min && x <= n.max && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			list = append(list, int64(x))
		} else if x != math.Trunc(x) {
			list = append(list, x)
		}
	}
	for _, c := range append(slices.Clone(clues), v) {
		switch c := c.(type) {
		case int64:
			for _, d := range []float64{0, 1, -1} {
				add(float64(c) + d)
			}
		case float64:
			add(c)
		}
	}
	for _, x := range []float64{0, 1, n.min, n.max, 2, 10, 60, 100, 1024, 3600} {
		add(x) // not if it is infinite
	}
	return list
}

// literals returns the values that a violation mentions.
func literals(v *schema.Violation) (list []any) {
	switch want := v.Want; v.Kind {
	case schema.Enum:
		list = append(list, want.Allowed...)
	case schema.MaxLength, schema.MinLength, schema.AdditionalItems:
		list = append(list, want.Limit)
	case schema.Maximum, schema.Minimum, schema.MultipleOf, schema.FactorNotPositive, schema.BadOperand:
		if _, isInt := v.Value.(int64); isInt || want.Bound == math.Trunc(want.Bound) && math.Abs(want.Bound) < 1<<53 {
			list = append(list, int64(want.Bound))
		} else {
			list = append(list, want.Bound)
		}
	case schema.Pattern:
		for _, s := range matching(want.Pattern, 0, 0) {
			list = append(list, s)
		}
	case schema.WrongFormat:
		if s, ok := ofFormat(want.Format, 0); ok {
			list = append(list, s)
		}
	case schema.WrongType:
		for _, t := range want.Types {
			switch strings.ToLower(t) {
			case "string":
				list = append(list, "example")
			case "integer", "number":
				list = append(list, int64(1))
			case "boolean":
				list = append(list, true)
			case "object":
				list = append(list, map[string]any{})
			case "array":
				list = append(list, []any{})
			}
		}
	}
	return list
}
