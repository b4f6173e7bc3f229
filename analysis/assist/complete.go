package assist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis/explain"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// ItemKind is what an item stands for.
type ItemKind uint8

const (
	// FieldItem is a field of an object.
	FieldItem ItemKind = iota
	// ValueItem is a value that a schema allows or suggests, ExampleItem one that shows its format.
	ValueItem
	ExampleItem
	// EntryItem is an item of a list or an entry of a map.
	EntryItem
	// KindItem is an apiVersion, a kind, or the start of an object of a kind.
	KindItem
	// NameItem is the name of another object.
	NameItem
	// KeywordItem is a keyword of a schema.
	KeywordItem
	// FunctionItem, MacroItem and VariableItem are parts of a CEL expression.
	FunctionItem
	MacroItem
	VariableItem
)

// String returns the name of the kind.
func (k ItemKind) String() string {
	return [...]string{"field", "value", "example", "entry", "kind", "name", "keyword", "function", "macro", "variable"}[k]
}

// Item is a completion.
type Item struct {
	// Label names the item.
	Label string
	Kind  ItemKind
	// Detail is a short description, such as the type. Documentation is Markdown.
	Detail, Documentation string
	// Insert replaces Range. If Snippet is set, it has placeholders in the syntax of the Language
	// Server Protocol, and Plain is the text without them. Lines after the first have their whole
	// indentation.
	Insert  string
	Snippet bool
	Plain   string
	Range   Range
	// Filter is what the text in Range is compared with.
	Filter string
	// Sort is the key by which items are ordered.
	Sort string
	// Preselect is set for the default.
	Preselect  bool
	Deprecated bool
}

// completion collects the items for a place.
type completion struct {
	env   *Env
	place *Place
	items []Item
	// lead begins the text of every item.
	lead string
}

// Complete returns the completions at an offset of a document, in the order in which to show them.
// It does not filter them by what is typed already.
func Complete(text []byte, offset int, env Env) []Item {
	p := Locate(text, offset)
	c := &completion{env: &env, place: &p}
	switch {
	case p.Position == Nowhere:
		return nil
	case env.definesCRD(&p) && c.inCRD():
	case p.Position == Key:
		c.key()
	default:
		c.value()
	}
	slices.SortStableFunc(c.items, func(a, b Item) int { return cmp.Or(cmp.Compare(a.Sort, b.Sort), cmp.Compare(a.Label, b.Label)) })
	return c.items
}

// key completes a key.
func (c *completion) key() {
	parent := c.place.Parent()
	at, ok := c.env.cursor(c.place, parent)
	if !ok {
		return
	}
	c.fields(at, parent, c.place.Keys, c.place.Indent)
	if len(parent) == 0 && len(c.place.Keys) == 0 && !c.place.Complete {
		c.documents()
	}
}

// fields adds the fields of an object that it does not have yet. They begin in a column.
func (c *completion) fields(at schema.Cursor, path schema.Path, existing []string, col int) {
	s := at.Schema()
	required := requiredFields(s)
	for _, name := range sortedFields(s) {
		if slices.Contains(existing, name) {
			continue
		}
		rank, ok := c.rank(at, path, name, slices.Contains(required, name))
		if !ok {
			continue
		}
		prop := s.Properties[name]
		f := explain.DescribeSchema(prop, c.env.semantics())
		item := Item{Label: name, Kind: FieldItem, Detail: f.Type, Deprecated: f.Deprecated != "", Sort: rank + name}
		if f.Required = slices.Contains(required, name); f.Required {
			item.Detail += ", required"
		}
		if item.Deprecated && rank < "7" {
			item.Sort = "7" + name
		}
		item.Documentation = fieldMarkdown(f)
		c.addKey(item, prop, col)
	}
	for _, k := range knownKeys(path) {
		if !slices.Contains(existing, k.name) && s.Properties[k.name] == nil && shapeOf(s) == mapShape {
			c.addKey(Item{Label: k.name, Kind: EntryItem, Detail: k.detail, Sort: "5" + k.name}, s.AdditionalProperties.Structural, col)
		}
	}
}

// rank returns the prefix that orders a field: required ones first, those that the API server sets
// last. It reports whether to offer the field at all.
func (c *completion) rank(at schema.Cursor, path schema.Path, name string, required bool) (string, bool) {
	if at.IsResource() {
		switch name {
		case "apiVersion":
			return "0", true
		case "kind":
			return "1", true
		case "metadata":
			return "2", true
		case "spec":
			return "3", true
		case "status":
			return "8", true
		}
	}
	if n := len(path); n > 0 && path[n-1].Key == "metadata" && at.InMetadata() {
		switch name {
		case "name":
			return "0", true
		case "namespace":
			v := c.env.Version
			return "1", n > 1 || v == nil || v.Definition().Namespaced()
		case "labels", "annotations":
			return "3", true
		case "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
			"resourceVersion", "selfLink", "uid":
			return "8", true
		}
	}
	if required {
		return "1", true
	}
	return "4", true
}

// addKey adds an item for a key. s is the schema of its value.
func (c *completion) addKey(item Item, s *schema.Structural, col int) {
	w := newWriter(c.place)
	w.write(c.lead)
	switch {
	case c.place.Position == Key && c.place.Complete:
		w.key(item.Label)
		last := &w.parts[len(w.parts)-1]
		last.text = strings.TrimSuffix(last.text, ":")
	case shapeOf(s) == scalarShape && !c.place.JSON:
		w.key(item.Label).write(" ")
	case item.Label == "metadata" && item.Kind == FieldItem && s.Properties["name"] != nil && s.Properties["generateName"] != nil && !c.place.Flow:
		w.key(item.Label).line(col + w.step).write("name: ")
	default:
		w.key(item.Label)
		w.value(s, col, maxNested)
	}
	c.add(item, w)
}

