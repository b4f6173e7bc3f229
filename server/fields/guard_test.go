package fields

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TestApplyOrder checks that lists in any order are merged without the stock field manager, with
// the same result.
func TestApplyOrder(t *testing.T) {
	t.Parallel()
	d := define(t, widgets)
	m := endpoint(t, d, "v1", "")
	r := rand.New(rand.NewPCG(1, 2))
	random := func() (tags, ports []any) {
		for _, i := range r.Perm(6)[:1+r.IntN(6)] {
			tags = append(tags, fmt.Sprint("t", i))
		}
		for _, i := range r.Perm(5)[:1+r.IntN(5)] {
			port := map[string]any{"port": int64(i)}
			if r.IntN(2) == 0 {
				port["protocol"] = "UDP"
			}
			if r.IntN(2) == 0 {
				port["name"] = fmt.Sprint("n", r.IntN(2))
			}
			ports = append(ports, port)
		}
		return tags, ports
	}
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	for i := range rounds {
		live, config := widget(t, "v1", `{}`), widget(t, "v1", `{}`)
		for _, u := range []*unstructured.Unstructured{live, config} {
			spec(u.Object)["tags"], spec(u.Object)["ports"] = random()
		}
		if err := m.Update(nil, live, "creator"); err != nil {
			t.Fatal(err)
		}
		live.SetUID("1")
		got := m.apply(live, config, "applier", true)
		if got == nil {
			t.Fatalf("%d: left to the stock field manager: %s", i, text(t, config))
		}
		want, err := m.stock.Apply(live.DeepCopy(), config.DeepCopy(), "applier", true)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := withoutTimes(got, m.empty()), withoutTimes(want.(*unstructured.Unstructured), m.empty()); !reflect.DeepEqual(got, want) {
			t.Fatalf("%d: %s applied to %s:\ngot  %s\nwant %s", i, text(t, config), text(t, live), text(t, got), text(t, want))
		}
	}
}

// lists returns a widget with n tags and n ports, in an order.
func lists(t *testing.T, n int, at func(i int) int) *unstructured.Unstructured {
	t.Helper()
	u := widget(t, "v1", `{}`)
	tags, ports := make([]any, n), make([]any, n)
	for i := range n {
		tags[i], ports[i] = fmt.Sprintf("t%06d", at(i)), map[string]any{"port": int64(at(i)), "protocol": "TCP"}
	}
	spec(u.Object)["tags"], spec(u.Object)["ports"] = tags, ports
	return u
}

// TestApplyReversed checks that a large list in another order is merged, and that this needs a
// number of allocations that grows with the list, not with its square.
func TestApplyReversed(t *testing.T) { //nolint:paralleltest // counts allocations
	m := endpoint(t, define(t, widgets), "v1", "")
	allocations := func(n int) float64 {
		live := lists(t, n, func(i int) int { return i })
		config := lists(t, n, func(i int) int { return n - 1 - i })
		if err := m.Update(nil, live, "creator"); err != nil {
			t.Fatal(err)
		}
		live.SetUID("1")
		return testing.AllocsPerRun(1, func() {
			got := m.apply(live, config, "applier", true)
			if got == nil {
				t.Fatal("left to the stock field manager")
			}
			if spec(got.Object)["tags"].([]any)[0] != spec(config.Object)["tags"].([]any)[0] {
				t.Error("the order is not that of the configuration")
			}
		})
	}
	if few, many := allocations(5_000), allocations(10_000); many > 3*few {
		t.Errorf("%v allocations for 5000 items, %v for 10000", few, many)
	}
}

// TestTooManyItems checks which objects are not left to the stock field manager.
func TestTooManyItems(t *testing.T) {
	if testing.Short() {
		t.Skip("tracks the fields of large objects")
	}
	t.Parallel()
	m := endpoint(t, define(t, widgets), "v1", "")
	// An unusual key makes the stock field manager merge the list.
	unusual := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		spec(u.Object)["limits"] = map[string]any{"x": "y"}
		spec(u.Object)["tags"] = append(spec(u.Object)["tags"].([]any), "é")
		return u
	}
	reversed := func(n int) *unstructured.Unstructured {
		return unusual(lists(t, n, func(i int) int { return n - i }))
	}
	for name, u := range map[string]*unstructured.Unstructured{
		"reversed":        reversed(1_000),
		"sorted and long": unusual(lists(t, 8_000, func(i int) int { return i })),
	} {
		if _, err := m.Apply(nil, u, "applier", true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	u := reversed(10_000)
	_, err := m.Apply(nil, u, "applier", true)
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), ".spec.ports has 10000 items, too many to track") {
		t.Errorf("got %v", err)
	}
	if err := m.Update(nil, u, "writer"); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("got %v", err)
	}
	// A stored object that is too wide can be updated, and its entries stay.
	live := u.DeepCopy()
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "before", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1"}})
	if err := m.Update(live, u, "writer"); err != nil || !reflect.DeepEqual(u.GetManagedFields(), live.GetManagedFields()) {
		t.Errorf("got %v and %v", err, u.GetManagedFields())
	}

	b := &Bounded{TypeConverter: applyconfigurations.NewTypeConverter(scheme.Scheme)}
	check := func(obj runtime.Object) error { return b.Check(obj, obj.GetObjectKind().GroupVersionKind()) }
	configMap := func(n int) *corev1.ConfigMap {
		c := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{}}
		for i := range n {
			c.Data[fmt.Sprint("a", i)] = ""
		}
		return c
	}
	if err := check(configMap(29_000)); err != nil {
		t.Error(err)
	}
	if err := check(configMap(30_000)); err == nil || err.Error() != ".data has 30000 entries, too many to track their field managers: use fewer" {
		t.Errorf("got %v", err)
	}
	if _, err := b.ObjectToTyped(configMap(30_000)); !IsTooManyItems(err) {
		t.Errorf("got %v", err)
	}
	// Several lists add up.
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	for i := range 20 {
		c := corev1.Container{Name: fmt.Sprint("c", i)}
		for j := range 2000 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("e%06d", 2000-j)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	if err := check(pod); err == nil || !strings.Contains(err.Error(), ".spec.containers[].env has 2000 items") {
		t.Errorf("got %v", err)
	}
	for i := range pod.Spec.Containers {
		slices.Reverse(pod.Spec.Containers[i].Env)
	}
	if err := check(pod); err != nil {
		t.Error(err)
	}
}

func TestInversions(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		keys := make([][]value.Value, r.IntN(40))
		for i := range keys {
			keys[i] = []value.Value{value.NewValueInterface(int64(r.IntN(20)))}
		}
		want := 0
		for i := range keys {
			for j := range i {
				if value.Compare(keys[j][0], keys[i][0]) > 0 {
					want++
				}
			}
		}
		if got := inversions(keys); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}
