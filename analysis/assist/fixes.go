package assist

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/explain/sample"
	"espalier.dev/analysis/object"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/nearest"
	"espalier.dev/internal/yamledit"
	"espalier.dev/schema"
)

// Fixes returns alternative fixes for a finding about an object, the best first: missing fields are
// added with sample values, unknown fields are renamed to the nearest known one or removed. It
// returns none for other findings, and for the fix that the finding itself has.
func Fixes(text []byte, f analysis.Finding, env Env) (fixes []analysis.Fix) {
	p := Locate(text, 0)
	path := p.tree.pathTo(f.Pointer)
	if len(path) == 0 || path[len(path)-1].Kind == schema.Index {
		return nil
	}
	parent, name := path[:len(path)-1], path[len(path)-1].Key
	switch f.Rule {
	case object.ViolationRule(schema.Required):
		return env.addRequired(&p, parent, name)
	case object.RuleUnknownField, object.RuleStorageVersion:
		n := p.tree.root.at(parent)
		if n.entry(name) == nil {
			return nil
		}
		if at, ok := env.cursor(&p, parent); ok && f.Rule == object.RuleUnknownField {
			known := slices.DeleteFunc(sortedFields(at.Schema()), func(known string) bool { return n.entry(known) != nil })
			if to := nearest.Name(name, slices.Values(known)); to != "" {
				fixes = append(fixes, analysis.Fix{Message: fmt.Sprintf("Rename %s to %s", name, to),
					Edits: []analysis.Edit{{Op: yamledit.Rename, Pointer: f.Pointer, To: to}}})
			}
		}
		return append(fixes, analysis.Fix{Message: fmt.Sprintf("Remove %s, which the API server drops", name),
			Edits: []analysis.Edit{{Op: yamledit.Remove, Pointer: f.Pointer}}})
	}
	return nil
}

// addRequired returns fixes that add a missing field, and all missing fields of the object.
func (e *Env) addRequired(p *Place, parent schema.Path, name string) (fixes []analysis.Fix) {
	at, ok := e.cursor(p, parent)
	n := p.tree.root.at(parent)
	if !ok || n == nil {
		return nil
	}
	if prop := at.Schema().Properties[name]; prop != nil && n.entry(name) == nil {
		fixes = append(fixes, analysis.Fix{Message: "Add " + name, Edits: []analysis.Edit{e.setSample(at, parent, name)}})
	}
	var all analysis.Fix
	var names []string
	for _, name := range requiredFields(at.Schema()) {
		if n.entry(name) == nil {
			names = append(names, name)
			all.Edits = append(all.Edits, e.setSample(at, parent, name))
		}
	}
	if len(names) > 1 {
		all.Message = "Add " + strings.Join(names, ", ")
		fixes = append(fixes, all)
	}
	return fixes
}

// setSample returns the edit that adds a field with a sample value.
func (e *Env) setSample(at schema.Cursor, parent schema.Path, name string) analysis.Edit {
	var value any
	switch {
	case at.IsResource() && name == "metadata":
		value = map[string]any{"name": "example"}
	case name == "name" && at.InMetadata():
		value = "example"
	default:
		value = sample.Value(at.Schema().Properties[name])
	}
	return analysis.Edit{Op: yamledit.Set, Pointer: jsonptr.Child(parent.Pointer(), name), Value: value}
}

// pathTo returns the path that a JSON pointer stands for in the document.
func (o *outline) pathTo(pointer string) (path schema.Path) {
	n := o.root
	for _, token := range jsonptr.Split(pointer) {
		step := schema.Step{Key: token}
		if n != nil && n.form == sequence {
			i, err := strconv.Atoi(token)
			if err != nil {
				return nil
			}
			step = schema.Step{Kind: schema.Index, Index: i}
		}
		path = append(path, step)
		n = n.at(schema.Path{step})
	}
	return path
}
