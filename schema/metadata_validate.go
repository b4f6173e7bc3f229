package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// embedded validates apiVersion, kind and metadata of an embedded resource.
func (w *walker) embedded(id int32, obj map[string]any) (vs Violations) {
	at := w.path.FieldPath()
	add := func(key string, err *field.Error) {
		v := w.violation(Metadata, id, obj[key], nil)
		v.Path = append(v.Path, Step{Key: key})
		v.Cause = err
		vs = append(vs, v)
	}
	for _, key := range [...]string{"apiVersion", "kind"} {
		v, found := obj[key]
		if !found {
			add(key, field.Required(at.Child(key), ""))
			continue
		}
		if problem := typeMetaProblem(key, v); problem != "" {
			add(key, field.Invalid(at.Child(key), v, problem))
		}
	}
	v, found := obj["metadata"]
	if !found {
		return vs
	}
	meta, err := objectMeta(v)
	if err != nil {
		add("metadata", field.Invalid(at.Child("metadata"), v, err.Error()))
		return vs
	}
	if meta.Name == "" {
		// An embedded resource need not have a name yet.
		meta.Name = "unnamed"
	}
	for _, err := range validation.ValidateObjectMetaDeclaratively(w.ctx, operation.Create, meta, nil, meta.Namespace != "", pathSegment, at.Child("metadata"), true) {
		add("metadata", err)
	}
	return vs
}

func typeMetaProblem(key string, v any) string {
	s, ok := v.(string)
	switch {
	case !ok:
		return "must be a string"
	case s == "":
		return "must not be empty"
	case key == "apiVersion":
		if _, err := schema.ParseGroupVersion(s); err != nil {
			return err.Error()
		}
		return ""
	}
	if problems := utilvalidation.IsDNS1035Label(strings.ToLower(s)); len(problems) > 0 {
		return "may have mixed case, but should otherwise match: " + strings.Join(problems, ",")
	}
	return ""
}

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// objectMeta reads metadata, which should be normal.
func objectMeta(v any) (*metav1.ObjectMeta, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var meta metav1.ObjectMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &meta); err != nil {
		return nil, err
	}
	return &meta, nil
}

// typeMeta validates apiVersion and kind of the object itself.
func (id *Identity) typeMeta(obj Object) (vs Violations) {
	check := func(key, want string) {
		got, _ := obj[key].(string)
		if got != want {
			vs = append(vs, Violation{
				Path: Path{{Key: key}}, Kind: Metadata, Value: got, Want: want, Closest: -1,
				Cause: field.Invalid(field.NewPath(key), got, "must be "+want),
			})
		}
	}
	check("kind", id.Kind)
	check("apiVersion", id.APIVersion)
	return vs
}

// objectMeta validates the metadata of the object itself.
func (id *Identity) objectMeta(ctx context.Context, obj, old Object) (vs Violations) {
	at := field.NewPath("metadata")
	add := func(errs ...*field.Error) {
		for _, err := range errs {
			vs = append(vs, Violation{Path: Path{{Key: "metadata"}}, Kind: Metadata, Value: obj["metadata"], Closest: -1, Cause: err})
		}
	}
	read := func(obj Object) *metav1.ObjectMeta {
		meta := &metav1.ObjectMeta{}
		switch raw := obj["metadata"].(type) {
		case nil:
		case map[string]any:
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, meta); err != nil {
				add(field.Invalid(at, raw, err.Error()))
				return nil
			}
		default:
			add(field.Invalid(at, raw, fmt.Sprintf("expected map[string]interface{}, got %T", raw)))
			return nil
		}
		return meta
	}
	meta := read(obj)
	if meta == nil {
		return vs
	}
	if old == nil {
		add(validation.ValidateObjectMetaDeclaratively(ctx, operation.Create, meta, nil, id.Namespaced, validation.NameIsDNSSubdomain, at, true)...)
		return vs
	}
	oldMeta := read(old)
	if oldMeta == nil {
		return vs
	}
	add(validation.ValidateObjectMetaDeclaratively(ctx, operation.Update, meta, oldMeta, id.Namespaced, nil, at, true)...)
	return vs
}
