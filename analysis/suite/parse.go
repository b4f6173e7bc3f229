package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// Recognize reports whether a JSON document is a suite in a supported format.
func Recognize(doc []byte) bool {
	id, err := api.Identify(doc)
	if err != nil {
		return false
	}
	if id.Kind != "" {
		return id.Kind == Kind && strings.HasPrefix(id.APIVersion, "espalier.dev/")
	}
	return isOpenShift(doc)
}

// isOpenShift reports whether a document without a kind is a suite in OpenShift's format.
func isOpenShift(doc []byte) bool {
	var head struct {
		CRDName string          `json:"crdName"`
		Tests   json.RawMessage `json:"tests"`
	}
	if json.Unmarshal(doc, &head) != nil {
		return false
	}
	tests := string(head.Tests)
	return head.CRDName != "" && tests != "" || strings.Contains(tests, `"onCreate"`) || strings.Contains(tests, `"onUpdate"`)
}

// Parse reads a suite from JSON. The findings report errors in the suite; cases without
// errors are returned anyway. load reads a file that the suite names, as JSON.
func Parse(doc []byte, load func(name string) ([]byte, error)) (*Suite, []analysis.Finding) {
	p := &parser{load: load}
	v, err := jsonx.Parse(doc)
	if err != nil {
		p.wrong("", "%v", err)
		return &Suite{}, p.findings
	}
	if root, ok := v.(map[string]any); ok && root["kind"] == nil {
		return p.openshift(root), p.findings
	}
	return p.suite(v), p.findings
}

// parser reads a suite and collects findings about it.
type parser struct {
	load     func(string) ([]byte, error)
	findings []analysis.Finding
}

func (p *parser) wrong(pointer, format string, args ...any) {
	p.findings = append(p.findings, analysis.Finding{
		Rule: RuleMalformed, Severity: analysis.Error, Path: jsonptr.Display(pointer), Pointer: pointer, Message: fmt.Sprintf(format, args...),
	})
}

