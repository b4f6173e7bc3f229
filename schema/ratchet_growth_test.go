package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestRatchetingGrowth counts the values that an update compares with the old ones, and the old
// items that it indexes. Each is visited at most three times, also where the values on all levels have violations.
func TestRatchetingGrowth(t *testing.T) {
	nested := func(n int, leaf string) string { return strings.Repeat(`{"a":`, n) + leaf + strings.Repeat(`}`, n) }
	schemaOf := func(n int) string {
		return strings.Repeat(`{"type":"object","required":["b"],"properties":{"b":{"type":"integer"},"a":`, n) + `{"type":"integer","maximum":1}` + strings.Repeat(`}}`, n)
	}
	lists := func(n int, leaf string) string {
		return strings.Repeat(`{"a":[{"k":"x"},{"k":"y","v":`, n) + leaf + strings.Repeat(`}]}`, n)
	}
	listSchema := func(n int) string {
		item := `{"type":"object","required":["b"],"properties":{"k":{"type":"string"},"v":`
		return strings.Repeat(`{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":`+item, n) +
			`{"type":"integer","maximum":1}` + strings.Repeat(`}}}}}`, n)
	}
	items := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return `{"a":[` + strings.Join(parts, ",") + `]}`
	}
	itemsSchema := func(int) string {
		return `{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"integer"},"n":{"type":"integer","maximum":1},"s":{"type":"string"}}}}}}`
	}
	// All items of the outer list have the key of the one old item, whose own list is long.
	duplicates := func(n int) (string, string) {
		inner := strings.TrimPrefix(items(n, `{"k":%d}`), `{"a":`)
		return items(n, `{"k":"x","l":[],"n":%d}`), `{"a":[{"k":"x","l":` + inner + `]}`
	}
	duplicatesSchema := func(int) string {
		return `{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"},"n":{"type":"integer"},
			"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"integer"}}}}}}}}}`
	}
	t.Run("V-09", func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			schema func(n int) string
			// update returns the object and the old one.
			update func(n int) (obj, old string)
			// values is the number of values for a size of 1.
			values int
			valid  bool
		}{
			{"equal on all levels", schemaOf, func(n int) (string, string) { return nested(n, "2"), nested(n, "2") }, 1, true},
			{"changed at the bottom", schemaOf, func(n int) (string, string) { return nested(n, "2"), nested(n, "3") }, 1, false},
			{"changed in a list at the bottom", listSchema, func(n int) (string, string) { return lists(n, "2"), lists(n, "3") }, 6, false},
			{"equal in lists", listSchema, func(n int) (string, string) { return lists(n, "2"), lists(n, "2") }, 6, true},
			{"changed items that are matched", itemsSchema, func(n int) (string, string) {
				return items(n, `{"k":%d,"n":2,"s":"new"}`), items(n, `{"k":%d,"n":2,"s":"old"}`)
			}, 4, true},
			{"many items that match one", duplicatesSchema, duplicates, 5, true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				for _, n := range []int{10, 100, 1000} {
					s, err := NewStructural(readSchema(t, tt.schema(n)))
					if err != nil {
						t.Fatal(err)
					}
					p, err := Compile(s)
					if err != nil {
						t.Fatal(err)
					}
					obj, old := tt.update(n)
					w := newWalker(p, context.Background())
					found := w.value(root, readObject(t, obj), correlation{readObject(t, old), true}).violations
					if (len(found) == 0) != tt.valid {
						t.Fatalf("size %d: %d violations", n, len(found))
					}
					if limit := 3 * (n*tt.values + 2); w.old.visited == 0 || w.old.visited > limit {
						t.Errorf("size %d: %d comparisons, more than %d", n, w.old.visited, limit)
					}
				}
			})
		}
	})
}

func readObject(t *testing.T, text string) (obj map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}
