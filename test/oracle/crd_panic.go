package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// checkAlone checks the product's answer to a CRD on which the reference panics, and returns
// what is wrong with it. The reference panics while it looks at rules and selectable fields,
// so it is asked about the CRD without them: the product must find the same problems and may
// find others only in rules, in the defaults that rules are evaluated on, and in selectable
// fields.
func (j *CRDComparer) checkAlone(c CRDCase) (wrong string) {
	var ours Verdict
	if panicked := guard(func() { ours = j.Ours(c) }); panicked != "" {
		return panicked
	}
	theirs := j.Reference(CRDCase{Name: c.Name, New: withoutPanics(c.New), Old: withoutPanics(c.Old)})
	if theirs.Panicked {
		return "the reference panics also without rules and selectable fields"
	}
	if (ours.Undecodable == nil) != (theirs.Undecodable == nil) {
		return fmt.Sprintf("ours cannot decode: %v, theirs cannot decode: %v", ours.Undecodable, theirs.Undecodable)
	}
	for _, e := range theirs.Errors {
		if !slices.Contains(ours.Errors, e) {
			return "missing: " + e
		}
	}
	for _, e := range ours.Errors {
		if !slices.Contains(theirs.Errors, e) && !slices.ContainsFunc(panicParts, func(part string) bool { return strings.Contains(e, part) }) {
			return "unexpected: " + e
		}
	}
	return ""
}

// panicParts are parts of the errors about fields that withoutPanics removes. The last one is
// the error about a schema without structural form, in which selectable fields cannot be
// looked up.
var panicParts = []string{"x-kubernetes-validations", "selectableFields", ".default", `schema.openAPIV3Schema: Invalid value: ""`}

// withoutPanics returns a copy of a CRD without the fields on which the reference panics.
// Schemas that differ only in rules must stay different, because an update that does not
// change a schema is not validated: so the description of a schema holds what was removed.
func withoutPanics(crd map[string]any) map[string]any {
	if crd == nil {
		return nil
	}
	crd = clone(crd)
	var removed []any
	var remove func(v any)
	remove = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if rules, ok := v["x-kubernetes-validations"]; ok {
				removed = append(removed, rules)
				delete(v, "x-kubernetes-validations")
			}
			delete(v, "selectableFields")
			for _, k := range sortedKeys(v) {
				schema, ok := v[k].(map[string]any)
				if k != "openAPIV3Schema" || !ok {
					remove(v[k])
					continue
				}
				removed = nil
				remove(schema)
				if removed != nil {
					schema["description"] = string(encode(removed))
				}
			}
		case []any:
			for _, x := range v {
				remove(x)
			}
		}
	}
	remove(crd)
	return crd
}

// panicking is a generated schema on which the reference panics; stored is as in Accepts.
type panicking struct {
	schema map[string]any
	stored bool
}

// crdCase returns a CRD with the schema that is created, or, if stored is set, updated
// without a change.
func crdCase(schema map[string]any, stored bool) CRDCase {
	c := CRDCase{New: object(
		"apiVersion", "apiextensions.k8s.io/v1",
		"kind", "CustomResourceDefinition",
		"metadata", object("name", "things.example.com"),
		"spec", object(
			"group", testKind.Group,
			"scope", "Namespaced",
			"names", object("plural", "things", "singular", "thing", "kind", testKind.Kind, "listKind", "ThingList"),
			"versions", list(object("name", testKind.Version, "served", true, "storage", true, "schema", object("openAPIV3Schema", clone(schema)))),
		),
		"status", object("storedVersions", list(testKind.Version)),
	)}
	if stored {
		c.Old = clone(c.New)
	}
	return c
}
