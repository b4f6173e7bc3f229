package server_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

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
	t.Parallel()
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

// cpuTime returns the CPU time that the process has used.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
