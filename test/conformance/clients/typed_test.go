package clients

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
)

// TestInformer changes the schema while informers watch: they must neither miss nor invent
// events, and new fields must arrive.
func TestInformer(t *testing.T) {
	t.Parallel()
	ctx, server := start(t)
	dynamics := must(dynamic.NewForConfig(server.Config()))(t)
	client := dynamics.Resource(backups).Namespace("default")
	create(ctx, t, client, "before")

	type event struct{ what, name, owner string }
	seen := make(chan event, 100)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamics, 0)
	informer := factory.ForResource(backups).Informer()
	tell := func(what string, obj any) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			seen <- event{what, u.GetName(), at(u, "spec", "owner")}
		}
	}
	must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell("add", obj) },
		UpdateFunc: func(old, obj any) {
			// After a relist all objects are reported again.
			if old.(*unstructured.Unstructured).GetResourceVersion() != obj.(*unstructured.Unstructured).GetResourceVersion() {
				tell("update", obj)
			}
		},
		DeleteFunc: func(obj any) { tell("delete", obj) },
	}))(t)
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	expect := func(want event) {
		t.Helper()
		select {
		case got := <-seen:
			equal(t, got, want)
		case <-ctx.Done():
			t.Fatalf("%v did not arrive", want)
		}
	}
	expect(event{"add", "before", ""})

	definitions := dynamics.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	must(definitions.Patch(ctx, definitionName, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/owner","value":{"type":"string"}}]`), metav1.PatchOptions{}))(t)
	// The new schema applies as soon as the server has seen it.
	for {
		got := must(client.Patch(ctx, "before", types.MergePatchType, []byte(`{"spec":{"owner":"me"}}`), metav1.PatchOptions{}))(t)
		if at(got, "spec", "owner") == "me" {
			break
		}
	}
	expect(event{"update", "before", "me"})
	create(ctx, t, client, "after")
	expect(event{"add", "after", ""})
	if err := client.Delete(ctx, "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(event{"delete", "before", "me"})
	equal(t, len(informer.GetStore().List()), 1)
}

func TestScaleAndDiscovery(t *testing.T) {
	t.Parallel()
	ctx, server := start(t)
	objects := dynamicClient(t, server)
	create(ctx, t, objects, "a")
	cached := memory.NewMemCacheClient(must(discovery.NewDiscoveryClientForConfig(server.Config()))(t))
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)

	t.Run("mapper", func(t *testing.T) {
		mapping := must(mapper.RESTMapping(backup.GroupKind()))(t)
		equal(t, mapping.Resource, backups)
		equal(t, mapping.Scope.Name(), meta.RESTScopeNameNamespace)
		equal(t, must(mapper.KindFor(schema.GroupVersionResource{Resource: "backups"}))(t), backup)
		equal(t, must(mapper.ResourceFor(schema.GroupVersionResource{Resource: "backup"}))(t), backups)
		short := restmapper.NewShortcutExpander(mapper, cached, nil)
		equal(t, must(short.ResourceFor(schema.GroupVersionResource{Resource: "bk"}))(t), backups)
		_, err := mapper.RESTMapping(schema.GroupKind{Group: "none.example.com", Kind: "None"})
		if !meta.IsNoMatchError(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("new definition", func(t *testing.T) {
		equal(t, len(must(restmapper.GetAPIGroupResources(cached))(t)) > 0, true)
		if _, err := cached.ServerResourcesForGroupVersion("storage.example.com/v1"); err != nil {
			t.Error(err)
		}
		preferred := must(discovery.ServerPreferredResources(cached))(t)
		equal(t, slices.ContainsFunc(preferred, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "storage.example.com/v1" }), true)
	})
	t.Run("scale", func(t *testing.T) {
		scales := must(scale.NewForConfig(server.Config(), mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(cached)))(t).Scales("default")
		got := must(scales.Get(ctx, backups.GroupResource(), "a", metav1.GetOptions{}))(t)
		equal(t, got.Spec.Replicas, 1)
		got.Spec.Replicas = 4
		equal(t, must(scales.Update(ctx, backups.GroupResource(), got, metav1.UpdateOptions{}))(t).Spec.Replicas, 4)
		equal(t, at(must(objects.Get(ctx, "a", metav1.GetOptions{}))(t), "spec", "copies"), "4")
		patched := must(scales.Patch(ctx, backups, "a", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}))(t)
		equal(t, patched.Spec.Replicas, 2)
		got.ResourceVersion = "1"
		_, err := scales.Update(ctx, backups.GroupResource(), got, metav1.UpdateOptions{})
		rejected(t, err, metav1.StatusReasonConflict)
		_, err = scales.Get(ctx, backups.GroupResource(), "none", metav1.GetOptions{})
		rejected(t, err, metav1.StatusReasonNotFound)
		status := []byte(`{"status":{"copies":3,"selector":"app=x"}}`)
		must(objects.Patch(ctx, "a", types.MergePatchType, status, metav1.PatchOptions{}, "status"))(t)
		got = must(scales.Get(ctx, backups.GroupResource(), "a", metav1.GetOptions{}))(t)
		equal(t, got.Status.Replicas, 3)
		equal(t, got.Status.Selector, "app=x")
	})
}
