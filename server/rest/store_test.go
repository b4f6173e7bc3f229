package rest

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/backend"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/store"
)

// configMaps is the strategy of config maps.
type configMaps struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (configMaps) NamespaceScoped() bool                                                 { return true }
func (configMaps) PrepareForCreate(context.Context, runtime.Object)                      {}
func (configMaps) Validate(context.Context, runtime.Object) field.ErrorList              { return nil }
func (configMaps) WarningsOnCreate(context.Context, runtime.Object) []string             { return nil }
func (configMaps) Canonicalize(runtime.Object)                                           {}
func (configMaps) AllowCreateOnUpdate(context.Context) bool                              { return false }
func (configMaps) PrepareForUpdate(context.Context, runtime.Object, runtime.Object)      {}
func (configMaps) AllowUnconditionalUpdate(context.Context) bool                         { return true }
func (configMaps) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string      { return nil }
func (configMaps) ValidateUpdate(_ context.Context, _, _ runtime.Object) field.ErrorList { return nil }

// newConfigMaps returns a store of config maps in memory.
func newConfigMaps(t *testing.T) (*registry.Store, context.Context) {
	t.Helper()
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
	client := db.Client()
	t.Cleanup(func() { _ = client.Close() })
	st, err := store.Open(store.Config{Client: client, Watcher: db.NewWatcher(), Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	<-st.Loaded()
	strategy := configMaps{scheme.Scheme, names.SimpleNameGenerator}
	s := &registry.Store{
		NewFunc: func() runtime.Object { return &corev1.ConfigMap{} }, NewListFunc: func() runtime.Object { return &corev1.ConfigMapList{} },
		DefaultQualifiedResource: corev1.Resource("configmaps"), SingularQualifiedResource: corev1.Resource("configmap"),
		CreateStrategy: strategy, UpdateStrategy: strategy, DeleteStrategy: strategy, TableConvertor: rest.NewDefaultTableConvertor(corev1.Resource("configmaps")),
	}
	c := storagebackend.NewDefaultConfig("/registry", scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion))
	if err := s.CompleteWithOptions(&generic.StoreOptions{RESTOptions: generic.RESTOptions{StorageConfig: c.ForResource(corev1.Resource("configmaps")), ResourcePrefix: "configmaps",
		Decorator: func(c *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error), newFunc, _ func() runtime.Object,
			_ apistorage.AttrFunc, _ apistorage.IndexerFuncs, _ *cache.Indexers) (apistorage.Interface, factory.DestroyFunc, error) {
			return backend.New(st, nil).New(backend.Config{Resource: c.GroupResource, Codec: c.Codec, Prefix: prefix, New: newFunc}), func() {}, nil
		}}}); err != nil {
		t.Fatal(err)
	}
	ctx := apirequest.WithNamespace(t.Context(), "n")
	for name, labels := range map[string]map[string]string{"a": {"replicas": "xx"}, "none": nil, "broken": {"broken": "x"}} {
		if _, err := s.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", Labels: labels}}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s, ctx
}

// TestScale reads and changes the Scale of stored objects.
func TestScale(t *testing.T) {
	t.Parallel()
	s, ctx := newConfigMaps(t)
	e := &Scale{Scaler: replicas{}, Store: s, Version: corev1.SchemeGroupVersion, Owned: managedfields.ResourcePathMappings{}}
	if _, ok := e.New().(*autoscalingv1.Scale); !ok {
		t.Errorf("new: %T", e.New())
	}
	obj, err := e.Get(ctx, "a", &metav1.GetOptions{})
	if scale, ok := obj.(*autoscalingv1.Scale); err != nil || !ok || scale.Name != "a" || scale.Spec.Replicas != 2 || scale.ResourceVersion == "" {
		t.Errorf("got %v, %v", obj, err)
	}
	for name, is := range map[string]func(error) bool{
		"other": apierrors.IsNotFound, "none": func(err error) bool { return errors.Is(err, errNothing) }, "broken": func(err error) bool { return errors.Is(err, errNothing) },
	} {
		if obj, err := e.Get(ctx, name, &metav1.GetOptions{}); !is(err) || obj != nil {
			t.Errorf("%s: got %v, %v", name, obj, err)
		}
	}

	to := func(n int32) rest.UpdatedObjectInfo {
		return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			scale := old.DeepCopyObject().(*autoscalingv1.Scale)
			scale.Spec.Replicas = n
			return scale, nil
		})
	}
	denied := errors.New("denied")
	var seen string
	validate := func(err error) rest.ValidateObjectUpdateFunc {
		return func(_ context.Context, obj, old runtime.Object) error {
			seen = fmt.Sprint(old.(*autoscalingv1.Scale).Spec.Replicas, " to ", obj.(*autoscalingv1.Scale).Spec.Replicas)
			return err
		}
	}
	obj, created, err := e.Update(ctx, "a", to(3), rest.ValidateAllObjectFunc, validate(nil), true, &metav1.UpdateOptions{})
	if scale, ok := obj.(*autoscalingv1.Scale); err != nil || created || !ok || scale.Spec.Replicas != 3 || seen != "2 to 3" {
		t.Errorf("got %v, %v, %v; admission has seen %s", obj, created, err, seen)
	}
	for name, is := range map[string]func(error) bool{
		"a": func(err error) bool { return errors.Is(err, denied) }, "other": apierrors.IsNotFound, "broken": func(err error) bool { return errors.Is(err, errNothing) },
	} {
		if obj, created, err := e.Update(ctx, name, to(4), rest.ValidateAllObjectFunc, validate(denied), true, &metav1.UpdateOptions{}); !is(err) || obj != nil || created {
			t.Errorf("%s: got %v, %v, %v", name, obj, created, err)
		}
	}
	if obj, err := e.Get(ctx, "a", &metav1.GetOptions{}); err != nil || obj.(*autoscalingv1.Scale).Spec.Replicas != 3 {
		t.Errorf("got %v, %v", obj, err)
	}
}

