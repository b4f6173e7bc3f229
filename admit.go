package espalier

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Create applies what the API server does to a create request with obj. It does not
// change obj.
//
// Create returns an error if the object cannot be decoded: the CRD does not define its
// kind (an [*UnknownKindError]), its metadata is malformed, or a value contradicts its
// type. For a built-in kind, this is an error of package k8s.io/apimachinery/pkg/api/errors
// whose causes name the fields. All other reasons to reject the object are in the Result. An object with a
// generateName and no name is valid; only an API server can name it.
func (a *Admitter) Create(ctx context.Context, obj Object) (*Result, error) {
	return a.create(ctx, givenObject(obj))
}

// CreateJSON is Create for an object in JSON. It is faster, and it warns of fields that
// occur twice.
func (a *Admitter) CreateJSON(ctx context.Context, src []byte) (*Result, error) {
	g, err := givenJSON(src)
	if err != nil {
		return nil, err
	}
	return a.create(ctx, g)
}

func (a *Admitter) create(ctx context.Context, g given) (*Result, error) {
	v, err := a.version(g)
	if err != nil {
		return nil, err
	}
	if a.isBuiltin() {
		return a.admitBuiltin(ctx, g, nil, "")
	}
	result, err := a.decode(v, g, nil)
	if err != nil {
		return nil, err
	}
	meta := result.Object["metadata"].(map[string]any)
	if meta["resourceVersion"] != nil {
		return nil, &FieldError{Path: schema.Path{{Key: "metadata"}, {Key: "resourceVersion"}},
			Problem: "must not be set on an object to be created"}
	}
	v.PrepareCreate(result.Object)
	if v.HasStatus() {
		result.keep(func(field string) bool { return field != "status" })
	}
	if prefix, _ := meta["generateName"].(string); prefix != "" && meta["name"] == nil {
		// An API server generates the name before it validates. Use a placeholder here.
		meta["name"] = prefix + "00000"
		defer delete(meta, "name")
	}
	return a.judge(ctx, v, result, nil, (*crd.Version).Validate)
}

// Update applies what the API server does to a request that replaces old, an object that
// has been written before, with obj. Invalid values that old already has are tolerated, as
// far as Kubernetes ratchets. Old loses the fields that the storage version does not
// specify. It may be of another served version than obj, unless a webhook converts between
// them. If obj has no namespace or resourceVersion, it gets those of old. Update changes
// neither object, and returns an error where [Admitter.Create] does.
func (a *Admitter) Update(ctx context.Context, obj, old Object) (*Result, error) {
	return a.replace(ctx, givenObject(obj), old)
}

// UpdateJSON is Update for an object in JSON.
func (a *Admitter) UpdateJSON(ctx context.Context, src []byte, old Object) (*Result, error) {
	g, err := givenJSON(src)
	if err != nil {
		return nil, err
	}
	return a.replace(ctx, g, old)
}

func (a *Admitter) replace(ctx context.Context, g given, old Object) (*Result, error) {
	if v, err := a.version(g); err == nil && v == nil {
		return a.replaceBuiltin(ctx, g, old, "")
	}
	return a.update(ctx, g, old, func(v *crd.Version, result *Result, stored Object) {
		v.PrepareUpdate(result.Object, stored)
		if v.HasStatus() {
			result.keep(func(field string) bool { return field != "status" })
		}
	}, (*crd.Version).Validate)
}

// UpdateStatus applies what the API server does to a request to the status subresource:
// it uses only the status of obj, and everything else of old. It returns an error if
// the version of the objects has no status subresource.
func (a *Admitter) UpdateStatus(ctx context.Context, obj, old Object) (*Result, error) {
	return a.replaceStatus(ctx, givenObject(obj), old)
}

// UpdateStatusJSON is UpdateStatus for an object in JSON.
func (a *Admitter) UpdateStatusJSON(ctx context.Context, src []byte, old Object) (*Result, error) {
	g, err := givenJSON(src)
	if err != nil {
		return nil, err
	}
	return a.replaceStatus(ctx, g, old)
}

func (a *Admitter) replaceStatus(ctx context.Context, g given, old Object) (*Result, error) {
	v, err := a.version(g)
	switch {
	case err != nil:
		return nil, err
	case a.isBuiltin() && !kinds.HasStatus(g.GroupVersionKind()):
		return nil, fmt.Errorf("%s has no status subresource", a.kind)
	case a.isBuiltin():
		return a.replaceBuiltin(ctx, g, old, "status")
	case !v.HasStatus():
		return nil, fmt.Errorf("version %s of %s has no status subresource", v.Name(), a.definition.Name())
	}
	return a.update(ctx, g, old, func(v *crd.Version, result *Result, stored Object) {
		v.PrepareStatusUpdate(result.Object, stored)
		result.keep(func(field string) bool { return field == "status" })
	}, (*crd.Version).ValidateStatus)
}

type validateFunc func(*crd.Version, context.Context, Object, Object) (schema.Violations, error)

