package policies

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/kinds/kind"
	"espalier.dev/schema"
)

// objects are the namespaces and parameters of an Evaluator.
type objects struct {
	config  Config
	offline *kinds.Offline
	// byKind has the indexes of the objects of a kind, in the order of their names.
	byKind map[runtimeschema.GroupKind][]named

	mu sync.Mutex
	// decoded has the objects that were needed, by index and version.
	decoded map[decodedKey]runtime.Object
}

// named is an object with its name.
type named struct {
	apitypes.NamespacedName
	index int
}

type decodedKey struct {
	index   int
	version string
}

func newObjects(offline *kinds.Offline, c Config) *objects {
	o := &objects{config: c, offline: offline, byKind: map[runtimeschema.GroupKind][]named{}, decoded: map[decodedKey]runtime.Object{}}
	for i, obj := range c.Objects {
		id, err := api.Identify(obj.JSON)
		if err != nil || id.Kind == "" {
			continue
		}
		var head struct {
			Metadata struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"metadata"`
		}
		if json.Unmarshal(obj.JSON, &head) != nil {
			continue // a finding of the command that validates the object
		}
		// A namespace is completed by those who know whether the kind has one.
		name := apitypes.NamespacedName{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
		if name.Namespace == "" {
			name.Namespace = obj.Namespace
		}
		gk := id.GroupVersionKind().GroupKind()
		o.byKind[gk] = append(o.byKind[gk], named{name, i})
	}
	for _, list := range o.byKind {
		slices.SortStableFunc(list, func(a, b named) int {
			switch {
			case a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.Name < b.Name:
				return -1
			case a.NamespacedName == b.NamespacedName:
				return 0
			}
			return 1
		})
	}
	return o
}

// Get returns a namespace. One that is not among the objects is assumed to have no labels but its
// name: a request is only sent if its namespace exists.
func (o *objects) Get(name string) (*corev1.Namespace, error) {
	if ns := o.namespace(name); ns != nil {
		return ns, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}, nil
}

// Read returns a namespace.
func (o *objects) Read(_ context.Context, name string) (*corev1.Namespace, error) { return o.Get(name) }

// namespace returns a namespace that is among the objects, or nil.
func (o *objects) namespace(name string) *corev1.Namespace {
	gvk := corev1.SchemeGroupVersion.WithKind("Namespace")
	for _, n := range o.byKind[gvk.GroupKind()] {
		if n.Name == name {
			obj, err := o.builtin(n, gvk)
			if ns, ok := obj.(*corev1.Namespace); ok && err == nil {
				return ns
			}
		}
	}
	return nil
}

// params returns the parameters of a kind.
func (o *objects) params(kind *admissionregistrationv1.ParamKind) (*Params, error) {
	return NewParams(kind, func(gvk runtimeschema.GroupVersionKind) *crd.Version {
		if d := o.config.Definition(gvk); d != nil {
			if v := d.Version(gvk.Version); v != nil && v.Served() {
				return v
			}
		}
		return nil
	}, paramObjects{o})
}

// paramObjects reads parameters from the objects.
type paramObjects struct{ *objects }

func (o paramObjects) Get(p *Params, namespace, name string) (runtime.Object, error) {
	for _, n := range o.byKind[p.Kind.GroupKind()] {
		if n.Name == name && inNamespace(p, n, namespace) {
			return o.read(p, n)
		}
	}
	return nil, apierrors.NewNotFound(p.Resource, name)
}

func (o paramObjects) List(p *Params, namespace string, selector labels.Selector) (all []runtime.Object, err error) {
	var last apitypes.NamespacedName
	for _, n := range o.byKind[p.Kind.GroupKind()] {
		if !inNamespace(p, n, namespace) || n.NamespacedName == last {
			continue // the first of several with a name counts
		}
		last = n.NamespacedName
		obj, err := o.read(p, n)
		if err != nil {
			return nil, err
		}
		if m, ok := obj.(metav1.Object); ok && selector.Matches(labels.Set(m.GetLabels())) {
			all = append(all, obj)
		}
	}
	return all, nil
}

// inNamespace reports whether a parameter is in a namespace; an empty one stands for all.
func inNamespace(p *Params, n named, namespace string) bool {
	has := n.Namespace
	if has == "" {
		has = metav1.NamespaceDefault
	}
	return !p.Namespaced || namespace == "" || has == namespace
}

// read returns a parameter as the API server serves it.
func (o *objects) read(p *Params, n named) (runtime.Object, error) {
	if p.Version == nil {
		return o.builtin(n, p.Kind)
	}
	return o.memo(n.index, p.Kind.Version, func() (runtime.Object, error) {
		value, err := jsonx.Parse(o.config.Objects[n.index].JSON)
		if err != nil {
			return nil, err
		}
		obj, _ := value.(schema.Object)
		if obj, err = stored(p.Version, obj); err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: obj}
		setNamespace(u, p.Namespaced, n.Namespace)
		return u, nil
	})
}

// builtin returns an object of one of Kubernetes' own kinds as the API server serves it.
func (o *objects) builtin(n named, gvk runtimeschema.GroupVersionKind) (runtime.Object, error) {
	return o.memo(n.index, gvk.Version, func() (runtime.Object, error) {
		obj, err := o.decode(o.config.Objects[n.index].JSON, gvk)
		if err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		setNamespace(obj, kinds.ByKind(gvk).Namespaced, n.Namespace)
		return obj, nil
	})
}

// decode decodes an object of one of Kubernetes' own kinds, and converts it to a version of it.
func (o *objects) decode(source []byte, gvk runtimeschema.GroupVersionKind) (kind.Object, error) {
	id, err := api.Identify(source)
	if err != nil {
		return nil, err
	}
	obj, _, err := o.offline.Decode(id.GroupVersionKind(), source)
	if err != nil || kinds.ByKind(gvk).Stored.Kind == "" {
		return obj, err
	}
	converted, err := o.offline.Encode(gvk, obj)
	if err != nil {
		return nil, err
	}
	into, err := o.offline.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(converted, into); err != nil {
		return nil, err
	}
	return into.(kind.Object), nil
}

// memo returns an object that is decoded once.
func (o *objects) memo(index int, version string, decode func() (runtime.Object, error)) (runtime.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := decodedKey{index, version}
	if obj, ok := o.decoded[key]; ok {
		return obj, nil
	}
	obj, err := decode()
	if err == nil {
		o.decoded[key] = obj
	}
	return obj, err
}

// setNamespace gives an object that lacks it the namespace that it is created in.
func setNamespace(obj metav1.Object, namespaced bool, namespace string) {
	switch {
	case !namespaced:
		obj.SetNamespace("")
	case obj.GetNamespace() == "" && namespace != "":
		obj.SetNamespace(namespace)
	case obj.GetNamespace() == "":
		obj.SetNamespace(metav1.NamespaceDefault)
	}
}
