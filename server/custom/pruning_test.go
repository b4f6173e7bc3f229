package custom_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestPruningCost compares the memory that the creation of an object allocates with and without
// pruning. BenchmarkPruning compares the CPU time, which a test cannot rely on.
func TestPruningCost(t *testing.T) {
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("P-23 "+sem.String(), func(t *testing.T) {
			w := newWorkloads(t, sem)
			// The process has the client and etcd too. Requests alternate, and medians are compared:
			// what happens in the background affects few requests of both kinds.
			const rounds, warmUp, most = 200, 20, 1.05
			var samples [2][2][]float64 // bytes and objects, with and without pruning
			for i := range rounds + warmUp {
				for _, preserve := range []bool{i%2 == 0, i%2 != 0} {
					body := w.next(preserve)
					bytes, objects := heapAllocations()
					w.send(preserve, body)
					bytesNow, objectsNow := heapAllocations()
					if k := index(preserve); i >= warmUp {
						samples[0][k] = append(samples[0][k], float64(bytesNow-bytes))
						samples[1][k] = append(samples[1][k], float64(objectsNow-objects))
					}
				}
			}
			for i, what := range []string{"bytes", "objects"} {
				pruning, preserving := median(samples[i][0]), median(samples[i][1])
				t.Logf("a creation allocates %.0f %s with pruning, %.0f without", pruning, what, preserving)
				if pruning > most*preserving {
					t.Errorf("with pruning, a creation allocates %.3f times as many %s as without", pruning/preserving, what)
				}
			}
		})
	}
}

// BenchmarkPruning compares the CPU time of the creation of an object with and without pruning:
//
//	go test ./server/custom -run '^$' -bench Pruning -benchtime 4000x
//
// The CPU time of the process includes the client and etcd, as the throughput that a client sees
// does. Single requests alternate, and medians are compared.
func BenchmarkPruning(b *testing.B) {
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		b.Run(sem.String(), func(b *testing.B) {
			w := newWorkloads(b, sem)
			for i := range 200 {
				w.send(i%2 == 0, w.next(i%2 == 0))
			}
			var samples [2][]float64
			for i := 0; b.Loop(); i++ {
				for _, preserve := range []bool{i%2 == 0, i%2 != 0} {
					body := w.next(preserve)
					before := processCPU(b)
					w.send(preserve, body)
					samples[index(preserve)] = append(samples[index(preserve)], float64(processCPU(b)-before))
				}
			}
			pruning, preserving := median(samples[0]), median(samples[1])
			b.ReportMetric(pruning/1e3, "pruning-µs")
			b.ReportMetric(preserving/1e3, "preserving-µs")
			b.ReportMetric(pruning/preserving, "ratio")
		})
	}
}

func index(preserve bool) int {
	if preserve {
		return 1
	}
	return 0
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// heapAllocations returns what the process has allocated, in bytes and in objects.
func heapAllocations() (bytes, objects uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m) // exact, unlike the package metrics
	return m.TotalAlloc, m.Mallocs
}

// workloads creates the same object as two kinds: one prunes it, and one preserves all of it. The
// object has no unknown fields, so that both store the same.
type workloads struct {
	*servertest.Script
	spec    any
	created int
}

func newWorkloads(t testing.TB, sem schema.Semantics) *workloads {
	o := servertest.Options(t)
	o.Semantics = sem
	w := &workloads{Script: servertest.NewScript(t, servertest.Run(t, o))}
	var original map[string]any
	if err := json.Unmarshal(testcase.Medium().Object, &original); err != nil {
		t.Fatal(err)
	}
	for _, preserve := range []bool{true, false} {
		if err := w.Write("create", workloadCRD(t, preserve), ""); err != nil || w.Last.Code != http.StatusCreated {
			t.Fatal(err, w.Last.Code, string(w.Last.Body))
		}
		// One kind prunes at all levels, and the other at none.
		w.send(preserve, w.body(preserve, "original", original["spec"]))
		for _, path := range []string{"autoscale", "ports.1.nodePort", "env.1.valueFrom.secretKeyRef.version", "probe.successThreshold",
			"tolerations.0.reason", "storage.encrypted", "notify.channel"} {
			if _, found := servertest.Field(w.Last.Object["spec"], path); found != preserve {
				t.Fatalf("preserve %t: %s is there: %t", preserve, path, found)
			}
		}
	}
	w.spec = w.Last.Object["spec"]
	return w
}

// next returns the body of another object.
func (w *workloads) next(preserve bool) []byte {
	w.Helper()
	w.created++
	return w.body(preserve, fmt.Sprintf("object-%d", w.created), w.spec)
}

func (w *workloads) body(preserve bool, name string, spec any) []byte {
	w.Helper()
	body, err := json.Marshal(map[string]any{
		"apiVersion": workloadGroup + "/v1", "kind": workloadKind(preserve),
		"metadata": map[string]any{"name": name}, "spec": spec,
	})
	if err != nil {
		w.Fatal(err)
	}
	return body
}

// send creates an object.
func (w *workloads) send(preserve bool, body []byte) {
	w.Helper()
	path := "/apis/" + workloadGroup + "/v1/namespaces/shop/" + strings.ToLower(workloadKind(preserve)) + "s"
	w.Last = w.Do(http.MethodPost, path, body, "application/json")
	if w.Last.Code != http.StatusCreated {
		w.Fatal(w.Last.Code, string(w.Last.Body))
	}
}

const workloadGroup = "bench.espalier.dev"

func workloadKind(preserve bool) string {
	if preserve {
		return "PreservedWorkload"
	}
	return "PrunedWorkload"
}

// workloadCRD returns the CRD of the medium test case. With preserve, it does not prune at any
// level.
func workloadCRD(t testing.TB, preserve bool) []byte {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(testcase.Medium().Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if preserve {
		preserveAll(schema)
	}
	plural := strings.ToLower(workloadKind(preserve)) + "s"
	data, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + workloadGroup},
		"spec": map[string]any{
			"group": workloadGroup, "scope": "Namespaced",
			"names":    map[string]any{"plural": plural, "kind": workloadKind(preserve)},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": schema}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// preserveAll sets x-kubernetes-preserve-unknown-fields in a schema and all schemas of objects in
// it, except that of metadata.
func preserveAll(s map[string]any) {
	properties, _ := s["properties"].(map[string]any)
	for name, child := range properties {
		if name != "metadata" {
			preserveAll(child.(map[string]any))
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if child, ok := s[keyword].(map[string]any); ok {
			preserveAll(child)
		}
	}
	if s["type"] == "object" {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
}

// processCPU returns the CPU time that the process has used.
func processCPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
