package rest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// awkward are texts whose YAML depends on where they are, or that look like parts of a list.
func awkward() []string {
	return []string{
		"", " ", "a", "a\n", "a\n\n", "\na", " a\nb", "a \nb", "a\tb", "- a", "# a", "a: b", "a #b", "'", "\"", "null", "true", "1", "0x1", "1e3", "~", "=", "<<",
		"items: []", "\nitems: []\n", "x\nitems: []\ny", "\n  \"items\": []", "---", "...", "<b>&amp;</b>", "é", "\u2028", "𝄞", "\r\n", "a\x00b", "\\",
		strings.Repeat("word ", 40), strings.Repeat("word ", 40) + "\n", strings.Repeat("x", 300), strings.Repeat("long line with words ", 10) + "\n" + strings.Repeat("another ", 30),
		strings.Repeat("\"quoted\" ", 30), strings.Repeat("é ", 100), strings.Repeat("# ", 80), "2001-01-01", "1:20",
	}
}

// lists returns lists of objects, trees and structs.
func lists() map[string]runtime.Object {
	maps, trees := &corev1.ConfigMapList{}, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "g/v1", "kind": "TreeList", "metadata": map[string]any{"resourceVersion": "1", "continue": "c"}}}
	// More than are converted together.
	for i, text := range slices.Repeat(awkward(), 30) {
		maps.Items = append(maps.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Annotations: map[string]string{"a": text}}, Data: map[string]string{"x": text, fmt.Sprint(i): text}})
		trees.Items = append(trees.Items, unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "g/v1", "kind": "Tree", "metadata": map[string]any{"name": fmt.Sprint(i)}, text: text, "items": []any{},
			"list": []any{text, []any{text}, map[string]any{"a": text}, map[string]any{}, nil, true, int64(math.MaxInt64), 1.5, 1e19, 1e300, math.Copysign(0, -1), []any{}},
		}})
	}
	pods := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "token", RemainingItemCount: new(int64(3))}, Items: []corev1.Pod{{}, {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Args: awkward()}}}}}}
	one := &corev1.ConfigMapList{Items: maps.Items[:1]}
	large := one.DeepCopy()
	large.Items[0].Data["x"] = strings.Repeat("x", convertedBytes) // nothing is left to convert at the end
	one.APIVersion, one.Kind = "v1", "ConfigMapList"
	table := &metav1.Table{Rows: []metav1.TableRow{{Cells: []any{"a"}}}}
	table.Kind = "Table"
	maps.APIVersion, maps.Kind = "v1", "ConfigMapList"
	return map[string]runtime.Object{
		"maps": maps, "one": one, "large": large, "one tree": &unstructured.UnstructuredList{Object: trees.Object, Items: trees.Items[:1]}, "trees": trees, "pods": pods, "table": table, "object": &maps.Items[0], "tree": &trees.Items[0],
		"none": &corev1.ConfigMapList{Items: []corev1.ConfigMap{}}, "nil": &corev1.ConfigMapList{}, "status": &metav1.Status{Message: "a"},
		"no trees": &unstructured.UnstructuredList{Object: trees.Object},
		"raw":      &corev1.List{Items: []runtime.RawExtension{{Raw: []byte(`{"kind":"a"}`)}}},
	}
}

// writesOf counts the writes of a response.
type writesOf struct {
	text        []byte
	first, most int
}

func (w *writesOf) Write(p []byte) (int, error) {
	if len(w.text) == 0 {
		w.first = len(p)
	}
	w.most = max(w.most, len(p))
	w.text = append(w.text, p...)
	return len(p), nil
}

// TestListText checks that lists that are written item by item have the same text as those that are
// written at once.
func TestListText(t *testing.T) {
	t.Parallel()
	whole := serializer.NewCodecFactory(scheme.Scheme, serializer.WithStreamingCollectionEncodingToJSON()).SupportedMediaTypes()
	streamed := StreamLists(whole)
	type pair struct{ got, want runtime.Serializer }
	for i, info := range whole {
		pairs := map[string]pair{info.MediaType: {streamed[i].Serializer, info.Serializer}}
		if info.PrettySerializer != nil {
			pairs["pretty "+info.MediaType] = pair{streamed[i].PrettySerializer, info.PrettySerializer}
		}
		for form, p := range pairs {
			for name, list := range lists() {
				if _, tree := list.(runtime.Unstructured); (tree || name == "table") && info.MediaType == runtime.ContentTypeProtobuf {
					continue // they have no such form
				}
				var got writesOf
				var want bytes.Buffer
				wantErr := p.want.Encode(list, &want)
				if err := p.got.Encode(list, &got); err != nil || wantErr != nil {
					t.Errorf("%s of %s: %v, %v", form, name, err, wantErr)
				}
				if string(got.text) != want.String() {
					t.Errorf("%s of %s: got %s, want %s", form, name, string(got.text), want.String())
				}
				parts := info.MediaType == runtime.ContentTypeYAML || form != info.MediaType
				streams := slices.Contains([]string{"maps", "trees", "one", "one tree"}, name)
				if parts && streams && got.first > 4 || parts && name == "maps" && got.most > want.Len()/2 {
					t.Errorf("%s of %s: writes of %d bytes, the first of %d", form, name, got.most, got.first)
				}
			}
		}
	}
}

// TestListTextError checks that a list that cannot be written is an error.
func TestListTextError(t *testing.T) {
	t.Parallel()
	list := &unstructured.UnstructuredList{Object: map[string]any{"kind": "TreeList"}, Items: []unstructured.Unstructured{
		{Object: map[string]any{"kind": "Tree", "a": math.Inf(1)}},
	}}
	for _, info := range StreamLists(scheme.Codecs.SupportedMediaTypes())[:2] {
		s := info.Serializer
		if info.PrettySerializer != nil {
			s = info.PrettySerializer
		}
		// So is a list whose own fields cannot be written.
		for _, list := range []runtime.Object{list, &unstructured.UnstructuredList{Object: map[string]any{"kind": "TreeList", "a": math.Inf(1)}, Items: []unstructured.Unstructured{{}}}} {
			if err := s.Encode(list, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "unsupported value") {
				t.Errorf("%s: %v", info.MediaType, err)
			}
		}
	}
}
