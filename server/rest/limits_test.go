package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestPeekBody checks that the handler of a request gets the body that was read before, and its
// error.
func TestPeekBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, test := range []struct {
		body  io.Reader
		limit int64
		got   string
		all   string
		err   error
	}{
		{strings.NewReader("abc"), 3, "abc", "abc", nil},
		{strings.NewReader("abcd"), 3, "", "abcd", nil},
		{strings.NewReader("abcdefgh"), 3, "", "abcdefgh", nil},
		{io.MultiReader(strings.NewReader("ab"), failedReader{broken}), 3, "", "ab", broken},
		{nil, 3, "", "", nil},
	} {
		req := httptest.NewRequest(http.MethodPost, "/", test.body)
		if test.body == nil {
			req.Body = nil
		}
		if got := PeekBody(req, test.limit); string(got) != test.got {
			t.Errorf("%q: got %q", test.all, got)
		}
		if test.body == nil {
			continue
		}
		if all, err := io.ReadAll(req.Body); string(all) != test.all || !errors.Is(err, test.err) {
			t.Errorf("%q: then %q, %v", test.all, all, err)
		}
	}
	req := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	if PeekBody(req, 3) != nil || req.Body != http.NoBody {
		t.Error("a body was made up")
	}
}

// TestJSONPatchLimits checks the limits of JSON patches, at their boundaries.
func TestJSONPatchLimits(t *testing.T) {
	t.Parallel()
	patch := func(n int, path string) jsonpatch.Patch {
		value := json.RawMessage(`"` + path + `"`)
		p := make(jsonpatch.Patch, n)
		for i := range p {
			p[i] = jsonpatch.Operation{"path": &value}
		}
		return p
	}
	moved := patch(1, "/a")
	from := json.RawMessage(`"` + strings.Repeat("/a", 100) + `"`)
	moved[0]["from"] = &from
	commas := func(n int) []byte { return bytes.Repeat([]byte{','}, n) }
	for _, test := range []struct {
		name          string
		patch         jsonpatch.Patch
		body, current []byte
		says          string
	}{
		{"the most operations", patch(maxJSONPatchOperations, "/a"), nil, nil, ""},
		{"too many operations", patch(maxJSONPatchOperations+1, "/a"), nil, nil, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"the most work", patch(1000, "/a"), commas(100_000), commas(100_000), ""},
		{"too much work", patch(1000, "/a"), commas(100_000), commas(100_001), "a JSON patch of an object with 200001 values has at most 999 operations, got 1000"},
		{"the most levels", patch(1, strings.Repeat("/a", 100)), make([]byte, 2_500_000), make([]byte, 2_500_000), ""},
		{"too many levels", patch(1, strings.Repeat("/a", 100)), make([]byte, 2_500_000), make([]byte, 2_500_001), "a JSON patch of an object with 2500001 bytes has paths of at most 99 levels, got 100"},
		{"too many levels to move from", moved, make([]byte, 2_500_000), make([]byte, 2_500_001), "got 100"},
	} {
		err := CheckJSONPatch(test.patch, test.body, test.current)
		if test.says == "" && err != nil || test.says != "" && (!apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// sends returns a context with a patch.
func sends(mediaType types.PatchType, body string, strict bool) context.Context {
	return WithPatch(httptest.NewRequest(http.MethodPatch, "/", nil), mediaType, []byte(body), strict).Context()
}

// TestCheckPatch checks which patches are checked together with their object.
func TestCheckPatch(t *testing.T) {
	t.Parallel()
	// An operation on each of these values is too much.
	large := &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat(",", 30_000)}}
	operations := func(n int, path string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"op":"remove","path":"`+path+`"},`, n), ",") + "]"
	}
	container := func(n int) string {
		return `{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, n), ",") + `]}}`
	}
	ports := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}, {Ports: make([]corev1.ContainerPort, 2000)}}}}
	port := func(n int) string {
		return `{"spec":{"containers":[{"name":"a","ports":[` + strings.TrimSuffix(strings.Repeat(`{"containerPort":1},`, n), ",") + `]}]}}`
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2000), InitContainers: []corev1.Container{{Command: make([]string, 9000)}}}}
	const most = 4000 // the square root of maxListComparisons
	for _, test := range []struct {
		name      string
		mediaType types.PatchType
		body      string
		old       runtime.Object
		fails     bool
	}{
		{"many operations", types.JSONPatchType, operations(9000, "/data/a"), large, true},
		{"many operations with escapes", types.JSONPatchType, operations(9000, `\u002fdata\/a`), large, true},
		{"many operations without levels", types.JSONPatchType, operations(9000, "data"), large, true},
		{"few operations", types.JSONPatchType, operations(smallPatch, "data"), large, false},
		{"many levels", types.JSONPatchType, operations(1, strings.Repeat("/a", 20_000)), large, true},
		{"many levels with escapes", types.JSONPatchType, operations(1, strings.Repeat(`\u002fa`, 20_000)), large, true},
		{"many levels with other escapes", types.JSONPatchType, operations(1, strings.Repeat(`\/a`, 20_000)), large, true},
		{"not a patch", types.JSONPatchType, "{" + operations(9000, "/a"), large, false},
		{"apply", types.ApplyYAMLPatchType, operations(9000, "/data/a"), large, false},
		{"the longest lists", types.StrategicMergePatchType, container(most - 2000), pod, false},
		{"too long lists", types.StrategicMergePatchType, container(most - 2000 + 1), pod, true},
		{"an order", types.StrategicMergePatchType, strings.Replace(container(most-2000+1), `"containers"`, `"$setElementOrder/containers"`, 1), pod, true},
		{"another name", types.StrategicMergePatchType, strings.Replace(container(most-2000+1), `"containers"`, `"example.com/containers"`, 1), pod, false},
		{"lists in lists", types.StrategicMergePatchType, port(most - 2000 - 1), ports, false},
		{"too long lists in lists", types.StrategicMergePatchType, port(most - 2000 + 1), ports, true},
		{"lists that are replaced", types.StrategicMergePatchType, `{"spec":{"initContainers":[{"command":["a"]}]}}`, pod, false},
		{"no strategic patch", types.StrategicMergePatchType, container(most), nil, false},
		{"broken", types.StrategicMergePatchType, container(most)[1:], pod, false},
		{"broken at the end", types.StrategicMergePatchType, strings.TrimSuffix(container(most), "}"), pod, false},
		{"a broken item", types.StrategicMergePatchType, strings.Replace(container(most), `{"name":"a"}`, `{"name":}`, 1), pod, false},
	} {
		if err := checkPatch(sends(test.mediaType, test.body, false), test.old); (err != nil) != test.fails || err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	err := checkPatch(sends(types.StrategicMergePatchType, container(most-2000+1), false), pod)
	if err == nil || !strings.Contains(err.Error(), "containers has 2001 items in the patch, and up to 2000 in the object") {
		t.Error(err)
	}
	for body, want := range map[string]string{
		`{"$retainKeys":[` + strings.Repeat("1,", 5000) + `1]}`:                                 "$retainKeys has 5001 items in the patch, and up to 0 in the object",
		`{"a":[` + strings.Repeat("1,", 3000) + `1],"b":[` + strings.Repeat("1,", 3000) + `1]}`: "a has 3001 items",
	} {
		if err := checkPatch(sends(types.StrategicMergePatchType, body, false), pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	unreadable := &unstructured.Unstructured{Object: map[string]any{"kind": "Tree", "a": math.Inf(1)}}
	if err := checkPatch(sends(types.JSONPatchType, operations(smallPatch+1, "/a"), false), unreadable); err == nil || !strings.Contains(err.Error(), "unsupported value") {
		t.Error(err)
	}
	if err := checkPatch(t.Context(), pod); err != nil {
		t.Error(err)
	}
	for mediaType, want := range map[types.PatchType]bool{types.JSONPatchType: true, types.StrategicMergePatchType: true, types.ApplyYAMLPatchType: true, types.MergePatchType: false} {
		if ChecksPatch(mediaType) != want {
			t.Error(mediaType)
		}
	}
}

// TestCheckMetadata checks that the errors of metadata are bounded, for trees and structs.
func TestCheckMetadata(t *testing.T) {
	t.Parallel()
	gk := runtimeschema.GroupKind{Kind: "ConfigMap"}
	labels := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("not a label %05d", i)] = "a"
		}
		return m
	}
	owners := func(n int) []metav1.OwnerReference { return make([]metav1.OwnerReference, n) }
	managers := slices.Repeat([]metav1.ManagedFieldsEntry{{Operation: "x", FieldsType: "x"}}, crd.MaxErrors)
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		n    int // causes of the error
	}{
		"valid":       {metav1.ObjectMeta{Name: "a"}, 0},
		"few":         {metav1.ObjectMeta{Name: "a", Labels: labels(crd.MaxErrors)}, 0},
		"labels":      {metav1.ObjectMeta{Name: "a", Labels: labels(crd.MaxErrors + 1)}, crd.MaxErrors + 1},
		"annotations": {metav1.ObjectMeta{Name: "a", Annotations: labels(crd.MaxErrors + 1)}, crd.MaxErrors + 1},
		"finalizers":  {metav1.ObjectMeta{Name: "a", Finalizers: strings.Split(strings.Repeat("not a name,", crd.MaxErrors)+"not a name", ",")}, crd.MaxErrors + 1},
		"managers":    {metav1.ObjectMeta{Name: "a", ManagedFields: managers}, crd.MaxErrors + 1},
		"both":        {metav1.ObjectMeta{Name: "a", Labels: labels(crd.MaxErrors - 1), Annotations: labels(crd.MaxErrors - 1)}, crd.MaxErrors + 1},
		"few owners":  {metav1.ObjectMeta{Name: "a", OwnerReferences: owners(crd.MaxErrors/4 + 1)}, crd.MaxErrors + 1},
		"owners":      {metav1.ObjectMeta{Name: "a", OwnerReferences: owners(schema.MaxOwnerReferences + 1)}, 1},
	} {
		obj := &corev1.ConfigMap{ObjectMeta: test.meta}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range []runtime.Object{obj, &unstructured.Unstructured{Object: tree}} {
			err := CheckMetadata(gk, obj)
			if (err != nil) != (test.n > 0) || err != nil && !apierrors.IsInvalid(err) {
				t.Errorf("%s of %T: %v", name, obj, err)
				continue
			}
			if err == nil {
				continue
			}
			if n := len(err.(apierrors.APIStatus).Status().Details.Causes); n > test.n {
				t.Errorf("%s of %T: %d causes", name, obj, n)
			}
		}
	}
	if err := CheckMetadata(gk, &metav1.Status{}); err != nil {
		t.Error(err)
	}
}

