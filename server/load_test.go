package server_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/internal/testcase"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

var benchCRDs = flag.Int("crds", 200, "number of CRDs that BenchmarkStartLoaded starts with")

// crdSize is the size in bytes of a large CRD.
const crdSize = 49 << 10

// largeSchema returns a schema of about the given size as JSON: lists of objects, as in the
// CRDs of operators, with a description for each field.
func largeSchema(size int) *api.JSONSchemaProps {
	const description = "This field says something about the workload that the operator manages, in a sentence or two. It is optional."
	object := func(fields int, nested *api.JSONSchemaProps) *api.JSONSchemaProps {
		s := &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Description: description, Properties: map[string]api.JSONSchemaProps{}}
		for i := range fields {
			typ := []string{"string", "integer", "boolean"}[i%3]
			s.Properties[fmt.Sprintf("field%d", i)] = api.JSONSchemaProps{Type: api.StringOrArray{typ}, Description: description}
		}
		if nested != nil {
			s.Properties["items"] = api.JSONSchemaProps{Type: api.StringOrArray{"array"}, Description: description, Items: &api.JSONSchemaPropsOrArray{Schema: nested}}
		}
		return s
	}
	spec := object(0, nil)
	for i := 0; ; i++ {
		spec.Properties[fmt.Sprintf("section%d", i)] = *object(6, object(8, object(4, nil)))
		if data, err := spec.MarshalJSON(); err != nil || len(data) > size {
			root := object(0, nil)
			root.Properties["spec"] = *spec
			return root
		}
	}
}

// storedCRD returns an established CRD as kube-apiserver stores it.
func storedCRD(i int, schema *api.JSONSchemaProps) (key string, value []byte, err error) {
	plural := fmt.Sprintf("things%d", i)
	names := api.CustomResourceDefinitionNames{Plural: plural, Singular: fmt.Sprintf("thing%d", i), Kind: fmt.Sprintf("Thing%d", i), ListKind: fmt.Sprintf("Thing%dList", i)}
	// Each operator has its own group.
	group := fmt.Sprintf("group%d.example.com", i/10)
	condition := func(typ api.CustomResourceDefinitionConditionType, reason, message string) api.CustomResourceDefinitionCondition {
		return api.CustomResourceDefinitionCondition{Type: typ, Status: api.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Unix(1700000000, 0), ObservedGeneration: 1}
	}
	c := &api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), Generation: 1, CreationTimestamp: metav1.Unix(1700000000, 0)},
		Spec: api.CustomResourceDefinitionSpec{Group: group, Scope: api.NamespaceScoped, Names: names,
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: schema}}}},
		Status: api.CustomResourceDefinitionStatus{AcceptedNames: names, StoredVersions: []string{"v1"}, ObservedGeneration: 1, Conditions: []api.CustomResourceDefinitionCondition{
			condition(api.NamesAccepted, api.ReasonNoConflicts, "no conflicts found"),
			condition(api.Established, api.ReasonInitialNamesAccepted, "the initial names have been accepted"),
		}},
	}
	api.SetDefaults(c)
	value, err = codec.Encode(c, v1beta1.APIVersion)
	return "/registry/apiextensions.k8s.io/customresourcedefinitions/" + c.Name, value, err
}

// fill stores n large CRDs in the data of a server, and returns their size in bytes.
func fill(t testing.TB, o *server.Options, n int) (size int) {
	t.Helper()
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	schema, db := largeSchema(crdSize), servertest.Etcd(t, o)
	for i := range n {
		key, value, err := storedCRD(i, schema)
		if err != nil {
			t.Fatal(err)
		}
		size += len(value)
		if _, err := db.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	return size
}

// TestDecodeOnUse checks that a start does not decode the schemas of stored CRDs, that a
// request for objects decodes those of their CRD, and that unchanged CRDs are not written.
func TestDecodeOnUse(t *testing.T) {
	o := servertest.Options(t)
	const n = 25
	fill(t, o, n)
	s, err := servertest.TryStart(t, o) // gives fences to the CRDs
	if err != nil {
		t.Fatal(err)
	}
	before, err := servertest.Etcd(t, o).Get(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/things7.group0.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = servertest.Start(t, o)
	if got := s.Definitions().Loaded(); got != 0 {
		t.Errorf("%d of %d CRDs were decoded", got, n)
	}
	if code, body := servertest.Get(t, s, servertest.Client(t, s, nil), "/apis/group0.example.com/v1/namespaces/default/things7"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	if got := s.Definitions().Loaded(); got != 1 {
		t.Errorf("a request for objects decodes %d CRDs", got)
	}
	after, err := servertest.Etcd(t, o).Get(t.Context(), string(before.Kvs[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	if before.Kvs[0].ModRevision != after.Kvs[0].ModRevision {
		t.Error("an unchanged CRD was written")
	}
}

// BenchmarkStartLoaded measures a start with many large CRDs: the CPU time until the server
// is ready, and the live heap then, relative to the size of the CRDs.
func BenchmarkStartLoaded(b *testing.B) {
	o := servertest.Options(b)
	heap := func() float64 {
		runtime.GC() // twice, because of what pools keep
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	empty := heap()
	raw := fill(b, o, *benchCRDs)
	var cpu time.Duration
	var live float64
	for b.Loop() {
		began := cpuTime(b)
		s, err := server.Start(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime(b) - began
		live = max(live, heap()-empty)
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(raw)/(1<<20), "raw-MB")
	b.ReportMetric(live/(1<<20), "heap-MB")
	b.ReportMetric(live/float64(raw), "heap/raw")
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestLargeSchema checks the size of the benchmark's schema.
func TestLargeSchema(t *testing.T) {
	_, value, err := storedCRD(0, largeSchema(crdSize))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(value); n < crdSize || n > crdSize*5/4 {
		t.Errorf("%d bytes: %.200s", n, value)
	}
}

// BenchmarkCreateCRDs measures the creation of CRDs in one group: the CPU time and the live
// heap of each, with the embedded etcd.
func BenchmarkCreateCRDs(b *testing.B) {
	s, err := servertest.TryStart(b, servertest.Options(b))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			b.Error(err)
		}
	}()
	c := servertest.Client(b, s, nil)
	schema := testcase.Medium().Schema
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	create := func(i int) {
		body := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things%[1]d.many.example.com"},
"spec":{"group":"many.example.com","scope":"Namespaced","names":{"plural":"things%[1]d","kind":"Thing%[1]d"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":%[2]s}}]}}`, i, schema)
		if code, text := servertest.Exchange(b, c, http.MethodPost, s.URL()+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body); code != http.StatusCreated {
			b.Fatalf("%d %s", code, text)
		}
	}
	create(0)
	made := 1
	before, began := heap(), cpuTime(b)
	for b.Loop() {
		for range *benchCRDs {
			create(made)
			made++
		}
	}
	n := float64(made - 1)
	b.ReportMetric(float64((cpuTime(b)-began).Milliseconds())/n, "cpu-ms/CRD")
	b.ReportMetric((heap()-before)/n/1024, "heap-KB/CRD")
	b.ReportMetric(0, "ns/op")
}
