package testcase

import (
	"encoding/json"
	"testing"
)

func TestCases(t *testing.T) {
	for _, tc := range []struct {
		c                   Case
		properties, objects [2]int // minimum and maximum
	}{
		{Medium(), [2]int{70, 80}, [2]int{1750, 1850}},
		{Big(), [2]int{1950, 2050}, [2]int{95_000, 105_000}},
	} {
		t.Run(tc.c.Name, func(t *testing.T) {
			n, err := Properties(tc.c.Schema)
			if err != nil {
				t.Fatal(err)
			}
			if n < tc.properties[0] || n > tc.properties[1] {
				t.Errorf("%d properties, want %v", n, tc.properties)
			}
			if size := len(tc.c.Object); size < tc.objects[0] || size > tc.objects[1] {
				t.Errorf("object of %d bytes, want %v", size, tc.objects)
			}
			var schema, object map[string]any
			if err := json.Unmarshal(tc.c.Schema, &schema); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(tc.c.Object, &object); err != nil {
				t.Fatal(err)
			}
			whole := len(mustMarshal(object))
			prune(object, schema)
			share := 1 - float64(len(mustMarshal(object)))/float64(whole)
			if share < 0.17 || share > 0.23 {
				t.Errorf("%.1f%% of the object is unknown, want a fifth", 100*share)
			}
		})
	}
}

// prune removes fields that schema does not specify, as far as these cases need it.
func prune(v any, schema map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		if schema["x-kubernetes-preserve-unknown-fields"] == true {
			return
		}
		properties, named := schema["properties"].(map[string]any)
		if !named {
			return // a map, or metadata
		}
		for k := range v {
			if s, ok := properties[k].(map[string]any); ok {
				prune(v[k], s)
			} else {
				delete(v, k)
			}
		}
	case []any:
		items, ok := schema["items"].(map[string]any)
		for i := range v {
			if ok {
				prune(v[i], items)
			}
		}
	}
}