// TestUsage checks when a resource is freed.
func TestUsage(t *testing.T) {
	t.Parallel()
	freed := 0
	u := &Usage{Free: func() { freed++ }}
	if !u.Acquire() || u.CloseIdle() {
		t.Fatal("closed while it is used")
	}
	u.Close()
	if freed != 0 || u.Acquire() {
		t.Fatal("used after it was closed")
	}
	u.Release()
	u.Close()
	if freed != 1 || u.CloseIdle() {
		t.Fatal("freed", freed)
	}
	u = &Usage{Free: func() { freed++ }}
	end := u.Linger()
	if u.CloseIdle() {
		t.Fatal("closed with a lingering user")
	}
	end()
	if !u.Acquire() {
		t.Fatal("closed")
	}
	u.Release()
	if freed != 1 || !u.CloseIdle() || freed != 2 || u.Acquire() {
		t.Fatal("freed", freed)
	}
	u = &Usage{Free: func() { freed++ }}
	u.Linger()
	if u.Close(); freed != 3 {
		t.Error("a lingering user keeps it")
	}
}

// TestWork checks that a request that has ended begins no work, and that one finishes with its
// answer and its work.
func TestWork(t *testing.T) {
	t.Parallel()
	finished := 0
	ctx, answered := WithWork(t.Context(), func() { finished++ })
	end, err := BeginWork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	answered()
	if finished != 0 {
		t.Error("finished before its work")
	}
	isTimeout := func(err error) bool {
		status := apierrors.APIStatus(nil)
		return apierrors.IsTimeout(err) && errors.As(err, &status) && status.Status().Details.RetryAfterSeconds == 0
	}
	if _, err = BeginWork(ctx); !isTimeout(err) {
		t.Error(err)
	}
	end()
	if finished != 1 {
		t.Error("not finished")
	}
	if end, err := BeginWork(t.Context()); err != nil || end == nil {
		t.Error(err)
	} else {
		end()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := BeginWork(gone); !isTimeout(err) || Ended(gone) == nil || Ended(t.Context()) != nil {
		t.Error(err)
	}
	w := workStorage{StandardStorage: nothing{}}
	for name, do := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := w.Create(ctx, nil, nil, nil); return err },
		"update": func(ctx context.Context) error {
			_, created, err := w.Update(ctx, "a", nil, nil, nil, false, nil)
			if created {
				t.Error("a request that fails has created something")
			}
			return err
		},
		"delete": func(ctx context.Context) error {
			_, deleted, err := w.Delete(ctx, "a", nil, nil)
			if deleted {
				t.Error("a request that fails has deleted something")
			}
			return err
		},
		"deletecollection": func(ctx context.Context) error { _, err := w.DeleteCollection(ctx, nil, nil, nil); return err },
	} {
		if err := do(gone); !apierrors.IsTimeout(err) {
			t.Errorf("%s of a request that has ended: %v", name, err)
		}
		done := 0
		ctx, answered := WithWork(t.Context(), func() { done++ })
		if err := do(ctx); !errors.Is(err, errNothing) {
			t.Errorf("%s: %v", name, err)
		}
		if answered(); done != 1 {
			t.Errorf("%s: the work does not end", name)
		}
	}
	if w.GetCorruptObjDeleter() != nil {
		t.Error("corrupt objects are deleted")
	}
}

