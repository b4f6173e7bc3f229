package rules_test

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

const espaliers = `
type: object
properties:
  spec:
    type: object
    required: [tiers, height]
    properties:
      tiers: {type: integer}
      height: {type: integer}
      fruit: {type: string, maxLength: 20}
    x-kubernetes-validations:
    - rule: self.height >= self.tiers * 40
      messageExpression: "string(self.tiers) + ' tiers need a height of ' + string(self.tiers * 40)"
      fieldPath: .height
    - rule: "!has(oldSelf.fruit) || self.fruit == oldSelf.fruit"
      message: a tree does not change its fruit
      reason: FieldValueForbidden
`

func structural(text string) *schema.Structural {
	var props api.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &props); err != nil {
		panic(err)
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		panic(err)
	}
	return s
}

// Rules are compiled with the schema and evaluated with everything else.
func Example() {
	program, err := schema.Compile(structural(espaliers), schema.WithRules(rules.Compiler()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	tree := schema.Object{"spec": map[string]any{"tiers": int64(4), "height": int64(150), "fruit": "pear"}}
	for _, err := range program.Validate(ctx, tree, nil).FieldErrors() {
		fmt.Println("create:", err)
	}
	grown := schema.Object{"spec": map[string]any{"tiers": int64(4), "height": int64(180), "fruit": "apple"}}
	for _, err := range program.Validate(ctx, grown, tree).FieldErrors() {
		fmt.Println("update:", err)
	}
	// Output:
	// create: spec.height: Invalid value: 4 tiers need a height of 160
	// update: spec: Forbidden: a tree does not change its fruit
}

// Check estimates what rules can cost, and says what would make them cheap enough.
func ExampleCheck() {
	report := rules.Check(structural(`
type: object
properties:
  branches:
    type: array
    items:
      type: object
      properties:
        name: {type: string, maxLength: 60}
      x-kubernetes-validations:
      - rule: self.name.matches('^[a-z]+$')
`), rules.CheckOptions{Remedies: true})
	for _, r := range report.Rules() {
		fmt.Printf("%s: %s\n", r.Path, r.Source.Rule)
		fmt.Println("too expensive:", r.Cost.Exceeded(), "because of", r.Cost.Unbounded)
		for _, remedy := range r.Cost.Remedies {
			fmt.Println("try", remedy)
		}
	}
	// Output:
	// .properties[branches].items: self.name.matches('^[a-z]+$')
	// too expensive: true because of [.properties[branches]]
	// try .properties[branches].maxItems: 192307
}
