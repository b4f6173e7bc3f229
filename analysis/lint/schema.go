package lint

import (
	"bytes"
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
)

// schema applies the rules that check a single schema.
func (c *check) schema(s *schemaSite) {
	gates := defaultGates{check: c}
	walk(s, c.sem, func(n *node) {
		c.pattern(n)
		c.format(n)
		c.nameFormat(n)
		c.rawJSON(n)
		c.enum(n)
		c.name(n)
		c.draft4Default(n)
		c.bounds(n)
		c.required(n)
		c.empty(n)
		c.impliedMetadata(n)
		c.additional(n)
		c.lists(n)
		c.conventionRules(n)
		gates.node(n)
	})
	gates.report()
}

// pattern reports invalid regular expressions in schemas where schema.Check does not.
func (c *check) pattern(n *node) {
	if n.site.structural != nil {
		return
	}
	complain := func(text string, at *place) {
		if _, err := syntax.Parse(text, syntax.Perl); err != nil {
			c.add(invalidPattern, at, note{severity: analysis.Warning, detail: lacks(text)},
				"must be a valid regular expression, but isn't: ", err.Error())
		}
	}
	complain(n.s.Pattern, n.at.child("pattern"))
	for _, text := range sortedNames(n.s.PatternProperties) {
		complain(text, n.at.child("patternProperties").key(text))
	}
}

// format reports formats that have no effect.
func (c *check) format(n *node) {
	f := n.s.Format
	if f == "" || isRawJSON(n) || crd.KnownFormat(n.typ(), f) || n.intOrString() && crd.KnownFormat("string", f) {
		return
	}
	of := ""
	if t := n.typ(); t != "" {
		of = " for type " + t
	}
	c.warn(unknownFormat, n.at.child("format"), fmt.Sprintf("unknown format %q%s: ignored", f, of))
}

// name reports field names that are the result of unquoted YAML booleans.
func (c *check) name(n *node) {
	if n.kind == fieldNode && (n.name == "true" || n.name == "false") {
		c.warn(booleanName, n.at,
			fmt.Sprintf("a field is named %q: YAML reads the unquoted keys y, yes and on as true, and n, no and off as false", n.name))
	}
}

// enum reports enum values that the type does not allow.
func (c *check) enum(n *node) {
	for i := range n.s.Enum {
		v, ok := value(&n.s.Enum[i])
		if !ok || c.fits(n, v) || v == nil && n.inOperator {
			// Below a logical operator, null is a common way to require that a field is
			// absent.
			continue
		}
		at := n.at.child("enum").index(i)
		message := fmt.Sprintf("no value can match this %s, because the type is %s", typeOf(v), n.typeNames())
		var detail []string
		if _, isBool := v.(bool); isBool && n.typ() == "string" {
			detail = []string{"YAML reads yes, no, on, off, true and false as booleans: put the value in quotes"}
		} else if n.typ() == "string" && v != nil {
			detail = []string{"put the value in quotes to make it a string"}
		}
		c.add(enumType, at, note{severity: analysis.Warning, detail: detail}, message)
	}
	isNull := func(j api.JSON) bool {
		v, ok := value(&j)
		return ok && v == nil
	}
	if len(n.s.Enum) > 0 && n.s.Nullable && !slices.ContainsFunc(n.s.Enum, isNull) {
		c.warn(enumType, n.at.child("nullable"), "null is not among the values of enum, so nullable has no effect: null is rejected")
	}
}

// draft4Default reports defaults of the wrong type in draft-4 schemas. In other schemas,
// the validation of the CRD reports them.
func (c *check) draft4Default(n *node) {
	if n.site != c.d.legacy || n.s.Default == nil {
		return
	}
	if v, _ := value(n.s.Default); !c.fits(n, v) {
		c.warn(invalidDefault, n.at.child("default"),
			fmt.Sprintf("the default has type %s, but the field has type %s", typeOf(v), n.typeNames()))
	}
}

