package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

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
		v := w.violation(Metadata, id, obj[key], Operand{})
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
	meta, err := objectMeta(obj["metadata"])
	if err != nil {
		add("metadata", field.Invalid(at.Child("metadata"), obj["metadata"], err.Error()))
		return vs
	}
	if meta.Name == "" {
		// An embedded resource need not have a name.
		meta.Name = "unnamed"
	}
	for _, err := range metadataErrors(w.ctx, operation.Create, meta, nil, meta.Namespace != "", pathSegment, at.Child("metadata")) {
		v := w.violation(Metadata, id, nil, Operand{})
		v.Path, v.Value = metadataErrorPath(v.Path, obj["metadata"], err)
		v.Cause = err
		vs = append(vs, v)
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

// objectMeta decodes metadata, which should be normal.
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
				Path: Path{{Key: key}}, Kind: Metadata, Value: got, Want: Operand{Name: want}, Closest: -1,
				Cause: field.Invalid(field.NewPath(key), got, "must be "+want),
			})
		}
	}
	check("kind", id.Kind)
	check("apiVersion", id.APIVersion)
	return vs
}

// MaxOwnerReferences is the number of owner references that an object may have. The JSON of as many
// valid ones has more bytes than an API server accepts; empty ones have four errors each.
const MaxOwnerReferences = 65536

// metadataErrors returns the errors of metadata, up to the number of violations that are searched
// for.
func metadataErrors(ctx context.Context, op operation.Type, meta, old *metav1.ObjectMeta, namespaced bool,
	name validation.ValidateNameFunc, at *field.Path) field.ErrorList {
	if n := len(meta.OwnerReferences); n > MaxOwnerReferences {
		return field.ErrorList{field.TooMany(at.Child("ownerReferences"), n, MaxOwnerReferences)}
	}
	errs := validation.ValidateObjectMetaDeclaratively(ctx, op, meta, old, namespaced, name, at, true)
	if ctx.Value(exhaustive{}) == nil {
		errs = errs[:min(len(errs), MaxViolations)]
	}
	return errs
}

// objectMeta validates the metadata of the object itself.
func (id *Identity) objectMeta(ctx context.Context, obj, old Object) (vs Violations) {
	at := field.NewPath("metadata")
	add := func(errs ...*field.Error) {
		for _, err := range errs {
			path, value := metadataErrorPath(nil, obj["metadata"], err)
			vs = append(vs, Violation{Path: path, Kind: Metadata, Value: value, Closest: -1, Cause: err})
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
		add(metadataErrors(ctx, operation.Create, meta, nil, id.Namespaced, validation.NameIsDNSSubdomain, at)...)
		return vs
	}
	oldMeta := read(old)
	if oldMeta == nil {
		return vs
	}
	add(metadataErrors(ctx, operation.Update, meta, oldMeta, id.Namespaced, nil, at)...)
	return vs
}

// metadataSchema returns the schema of metadata. It must not be changed.
var metadataSchema = sync.OnceValue(ObjectMeta)

// metadataErrorPath returns the path of a Kubernetes field error about the metadata of
// the resource at the path resource, and the value at that path or nil. A field error
// has its path as text only, with unquoted keys. ObjectMeta and the metadata itself are
// used to parse it. The path ends where neither of them has the next step.
func metadataErrorPath(resource Path, metadata any, err *field.Error) (Path, any) {
	path, value := append(resource.clone(), Step{Key: "metadata"}), metadata
	rest := strings.TrimPrefix(err.Field, path.FieldPath().String())
	for s := metadataSchema(); ; {
		step, after, ok := nextStep(s, value, rest)
		if !ok {
			return path, value
		}
		path, rest = append(path, step), after
		if step.Kind == Index {
			list, _ := value.([]any)
			value, s = list[step.Index], s.Items
		} else {
			fields, _ := value.(map[string]any)
			value, s = fields[step.Key], orEmpty(s.Properties[step.Key])
		}
	}
}

// nextStep cuts the first step off text, the rest of a field path into a value with the
// schema s.
func nextStep(s *Structural, value any, text string) (step Step, rest string, ok bool) {
	take := func(name string, st Step) {
		if after, is := strings.CutPrefix(text, name); is && (after == "" || after[0] == '.' || after[0] == '[') {
			step, rest, ok = st, after, true
		}
	}
	switch v := value.(type) {
	case map[string]any:
		// The values of maps in metadata have no fields, so the rest is a key.
		if key := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"); s.AdditionalProperties != nil {
			if _, found := v[key]; found {
				take("["+key+"]", Step{Key: key, Kind: MapKey})
			}
		}
	case []any:
		digits, _, _ := strings.Cut(strings.TrimPrefix(text, "["), "]")
		if i, _ := strconv.Atoi(digits); i >= 0 && i < len(v) {
			take("["+strconv.Itoa(i)+"]", Step{Index: i, Kind: Index})
		}
	}
	for k := range s.Properties {
		take("."+k, Step{Key: k})
	}
	return step, rest, ok
}
