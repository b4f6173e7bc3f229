package custom

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/api"
)

// TestExpensiveColumns checks that a column does not look at more values than the limit, in an object for
// which it would take hours, and that it shows what it has shown below the limit.
func TestExpensiveColumns(t *testing.T) {
	t.Parallel()
	deep := func(depth int) map[string]any {
		value := map[string]any{"x": "end"}
		for range depth {
			value = map[string]any{"x": value}
		}
		return value
	}
	list := func(depth int) any {
		value := any("end")
		for range depth {
			value = []any{value}
		}
		return value
	}
	wide := make([]any, 1000)
	for i := range wide {
		wide[i] = map[string]any{"a": int64(i), "b": list(3)}
	}
	for _, test := range []struct {
		path, typ string
		value     any
		want      any
	}{
		{".spec..x..x..x..x..x", "string", deep(300), tooExpensive},
		{".spec..x..x..x..x..x", "integer", deep(300), tooExpensive},
		{".spec" + strings.Repeat("[0,0]", 60), "string", list(60), tooExpensive},
		{".spec[0]" + strings.Repeat("['x','x']", 60), "string", []any{deep(60)}, tooExpensive},
		{".spec..[?(@..x..x..x)]", "string", []any{deep(300)}, tooExpensive},
		{".metadata.name}" + strings.Repeat("{range .spec[*]}", 9) + "{.metadata.name", "string", slices.Repeat([]any{wide}, 1000), tooExpensive},
		{".spec..x..x", "string", strings.Repeat("text", maxVisits), tooExpensive},
		// Below the limit, and paths that look at each value once.
		{".spec..x..x..x", "string", deep(3), `{"x":"end"}`},
		{".spec..x", "string", deep(1), `{"x":"end"}`},
		{".spec..x", "string", slices.Repeat([]any{"text"}, 2*maxVisits), nil},
		{".spec[?(@.a==999)].a", "integer", wide, int64(999)},
		{".spec[*].b[*][-1][0]", "string", wide, "end"},
		{".spec[*]['a','b']", "integer", wide, int64(0)},
		{".spec[-1].a}{.spec[*].a", "integer", wide, int64(999)},
		{".metadata.name}{range .spec[*]}{.a}{end}{.metadata.name", "string", wide, "a"},
	} {
		table := newTable([]api.CustomResourceColumnDefinition{{Name: "C", Type: test.typ, JSONPath: test.path}})
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": test.value}}
		for range 2 {
			got, err := table.ConvertToTable(t.Context(), obj, nil)
			if err != nil || len(got.Rows[0].Cells) != 2 || got.Rows[0].Cells[1] != test.want {
				t.Errorf("%.60s: got %.200v, %v, want %v", test.path, got.Rows, err, test.want)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newTable(nil).ConvertToTable(ended, &unstructured.Unstructured{Object: deep(1)}, nil); !apierrors.IsTimeout(err) {
		t.Errorf("for a request that has ended: %v", err)
	}
}
