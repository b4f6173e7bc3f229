//go:build !small

package object

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/schema"
)

// Prune is like [Checker.Prune]. Empty objects that Kubernetes' Go types add, such as the resources of
// a container, are left out.
func (c *KindChecker) Prune(source []byte) *Pruned { return c.prune(source, false) }

// PruneStored is like [Checker.PruneStored]: some kinds are stored as another kind.
func (c *KindChecker) PruneStored(source []byte) *Pruned { return c.prune(source, true) }

func (c *KindChecker) prune(source []byte, stored bool) *Pruned {
	s := &Pruned{source: source, stored: stored}
	if err := c.decode(s); err != nil {
		s.Failures = []analysis.Finding{{Rule: RuleDecode, Severity: analysis.Error, Message: err.Error()}}
	}
	return s
}

// decode decodes the object of s.
func (c *KindChecker) decode(s *Pruned) error {
	r, err := c.request(s.source)
	if err != nil {
		return err
	}
	if r.Undecodable != nil {
		s.Failures = decodingFindings(r, Ignore)
		return nil
	}
	tree, err := jsonx.Parse(s.source)
	if err != nil {
		return err
	}
	given, _ := tree.(schema.Object)
	encode := func(stored bool) schema.Object {
		var obj schema.Object
		if obj, err = r.Encode(stored); err == nil {
			if trim(given, obj); given["status"] == nil {
				delete(obj, "status") // Go adds it
			}
		}
		return obj
	}
	s.kind = &prunedKind{name: r.Kind.Kind, changes: r.Compare().Changes, given: given, result: encode(false)}
	s.kind.changes = append(s.kind.changes, kinds.Defaulted(given, s.kind.result)...)
	if s.Object = s.kind.result; s.stored {
		s.Object = encode(true)
	}
	return err
}

// trim removes from an object the empty objects and the nulls that Go adds to the given one.
func trim(given, obj any) {
	switch obj := obj.(type) {
	case map[string]any:
		given, _ := given.(map[string]any)
		for name, value := range obj {
			before := given[name]
			trim(before, value)
			if m, ok := value.(map[string]any); before == nil && (value == nil || ok && len(m) == 0) {
				delete(obj, name)
			}
		}
	case []any:
		given, _ := given.([]any)
		for i, value := range obj {
			var before any
			if i < len(given) {
				before = given[i]
			}
			trim(before, value)
		}
	}
}

// prunedKind is what happens to an object of a built-in kind in its own version.
type prunedKind struct {
	name          string
	changes       []schema.Change
	given, result schema.Object
}

// reasons is that of [Pruned.Reasons].
func (k *prunedKind) reasons() (findings []analysis.Finding) {
	for i := range k.changes {
		change := &k.changes[i]
		f := analysis.Finding{Severity: analysis.Info, Path: change.Path.String(), Pointer: change.Path.Pointer(), Part: analysis.FieldName}
		value, filled := change.Path.Find(k.result)
		switch change.Kind {
		case schema.Pruned:
			f.Rule, f.Severity, f.Message = RuleUnknownField, analysis.Warning, fmt.Sprintf("pruned: a %s has no such field", k.name)
			if name := change.Nearest(); name != "" {
				f.Message += fmt.Sprintf("; did you mean %q?", name)
			}
		case schema.NullDropped:
			if filled {
				continue
			}
			f.Rule, f.Message = RuleNullDropped, "removed: null is the same as no value"
		case schema.Duplicate:
			f.Rule, f.Severity, f.Part = RuleDuplicateField, analysis.Warning, analysis.RepeatedName
			f.Message = "duplicate field: the last one takes effect"
		case schema.Defaulted:
			f.Rule, f.Message = RuleDefaulted, "defaulted to "+oneLine(value)
		}
		findings = append(findings, f)
	}
	return append(findings, normalized(nil, k.given, k.result)...)
}

// normalized reports the values that have another form, such as quantities.
func normalized(path schema.Path, given, result any) (findings []analysis.Finding) {
	switch result := result.(type) {
	case map[string]any:
		if given, ok := given.(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(result)) {
				if given[name] != nil {
					findings = append(findings, normalized(append(path, schema.Step{Key: name}), given[name], result[name])...)
				}
			}
			return findings
		}
	case []any:
		if given, ok := given.([]any); ok && len(given) == len(result) {
			for i := range result {
				findings = append(findings, normalized(append(path, schema.Step{Kind: schema.Index, Index: i}), given[i], result[i])...)
			}
			return findings
		}
	}
	if reflect.DeepEqual(given, result) {
		return nil
	}
	return []analysis.Finding{{Rule: RuleNormalized, Severity: analysis.Info, Path: path.String(),
		Pointer: path.Pointer(), Message: "stored as " + oneLine(result)}}
}
