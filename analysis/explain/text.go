package explain

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// TextOptions configure Doc.WriteText.
type TextOptions struct {
	// Width is the column at which descriptions wrap; 0 means 80.
	Width int
	// Recursive prints the tree of all fields, without their descriptions.
	Recursive bool
}

// WriteText prints a Doc in the layout of kubectl explain.
func (d *Doc) WriteText(w io.Writer, o TextOptions) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	p := &printer{width: o.Width}
	p.head(d)
	p.field(d.Field, o.Recursive)
	_, err := w.Write(append(bytes.TrimRight(p.Bytes(), "\n"), '\n'))
	return err
}

type printer struct {
	bytes.Buffer
	width int
}

func (p *printer) line(format string, args ...any) {
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// head prints the description of the resource.
func (p *printer) head(d *Doc) {
	if d.Group != "" {
		p.line("GROUP:      %s", d.Group)
	}
	p.line("KIND:       %s", d.Kind)
	p.line("VERSION:    %s", d.Version)
	var notes []string
	if !d.Served {
		notes = append(notes, "the version is not served")
	}
	if d.Deprecated != "" {
		notes = append(notes, d.Deprecated)
	}
	for _, n := range notes {
		p.line("WARNING:    %s", n)
	}
	p.line("SEMANTICS:  %s", d.Semantics)
	p.line("")
	if d.Field.Path != "" {
		p.line("FIELD:      %s <%s>", d.Field.Path, d.Field.Type)
		p.line("")
	}
}

// field prints the description of the value, then its fields.
func (p *printer) field(f *Field, recursive bool) {
	p.section("DESCRIPTION:", func() {
		text := f.Description
		if text == "" {
			text = "<empty>"
		}
		p.wrap(text, "    ")
		if f.ExternalDocs != nil {
			p.wrap(strings.TrimSpace(f.ExternalDocs.Description+" "+f.ExternalDocs.URL), "    ")
		}
	})
	facts := f.Facts()
	if u := f.UnknownFields; u != nil && !u.remarkable() {
		facts = append(facts, "unknown fields: "+u.Text())
	}
	if len(facts) > 0 {
		p.section("SCHEMA:", func() {
			for _, fact := range facts {
				p.wrap(fact, "    ")
			}
		})
	}
	for inner := f; inner != nil; inner = inner.element() {
		p.rules(inner, f)
	}
	// The fields of objects in a list or map are listed here.
	inner := f
	for inner.element() != nil && len(inner.Fields) == 0 {
		inner = inner.element()
		if facts := inner.Facts(); len(facts) > 0 {
			p.section("SCHEMA OF "+inner.Path+" <"+inner.Type+">:", func() {
				for _, fact := range facts {
					p.wrap(fact, "    ")
				}
			})
		}
	}
	if len(inner.Fields) == 0 {
		return
	}
	p.section("FIELDS:", func() {
		if recursive {
			p.tree(inner, "  ")
			return
		}
		for i, child := range inner.Fields {
			if i > 0 {
				p.line("")
			}
			p.member(child)
		}
	})
}

func (p *printer) section(title string, body func()) {
	p.line("%s", title)
	body()
	p.line("")
}

// rules prints the rules of inner, which is f or its items or values.
func (p *printer) rules(inner, f *Field) {
	if len(inner.Rules) == 0 {
		return
	}
	title := "RULES:"
	if inner != f {
		title = "RULES OF " + inner.Path + ":"
	}
	p.section(title, func() {
		for _, r := range inner.Rules {
			for _, l := range strings.Split(r.Rule, "\n") {
				p.line("    %s", l)
			}
			for _, l := range r.Notes() {
				p.wrap(l, "        ")
			}
		}
	})
}

// Notes returns the properties of a rule other than its expression, such as its message, one per line.
func (r Rule) Notes() (notes []string) {
	switch {
	case r.OnCreate:
		notes = append(notes, "transition rule, also evaluated on create")
	case r.Transition:
		notes = append(notes, "transition rule: evaluated on updates only")
	}
	if r.Message != "" {
		notes = append(notes, "message: "+strings.TrimSpace(r.Message))
	}
	if r.MessageExpression != "" {
		notes = append(notes, "message expression: "+strings.TrimSpace(r.MessageExpression))
	}
	if r.FieldPath != "" {
		notes = append(notes, "reported at: "+r.FieldPath)
	}
	if r.Reason != "" {
		notes = append(notes, "reason: "+r.Reason)
	}
	return notes
}

// member prints one field of an object.
func (p *printer) member(f *Field) {
	p.line("  %s", f.headline())
	text := f.Description
	if text == "" {
		text = "<no description>"
	}
	p.wrap(text, "    ")
	for _, fact := range f.Facts() {
		if fact != "required" {
			p.wrap(fact, "    ")
		}
	}
	for inner := f; inner != nil; inner = inner.element() {
		for _, r := range inner.Rules {
			text := "rule: " + strings.Join(strings.Fields(r.Rule), " ")
			if r.Message != "" {
				text += " (" + strings.TrimSpace(r.Message) + ")"
			}
			p.wrap(text, "    ")
		}
		if inner == f {
			continue
		}
		for _, fact := range inner.Facts() {
			p.wrap(inner.Path+": "+fact, "    ")
		}
	}
}

// tree prints the fields of f, recursively.
func (p *printer) tree(f *Field, indent string) {
	for _, child := range f.Fields {
		p.line("%s%s", indent, child.headline())
		for _, note := range child.brief() {
			p.line("%s%s", indent, note)
		}
		for inner := child; inner != nil; inner = inner.element() {
			p.tree(inner, indent+"  ")
		}
	}
}

// headline returns the name and type of a field.
func (f *Field) headline() string {
	text := f.Name + "\t<" + f.Type + ">"
	if f.Required {
		text += " -required-"
	}
	if f.Deprecated != "" {
		text += " -deprecated-"
	}
	return text
}

// brief returns the enum, as kubectl explain prints it in a tree, and the default.
func (f *Field) brief() (notes []string) {
	if len(f.Enum) > 0 {
		notes = append(notes, "enum: "+literals(f.Enum))
	}
	if f.Default != nil {
		notes = append(notes, "default: "+Literal(f.Default))
	}
	return notes
}

// element returns the description of the items or values of f, or nil.
func (f *Field) element() *Field {
	if f.Items != nil {
		return f.Items
	}
	return f.Values
}

// Facts returns what the schema says about a value besides its type and description, such as its
// default and bounds, one per line.
func (f *Field) Facts() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if f.Title != "" {
		add("title: %s", f.Title)
	}
	if f.Required {
		add("required")
	}
	if f.Nullable {
		add("nullable")
	}
	if f.ReadOnly {
		add("read-only")
	}
	if f.Default != nil {
		add("default: %s", Literal(f.Default))
	}
	if len(f.Enum) > 0 {
		add("enum: %s", literals(f.Enum))
	}
	for _, c := range f.Constraints {
		add("%s: %s", c.Keyword, Literal(c.Value))
	}
	if f.Example != nil {
		add("example: %s", Literal(f.Example))
	}
	switch {
	case len(f.ListMapKeys) > 0:
		add("list type: %s, keys: %s", f.ListType, strings.Join(f.ListMapKeys, ", "))
	case f.ListType != "":
		add("list type: %s", f.ListType)
	}
	if f.MapType != "" {
		add("map type: %s", f.MapType)
	}
	for _, u := range f.Unions {
		add("%s", u.text())
	}
	for _, c := range f.Conditions {
		add("%s", c)
	}
	if f.Embedded {
		add("embedded resource: has its own apiVersion, kind and metadata")
	}
	if u := f.UnknownFields; u != nil && u.remarkable() {
		add("unknown fields: %s", u.Text())
		if u.Other != nil {
			add("unknown fields in %s semantics: %s", u.Other.Semantics, u.Other.Text())
		}
	}
	return lines
}

