package clients

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"espalier.dev/espaliertest"
)

// contentTypes records the content types of requests with a body.
type contentTypes struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen []string
}

func (c *contentTypes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		c.mu.Lock()
		c.seen = append(c.seen, r.Header.Get("Content-Type"))
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// TestDefinitions uses the typed client for CRDs, which uses protobuf.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	config := espaliertest.Start(t, espaliertest.WithEtcd()).Config()
	var spoken contentTypes
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { spoken.next = next; return &spoken })
	client := must(clientset.NewForConfig(config))(t).ApiextensionsV1().CustomResourceDefinitions()

	w := must(client.Watch(ctx, metav1.ListOptions{}))(t)
	defer w.Stop()
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"any":   {XPreserveUnknownFields: &preserve},
						"count": {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("7")}},
					},
				}},
			}},
		},
	}
	created := must(client.Create(ctx, definition, metav1.CreateOptions{}))(t)
	equal(t, created.Spec.Names.ListKind, "ThingList")
	equal(t, string(created.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["count"].Default.Raw), "7")
	if !slices.Contains(spoken.seen, "application/vnd.kubernetes.protobuf") {
		t.Errorf("the client sent %q", spoken.seen)
	}
	established(ctx, t, w, created.Name)

	got := must(client.Get(ctx, created.Name, metav1.GetOptions{}))(t)
	equal(t, len(got.Status.StoredVersions), 1)
	got.Labels = map[string]string{"tier": "gold"}
	got = must(client.Update(ctx, got, metav1.UpdateOptions{}))(t)
	equal(t, len(must(client.List(ctx, metav1.ListOptions{LabelSelector: "tier=gold"}))(t).Items), 1)
	patched := must(client.Patch(ctx, got.Name, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/more","value":{"type":"string"}}]`), metav1.PatchOptions{}))(t)
	equal(t, patched.Generation, got.Generation+1)
	// The server writes the status too, so an update may conflict.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		got = must(client.Get(ctx, got.Name, metav1.GetOptions{}))(t)
		got.Spec.Scope = apiextensionsv1.NamespaceScoped
		_, err := client.Update(ctx, got, metav1.UpdateOptions{})
		return err
	})
	rejected(t, err, metav1.StatusReasonInvalid)

	if err := client.Delete(ctx, got.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		if e.Type == watch.Deleted {
			break
		}
	}
	_, err = client.Get(ctx, got.Name, metav1.GetOptions{})
	rejected(t, err, metav1.StatusReasonNotFound)
}

// established waits until a CRD is served.
func established(ctx context.Context, t *testing.T, w watch.Interface, name string) {
	t.Helper()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("the watch ended")
			}
			crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
			if ok && crd.Name == name && slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
			}) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("%s is not established", name)
		}
	}
}

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

func TestMetadata(t *testing.T) {
	t.Parallel()
	ctx, server := start(t)
	create(ctx, t, dynamicClient(t, server), "a", "b")
	all := must(metadata.NewForConfig(server.Config()))(t)
	client := all.Resource(backups).Namespace("default")

	got := must(client.Get(ctx, "a", metav1.GetOptions{}))(t)
	equal(t, got.Name, "a")
	list := must(client.List(ctx, metav1.ListOptions{Limit: 1}))(t)
	equal(t, len(list.Items), 1)
	if list.Continue == "" || list.ResourceVersion == "" {
		t.Errorf("the list has no continue token: %v", list.ListMeta)
	}
	w := must(client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))(t)
	defer w.Stop()
	patched := must(client.Patch(ctx, "b", types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"x"}}}`), metav1.PatchOptions{}))(t)
	equal(t, patched.Annotations["note"], "x")
	if _, ok := next(ctx, t, w, watch.Modified, "b").(*metav1.PartialObjectMetadata); !ok {
		t.Error("the watch sends whole objects")
	}
	factory := metadatainformer.NewSharedInformerFactory(all, 0)
	informer := factory.ForResource(backups).Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	equal(t, len(informer.GetStore().List()), 2)
	if err := client.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(ctx, t, w, watch.Deleted, "a")
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
