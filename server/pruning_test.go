package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"espalier.dev/espaliertest"
	"espalier.dev/internal/testcase"
)

// TestPruningCost compares the creation of objects with and without pruning.
func TestPruningCost(t *testing.T) {
	t.Run("P-23", func(t *testing.T) {
		if testing.Short() {
			t.Skip("sends thousands of requests")
		}
		s := newScript(t, espaliertest.Start(t, espaliertest.WithFlags("--disable-admission-plugins=NamespaceLifecycle")), &txtar.Archive{})
		for _, preserve := range []bool{false, true} {
			if err := s.write("create", workloadCRD(t, preserve), ""); err != nil || s.last.code != http.StatusCreated {
				t.Fatal(err, s.last.code, string(s.last.body))
			}
		}
		// The same object is created as both kinds. It has no unknown fields, so that both
		// store the same.
		s.last = s.do(http.MethodPost, workloadPath(false), testcase.Medium().Object, "application/json")
		if s.last.code != http.StatusCreated {
			t.Fatal(s.last.code, string(s.last.body))
		}
		spec := s.last.object["spec"]

		// The CPU time of the process includes the client and etcd, as the throughput that
		// a client sees does. Single requests alternate, and medians are compared: other
		// work on the machine affects both kinds, and a garbage collection affects few of
		// the requests. More samples are taken while the difference is too large.
		var samples [2][]time.Duration
		create := func(preserve bool, n int) time.Duration {
			body, err := json.Marshal(map[string]any{
				"apiVersion": workloadGroup + "/v1", "kind": workloadKind(preserve),
				"metadata": map[string]any{"name": fmt.Sprintf("object-%d", n)}, "spec": spec,
			})
			if err != nil {
				t.Fatal(err)
			}
			before := processCPU(t)
			a := s.do(http.MethodPost, workloadPath(preserve), body, "application/json")
			if a.code != http.StatusCreated {
				t.Fatal(a.code, string(a.body))
			}
			return processCPU(t) - before
		}
		const rounds, perRound, warmUp, most = 6, 400, 50, 1.05
		var ratio float64
		for round := range rounds {
			for i := range perRound {
				for _, preserve := range []bool{i%2 == 0, i%2 != 0} {
					k := 0
					if preserve {
						k = 1
					}
					if cost := create(preserve, round*perRound+i); round > 0 || i >= warmUp {
						samples[k] = append(samples[k], cost)
					}
				}
			}
			slices.Sort(samples[0])
			slices.Sort(samples[1])
			ratio = float64(samples[0][len(samples[0])/2]) / float64(samples[1][len(samples[1])/2])
			t.Logf("with pruning, a creation costs %.3f times as much as without", ratio)
			if ratio <= most {
				return
			}
		}
		t.Errorf("with pruning, a creation costs %.3f times as much as without, want at most %v", ratio, most)
	})
}

const workloadGroup = "bench.espalier.dev"

func workloadKind(preserve bool) string {
	if preserve {
		return "PreservedWorkload"
	}
	return testcase.Medium().Kind
}

func workloadPath(preserve bool) string {
	if preserve {
		return "/apis/" + workloadGroup + "/v1/namespaces/shop/preservedworkloads"
	}
	return "/apis/" + workloadGroup + "/v1/namespaces/shop/workloads"
}

// workloadCRD returns the CRD of the medium test case. With preserve, it does not prune.
func workloadCRD(t *testing.T, preserve bool) []byte {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(testcase.Medium().Schema, &schema); err != nil {
		t.Fatal(err)
	}
	plural := "workloads"
	if preserve {
		plural = "preservedworkloads"
		schema["x-kubernetes-preserve-unknown-fields"] = true
	}
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

// processCPU returns the CPU time that the process has used.
func processCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