var errNothing = errors.New("nothing is stored")

// nothing is a storage that fails.
type nothing struct{ rest.StandardStorage }

func (nothing) Create(context.Context, runtime.Object, rest.ValidateObjectFunc, *metav1.CreateOptions) (runtime.Object, error) {
	return nil, errNothing
}

func (nothing) Update(context.Context, string, rest.UpdatedObjectInfo, rest.ValidateObjectFunc, rest.ValidateObjectUpdateFunc, bool, *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return nil, false, errNothing
}

func (nothing) Delete(context.Context, string, rest.ValidateObjectFunc, *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return nil, false, errNothing
}

func (nothing) DeleteCollection(context.Context, rest.ValidateObjectFunc, *metav1.DeleteOptions, *metainternalversion.ListOptions) (runtime.Object, error) {
	return nil, errNothing
}

// replicas is a Scaler of ConfigMaps, whose number of replicas is in their labels.
type replicas struct{}

func (replicas) Scale(obj runtime.Object) (*autoscalingv1.Scale, bool, error) {
	m := obj.(*corev1.ConfigMap)
	if m.Labels["broken"] != "" {
		return nil, false, errNothing
	}
	n, found := m.Labels["replicas"]
	return NewScale(m, int32(len(n)), 0, ""), found, nil
}

