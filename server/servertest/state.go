package servertest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/server"
)

// IsEstablished reports whether a server says that a CRD is established.
func IsEstablished(t testing.TB, s *server.Server, c *http.Client, name string) bool {
	t.Helper()
	code, text := Get(t, s, c, CRDs+"/"+name)
	if code != http.StatusOK {
		return false
	}
	var crd api.CustomResourceDefinition
	if err := json.Unmarshal([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == api.Established && condition.Status == api.ConditionTrue {
			return true
		}
	}
	return false
}

// Names returns the names of the items of a list, its token, and its revision.
func Names(t testing.TB, text string) (names []string, token, revision string) {
	t.Helper()
	var list struct {
		Metadata struct {
			Continue, ResourceVersion string
			RemainingItemCount        *int64
		}
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, i := range list.Items {
		names = append(names, i.Metadata.Name)
	}
	return names, list.Metadata.Continue, list.Metadata.ResourceVersion
}

// Seeds returns a realistic object of each built-in kind, by apiVersion and kind, from the files in
// a directory.
func Seeds(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no seeds:", err)
	}
	out := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(data), "\n---") {
			text, err := yaml.YAMLToJSON([]byte(doc))
			if err != nil {
				t.Fatal(file, err)
			}
			var m metav1.TypeMeta
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(file, err)
			}
			if key := m.APIVersion + " " + m.Kind; m.Kind != "" && out[key] == nil {
				out[key] = text
			}
		}
	}
	return out
}

// Settled returns the number of goroutines and the memory in use when the process is idle.
func Settled() (goroutines int, memory uint64) {
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if n := runtime.NumGoroutine(); goroutines == 0 || n < goroutines {
			goroutines = n
		}
		if memory == 0 || m.HeapAlloc < memory {
			memory = m.HeapAlloc
		}
	}
	return goroutines, memory
}
