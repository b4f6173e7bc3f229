package custom

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	serverrest "espalier.dev/server/rest"
)

// tree parses an object.
func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := jsonx.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

// TestScalePaths checks what a Scale shows of an object, and what it sets.
func TestScalePaths(t *testing.T) {
	t.Parallel()
	selector, none := ".status.selector", ""
	sub := &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.n", StatusReplicasPath: ".status.n", LabelSelectorPath: &selector}
	p := newScalePaths(sub)
	sub.LabelSelectorPath = &none
	if p := newScalePaths(sub); p.selector != nil {
		t.Errorf("a selector: %v", p)
	}
	for text, want := range map[string]struct {
		n, have  int32
		selector string
		found    bool
		fails    bool
	}{
		`{"spec":{"n":3},"status":{"n":2,"selector":"a=b"}}`: {3, 2, "a=b", true, false},
		`{"status":{"n":2}}`:          {0, 2, "", false, false},
		`{"spec":{"n":"3"}}`:          {fails: true},
		`{"status":{"n":"3"}}`:        {fails: true},
		`{"status":{"selector":[1]}}`: {fails: true},
	} {
		got, found, err := p.Scale(&unstructured.Unstructured{Object: tree(t, text)})
		if (err != nil) != want.fails || found != want.found {
			t.Errorf("%s: %v, %v, %v", text, got, found, err)
			continue
		}
		if err == nil && (got.Spec.Replicas != want.n || got.Status.Replicas != want.have || got.Status.Selector != want.selector) {
			t.Errorf("%s: %v", text, got)
		}
	}
	if _, _, err := p.Scale(&corev1.Pod{}); err == nil {
		t.Error("a pod is scaled")
	}
	if err := p.NoReplicas(); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `the spec replicas field ".spec.n" does not exist`) {
		t.Error(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := p.SetScale(u, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 7}}); err != nil || !reflect.DeepEqual(u.Object, tree(t, `{"spec":{"n":7}}`)) {
		t.Error(u, err)
	}
	if err := p.SetScale(u, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: serverrest.UnsetReplicas}}); !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
	if err := p.SetScale(&unstructured.Unstructured{Object: map[string]any{"spec": "x"}}, &autoscalingv1.Scale{}); err == nil {
		t.Error("replicas were set in a string")
	}
}

// TestTable checks the columns and cells of a table.
func TestTable(t *testing.T) {
	t.Parallel()
	column := func(name, typ, path string) api.CustomResourceColumnDefinition {
		return api.CustomResourceColumnDefinition{Name: name, Type: typ, JSONPath: path}
	}
	columns := []api.CustomResourceColumnDefinition{
		column("S", "string", ".s"), column("I", "integer", ".i"), column("F", "integer", ".f"), column("N", "number", ".i"), column("M", "number", ".f"), column("B", "boolean", ".b"),
		column("D", "date", ".s"), column("X", "integer", ".s"), column("Y", "boolean", ".s"), column("Z", "number", ".s"), column("O", "string", ".o"), column("Missing", "string", ".missing"),
		column("E", "date", ".i"), column("Odd", "odd", ".s"),
	}
	obj := &unstructured.Unstructured{Object: tree(t, `{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a","resourceVersion":"5"},"s":"x","i":3,"f":2.5,"b":true,"o":{"a":1}}`)}
	got, err := newTable(columns).ConvertToTable(t.Context(), obj, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{"a", "x", int64(3), int64(2), float64(3), 2.5, true, "<invalid>", nil, nil, nil, `{"a":1}`, nil, nil, nil}
	if len(got.Rows) != 1 || !reflect.DeepEqual(got.Rows[0].Cells, want) || got.ResourceVersion != "5" {
		t.Errorf("got %v, %s", got.Rows, got.ResourceVersion)
	}
	if len(got.ColumnDefinitions) != len(want) || got.ColumnDefinitions[1].Description != "Custom resource definition column (in JSONPath format): .s" {
		t.Errorf("got %v", got.ColumnDefinitions)
	}
	columns[0].Description = "described"
	columns[2].JSONPath = "{"
	list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "7", "continue": "c", "remainingItemCount": int64(4)}}, Items: []unstructured.Unstructured{*obj, *obj}}
	got, err = newTable(columns).ConvertToTable(t.Context(), list, &metav1.TableOptions{})
	if err != nil || len(got.Rows) != 2 || len(got.Rows[0].Cells) != 3 || got.ResourceVersion != "7" || got.Continue != "c" || got.RemainingItemCount == nil || got.ColumnDefinitions[1].Description != "described" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := newTable(nil).ConvertToTable(t.Context(), obj, &metav1.TableOptions{NoHeaders: true}); err != nil || got.ColumnDefinitions != nil || len(got.Rows[0].Cells) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	scale := serverrest.NewScale(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, 3, 2, "")
	if got, err := newScaleTable().ConvertToTable(t.Context(), scale, nil); err != nil || !reflect.DeepEqual(got.Rows[0].Cells[:3], []any{"a", int64(3), int64(2)}) {
		t.Errorf("got %v, %v", got, err)
	}
	named := newTable([]api.CustomResourceColumnDefinition{column("Name", "string", ".metadata.name"), column("Spec", "string", ".spec.nodeName")})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}}
	if got, err := named.ConvertToTable(t.Context(), pod, nil); err != nil || !reflect.DeepEqual(got.Rows[0].Cells, []any{"a", "a", nil}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// failing is a writer that fails after a number of writes.
type failing struct{ left int }

var errWrite = errors.New("the client has gone")

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errWrite
	}
	return len(p), nil
}

// TestGzipStreamFails checks that all writes of a stream report that the client has gone.
func TestGzipStreamFails(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), storedBytes+1)
	succeeded := false
	for left := 1; left < 20; left++ {
		w := &failing{left}
		z := newGzipStream(w, newDeflaters())
		var err error
		for _, do := range []func() error{
			func() error { _, err := z.Write([]byte("a")); return err }, z.flush, z.store, z.store, z.flush,
			func() error {
				n, err := z.Write(large)
				if (err == nil) != (n == len(large)) || n != 0 && n != storedBytes && n != len(large) {
					t.Errorf("%d writes: %d bytes, %v", left, n, err)
				}
				return err
			},
			z.Close,
		} {
			if err = do(); (err != nil) != (w.left < 0) {
				t.Errorf("%d writes: the client has gone: %v, %v", left, w.left < 0, err)
			}
			if err != nil {
				break
			}
		}
		if failed := w.left < 0; failed != errors.Is(err, errWrite) {
			t.Errorf("%d writes: %v", left, err)
		} else if !failed {
			succeeded = true
		}
	}
	if !succeeded {
		t.Error("no stream was written")
	}
	var _ io.Writer = &gzipStream{}
}