// fields calls the function for each key of an object. It reports unknown keys, and values
// that are not objects.
func (p *parser) fields(v any, pointer string, known map[string]func(v any, pointer string)) bool {
	m, ok := v.(map[string]any)
	if !ok {
		p.wrong(pointer, "must be an object with the keys %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		return false
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := jsonptr.Child(pointer, key)
		if read := known[key]; read != nil {
			read(m[key], at)
			continue
		}
		hint := "use one of " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
		if name := nearest.Name(key, slices.Values(slices.Sorted(maps.Keys(known)))); name != "" {
			hint = fmt.Sprintf("did you mean %q?", name)
		}
		p.wrong(at, "unknown key %q: %s", key, hint)
	}
	return true
}

func (p *parser) text(into *string) func(any, string) {
	return func(v any, pointer string) {
		s, ok := v.(string)
		if !ok {
			p.wrong(pointer, "must be a string")
		}
		*into = s
	}
}

// texts reads a list of strings, or a single string.
func (p *parser) texts(into *[]string) func(any, string) {
	return func(v any, pointer string) {
		if s, ok := v.(string); ok {
			*into = []string{s}
			return
		}
		*into = []string{}
		p.list(v, pointer, func(v any, pointer string) {
			var s string
			p.text(&s)(v, pointer)
			*into = append(*into, s)
		})
	}
}

func (p *parser) list(v any, pointer string, item func(any, string)) {
	items, ok := v.([]any)
	if !ok && v != nil {
		p.wrong(pointer, "must be a list")
	}
	for i, x := range items {
		item(x, jsonptr.Child(pointer, strconv.Itoa(i)))
	}
}

// object reads an object, or the name of a file that contains one.
func (p *parser) object(into *schema.Object) func(any, string) {
	return func(v any, pointer string) {
		if name, ok := v.(string); ok {
			data, err := p.load(name)
			if err == nil {
				v, err = jsonx.Parse(data)
			}
			if err != nil {
				p.wrong(pointer, "%v", err)
				return
			}
		}
		obj, ok := v.(map[string]any)
		if !ok {
			p.wrong(pointer, "must be an object, or the name of a file with one")
		}
		*into = obj
	}
}

func (p *parser) suite(v any) *Suite {
	s := &Suite{}
	var apiVersion, kind string
	// Read the base first: cases refer to it, wherever it is in the document.
	if root, ok := v.(map[string]any); ok && root["base"] != nil {
		p.object(&s.base)(root["base"], "/base")
	}
	section := func(name string, read func(c *Case, v any, pointer string) bool) func(any, string) {
		return func(v any, pointer string) {
			p.list(v, pointer, func(v any, pointer string) {
				c := &Case{Section: name, Pointer: pointer}
				if read(c, v, pointer) {
					s.Cases = append(s.Cases, c)
				}
			})
		}
	}
	p.fields(v, "", map[string]func(any, string){
		"apiVersion": p.text(&apiVersion),
		"kind":       p.text(&kind),
		"name":       p.text(&s.Name),
		"crd":        p.texts(&s.Files),
		"semantics": func(v any, pointer string) {
			text, _ := v.(string)
			sem, err := schema.ParseSemantics(text)
			if err != nil {
				p.wrong(pointer, "%v", err)
				return
			}
			s.Semantics = &sem
		},
		"policies": p.texts(&s.Policies),
		"as": func(v any, pointer string) {
			s.User = &User{}
			p.fields(v, pointer, map[string]func(any, string){"user": p.text(&s.User.Name), "groups": p.texts(&s.User.Groups)})
			if s.User.Name == "" {
				p.wrong(pointer, "user is required")
			}
		},
		"base":    func(any, string) {},
		"valid":   section("valid", func(c *Case, v any, at string) bool { return p.create(s, c, v, at) }),
		"invalid": section("invalid", func(c *Case, v any, at string) bool { c.rejected = true; return p.create(s, c, v, at) }),
		"updates": section("updates", func(c *Case, v any, at string) bool { return p.update(s, c, v, at) }),
	})
	if apiVersion != APIVersion {
		p.wrong("/apiVersion", "must be %s", APIVersion)
	}
	p.unique(s)
	for _, c := range s.Cases {
		if (c.hasWarnings || c.hasChanged) && len(s.Policies) == 0 {
			p.wrong(c.Pointer, "warnings and changed are about admission policies: name their files in policies")
		}
	}
	if len(s.Cases) == 0 && len(p.findings) == 0 {
		p.wrong("", "there are no cases: list some under valid, invalid or updates")
	}
	slices.SortStableFunc(s.Cases, func(a, b *Case) int { return order(a.Section) - order(b.Section) })
	return s
}

func order(section string) int { return slices.Index([]string{"valid", "invalid", "updates"}, section) }

// unique reports cases that have the same name.
func (p *parser) unique(s *Suite) {
	seen := map[string]bool{}
	for _, c := range s.Cases {
		if seen[c.FullName()] {
			p.wrong(c.Pointer+"/name", "a case with this name already exists")
		}
		seen[c.FullName()] = true
	}
}

// create reads a case of valid or invalid.
func (p *parser) create(s *Suite, c *Case, v any, pointer string) bool {
	var patch any
	known := map[string]func(any, string){
		"name":   p.text(&c.Name),
		"object": p.object(&c.object),
		"with":   func(v any, _ string) { patch = v },
	}
	if c.rejected {
		known["errors"] = p.errors(c)
	} else {
		p.outcome(c, known)
	}
	before := len(p.findings)
	if !p.fields(v, pointer, known) {
		return false
	}
	p.named(c)
	c.object = p.on(c.object, s.base, patch, "object", pointer)
	return len(p.findings) == before
}

// update reads a case of updates.
func (p *parser) update(s *Suite, c *Case, v any, pointer string) bool {
	var patch any
	var subresource string
	known := map[string]func(any, string){
		"name":        p.text(&c.Name),
		"old":         p.object(&c.old),
		"new":         p.object(&c.object),
		"with":        func(v any, _ string) { patch = v },
		"subresource": p.text(&subresource),
		"errors": func(v any, pointer string) {
			c.rejected = true
			p.errors(c)(v, pointer)
		},
	}
	p.outcome(c, known)
	before := len(p.findings)
	if !p.fields(v, pointer, known) {
		return false
	}
	p.named(c)
	switch subresource {
	case "", "status":
		c.status = subresource != ""
	default:
		p.wrong(pointer+"/subresource", "must be status or absent")
	}
	if c.old == nil {
		c.old = s.base
	}
	if c.old == nil {
		p.wrong(pointer, "no old object: set old, or a base for the suite")
		return false
	}
	if c.object == nil && patch == nil {
		p.wrong(pointer, "no new object: set new, or a patch in with")
		return false
	}
	c.object = p.on(c.object, c.old, patch, "new", pointer)
	if c.rejected && (c.hasStored || c.hasPruned || c.hasDefaulted || c.hasWarnings || c.hasChanged) {
		p.wrong(pointer+"/errors", "a rejected object is not stored: expect either errors, or stored, pruned and defaulted")
	}
	return len(p.findings) == before
}

// outcome adds the keys that describe the expected result of an accepted object.
func (p *parser) outcome(c *Case, known map[string]func(any, string)) {
	known["stored"] = func(v any, pointer string) { c.hasStored = true; p.object(&c.stored)(v, pointer) }
	known["pruned"] = func(v any, pointer string) { c.hasPruned = true; p.texts(&c.pruned)(v, pointer) }
	known["warnings"] = func(v any, pointer string) { c.hasWarnings = true; p.texts(&c.warnings)(v, pointer) }
	known["changed"] = func(v any, pointer string) { c.hasChanged = true; p.texts(&c.changed)(v, pointer) }
	known["defaulted"] = func(v any, pointer string) { c.hasDefaulted = true; p.texts(&c.defaulted)(v, pointer) }
}

func (p *parser) named(c *Case) {
	if c.Name == "" {
		p.wrong(c.Pointer, "the case needs a name")
	}
}

// on returns the object of a case: the given one, or the patched base.
func (p *parser) on(given, base schema.Object, patch any, key, pointer string) schema.Object {
	switch {
	case given != nil && patch != nil:
		p.wrong(pointer+"/with", "a case has either %s or with", key)
	case given != nil:
		return given
	case base == nil:
		p.wrong(pointer, "no object: set %s, or a base for the suite", key)
		return nil
	}
	merged, ok := merge(jsonx.CopyObject(base), patch).(map[string]any)
	if !ok {
		p.wrong(pointer+"/with", "must be an object that is merged into the base")
	}
	return merged
}

// merge applies a merge patch (RFC 7386).
func merge(v, patch any) any {
	if patch == nil {
		return v
	}
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	target, ok := v.(map[string]any)
	if !ok {
		target = map[string]any{}
	}
	for key, x := range fields {
		if x == nil {
			delete(target, key)
		} else {
			target[key] = merge(target[key], x)
		}
	}
	return target
}

// errors reads the expected errors of a rejected object.
func (p *parser) errors(c *Case) func(any, string) {
	return func(v any, pointer string) {
		if list, ok := v.([]any); ok && len(list) == 0 {
			p.wrong(pointer, "must not be empty: omit it if any error is expected")
		}
		p.list(v, pointer, func(v any, pointer string) {
			e := expectedError{pointer: pointer}
			if text, ok := v.(string); ok {
				e.message = text
			} else {
				p.fields(v, pointer, map[string]func(any, string){
					"path": p.text(&e.path), "message": p.text(&e.message), "rule": p.text(&e.rule),
				})
			}
			if e.path == "" && e.message == "" && e.rule == "" {
				p.wrong(pointer, "must be a part of a message, or an object with path, message or rule")
			}
			c.errors = append(c.errors, e)
		})
	}
}
