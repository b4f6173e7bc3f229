// Package builtin connects Kubernetes' own kinds with package analysis.
package builtin

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
)

// KubernetesMinor is the minor version of Kubernetes whose kinds are built in.
const KubernetesMinor = 37

// Names returns the names of the kinds.
var Names = sync.OnceValue(func() *lookup.Kinds {
	var served []runtimeschema.GroupVersionKind
	for _, r := range kinds.Resources() {
		served = append(served, r.GroupVersionKind())
	}
	return lookup.NewKinds(served, scheme.Scheme, KubernetesMinor)
})

// Checker returns a checker for objects of the kinds. The rules are made when the first object is
// checked, so that runs without such objects do not pay for them.
var Checker = sync.OnceValue(func() *object.KindChecker {
	return object.ForKinds(func() (object.Kinds, error) { return newAdapter() })
})

// adapter implements [object.Kinds].
type adapter struct{ rules *kinds.Offline }

func newAdapter() (*adapter, error) {
	rules, err := kinds.NewOffline(cel.New())
	return &adapter{rules}, err
}

func (a *adapter) New(gvk runtimeschema.GroupVersionKind) (runtime.Object, error) {
	return a.rules.New(gvk)
}

func (a *adapter) Decode(gvk runtimeschema.GroupVersionKind, source []byte) (object.KindObject, bool, error) {
	obj, strict, err := a.rules.Decode(gvk, source)
	return &decoded{rules: a.rules, kind: gvk, obj: obj}, len(strict) > 0, err
}

// decoded implements [object.KindObject].
type decoded struct {
	rules    *kinds.Offline
	kind     runtimeschema.GroupVersionKind
	obj, old kind.Object
}

func (d *decoded) Stored() bool { return !kinds.ByKind(d.kind).CreateOnly }

func (d *decoded) Encode() ([]byte, error) { return d.rules.Encode(d.kind, d.obj) }

func (d *decoded) Write(subresource string) ([]string, error) {
	if subresource == "" {
		finish, err := d.rules.Begin(d.obj, d.old)
		if err != nil {
			return nil, err
		}
		defer finish()
	}
	return d.rules.Write(kinds.OfflineWrite{Kind: d.kind, Subresource: subresource, Object: d.obj, Old: d.old})
}

// Replace gives both objects the metadata that a server sets, as far as they lack it: files often
// do.
func (d *decoded) Replace(source []byte) error {
	id, err := api.Identify(source)
	if err != nil {
		return err
	}
	gvk := runtimeschema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
	old, _, err := d.rules.Decode(gvk, source)
	if err != nil {
		return err
	}
	obj, namespaced := d.obj, kinds.ByKind(gvk).Namespaced
	if old.GetUID() == "" {
		old.SetUID(obj.GetUID())
	}
	if old.GetUID() == "" {
		old.SetUID(kinds.OfflineUID)
	}
	if old.GetCreationTimestamp().Time.IsZero() {
		old.SetCreationTimestamp(obj.GetCreationTimestamp())
	}
	if namespaced && old.GetNamespace() == "" {
		old.SetNamespace(obj.GetNamespace())
		if old.GetNamespace() == "" {
			old.SetNamespace(metav1.NamespaceDefault)
		}
	}
	if namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(old.GetNamespace())
	}
	if old.GetResourceVersion() == "" {
		old.SetResourceVersion("1")
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	if obj.GetName() == "" && old.GetName() == "" && obj.GetGenerateName() != "" {
		name := obj.GetGenerateName() + kinds.OfflineSuffix
		obj.SetName(name)
		old.SetName(name)
	}
	d.old = old
	return nil
}