// remarkable reports whether unspecified fields are treated differently from the default,
// which is to prune them.
func (u *UnknownFields) remarkable() bool {
	return u.Preserved || u.Everything || u.Other != nil || strings.HasPrefix(u.Because, "pruning resumes")
}

// Text returns in words what happens to the fields, and why.
func (u *UnknownFields) Text() string {
	text := "pruned"
	if u.Preserved {
		text = "preserved"
	}
	if u.Everything {
		text += ", that is all fields, because none are specified"
	}
	return text + " (" + u.Because + ")"
}

func (u Union) text() string {
	var members []string
	for _, name := range slices.Sorted(maps.Keys(u.Fields)) {
		if u.Discriminator == "" {
			members = append(members, name)
		} else {
			members = append(members, fmt.Sprintf("%s (%s: %s)", name, u.Discriminator, u.Fields[name]))
		}
	}
	text := "union: exactly one of " + strings.Join(members, ", ")
	if !u.Enforced {
		text += "; not enforced in these semantics"
	}
	return text
}

func literals(values []any) string {
	var texts []string
	for _, v := range values {
		texts = append(texts, Literal(v))
	}
	return strings.Join(texts, ", ")
}

// wrap prints text indented and wrapped between words. It keeps line breaks, and prints
// indented lines unchanged.
func (p *printer) wrap(text, indent string) {
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			p.line("%s%s", indent, line)
			continue
		}
		current := ""
		for _, word := range strings.Fields(line) {
			if current != "" && utf8.RuneCountInString(indent+current+" "+word) > p.width {
				p.line("%s%s", indent, current)
				current = ""
			}
			if current != "" {
				current += " "
			}
			current += word
		}
		p.line("%s%s", indent, current)
	}
}
