// Package builtin connects Kubernetes' own kinds, whose rules are those of the server
// (espalier.dev/server/builtin), with package analysis.
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
	"espalier.dev/server/builtin"
	"espalier.dev/server/builtin/kind"
)

// KubernetesMinor is the minor version of Kubernetes whose kinds are built in.
const KubernetesMinor = 37

// Names returns the names of the kinds.
var Names = sync.OnceValue(func() *lookup.Kinds {
	var served []runtimeschema.GroupVersionKind
	for _, r := range builtin.Resources() {
		served = append(served, r.GroupVersionKind())
	}
	return lookup.NewKinds(served, scheme.Scheme, KubernetesMinor)
})

// Checker returns a checker for objects of the kinds. The rules are made when the first object is
// checked, so that runs without such objects do not pay for them.
var Checker = sync.OnceValue(func() *object.KindChecker {
	return object.ForKinds(func() (object.Kinds, error) { return newKinds() })
})

// kinds implements [object.Kinds].
type kinds struct {
	rules     *builtin.Offline
	resources map[runtimeschema.GroupVersionKind]*builtin.Resource
}

func newKinds() (*kinds, error) {
	rules, err := builtin.NewOffline()
	if err != nil {
		return nil, err
	}
	k := &kinds{rules, map[runtimeschema.GroupVersionKind]*builtin.Resource{}}
	for _, r := range builtin.Resources() {
		k.resources[r.GroupVersionKind()] = r
	}
	return k, nil
}

func (k *kinds) New(gvk runtimeschema.GroupVersionKind) (runtime.Object, error) {
	return k.rules.New(gvk)
}

func (k *kinds) Decode(gvk runtimeschema.GroupVersionKind, source []byte) (object.KindObject, bool, error) {
	obj, strict, err := k.rules.Decode(gvk, source)
	return &decoded{kinds: k, kind: gvk, obj: obj}, len(strict) > 0, err
}

// decoded implements [object.KindObject].
type decoded struct {
	kinds    *kinds
	kind     runtimeschema.GroupVersionKind
	obj, old kind.Object
}

func (d *decoded) Stored() bool { return !d.kinds.resources[d.kind].CreateOnly }

func (d *decoded) Encode() ([]byte, error) { return d.kinds.rules.Encode(d.kind, d.obj) }

func (d *decoded) Write(subresource string) ([]string, error) {
	if subresource == "" {
		finish, err := d.kinds.rules.Begin(d.obj, d.old)
		if err != nil {
			return nil, err
		}
		defer finish()
	}
	return d.kinds.rules.Write(builtin.OfflineWrite{Kind: d.kind, Subresource: subresource, Object: d.obj, Old: d.old})
}

// Replace gives both objects the metadata that a server sets, as far as they lack it: files often
// do.
func (d *decoded) Replace(source []byte) error {
	id, err := api.Identify(source)
	if err != nil {
		return err
	}
	gvk := runtimeschema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
	old, _, err := d.kinds.rules.Decode(gvk, source)
	if err != nil {
		return err
	}
	obj, namespaced := d.obj, d.kinds.resources[gvk].Namespaced
	if old.GetUID() == "" {
		old.SetUID(obj.GetUID())
	}
	if old.GetUID() == "" {
		old.SetUID(builtin.OfflineUID)
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
		name := obj.GetGenerateName() + builtin.OfflineSuffix
		obj.SetName(name)
		old.SetName(name)
	}
	d.old = old
	return nil
}
