package builtin_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"espalier.dev/kinds"
	"espalier.dev/server/servertest"
)

// TestBuiltinClients uses every built-in kind with a typed client: with each verb, over protobuf
// and over JSON.
func TestBuiltinClients(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	// The controller of quotas would write the quota between two writes of the test, and then quotas
	// reject pods.
	o.Controllers = []string{"*", "-resourcequota"}
	o.DisableAdmissionPlugins = nil
	s := servertest.Start(t, o)
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	objects, known := servertest.Seeds(t, "../../test/oracle/builtin/seeds"), runtime.NewScheme()
	if err := kinds.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(known, metav1.Unversioned)
	codecs := serializer.NewCodecFactory(known)
	for half, media := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		tested, left := 0, 0
		for i, r := range kinds.Resources() {
			gv := r.GroupVersionKind().GroupVersion()
			seed := objects[gv.String()+" "+r.Kind]
			if seed == nil {
				if !r.CreateOnly {
					left++
				}
				continue
			}
			tested++
			if testing.Short() && i%2 != half {
				continue // each kind in one of them
			}
			t.Run(media+" "+r.GroupVersionResource().String(), func(t *testing.T) {
				c := rest.CopyConfig(config)
				c.APIPath, c.GroupVersion = "/apis", &gv
				if r.Group == "" {
					c.APIPath = "/api"
				}
				c.NegotiatedSerializer = codecs.WithoutConversion()
				c.ContentType, c.AcceptContentTypes = media, media
				client, err := rest.RESTClientFor(c)
				if err != nil {
					t.Fatal(err)
				}
				(&kindClient{T: t, client: client, known: known, resource: r, seed: seed}).all()
			})
		}
		// All but those of dynamic resource allocation.
		if left > 4 || tested < 50 {
			t.Errorf("%d kinds have no objects, %d have", left, tested)
		}
	}
}

// kindClient is a typed client of one kind.
type kindClient struct {
	*testing.T
	client   *rest.RESTClient
	known    *runtime.Scheme
	resource *kinds.Resource
	seed     []byte
}

// object returns a new object of the kind.
func (k *kindClient) object() (runtime.Object, metav1.Object) {
	k.Helper()
	obj, err := k.known.New(k.resource.GroupVersionKind())
	if err != nil {
		k.Fatal(err)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		k.Fatal(err)
	}
	return obj, m
}

func (k *kindClient) request(verb string) *rest.Request {
	return k.client.Verb(verb).NamespaceIfScoped("default", k.resource.Namespaced).Resource(k.resource.Plural)
}

// do sends a request for an object, and returns what the server answers.
func (k *kindClient) do(what string, r *rest.Request) (runtime.Object, metav1.Object) {
	k.Helper()
	obj, m := k.object()
	if err := r.Do(k.Context()).Into(obj); err != nil {
		k.Fatalf("%s: %v", what, err)
	}
	return obj, m
}

// fresh returns the object to create.
func (k *kindClient) fresh() (runtime.Object, string) {
	k.Helper()
	obj, m := k.object()
	if err := json.Unmarshal(k.seed, obj); err != nil {
		k.Fatal(err)
	}
	if k.resource.Namespaced {
		m.SetNamespace("default")
	}
	m.SetLabels(map[string]string{"test": "clients"})
	return obj, m.GetName()
}

func (k *kindClient) all() {
	obj, name := k.fresh()
	list, err := k.known.New(k.resource.GroupVersionKind().GroupVersion().WithKind(k.resource.Kind + "List"))
	if err != nil {
		k.Fatal(err)
	}
	if err := k.request("GET").Do(k.Context()).Into(list); err != nil {
		k.Fatal("list:", err)
	}
	listed, err := meta.ListAccessor(list)
	if err != nil {
		k.Fatal(err)
	}
	events, err := k.request("GET").VersionedParams(&metav1.ListOptions{
		Watch: true, ResourceVersion: listed.GetResourceVersion(), LabelSelector: "test=clients",
	}, metav1.ParameterCodec).Watch(k.Context())
	if err != nil {
		k.Fatal("watch:", err)
	}
	defer events.Stop()
	next := func(want watch.EventType) {
		k.Helper()
		select {
		case e := <-events.ResultChan():
			if m, err := meta.Accessor(e.Object); err != nil || e.Type != want || m.GetName() != name {
				k.Errorf("event %s of %v, want %s of %s (%v)", e.Type, e.Object, want, name, err)
			}
		case <-time.After(time.Minute):
			k.Fatal("no event", want)
		}
	}
	k.do("create", k.request("POST").Body(obj))
	next(watch.Added)
	// A controller may write the status in between.
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		got, m := k.do("get", k.request("GET").Name(name))
		m.GetLabels()["put"] = "yes"
		return k.request("PUT").Name(name).Body(got).Do(k.Context()).Error()
	}); err != nil {
		k.Fatal("update:", err)
	}
	next(watch.Modified)
	gvk := k.resource.GroupVersionKind()
	for _, p := range []struct {
		kind types.PatchType
		body string
	}{
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/json","value":"yes"}]`},
		{types.MergePatchType, `{"metadata":{"labels":{"merge":"yes"}}}`},
		{types.StrategicMergePatchType, `{"metadata":{"labels":{"strategic":"yes"}}}`},
		{types.ApplyYAMLPatchType, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"apply":"yes"}}}`, gvk.GroupVersion(), gvk.Kind, name)},
	} {
		r := k.request("PATCH").Name(name).SetHeader("Content-Type", string(p.kind)).Body([]byte(p.body))
		if p.kind == types.ApplyYAMLPatchType {
			r = r.Param("fieldManager", "clients")
		}
		k.do(string(p.kind), r)
		next(watch.Modified)
	}
	_, m := k.do("get", k.request("GET").Name(name))
	for _, label := range []string{"put", "json", "merge", "strategic", "apply"} {
		if m.GetLabels()[label] != "yes" {
			k.Errorf("the label %s is missing: %v", label, m.GetLabels())
		}
	}
	now := int64(0)
	remove := &metav1.DeleteOptions{GracePeriodSeconds: &now}
	if err := k.request("DELETE").Name(name).Body(remove).Do(k.Context()).Error(); err != nil {
		k.Fatal("delete:", err)
	}
	k.gone(name)
	if k.resource.KeepsCollection {
		return
	}
	obj, _ = k.fresh()
	k.do("create again", k.request("POST").Body(obj))
	if err := k.request("DELETE").VersionedParams(&metav1.ListOptions{LabelSelector: "test=clients"}, metav1.ParameterCodec).Body(remove).Do(k.Context()).Error(); err != nil {
		k.Fatal("deletecollection:", err)
	}
	k.gone(name)
}

// gone waits until an object is gone, and removes its finalizers.
func (k *kindClient) gone(name string) {
	k.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		obj, m := k.object()
		err := k.request("GET").Name(name).Do(k.Context()).Into(obj)
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			k.Fatal("get:", err)
		}
		if m.GetDeletionTimestamp() == nil || time.Now().After(deadline) {
			k.Fatal("it was not deleted")
		}
		if len(m.GetFinalizers()) > 0 {
			k.request("PATCH").Name(name).SetHeader("Content-Type", string(types.MergePatchType)).Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(k.Context())
		}
	}
}
