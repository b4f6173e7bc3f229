package oracle

import (
	"encoding/json"
	"fmt"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	v2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"

	engine "espalier.dev/schema"
)

// compareForms compares the derived forms of a schema that the reference has too: converted
// back to JSON Schema, unfolded, relaxed for OpenAPI v2, and without value validations.
func compareForms(ref *structuralschema.Structural, ours *engine.Structural, structural bool, report func(what, ref, ours string)) {
	if !structural {
		// The reference loses keywords that structural schemas do not allow.
		return
	}
	form := func(what string, ref func() *structuralschema.Structural, ours func() *engine.Structural) {
		var refText, ourText string
		if guard(func() { refText = refForm(ref()) }) != "" {
			return // the reference panics: nothing to compare
		}
		if g := guard(func() { ourText = ourForm(ours()) }); g != "" {
			report(what, "no panic", g)
			return
		}
		if refText != ourText {
			report(what, refText, ourText)
		}
	}
	form("form", ref.DeepCopy, func() *engine.Structural { return ours })
	form("unfolded form",
		func() *structuralschema.Structural { return ref.DeepCopy().Unfold() },
		func() *engine.Structural { return ours.Unfold(engine.Kubernetes) })
	form("v2 form",
		func() *structuralschema.Structural { return v2.ToStructuralOpenAPIV2(ref.DeepCopy().Unfold()) },
		func() *engine.Structural { return ours.Unfold(engine.Kubernetes).WeakenForOpenAPIV2(engine.Kubernetes) })

	// In this form the engine expands embedded resources, as the design documents specify.
	embedded := false
	v := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		embedded = embedded || s.XEmbeddedResource
		return false
	}}
	v.Visit(ref)
	if !embedded {
		form("form without value validations",
			func() *structuralschema.Structural { s := ref.StripValueValidations(); stripRules(s); return s },
			ours.WithoutValueValidations)
	}
}

func refForm(s *structuralschema.Structural) string {
	return canonical(s.ToKubeOpenAPI())
}

func ourForm(s *engine.Structural) string {
	return canonical(s.ToJSONSchemaProps())
}

// canonical formats a schema so that equal schemas have equal text.
func canonical(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("not JSON: %v", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(b, &tree); err != nil {
		return fmt.Sprintf("not JSON: %v", err)
	}
	dropUnwritten(tree, false)
	return string(mustJSON(tree))
}

// dropUnwritten removes what the reference does not write: additionalProperties in logical
// operators, which NestedValueValidation.toKubeOpenAPI in pkg/apiserver/schema/kubeopenapi.go
// loses, and empty examples, which spec.SwaggerSchemaProps of kube-openapi omits.
func dropUnwritten(s map[string]any, nested bool) {
	if nested {
		delete(s, "additionalProperties")
	}
	switch example := s["example"].(type) {
	case map[string]any:
		if len(example) == 0 {
			delete(s, "example")
		}
	case []any:
		if len(example) == 0 {
			delete(s, "example")
		}
	case string:
		if example == "" {
			delete(s, "example")
		}
	}
	subschemas(s, func(sub map[string]any, operator bool) { dropUnwritten(sub, nested || operator) })
}
