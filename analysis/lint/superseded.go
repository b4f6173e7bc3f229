package lint

import (
	"fmt"
	"reflect"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/internal/yamledit"
	"espalier.dev/schema"
)

// isSuperseded reports whether superseded or versionSwitches reports a field of t.
func isSuperseded(name string, t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[api.JSONSchemaProps]():
		return slices.Contains(supersededKeywords(), name)
	case reflect.TypeFor[api.CustomResourceDefinitionSpec](), reflect.TypeFor[v1beta1.CustomResourceDefinitionSpec]():
		return name == "prune" || name == "preserveUnknownProperties"
	case reflect.TypeFor[api.CustomResourceDefinitionVersion](), reflect.TypeFor[v1beta1.CustomResourceDefinitionVersion]():
		return name == "prune" || name == preserveField
	}
	return false
}

// supersededKeywords returns the keywords that x-kubernetes-preserve-unknown-fields replaced.
func supersededKeywords() []string {
	return []string{"x-kubernetes-no-prune", "x-kubernetes-no-pruning", "x-no-pruning",
		"x-kubernetes-preserve-unknown-properties", "preserveUnknownProperties"}
}

// preserveField is the field of the spec that disables pruning in v1beta1.
const preserveField = "preserveUnknownFields"

const preserveKeyword = "x-kubernetes-preserve-unknown-fields"

// superseded reports spellings of earlier drafts.
func (c *check) superseded() {
	// The spellings are the same in both semantics, but their effect is not.
	errs, _ := crd.Superseded(c.d.raw, schema.KEP) // it is JSON
	n := note{severity: analysis.Error}
	if rejected, _ := crd.Superseded(c.d.raw, c.sem); len(rejected) == 0 {
		n = note{severity: analysis.Warning, detail: []string{"kube-apiserver drops it as an unknown field"}}
	}
	for _, e := range errs {
		at := root().follow(c.d.tree, e.Field)
		n.fix = c.respell(at)
		c.add(supersededSpelling, at, n, e.Detail)
	}
	c.versionSwitches()
	status, _ := c.d.tree["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for i, v := range conditions {
		if cond, _ := v.(map[string]any); cond["type"] == "NonStructural" {
			at := root().child("status", "conditions").index(i).child("type")
			c.add(supersededSpelling, at, note{severity: analysis.Warning, fix: &analysis.Fix{
				Message: "rename the condition to NonStructuralSchema",
				Edits:   []analysis.Edit{{Op: yamledit.Set, Pointer: at.pointer(), Value: "NonStructuralSchema"}},
			}}, "is obsolete: the condition is now called NonStructuralSchema")
		}
	}
}

// respell returns the edits that replace a superseded spelling by the current one.
func (c *check) respell(at *place) *analysis.Fix {
	v, _ := at.value(c.d.tree)
	wanted, ok := v.(bool)
	if !ok {
		return nil
	}
	around, _ := at.around.value(c.d.tree)
	siblings, _ := around.(map[string]any)
	if at.around.path() == "spec" {
		preserve := wanted
		if at.token == "prune" {
			preserve = !wanted
		}
		return c.respellSpec(at, preserve, siblings)
	}
	_, taken := siblings[preserveKeyword]
	for _, other := range supersededKeywords() {
		if other == at.token {
			break
		}
		taken = taken || siblings[other] == true // that one is renamed
	}
	if !wanted || taken {
		return removal(at, "remove "+at.token+", which has no effect")
	}
	return &analysis.Fix{
		Message: "rename " + at.token + " to " + preserveKeyword,
		Edits:   []analysis.Edit{{Op: yamledit.Rename, Pointer: at.pointer(), To: preserveKeyword}},
	}
}

