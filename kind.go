package espalier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/crd"
)

// Kind returns an Admitter for one of Kubernetes' own kinds, such as apps/v1 Deployment, in all of
// its versions. It needs package kinds, which has the rules of these kinds:
//
//	import _ "espalier.dev/kinds"
//
// Programs without this import are smaller, because they do not link k8s.io/api. With it, every
// [Set] admits built-in kinds, too. The import of espalier.dev/kinds/cel instead compiles the
// expressions of webhooks and admission policies as well.
//
// Of the options, only [WithNamespace] has a meaning for built-in kinds. What depends on a cluster
// is not done: admission plugins, quotas, IPs and ports of services. The error for an unknown kind is
// an [*UnknownKindError].
func Kind(apiVersion, kind string, opts ...Option) (*Admitter, error) {
	if kinds == nil {
		return nil, errNoKinds
	}
	id := metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	a := newOptions(opts).builtin(id.GroupVersionKind().GroupKind())
	if _, err := a.version(given{TypeMeta: id}); err != nil {
		return nil, err
	}
	return a, nil
}

var errNoKinds = errors.New(`built-in kinds need package kinds: import _ "espalier.dev/kinds"`)

// Kinds admits objects of Kubernetes' own kinds. Package kinds implements it.
type Kinds interface {
	// All returns the kinds.
	All() []runtimeschema.GroupVersionKind
	// HasStatus reports whether status is a subresource of a kind.
	HasStatus(runtimeschema.GroupVersionKind) bool
	// Admit does to an object what the API server does before it stores it.
	Admit(context.Context, KindRequest) (*Result, error)
}

// KindRequest is a request that writes an object of a built-in kind.
type KindRequest struct {
	// Source is the object, and Old the object that it replaces, or nil, in JSON.
	Source, Old []byte
	// Subresource is status, or empty for the object itself.
	Subresource string
	// Namespace is the namespace of objects that have none.
	Namespace string
}

// kinds is nil if the program does not import package kinds.
var kinds Kinds

// RegisterKinds sets the implementation of [Kind]. Package kinds calls it when it is imported.
func RegisterKinds(k Kinds) { kinds = k }

// builtin returns an Admitter for a built-in kind. It admits nothing if there is no such kind.
func (o *options) builtin(kind runtimeschema.GroupKind) *Admitter {
	a := &Admitter{kind: kind, versions: map[string]*crd.Version{}, namespace: orDefault(o.namespace)}
	if kinds == nil {
		return a
	}
	for _, gvk := range kinds.All() {
		if gvk.GroupKind() == kind {
			a.versions[gvk.GroupVersion().String()] = nil
		}
	}
	return a
}

// isBuiltin reports whether the kind is a built-in one.
func (a *Admitter) isBuiltin() bool { return a.definition == nil }

// replaceBuiltin admits an object of a built-in kind that replaces old.
func (a *Admitter) replaceBuiltin(ctx context.Context, g given, old Object, subresource string) (*Result, error) {
	before, _ := old["apiVersion"].(string)
	if _, ok := a.versions[before]; !ok || old["kind"] != a.kind.Kind {
		return nil, fmt.Errorf("old object: %w", unknownKind(givenObject(old).TypeMeta, a))
	}
	return a.admitBuiltin(ctx, g, old, subresource)
}

// admitBuiltin admits an object of a built-in kind. old is nil if it is created.
func (a *Admitter) admitBuiltin(ctx context.Context, g given, old Object, subresource string) (*Result, error) {
	r := KindRequest{Source: g.src, Subresource: subresource, Namespace: a.namespace}
	var err error
	if r.Source == nil {
		if r.Source, err = encode(g.obj); err != nil {
			return nil, err
		}
	}
	if old != nil {
		if r.Old, err = encode(old); err != nil {
			return nil, fmt.Errorf("old object: %w", err)
		}
	}
	result, err := kinds.Admit(ctx, r)
	if err != nil {
		return nil, err
	}
	result.kind = a.kind.String()
	if kinds.HasStatus(g.GroupVersionKind()) {
		result.keep(func(field string) bool { return (field == "status") == (subresource == "status") })
	}
	return result, nil
}

// encode returns an object as JSON.
func encode(obj Object) ([]byte, error) {
	obj, err := copyObject(obj)
	if err != nil {
		return nil, err
	}
	return json.Marshal(obj)
}
