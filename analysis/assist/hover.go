package assist

import (
	"errors"
	"fmt"
	"strings"

	"espalier.dev/analysis/explain"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Hover is what is known about the value under the cursor.
type Hover struct {
	// Markdown describes it.
	Markdown string
	// Range is the key or value that it is about.
	Range Range
}

// HoverAt describes the value at an offset of a document, or returns nil.
func HoverAt(text []byte, offset int, env Env) *Hover {
	p := Locate(text, offset)
	if p.Position == Nowhere || p.node == nil || p.Range.Start == p.Range.End {
		return nil
	}
	h := &Hover{Range: p.Range}
	if env.definesCRD(&p) {
		h.Markdown = env.schemaHover(&p)
	}
	if h.Markdown == "" {
		h.Markdown = env.fieldHover(&p)
	}
	if h.Markdown == "" {
		return nil
	}
	return h
}

// fieldHover describes a field of an object.
func (e *Env) fieldHover(p *Place) string {
	if e.Version == nil {
		return ""
	}
	path := p.Path
	if e.definesCRD(p) {
		path = withoutNesting(path)
	}
	v, path := e.innermost(p, path)
	if len(path) == 1 && (path[0].Key == "kind" || path[0].Key == "apiVersion") {
		return kindHover(v)
	}
	doc, err := explain.DescribeAt(v, path)
	if unknown, ok := errors.AsType[*explain.UnknownFieldError](err); ok {
		return e.unknownHover(doc, unknown)
	}
	if err != nil {
		return ""
	}
	f := doc.Field
	title := f.Path
	if f.Name != "" {
		title = f.Name
	}
	paragraphs := []string{head(title, f)}
	if w := doc.Deprecated; w != "" {
		paragraphs = append(paragraphs, "**Deprecated version**: "+escapeMarkdown(w))
	}
	paragraphs = append(paragraphs, fieldParagraphs(f, e.cost(v, path))...)
	if f.UnknownFields != nil && !e.BuiltIn && !strings.Contains(strings.Join(f.Facts(), "\n"), "unknown fields:") {
		paragraphs = append(paragraphs, "Unknown fields in it are "+escapeMarkdown(f.UnknownFields.Text())+".")
	}
	return strings.Join(paragraphs, "\n\n")
}

// head returns the first line of a description.
func head(name string, f *explain.Field) string {
	text := "**" + escapeMarkdown(name) + "** " + code(f.Type)
	if f.Required {
		text += " *required*"
	}
	if f.Deprecated != "" {
		text += " *deprecated*"
	}
	return text
}

// innermost returns the version of the innermost embedded resource around a path that is known, and
// the path from there.
func (e *Env) innermost(p *Place, path schema.Path) (*crd.Version, schema.Path) {
	v, from := e.Version, 0
	for i := 1; i <= len(path); i++ {
		at, ok := e.cursor(p, path[:i])
		if !ok {
			break
		}
		if !at.Schema().XEmbeddedResource && !at.IsResource() {
			continue
		}
		if inner := e.embedded(p, path[:i]); inner != nil && i < len(path) {
			v, from = inner, i
		}
	}
	return v, path[from:]
}

// kindHover describes a kind.
func kindHover(v *crd.Version) string {
	doc, err := explain.DescribeAt(v, nil)
	if err != nil {
		return ""
	}
	scope := "cluster-scoped"
	if doc.Namespaced {
		scope = "namespaced"
	}
	gvk := v.GroupVersionKind()
	paragraphs := []string{fmt.Sprintf("**%s** %s, %s", escapeMarkdown(gvk.Kind), code(gvk.GroupVersion().String()), scope)}
	switch {
	case doc.Deprecated != "":
		paragraphs = append(paragraphs, "**Deprecated**: "+escapeMarkdown(doc.Deprecated))
	case !doc.Served:
		paragraphs = append(paragraphs, "**The version is not served.**")
	}
	f := *doc.Field
	f.Rules = nil
	return strings.Join(append(paragraphs, fieldParagraphs(&f, nil)...), "\n\n")
}

// unknownHover describes a field that the schema does not specify.
func (e *Env) unknownHover(doc *explain.Doc, unknown *explain.UnknownFieldError) string {
	name := "**" + escapeMarkdown(unknown.Name) + "**"
	in := unknown.Path
	if in == "" {
		in = "the object"
	}
	u := doc.Field.UnknownFields
	switch {
	case doc.NoSchema:
		return name + " is not specified: version " + code(doc.Version) + " has no schema"
	case u == nil && unknown.Preserved:
		return name + " is not specified further: the schema of " + code(in) + " allows any value"
	case u == nil:
		return fmt.Sprintf("%s is not specified: %s is of type %s", name, code(in), code(unknown.Type))
	case u.Preserved:
		return fmt.Sprintf("%s is not specified, but preserved: %s", name, escapeMarkdown(u.Because))
	}
	text := fmt.Sprintf("%s is **pruned**: the schema of %s does not specify it, and %s", name, code(in),
		strings.Replace(escapeMarkdown(u.Because), "nothing preserves them", "nothing preserves it", 1))
	if e.BuiltIn {
		text = fmt.Sprintf("%s is **pruned**: %s has no such field", name, code(in))
	}
	if unknown.Nearest != "" {
		text += "\n\nDid you mean " + code(unknown.Nearest) + "?"
	}
	if doc.Field.Name != "metadata" && !e.BuiltIn {
		text += "\n\n" + code("x-kubernetes-preserve-unknown-fields: true") + " in that schema would preserve it."
	}
	return text
}

// cost returns a function with a note about the cost of the rules of the field at a path, or nil.
func (e *Env) cost(v *crd.Version, path schema.Path) func(string, int) string {
	if e.Rules == nil || v == nil {
		return nil
	}
	at, _ := schemaPath(v, path)
	return func(inner string, rule int) string {
		report := e.Rules(v)
		if report == nil {
			return ""
		}
		for _, r := range report.Rules() {
			if r.Index == rule && r.Path.Compare(at) == 0 {
				return costText(r.Cost)
			}
		}
		return ""
	}
}

// costText describes the estimated cost of a rule.
func costText(c schema.RuleCost) string {
	if c.Limit == 0 {
		return ""
	}
	unbounded := ""
	if len(c.Unbounded) > 0 {
		unbounded = fmt.Sprintf("; %s has no bound", strings.TrimPrefix(c.Unbounded[0].String(), "."))
	}
	if c.Total == ^uint64(0) {
		return "estimated cost: unbounded" + unbounded
	}
	share := fmt.Sprintf("%.3g%%", 100*float64(c.Total)/float64(c.Limit))
	if c.Total < c.Limit/1000 {
		share = "less than 0.1%"
	}
	text := fmt.Sprintf("estimated cost: %d of %d (%s)%s", c.Total, c.Limit, share, unbounded)
	if c.Exceeded() {
		text += ": the API server rejects the CRD"
		for _, r := range c.Remedies {
			return text + "; it accepts it with " + r.String()
		}
	}
	return text
}