// respellSpec returns the edits that replace a field of the spec by preserveUnknownFields.
func (c *check) respellSpec(at *place, preserve bool, siblings map[string]any) *analysis.Fix {
	const name = preserveField
	if _, taken := siblings[name]; taken || c.d.beta == nil && !preserve {
		return removal(at, "remove "+at.token+", which has no effect")
	}
	if c.d.beta == nil {
		// v1 rejects it: the author must decide which schemas preserve unknown fields.
		return nil
	}
	pruned, hasPrune := siblings["prune"].(bool)
	preserved, hasPreserve := siblings["preserveUnknownProperties"].(bool)
	if hasPrune && hasPreserve {
		if pruned == preserved {
			return nil // they contradict each other: the author must decide
		}
		if at.token != "prune" {
			return removal(at, "remove "+at.token+", which prune repeats")
		}
	}
	edits := []analysis.Edit{{Op: yamledit.Rename, Pointer: at.pointer(), To: name}}
	if v, _ := at.value(c.d.tree); v != preserve {
		edits = append(edits, analysis.Edit{Op: yamledit.Set, Pointer: at.around.child(name).pointer(), Value: preserve})
	}
	return &analysis.Fix{Message: fmt.Sprintf("write %s: %t", name, preserve), Edits: edits}
}

// versionSwitches reports versions that turn pruning on or off. The design documents
// considered such a switch in two spellings and rejected it.
func (c *check) versionSwitches() {
	type versionSwitch struct {
		at *place
		// preserve is the intention, and known reports whether it is known.
		preserve, known bool
	}
	var all []versionSwitch
	agree := true
	for i, v := range rawVersions(c.d.tree) {
		fields, _ := v.(map[string]any)
		for _, name := range [...]string{"prune", preserveField} {
			value, ok := fields[name]
			if !ok {
				continue
			}
			on, isBool := value.(bool)
			s := versionSwitch{root().child("spec", "versions").index(i).child(name), on == (name == preserveField), isBool}
			agree = agree && isBool && (len(all) == 0 || s.preserve == all[0].preserve)
			all = append(all, s)
		}
	}
	agree = agree && len(all) == len(rawVersions(c.d.tree))
	for i, s := range all {
		n := note{severity: analysis.Error}
		now := "all versions are pruned in v1: remove it; to preserve unknown fields, set " +
			preserveKeyword + ": true in the schema of the version"
		switch {
		case c.d.beta != nil:
			now = fmt.Sprintf("all versions are pruned, or none: use spec.%s: %t", preserveField, s.preserve)
			if present := *c.d.beta.Spec.PreserveUnknownFields; s.known && (agree || present == s.preserve) {
				n.fix = removal(s.at, "remove "+s.at.token+", which has no effect")
				if present != s.preserve {
					n.fix.Message = fmt.Sprintf("write spec.%s: %t", preserveField, s.preserve)
				}
				if present != s.preserve && i == 0 {
					n.fix.Edits = append(n.fix.Edits, analysis.Edit{Op: yamledit.Set,
						Pointer: root().child("spec", preserveField).pointer(), Value: s.preserve})
				}
			}
		case s.known && !s.preserve:
			n.fix = removal(s.at, "remove "+s.at.token+", which has no effect")
		}
		c.add(supersededSpelling, s.at, n, "versions have no such field, and the API server drops it: ", now)
	}
}

// isRawJSON reports whether a schema has the format json, which a design document considered
// for values that are not pruned. For a string it is an ordinary format.
func isRawJSON(n *node) bool {
	switch n.typ() {
	case "", "object", "array":
		return n.s.Format == "json" && !n.intOrString()
	}
	return false
}

// rawJSON reports a schema with the format json.
func (c *check) rawJSON(n *node) {
	if !isRawJSON(n) {
		return
	}
	at := n.at.child("format")
	note := note{severity: analysis.Error}
	now := "set " + preserveKeyword + ": true instead"
	switch {
	case n.typ() == "array":
		now = "set " + preserveKeyword + ": true on its items instead"
	case n.inOperator:
		now = "set " + preserveKeyword + ": true at the field itself instead, outside of logical operators"
	case n.site == c.d.legacy:
		now = "remove it: a jsonSchema never prunes"
		note.fix = removal(at, "remove format, which has no effect")
	default:
		note.fix = &analysis.Fix{Message: "write " + preserveKeyword + ": true", Edits: []analysis.Edit{
			{Op: yamledit.Rename, Pointer: at.pointer(), To: preserveKeyword},
			{Op: yamledit.Set, Pointer: n.at.child(preserveKeyword).pointer(), Value: true},
		}}
		if n.s.XPreserveUnknownFields != nil {
			note.fix = removal(at, "remove format, which has no effect")
		}
	}
	c.add(supersededSpelling, at, note, "the format json does not exist, so the value is pruned: ", now)
}