// fits reports whether a value has the type of a node.
func (c *check) fits(n *node, v any) bool {
	if v == nil && n.nullable() {
		return true
	}
	switch got, typ := typeOf(v), n.typ(); {
	case n.intOrString():
		return got == "integer" || got == "string"
	case typ == "":
		// Several types, or none.
		return len(n.s.Type) == 0 || slices.Contains(n.s.Type, got)
	case typ == "number":
		return got == "number" || got == "integer"
	default:
		return got == typ
	}
}

// typeNames names the types of a node's values, for messages.
func (n *node) typeNames() string {
	switch typ := n.typ(); {
	case n.intOrString():
		return "integer or string"
	case typ != "":
		return typ
	}
	return strings.Join(n.s.Type, " or ")
}

// value decodes a JSON value in a schema.
func value(j *api.JSON) (any, bool) {
	if len(j.Raw) == 0 {
		return nil, true
	}
	v, err := jsonx.Parse(j.Raw)
	return v, err == nil
}

// typeOf returns the type of a JSON value. A number without a fraction is an integer.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case int64:
		return "integer"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// bounds reports bounds that no value satisfies.
func (c *check) bounds(n *node) {
	s := n.s
	if lo, hi := s.Minimum, s.Maximum; lo != nil && hi != nil && (*lo > *hi || *lo == *hi && (s.ExclusiveMinimum || s.ExclusiveMaximum)) {
		c.warn(impossibleBounds, n.at.child("minimum"), "no number is between minimum and maximum")
	}
	if m := s.MultipleOf; m != nil && *m <= 0 {
		c.warn(impossibleBounds, n.at.child("multipleOf"), "multipleOf is not positive: every number is rejected")
	}
	for _, b := range [...]struct {
		lo, hi   *int64
		min, max string
	}{
		{s.MinLength, s.MaxLength, "minLength", "maxLength"}, {s.MinItems, s.MaxItems, "minItems", "maxItems"},
		{s.MinProperties, s.MaxProperties, "minProperties", "maxProperties"},
	} {
		if b.lo != nil && b.hi != nil && *b.lo > *b.hi {
			c.warn(impossibleBounds, n.at.child(b.min), fmt.Sprintf("no value is between %s %d and %s %d", b.min, *b.lo, b.max, *b.hi))
		}
	}
}

// required reports required fields that are pruned.
func (c *check) required(n *node) {
	core := n.core.Schema()
	if core == nil || !n.core.Prunes() || n.inMeta || core.AdditionalProperties != nil {
		return
	}
	for i, name := range n.s.Required {
		if _, kept := n.core.Field(name); kept {
			continue
		}
		consequence := "every object is rejected"
		if n.inOperator {
			consequence = "the condition never holds"
		}
		c.warn(requiredUnspecified, n.at.child("required").index(i),
			fmt.Sprintf("%q is required, but not in properties: it is pruned, so %s", name, consequence))
	}
}

// additional reports objects that forbid additional fields.
func (c *check) additional(n *node) {
	ap := n.s.AdditionalProperties
	if ap == nil || ap.Schema != nil || ap.Allows || n.negated() {
		return
	}
	c.warn(versionSkew, n.at.child("additionalProperties"),
		"a field that a later version adds is rejected here instead of pruned, so clients and the CRD must be updated together")
}

// lists reports sets of objects or lists, and lists of identifiable objects without a list
// type.
func (c *check) lists(n *node) {
	s := n.s
	if n.inOperator || n.inMeta || s.Type.Single() != "array" || s.Items == nil || s.Items.Schema == nil {
		return
	}
	items := s.Items.Schema
	if t := items.Type.Single(); s.XListType != nil && *s.XListType == "set" && (t == "object" || t == "array") {
		c.warn(setOfObjects, n.at.child("x-kubernetes-list-type"),
			fmt.Sprintf("server-side apply and CEL rules do not support sets of type %s: use x-kubernetes-list-type: map with keys", t))
	}
	if s.XListType != nil || items.Type.Single() != "object" || n.isAtomic() {
		return
	}
	if key := listKey(n, items); key != "" {
		c.add(listType, n.at.child("x-kubernetes-list-type"), note{severity: analysis.Info, detail: []string{
			"server-side apply treats the list as one value, so the last applier owns all of it",
			fmt.Sprintf("if every item has a different %s, set x-kubernetes-list-type: map and x-kubernetes-list-map-keys: [%s]; otherwise set x-kubernetes-list-type: atomic", key, key),
		}}, fmt.Sprintf("the items have the field %s, which may identify them, but the list has no list type", key))
	}
}