func (a *Admitter) update(ctx context.Context, g given, old Object,
	prepare func(*crd.Version, *Result, Object), validate validateFunc) (result *Result, err error) {
	v, err := a.version(g)
	if err != nil {
		return nil, err
	}
	stored, err := a.stored(old, v)
	if err != nil {
		return nil, err
	}
	oldMeta := a.place(stored, a.namespace)
	if oldMeta["resourceVersion"] == nil {
		// Every stored object has one, and validation requires it. Its value does not
		// matter here, and the result does not contain it.
		oldMeta["resourceVersion"] = "1"
		defer func() {
			if result != nil {
				delete(result.Object["metadata"].(map[string]any), "resourceVersion")
			}
		}()
	}
	if result, err = a.decode(v, g, stored); err != nil {
		return nil, err
	}
	meta := result.Object["metadata"].(map[string]any)
	if meta["resourceVersion"] == nil {
		meta["resourceVersion"] = oldMeta["resourceVersion"]
	} else if given, _ := old["metadata"].(map[string]any); given["resourceVersion"] != nil &&
		meta["resourceVersion"] != oldMeta["resourceVersion"] {
		return nil, fmt.Errorf("metadata.resourceVersion: %v is not %v, that of the old object: the object has been modified, apply the changes to the latest version", meta["resourceVersion"], oldMeta["resourceVersion"])
	}
	prepare(v, result, stored)
	return a.judge(ctx, v, result, stored, validate)
}

// stored returns a copy of an old object as the API server reads it for a request in version
// v: it was written in its own version, and is converted from the storage version to v. Fields
// that the storage version does not specify are lost, and only its defaults are applied on
// reading.
func (a *Admitter) stored(old Object, v *crd.Version) (Object, error) {
	from, err := a.version(givenObject(old))
	if err != nil {
		return nil, fmt.Errorf("old object: %w", err)
	}
	storage := a.definition.Storage()
	if conversion := a.definition.CRD().Spec.Conversion; conversion != nil && conversion.Strategy != api.NoneConverter {
		if from != v {
			return nil, fmt.Errorf("the old object has version %s, the new one has version %s, and a webhook converts between them: convert it first", from.Name(), v.Name())
		}
		storage = v // what the webhook does is unknown
	} else if storage == nil {
		storage = v
	}
	obj, err := copyObject(old)
	if err != nil {
		return nil, fmt.Errorf("old object: %w", err)
	}
	versions := slices.Compact([]*crd.Version{from, storage, v})
	for i, at := range versions {
		p, err := at.Program()
		if err != nil {
			return nil, err
		}
		obj["apiVersion"] = at.GroupVersionKind().GroupVersion().String()
		converted := i > 0 && at != storage
		if _, err := p.Normalize(obj, schema.DecodeOptions{FromStorage: true, WithoutDefaults: converted}); err != nil {
			return nil, fmt.Errorf("old object: %w", err)
		}
	}
	return obj, nil
}

// version returns the version that an object belongs to. It is nil for a built-in kind.
func (a *Admitter) version(g given) (*crd.Version, error) {
	if v, ok := a.versions[g.APIVersion]; ok && g.Kind == a.kind.Kind {
		return v, nil
	}
	return nil, unknownKind(g.TypeMeta, a)
}

// decode prunes and defaults an object, or a copy of it, and lists the changes.
func (a *Admitter) decode(v *crd.Version, g given, old Object) (*Result, error) {
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	obj, report, err := g.decode(p, schema.DecodeOptions{Report: true, Old: old})
	if err != nil {
		return nil, err
	}
	result := &Result{Object: obj, Changes: report.Changes, Truncated: report.Truncated, kind: v.GroupVersionKind().GroupKind().String()}
	for _, path := range report.UnknownFields() {
		result.Warnings = append(result.Warnings, fmt.Sprintf("unknown field %q", path))
	}
	for _, path := range report.DuplicateFields() {
		result.Warnings = append(result.Warnings, fmt.Sprintf("duplicate field %q", path))
	}
	if report.Truncated {
		result.Warnings = append(result.Warnings, "there are more unknown fields than are listed")
	}
	namespace := a.namespace
	if old != nil {
		namespace, _, _ = unstructured.NestedString(old, "metadata", "namespace")
	}
	a.place(obj, namespace)
	return result, nil
}

// place sets the namespace of a namespaced object that has none, and returns the
// object's metadata.
func (a *Admitter) place(obj Object, namespace string) map[string]any {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	switch given, _ := meta["namespace"].(string); {
	case !a.definition.Namespaced():
		delete(meta, "namespace")
	case given == "":
		meta["namespace"] = namespace
	}
	return meta
}

func (a *Admitter) judge(ctx context.Context, v *crd.Version, result *Result, old Object, validate validateFunc) (_ *Result, err error) {
	result.Violations, err = validate(v, ctx, result.Object, old)
	if err != nil {
		return nil, err
	}
	result.Warnings = append(result.Warnings, v.Warnings(result.Object, old)...)
	return result, nil
}