func (replicas) NoReplicas() error { return errNothing }

func (replicas) SetScale(obj runtime.Object, sent *autoscalingv1.Scale) error {
	if sent.Spec.Replicas == UnsetReplicas {
		return errNothing
	}
	obj.(*corev1.ConfigMap).Labels = map[string]string{"replicas": strings.Repeat("x", int(sent.Spec.Replicas))}
	return nil
}

// TestScaleUpdate checks how a change of a Scale changes its object.
func TestScaleUpdate(t *testing.T) {
	t.Parallel()
	gv := runtimeschema.GroupVersion{Version: "v1"}
	endpoint := &Scale{Scaler: replicas{}, Version: gv, WrongKind: "wrong: ",
		Owned: managedfields.ResourcePathMappings{"v1": fieldpath.MakePathOrDie("spec", "replicas")}}
	update := func(labels map[string]string, entries []metav1.ManagedFieldsEntry, change func(*autoscalingv1.Scale) (runtime.Object, error)) (*corev1.ConfigMap, error) {
		old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "4", Labels: labels, ManagedFields: entries}}
		u := &scaleUpdate{rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			return change(old.(*autoscalingv1.Scale))
		}), endpoint}
		obj, err := u.UpdatedObject(t.Context(), old)
		if old.Labels["replicas"] != labels["replicas"] || err != nil {
			return nil, err
		}
		return obj.(*corev1.ConfigMap), nil
	}
	to := func(n int32, version string) func(*autoscalingv1.Scale) (runtime.Object, error) {
		return func(s *autoscalingv1.Scale) (runtime.Object, error) {
			s.Spec.Replicas, s.ResourceVersion = n, version
			return s, nil
		}
	}
	owned := []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}}
	for version, want := range map[string]string{"": "4", "5": "5"} {
		obj, err := update(map[string]string{"replicas": "x"}, owned, to(3, version))
		if err != nil || obj == nil || obj.Labels["replicas"] != "xxx" || obj.ResourceVersion != want || len(obj.ManagedFields) != 1 || obj.ManagedFields[0].Manager != "m" {
			t.Errorf("%q: %v %v", version, obj, err)
		}
	}
	same := func(s *autoscalingv1.Scale) (runtime.Object, error) { return s, nil }
	if _, err := update(nil, nil, same); !errors.Is(err, errNothing) {
		t.Errorf("a missing number is not noticed: %v", err)
	}
	if _, err := update(map[string]string{"broken": "x"}, nil, same); !errors.Is(err, errNothing) {
		t.Error(err)
	}
	failed := errors.New("failed")
	if _, err := update(map[string]string{"replicas": "x"}, nil, func(*autoscalingv1.Scale) (runtime.Object, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, err := update(map[string]string{"replicas": "x"}, nil, func(*autoscalingv1.Scale) (runtime.Object, error) { return &corev1.Pod{}, nil }); !apierrors.IsBadRequest(err) || err.Error() != "wrong: *v1.Pod" {
		t.Error(err)
	}
	broken := []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`x`)}}
	sent := func(s *autoscalingv1.Scale) (runtime.Object, error) { s.ManagedFields = broken; return s, nil }
	if _, err := update(map[string]string{"replicas": "x"}, nil, sent); err == nil {
		t.Error("managed fields of the Scale that cannot be read are ignored")
	}
	if _, err := update(map[string]string{"replicas": "x"}, broken, same); err == nil {
		t.Error("managed fields that cannot be read are ignored")
	}
}
