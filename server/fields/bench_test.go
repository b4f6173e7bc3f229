package fields

import (
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// medium returns a CRD of about 75 properties, and an object of 1.8 KB.
func medium(b *testing.B) (*crd.Definition, *unstructured.Unstructured) {
	b.Helper()
	c := testcase.Medium()
	obj := parse(b, string(c.Object))
	gvk := obj.GroupVersionKind()
	d := define(b, `{
		"metadata": {"name": "workloads.`+gvk.Group+`"},
		"spec": {
			"group": "`+gvk.Group+`", "scope": "Namespaced",
			"names": {"plural": "workloads", "singular": "workload", "kind": "`+gvk.Kind+`", "listKind": "`+gvk.Kind+`List"},
			"versions": [{"name": "`+gvk.Version+`", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": `+string(c.Schema)+`}}]
		}
	}`)
	program, err := d.Version(gvk.Version).Program()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := program.Normalize(obj.Object, schema.DecodeOptions{}); err != nil {
		b.Fatal(err)
	}
	return d, obj
}

// BenchmarkManager compares the Manager with the stock field manager, by turns. The metric x is
// the ratio of their CPU times, garbage collection included.
func BenchmarkManager(b *testing.B) {
	d, obj := medium(b)
	m := endpoint(b, d, obj.GroupVersionKind().Version, "")
	config := obj.DeepCopy()
	unstructured.RemoveNestedField(config.Object, "status")
	created := obj.DeepCopy()
	m.Update(nil, created, "creator")
	created.SetUID("1")
	applied, err := m.Apply(nil, config, "applier", false)
	if err != nil {
		b.Fatal(err)
	}
	applied.SetUID("1")

	changed := config.DeepCopy()
	if err := unstructured.SetNestedField(changed.Object, "changed", "spec", "image"); err != nil {
		b.Fatal(err)
	}
	fewer := config.DeepCopy()
	unstructured.RemoveNestedField(fewer.Object, "spec", "image")
	updated := created.DeepCopy()
	updated.Object["spec"] = changed.DeepCopy().Object["spec"]

	update := func(live, obj *unstructured.Unstructured) (ours, stock func()) {
		return func() { m.Update(live, obj.DeepCopy(), "writer") }, func() { m.stock.UpdateNoErrors(live, obj.DeepCopy(), "writer") }
	}
	apply := func(live, config *unstructured.Unstructured) (ours, stock func()) {
		return func() {
				if _, err := m.Apply(live, config, "applier", true); err != nil {
					b.Fatal(err)
				}
			}, func() {
				if _, err := m.stock.Apply(live, config, "applier", true); err != nil {
					b.Fatal(err)
				}
			}
	}
	for _, work := range []struct {
		name      string
		operation func(live, obj *unstructured.Unstructured) (ours, stock func())
		live, obj *unstructured.Unstructured
	}{
		{"create", update, m.empty(), obj},
		{"update", update, created, updated},
		{"update-unchanged", update, created, created},
		{"apply-create", apply, m.empty(), config},
		{"apply", apply, applied, changed},
		{"apply-removal", apply, applied, fewer},
		{"apply-unchanged", apply, applied, config},
	} {
		b.Run(work.name, func(b *testing.B) {
			ours, stock := work.operation(work.live, work.obj)
			var spent, theirs time.Duration
			for b.Loop() {
				start := cpuTime(b)
				ours()
				mid := cpuTime(b)
				stock()
				spent, theirs = spent+mid-start, theirs+cpuTime(b)-mid
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ours-ns/op")
			b.ReportMetric(float64(theirs.Nanoseconds())/float64(b.N), "stock-ns/op")
			b.ReportMetric(float64(theirs)/float64(spent), "x")
		})
	}
}

// cpuTime returns the CPU time of the process: on a busy machine, the time on the clock says
// little.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
