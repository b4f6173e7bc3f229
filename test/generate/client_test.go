package generate

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/espaliertest"
	v1 "espalier.dev/test/generate/internal/example.com/v1"
)

// widgets returns the package of testdata/widgets.yaml.
func widgets(t *testing.T) []*generate.Package {
	t.Helper()
	text, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, problems := generate.Build([]generate.Input{input(t, "widgets.yaml", text)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return all
}

// TestCommitted checks that the types in internal are those that are generated. With -update,
// it writes them.
func TestCommitted(t *testing.T) {
	files, problems, err := golang.Generate(widgets(t))
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if *update {
		writeFiles(t, "internal", files)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if got, err := os.ReadFile(filepath.Join("internal", name)); err != nil || string(got) != string(files[name]) {
			t.Errorf("%s is stale (%v): run go test -run TestCommitted -update", name, err)
		}
	}
}

// TestValues passes an object with empty values of all types through the Go types.
func TestValues(t *testing.T) {
	for name, text := range map[string]string{
		"S-16 empty values survive": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":0,"nothing":null,"name":"","enabled":false,"ratio":0,
			"tags":[],"labels":{},"port":0,"memory":"0","data":"","empty":{},"any":0,"config":{"known":"","other":null,"Known":[]},"template":{},"parts":[]},"status":{"ready":0}}`,
		"S-16 absent values stay absent": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"nothing":"x"}}`,
		"S-16 values": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":7,"nothing":"x","name":"n","enabled":true,"ratio":0.5,
			"tags":["a"],"labels":{"a":"b"},"port":"http","memory":"1Gi","since":"2020-01-02T03:04:05Z","data":"YQ==","any":[1,{"a":null}],
			"config":{"known":"k","other":{"deep":[1]}},"template":{"apiVersion":"v1","kind":"Pod","spec":{"x":1}},"parts":[{"name":"p","count":3}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var w v1.Widget
			if err := json.Unmarshal([]byte(text), &w); err != nil {
				t.Fatal(err)
			}
			copied := w.DeepCopy()
			if !reflect.DeepEqual(copied, &w) {
				t.Errorf("the copy differs: %+v", copied)
			}
			got, err := json.Marshal(copied)
			if err != nil {
				t.Fatal(err)
			}
			var want, have any
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(got, &have); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(want, have) {
				t.Errorf("got\n%s\nwant\n%s", got, text)
			}
		})
	}
}

// TestDeepCopy changes a copy and expects the original to stay as it is.
func TestDeepCopy(t *testing.T) {
	w := &v1.Widget{Spec: v1.WidgetSpec{
		Name: new("a"), Tags: []v1.WidgetSpecTagsItem{"a"}, Labels: map[string]string{"a": "b"},
		Parts:  []v1.WidgetSpecPartsItem{{Name: "a", Count: new(1)}},
		Config: &v1.WidgetSpecConfig{Known: new("a")},
	}}
	before, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	c := w.DeepCopyObject().(*v1.Widget)
	*c.Spec.Name, c.Spec.Tags[0], c.Spec.Labels["a"], *c.Spec.Parts[0].Count, *c.Spec.Config.Known = "x", "x", "x", 2, "x"
	after, err := json.Marshal(w)
	if err != nil || string(before) != string(after) {
		t.Errorf("the original has changed from %s to %s (%v)", before, after, err)
	}
}

// TestClient uses generated types with a controller-runtime client and a server: create, watch,
// apply, update of the status, and list.
func TestClient(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	ctx := context.Background()
	server := espaliertest.Start(t, espaliertest.WithCRDs("testdata/widgets.yaml"))
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(server.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := c.Watch(ctx, &v1.WidgetList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()

	w := &v1.Widget{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: v1.WidgetSpec{
		Size: 0, Name: new(""), Enabled: new(false), Tags: []v1.WidgetSpecTagsItem{}, Port: new(intstr.FromString("http")), Memory: new(resource.MustParse("1Gi")),
		Parts: []v1.WidgetSpecPartsItem{{Name: "p"}},
	}}
	sent := w.Spec.DeepCopy()
	if err := c.Create(ctx, w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(specJSON(t, sent), specJSON(t, &w.Spec)) {
		t.Errorf("created %v, got %v", specJSON(t, sent), specJSON(t, &w.Spec))
	}
	event := <-watcher.ResultChan()
	if seen, ok := event.Object.(*v1.Widget); !ok || event.Type != watch.Added || seen.Name != "a" || seen.Spec.Enabled == nil || *seen.Spec.Enabled {
		t.Errorf("got event %s %+v", event.Type, event.Object)
	}

	applied := &v1.Widget{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: v1.WidgetSpec{
		Size: 3, Parts: []v1.WidgetSpecPartsItem{{Name: "q", Count: new(1)}},
	}}
	text, err := json.Marshal(applied)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, u); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(w), w); err != nil {
		t.Fatal(err)
	}
	if w.Spec.Size != 3 || len(w.Spec.Parts) != 2 || w.Spec.Parts[1].Name != "q" || *w.Spec.Parts[1].Count != 1 {
		t.Errorf("after apply: %v", specJSON(t, &w.Spec))
	}
	w.Status = &v1.WidgetStatus{Ready: new(0)}
	if err := c.Status().Update(ctx, w); err != nil {
		t.Fatal(err)
	}
	var list v1.WidgetList
	if err := c.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Status == nil || list.Items[0].Status.Ready == nil || *list.Items[0].Status.Ready != 0 {
		t.Errorf("got list %+v", list)
	}
}

func specJSON(t *testing.T, spec *v1.WidgetSpec) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