// TestManyItems checks that metadata with many valid items is accepted, for trees and structs.
func TestManyItems(t *testing.T) {
	t.Parallel()
	gk := runtimeschema.GroupKind{Kind: "ConfigMap"}
	owners := make([]metav1.OwnerReference, schema.MaxOwnerReferences)
	for i := range owners {
		owners[i] = metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: types.UID(fmt.Sprint(i))}
	}
	if err := CheckMetadata(gk, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: owners}}); err != nil {
		t.Errorf("as many owners as are allowed: %v", err)
	}
	// As many errors as are reported are left to the store, which has others too.
	for invalid, fails := range map[int]bool{0: false, crd.MaxErrors: false, crd.MaxErrors + 1: true} {
		labels := map[string]string{}
		for i := range crd.MaxErrors + 1 {
			labels[fmt.Sprintf("l%05d", i)] = "a"
		}
		for i := range invalid {
			labels[fmt.Sprintf("not a label %05d", i)] = "a"
		}
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range []runtime.Object{obj, &unstructured.Unstructured{Object: tree}} {
			if err := CheckMetadata(gk, obj); (err != nil) != fails {
				t.Errorf("%d errors of %T: %v", invalid, obj, err)
			}
		}
	}
}

// limited is a writer that fails once, after some writes.
type limited struct{ left int }

func (l *limited) Write(p []byte) (int, error) {
	if l.left--; l.left == -1 {
		return 0, errNothing
	}
	return len(p), nil
}

// TestListTextWriterFails checks that a list is not complete if one of its parts cannot be written.
func TestListTextWriterFails(t *testing.T) {
	t.Parallel()
	list := lists()["maps"]
	for _, info := range StreamLists(scheme.Codecs.SupportedMediaTypes())[:2] {
		s := info.Serializer
		if info.PrettySerializer != nil {
			s = info.PrettySerializer
		}
		whole := &limited{left: 1 << 20}
		if err := s.Encode(list, whole); err != nil {
			t.Fatal(err)
		}
		for n := range (1 << 20) - whole.left {
			if err := s.Encode(list, &limited{left: n}); !errors.Is(err, errNothing) {
				t.Errorf("%s: after %d writes: %v", info.MediaType, n, err)
			}
		}
	}
}

// TestListTextConversionFails checks that a list whose items cannot be converted is an error.
func TestListTextConversionFails(t *testing.T) {
	t.Parallel()
	s := &listText{scheme.Codecs.SupportedMediaTypes()[1].Serializer, yamlItems}
	s.convert = func([]byte) ([]byte, error) { return nil, errNothing }
	for _, name := range []string{"one", "maps"} {
		if err := s.Encode(lists()[name], &limited{left: 1 << 20}); !errors.Is(err, errNothing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if processors := goruntime.GOMAXPROCS(0); cap(converting) != processors {
		t.Errorf("%d conversions at a time on %d processors", cap(converting), processors)
	}
}
