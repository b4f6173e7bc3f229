package policies

import (
	"errors"
	"fmt"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/server/fields"
)

// Params are the objects of a kind that are parameters of a policy.
type Params struct {
	Kind runtimeschema.GroupVersionKind
	// Resource is that of the stored objects, which may be of another kind.
	Resource runtimeschema.GroupResource
	// Version is that of the CRD, or nil for one of Kubernetes' own kinds.
	Version    *crd.Version
	Namespaced bool

	reader ParamReader
}

// ParamReader reads the objects of a kind that are parameters. They have their apiVersion and kind. An
// empty namespace stands for all.
type ParamReader interface {
	Get(p *Params, namespace, name string) (runtime.Object, error)
	List(p *Params, namespace string, selector labels.Selector) ([]runtime.Object, error)
}

// NewParams returns the parameters of a kind. version returns the version of a CRD that has a kind,
// or nil.
func NewParams(kind *admissionregistrationv1.ParamKind, version func(runtimeschema.GroupVersionKind) *crd.Version, r ParamReader) (*Params, error) {
	gvk := runtimeschema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	for _, b := range kinds.Resources() {
		if b.GroupVersionKind() == gvk {
			return &Params{Kind: gvk, Resource: kinds.ByKind(b.StoredKind()).GroupResource(), Namespaced: b.Namespaced, reader: r}, nil
		}
	}
	if v := version(gvk); v != nil {
		return &Params{Kind: gvk, Resource: v.Definition().GroupResource(), Version: v, Namespaced: v.Definition().Namespaced(), reader: r}, nil
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
}

// collect returns the parameters for which a policy is evaluated; nil is one of them, if the policy or
// the binding has none. namespace is that of the request.
func collect(kind *admissionregistrationv1.ParamKind, p *Params, ref *admissionregistrationv1.ParamRef, namespace string) (found []runtime.Object, err error) {
	if kind == nil || ref == nil {
		return []runtime.Object{nil}, nil
	}
	switch {
	case !p.Namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !p.Namespaced:
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		param, err := p.reader.Get(p, namespace, ref.Name)
		if err == nil {
			found = []runtime.Object{param}
		} else if !apierrors.IsNotFound(err) {
			return nil, unreadable(err)
		}
	case ref.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
		if err != nil {
			return nil, err
		}
		if found, err = p.reader.List(p, namespace, selector); err != nil {
			return nil, unreadable(err)
		}
	default:
		return nil, errors.New("one of name or selector must be provided")
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return found, nil
}

// unreadable logs why parameters cannot be read: the failure policy may hide it.
func unreadable(err error) error {
	utilruntime.HandleError(err)
	return err
}

// Types has the types that mutating policies merge by.
type Types struct {
	// Definition returns the CRD of a kind, or nil.
	Definition func(runtimeschema.GroupVersionKind) *crd.Definition
	// Builtin returns the types of one of Kubernetes' own kinds.
	Builtin func(runtimeschema.GroupVersionKind) (managedfields.TypeConverter, error)

	mu sync.Mutex
	// custom has those of custom resources, as long as their CRD does not change.
	custom map[string]customTypes
}

type customTypes struct {
	definition *crd.Definition
	types      *fields.Types
}

// GetTypeConverter returns the types of a kind, or nil if there is no such kind.
func (t *Types) GetTypeConverter(gvk runtimeschema.GroupVersionKind) managedfields.TypeConverter {
	d := t.Definition(gvk)
	if d == nil {
		types, err := t.Builtin(gvk)
		if err != nil {
			return nil
		}
		return types
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.custom[d.Name()]
	if !ok || known.definition != d {
		if t.custom == nil {
			t.custom = map[string]customTypes{}
		}
		known = customTypes{d, fields.NewTypes(d)}
		t.custom[d.Name()] = known
	}
	return known.types
}