// add adds an item with the text of w.
func (c *completion) add(item Item, w *writer) {
	if c.place.NeedsSpace && c.lead == "" {
		w.parts = slices.Insert(w.parts, 0, part{text: " "})
	}
	item.Insert, item.Snippet = w.render()
	item.Plain = w.plain()
	item.Range = c.place.Range
	if item.Filter == "" {
		item.Filter = item.Label
	}
	if q := c.place.Quote; (q == '"' || q == '\'') && item.Range.End > item.Range.Start {
		item.Filter = string(q) + item.Filter
	}
	c.items = append(c.items, item)
}

// value completes a value.
func (c *completion) value() {
	p := c.place
	at, known := c.env.cursor(p, p.Path)
	if len(p.Path) == 0 {
		c.fields(at, nil, nil, p.Indent)
		c.documents()
		return
	}
	if p.Complete || c.kinds() || c.names() || !known {
		return
	}
	s := at.Schema()
	fresh := p.node == nil || p.node.form == absent || p.node.form == scalar && p.Quote == 0 && !p.Complete
	col := p.Indent
	if p.NeedsSpace {
		col++
	}
	inline := !p.OwnLine && !p.Item && !p.Flow
	newItem := p.node == nil && !p.Flow
	switch shape := shapeOf(s); {
	case shape == scalarShape:
		if newItem {
			c.lead = "- "
		}
		c.scalars(s)
	case !fresh:
	case p.Flow:
		c.empty(shape)
	case newItem:
		c.entry(s, parentKeys(c, p), "- ", col+2)
	case shape == listShape:
		if inline {
			col = p.in.indent + p.Dash
			c.lead = p.EOL + strings.Repeat(" ", col)
		}
		c.entry(s.Items, s.XListMapKeys, "- ", col+2)
	default:
		if inline {
			col = p.in.indent + p.Step
			c.lead = p.EOL + strings.Repeat(" ", col)
		}
		if p.Item {
			if len(requiredFields(s)) > 1 {
				c.entry(s, parentKeys(c, p), "", col)
			}
		}
		c.fields(at, p.Path, nil, col)
	}
}

// parentKeys returns the list-map keys of the list around an item.
func parentKeys(c *completion, p *Place) []string {
	at, ok := c.env.cursor(p, p.Parent())
	if !ok {
		return nil
	}
	return at.Schema().XListMapKeys
}

// entry adds an item of a list, with its keys and required fields.
func (c *completion) entry(s *schema.Structural, keys []string, dash string, col int) {
	w := newWriter(c.place)
	w.write(c.lead).write(dash)
	w.item(s, keys, col, maxNested)
	label := "- "
	if len(keys) > 0 {
		label = "- " + strings.Join(keys, ", ")
	}
	f := explain.DescribeSchema(orAny(s), c.env.semantics())
	c.add(Item{Label: label, Kind: EntryItem, Detail: f.Type, Documentation: fieldMarkdown(f), Sort: "0"}, w)
}

func orAny(s *schema.Structural) *schema.Structural {
	if s == nil {
		return &schema.Structural{}
	}
	return s
}

// empty adds an empty collection in braces or brackets.
func (c *completion) empty(shape shape) {
	w := newWriter(c.place)
	w.write(c.lead)
	if shape == listShape {
		c.add(Item{Label: "[]", Kind: ValueItem}, w.write("[").placeholder("").write("]"))
		return
	}
	c.add(Item{Label: "{}", Kind: ValueItem}, w.write("{").placeholder("").write("}"))
}

// scalars adds the values of a schema.
func (c *completion) scalars(s *schema.Structural) {
	if c.place.Quote == '|' || c.place.Quote == '>' {
		return
	}
	isDefault := s.Default != nil && s.Default.Value != nil
	fixed := fixedValues(s)
	for i, v := range fixed {
		item := Item{Kind: ValueItem, Sort: fmt.Sprintf("1%02d", i)}
		if i == 0 && isDefault {
			item.Detail, item.Preselect = "default", true
		}
		c.addValue(item, v)
	}
	if c.env.BuiltIn && len(fixed) == 0 && s.Type == "string" {
		for i, v := range knownValues(c.env.Version.GroupVersionKind().Kind, c.place.Path) {
			c.addValue(Item{Kind: ValueItem, Sort: fmt.Sprintf("1%02d", i)}, v)
		}
	}
	if s.Nullable {
		c.addValue(Item{Kind: ValueItem, Sort: "2"}, nil)
	}
	if s.Example != nil && s.Example.Value != nil {
		c.addValue(Item{Kind: ExampleItem, Detail: "example", Sort: "2"}, s.Example.Value)
	}
	if len(fixed) > 0 && s.Type != "boolean" && !isDefault {
		return
	}
	for i, e := range formatExamples(s) {
		c.addValue(Item{Kind: ExampleItem, Detail: e.detail, Sort: "3" + string(rune('a'+i))}, e.text)
	}
}

// addValue adds a scalar.
func (c *completion) addValue(item Item, v any) {
	if text, ok := v.(string); ok {
		item.Label = text
	} else {
		item.Label = literal(v, false, true)
	}
	if item.Label == "" {
		item.Label = `""`
	}
	text := literal(v, c.place.Flow, c.place.JSON)
	if s, ok := v.(string); ok {
		switch c.place.Quote {
		case '"':
			text = string(jsonx.AppendString(nil, s))
		case '\'':
			text = "'" + strings.ReplaceAll(s, "'", "''") + "'"
		}
	}
	c.add(item, newWriter(c.place).write(c.lead).write(text))
}