// isAtomic reports whether an ancestor is merged as a whole, so that the node's own list or
// map type has no effect.
func (n *node) isAtomic() bool {
	for m := n.up; m != nil; m = m.up {
		s := m.s
		if s.Type.Single() == "array" && (s.XListType == nil || *s.XListType != "map") || s.XMapType != nil && *s.XMapType == "atomic" {
			return true
		}
	}
	return false
}

// listKey returns the field that likely identifies items, or "".
func listKey(n *node, items *api.JSONSchemaProps) string {
	candidates := []string{"name", "key", "id"}
	if n.name == "conditions" {
		candidates = []string{"type"}
	}
	for _, name := range candidates {
		if p := items.Properties[name]; p.Type.Single() == "string" && slices.Contains(items.Required, name) {
			return name
		}
	}
	return ""
}

// defaultGates finds defaults that apply only if a parent field is set.
type defaultGates struct {
	*check
	// gates maps a node to the outermost optional field without a default, at or above the
	// node, up to the closest item or map value.
	gates   map[*node]*node
	order   []*node
	waiting map[*node][]string
}

func (g *defaultGates) node(n *node) {
	if n.inOperator || n.inMeta {
		return
	}
	if g.gates == nil {
		g.gates, g.waiting = map[*node]*node{}, map[*node][]string{}
	}
	hasDefault := n.s.Default != nil
	switch n.kind {
	case rootNode:
		if hasDefault {
			g.warn(defaultNeverApplies, n.at.child("default"), "the root is never absent: this default never applies")
		}
		return
	case itemNode, mapNode:
		if hasDefault {
			g.never(n)
		}
		return
	}
	gate := g.gates[n.up]
	if hasDefault && gate != nil && !saysLittle(n.s.Default) {
		if g.waiting[gate] == nil {
			g.order = append(g.order, gate)
		}
		g.waiting[gate] = append(g.waiting[gate], n.name)
	}
	if gate == nil && !hasDefault && !n.isRequired() && !(n.up.kind == rootNode && n.name == "status") {
		gate = n
	}
	if gate != nil {
		g.gates[n] = gate
	}
}

// saysLittle reports whether a default is an empty value, which many clients assume for an
// absent field anyway.
func saysLittle(j *api.JSON) bool {
	switch string(bytes.TrimSpace(j.Raw)) {
	case `""`, "0", "false", "{}", "[]":
		return true
	}
	return false
}

// never reports a default of an item or map value.
func (g *defaultGates) never(n *node) {
	what := "an item of a list"
	if n.kind == mapNode {
		what = "a value of a map"
	}
	if n.nullable() {
		g.warn(defaultNeverApplies, n.at.child("default"), what, " is never absent: this default never applies")
		return
	}
	g.warn(defaultNeverApplies, n.at.child("default"), what, " is never absent: this default only replaces explicit nulls")
}

func (g *defaultGates) report() {
	for _, gate := range g.order {
		names := g.waiting[gate]
		const shown = 5
		list := strings.Join(names[:min(shown, len(names))], ", ")
		if len(names) > shown {
			list += ", …"
		}
		what := "the default below it applies"
		if len(names) > 1 {
			what = fmt.Sprintf("the %d defaults below it apply", len(names))
		}
		g.add(defaultNeedsParent, gate.at, note{severity: analysis.Info, detail: []string{
			"fields with a default: " + list,
			"to apply them to all objects, give this field a default such as {}, or make it required",
		}}, fmt.Sprintf("this optional field has no default, so %s only to objects that set it", what))
	}
}
