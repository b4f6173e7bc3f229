package oracle

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/kinds"
	"espalier.dev/kinds/columns"
	"espalier.dev/test/oracle/builtin"
)

// otherDescriptions are the kinds that have other descriptions of columns in 1.36: their fields
// are described differently there, or tables use the descriptions of a beta version.
var otherDescriptions = []string{
	"CertificateSigningRequest", "ClusterRoleBinding", "IPAddress", "ResourceSlice", "RoleBinding", "ServiceCIDR", "VolumeAttributesClass",
}

// TestTables compares the tables of random objects of Kubernetes' own kinds with those of
// Kubernetes 1.36.
func TestTables(t *testing.T) {
	t.Parallel()
	if !builtin.Live() {
		t.Skip("tables have ages, so they are not recorded: run make oracle-builtin")
	}
	named := []runtimeschema.GroupVersionKind{{Group: "autoscaling", Version: "v1", Kind: "Scale"}}
	for _, r := range kinds.Resources() {
		// The columns of API services are not among those of all other kinds.
		if r.Group != "apiregistration.k8s.io" {
			named = append(named, r.GroupVersionKind())
		}
	}
	type request struct {
		Op     string `json:"op"`
		Object any    `json:"object"`
	}
	var requests []request
	var sent []runtimeschema.GroupVersionKind
	for _, gvk := range named {
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if columns.For(obj) == nil {
			continue
		}
		for n := range setting(t, "ORACLE_TABLES", 60) {
			obj := randomObject(reflect.TypeOf(obj).Elem(), n)
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			requests = append(requests, request{"table", obj})
			sent = append(sent, gvk)
		}
	}
	ref := builtin.Open(t)
	compared := map[runtimeschema.GroupVersionKind]int{}
	for i, gvk := range sent {
		var a struct {
			Object, Table     json.RawMessage
			BadRequest, Panic string
		}
		if err := ref.AskJSON(requests[i], &a); err != nil {
			t.Fatal(err)
		}
		if a.Table == nil {
			continue // it cannot be decoded, or not be shown
		}
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(a.Object, obj); err != nil {
			t.Fatal(err)
		}
		table, err := columns.Convert(obj, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range table.Rows {
			table.Rows[i].Object = runtime.RawExtension{}
		}
		got, err := asTree(table, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := asTree(a.Table, nil)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(otherDescriptions, gvk.Kind) {
			for _, tree := range []any{got, want} {
				for _, column := range tree.(map[string]any)["columnDefinitions"].([]any) {
					delete(column.(map[string]any), "description")
				}
			}
		}
		if gvk.Kind == "IPAddress" {
			// Rows have the age in 1.36, without a column.
			row := want.(map[string]any)["rows"].([]any)[0].(map[string]any)
			row["cells"] = row["cells"].([]any)[:2]
		}
		compared[gvk]++
		differs := false
		compareTrees(gvk.Kind, got, want, func(d string) {
			differs = true
			t.Error(d)
		})
		if differs {
			t.Logf("object %s", a.Object)
		}
	}
	t.Logf("%d objects of %d kinds", len(sent), len(compared))
	for _, gvk := range slices.Compact(sent) {
		if compared[gvk] == 0 {
			t.Errorf("nothing was compared of %s", gvk)
		}
	}
}

// words are texts that tables treat in a special way, and some that they do not.
var words = strings.Fields(`a b-c 10.0.0.1 fd00::1 True False Unknown Ready Initialized PodScheduled SchedulingGated Running Succeeded Failed Pending
	Completed Error PodInitializing NodeLost Always Never Complete Suspended FailureTarget SuccessCriteriaMet Approved Denied Issued InternalIP ExternalIP
	User Group ServiceAccount Resource External Pods Object ContainerResource ClusterIP NodePort LoadBalancer ExternalName ReadWriteOnce ReadWriteMany
	ReadOnlyMany ReadWriteOncePod Dangling Retain Bound Healthy limits.cpu requests.memory pods storage cpu TCP UDP In Exists`)

// randomObject returns an object of a type. It depends on n only.
func randomObject(t reflect.Type, n uint64) runtime.Object {
	r := &randomizer{rand.New(rand.NewPCG(n, uint64(len(t.Name()))))}
	v := reflect.New(t)
	r.fill(v.Elem(), 0)
	return v.Interface().(runtime.Object)
}

type randomizer struct{ *rand.Rand }

func (r *randomizer) word() string {
	if r.IntN(6) == 0 {
		return ""
	}
	return words[r.IntN(len(words))]
}

// time returns a time so long ago that its age is a number of years.
func (r *randomizer) time() time.Time {
	return time.Date(1990+r.IntN(20), 1, 1, 0, 0, 0, 0, time.UTC)
}

func (r *randomizer) fill(v reflect.Value, depth int) {
	switch at := v.Addr().Interface().(type) {
	case *metav1.Time:
		at.Time = r.time()
		return
	case *metav1.MicroTime:
		at.Time = r.time()
		return
	case *resource.Quantity:
		*at = resource.MustParse([]string{"0", "1", "250m", "3Gi", "7k"}[r.IntN(5)])
		return
	case *intstr.IntOrString:
		*at = intstr.Parse([]string{"3", "50%"}[r.IntN(2)])
		return
	case *runtime.RawExtension:
		at.Raw = []byte("{}")
		return
	case *metav1.FieldsV1:
		at.SetRawString("{}")
		return
	case *metav1.TypeMeta:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.word())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(4)))
	case reflect.Pointer:
		if depth < 9 && r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth > 8 {
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(r.word()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(5), 5))
		for i := range v.Len() {
			r.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			r.fill(key, depth+1)
			r.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// Small objects show what a field that is missing means.
			if f := v.Field(i); f.CanSet() && (depth < 2 || r.IntN(3) > 0) {
				r.fill(f, depth+1)
			}
		}
	}
}
