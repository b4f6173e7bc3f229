package kinds

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds/kind"
	"espalier.dev/schema"
)

// Request is a request that creates an object or, after [Request.Replace], replaces another object
// with it.
type Request struct {
	// Source is the object in JSON.
	Source []byte
	Kind   runtimeschema.GroupVersionKind
	Object kind.Object
	// Namespace is the namespace of objects that have none.
	Namespace string
	// Strict lists the unknown and duplicate fields.
	Strict []error
	// Undecodable is set if the object cannot be decoded.
	Undecodable error

	offline *Offline
	old     kind.Object
}

// Request returns the request that creates the object in source, which is JSON. It returns an error
// if the kind of the object cannot be read.
func (o *Offline) Request(source []byte) (*Request, error) {
	gvk, err := kindOf(source)
	if err != nil {
		return nil, err
	}
	r := &Request{Source: source, Kind: gvk, Namespace: metav1.NamespaceDefault, offline: o}
	r.Object, r.Strict, r.Undecodable = o.Decode(gvk, source)
	return r, nil
}

// kindOf returns the kind of an object in JSON.
func kindOf(source []byte) (runtimeschema.GroupVersionKind, error) {
	id, err := api.Identify(source)
	return runtimeschema.FromAPIVersionAndKind(id.APIVersion, id.Kind), err
}

// Compare compares the object with its Go type.
func (r *Request) Compare() Comparison { return r.offline.Compare(r.Kind, r.Source) }

// Replace sets the object that is replaced, in JSON. It gives both objects the metadata that a
// server sets, as far as they lack it: files often do.
func (r *Request) Replace(source []byte) error {
	_, err := r.replace(source)
	return err
}

// replace does what Replace does, and reports whether the old object comes from a server: it has a
// UID.
func (r *Request) replace(source []byte) (stored bool, _ error) {
	gvk, err := kindOf(source)
	if err != nil {
		return false, err
	}
	old, _, err := r.offline.Decode(gvk, source)
	if err != nil {
		return false, err
	}
	obj, namespaced := r.Object, ByKind(gvk).Namespaced
	stored = old.GetUID() != ""
	if !stored {
		old.SetUID(obj.GetUID())
	}
	if old.GetUID() == "" {
		old.SetUID(OfflineUID)
	}
	if old.GetCreationTimestamp().Time.IsZero() {
		old.SetCreationTimestamp(obj.GetCreationTimestamp())
	}
	if namespaced && old.GetNamespace() == "" {
		old.SetNamespace(obj.GetNamespace())
		if old.GetNamespace() == "" {
			old.SetNamespace(r.Namespace)
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
		name := obj.GetGenerateName() + OfflineSuffix
		obj.SetName(name)
		old.SetName(name)
	}
	r.old = old
	return stored, nil
}

// Old returns the object that is replaced, or nil.
func (r *Request) Old() kind.Object { return r.old }

// Write does what the API server does before it stores the object. It returns the warnings and the
// errors of validation. err is any other error of the API server.
func (r *Request) Write(subresource string) (warnings []string, errs field.ErrorList, err error) {
	if resource := ByKind(r.Kind); resource.Deprecated != "" {
		defer func() { warnings = append([]string{resource.Deprecated}, warnings...) }()
	}
	if subresource == "" {
		finish, err := r.offline.Begin(r.Object, r.old)
		if err != nil {
			return invalid(err)
		}
		defer finish()
	}
	if r.old == nil && r.Object.GetNamespace() == "" && ByKind(r.Kind).Namespaced {
		r.Object.SetNamespace(r.Namespace)
	}
	warnings, errs, err = r.offline.validate(OfflineWrite{Kind: r.Kind, Subresource: subresource, Object: r.Object, Old: r.old})
	if err != nil {
		return invalid(err)
	}
	return warnings, errs, nil
}

// Encode returns the object as JSON of its kind or, if stored is set, of the kind that is stored.
func (r *Request) Encode(stored bool) (schema.Object, error) {
	gvk := r.Kind
	if stored {
		gvk = ByKind(gvk).StoredKind()
	}
	text, err := r.offline.Encode(gvk, r.Object)
	if err != nil {
		return nil, err
	}
	tree, err := jsonx.Parse(text)
	obj, _ := tree.(schema.Object)
	return obj, err
}

// invalid returns the field errors of an error of the API server, or the error if it has none.
func invalid(err error) (_ []string, errs field.ErrorList, _ error) {
	if !apierrors.IsInvalid(err) {
		return nil, nil, err
	}
	var status apierrors.APIStatus
	errors.As(err, &status)
	for _, cause := range status.Status().Details.Causes {
		e := &field.Error{Type: field.ErrorType(cause.Type), Field: cause.Field, BadValue: field.OmitValueType{}}
		// The value is a part of the text, which must not change.
		e.Detail = strings.TrimPrefix(cause.Message, e.Type.String()+": ")
		errs = append(errs, e)
	}
	return nil, errs, nil
}
