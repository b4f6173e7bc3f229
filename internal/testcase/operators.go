package testcase

import "fmt"

// LogicalOperators returns a list of items that satisfy an allOf, an anyOf, a oneOf and a not with
// the given number of branches each. The list and a list of the items' names have unique
// entries. Benchmarks use it to show that the cost is linear in the number of branches and in
// the number of items.
func LogicalOperators(branches, items int) Case {
	var allOf, anyOf, oneOf, not []any
	for i := range branches {
		allOf = append(allOf, map[string]any{
			"properties": map[string]any{"name": map[string]any{"maxLength": 64 + i}},
		})
		anyOf = append(anyOf, map[string]any{
			"properties": map[string]any{"limit": map[string]any{"minimum": i * 10, "maximum": i*10 + 9}},
		})
		oneOf = append(oneOf, map[string]any{
			"properties": map[string]any{"mode": map[string]any{"enum": []string{mode(i)}}},
			"required":   []string{"mode"},
		})
		not = append(not, map[string]any{
			"properties": map[string]any{"tags": map[string]any{"minItems": 100 + i}},
		})
	}
	rule := object(map[string]any{
		"name":  str(),
		"mode":  str(),
		"limit": integer(),
		"tags":  list(str(), set()),
	}, required("name"), with("allOf", allOf), with("anyOf", anyOf), with("oneOf", oneOf), with("not", map[string]any{"anyOf": not}))

	return newCase(fmt.Sprintf("logical operators-%dx%d", branches, items), map[string]any{
		"spec": object(map[string]any{
			"names": list(str(), set()),
			"rules": list(rule, listMap("name")),
		}),
	}, `"spec":{"names":[`+repeat(items, func(j int) string {
		return fmt.Sprintf(`"rule-%d"`, j)
	})+`],"rules":[`+repeat(items, func(j int) string {
		i := j % branches
		return fmt.Sprintf(`{"name":"rule-%d","mode":%q,"limit":%d,"tags":["a","b"],"note":"unknown"}`, j, mode(i), i*10+j%10)
	})+`]}`)
}

func mode(i int) string { return fmt.Sprintf("mode-%d", i) }
