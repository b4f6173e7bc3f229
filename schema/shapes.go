package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// shapeCheck is one of the checks that follow the core of the schema alone.
type shapeCheck uint8

const (
	shapeMetadata shapeCheck = iota // of embedded resources
	shapeLists                      // list types
	shapeUnions
)

// shapes walks the core and adds the violations of one check to all.
func (w *walker) shapes(all *Violations, id int32, v any, check shapeCheck) {
	n := &w.p.nodes[id]
	switch v := v.(type) {
	case map[string]any:
		switch {
		case check == shapeMetadata && n.flags&embedded != 0:
			*all = append(*all, w.embedded(id, v)...)
		case check == shapeUnions:
			*all = append(*all, w.unions(id, v)...)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			child, isMapValue := n.child(k)
			if child <= nowhere {
				continue
			}
			step := Step{Key: k}
			if isMapValue {
				step.Kind = MapKey
			}
			w.path = append(w.path, step)
			w.shapes(all, child, v[k], check)
			w.path = w.path[:len(w.path)-1]
		}
	case []any:
		if check == shapeLists && n.list != nil {
			*all = append(*all, w.list(id, v)...)
		}
		if n.items <= nowhere {
			return
		}
		for i, x := range v {
			w.path = append(w.path, Step{Index: i, Kind: Index})
			w.shapes(all, n.items, x, check)
			w.path = w.path[:len(w.path)-1]
		}
	}
}

func (w *walker) list(id int32, a []any) (vs Violations) {
	at := func(k ViolationKind, i int, v any) {
		w.path = append(w.path, Step{Index: i, Kind: Index})
		vs = append(vs, w.violation(k, id, v, nil))
		w.path = w.path[:len(w.path)-1]
	}
	indices, values, notObject := w.p.nodes[id].list.duplicates(a)
	if notObject >= 0 {
		at(NotAnObject, notObject, a[notObject])
	}
	for i, index := range indices {
		at(DuplicateItem, index, values[i])
	}
	return vs
}

func (w *walker) unions(id int32, obj map[string]any) (vs Violations) {
	for i := range w.p.nodes[id].unions {
		u := &w.p.nodes[id].unions[i]
		member, count := u.set(obj)
		if count != 1 {
			var set []string
			for _, m := range u.members {
				if _, ok := obj[m]; ok {
					set = append(set, m)
				}
			}
			v := w.violation(UnionMembers, id, strings.Join(set, ", "), slices.Clone(u.members))
			v.Problem = "exactly one of " + strings.Join(u.members, ", ") + " must be set"
			if count == 0 {
				v.Problem += ", but none is"
			} else {
				v.Problem += ", but there are " + fmt.Sprint(count)
			}
			vs = append(vs, v)
			continue
		}
		if !u.agrees(obj, member) {
			w.path = append(w.path, Step{Key: u.discriminator})
			v := w.violation(WrongDiscriminator, id, obj[u.discriminator], u.values[member])
			v.Problem = fmt.Sprintf("must be %q, because %s is set", u.values[member], u.members[member])
			w.path = w.path[:len(w.path)-1]
			vs = append(vs, v)
		}
	}
	return vs
}

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

// provesEmbedded says whether apiVersion, kind and metadata of an embedded resource
// are certainly valid.
func provesEmbedded(obj map[string]any) bool {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	if !isPlainName(kind) || strings.Count(apiVersion, "/") > 1 || apiVersion == "" || apiVersion == "/" {
		return false
	}
	v, found := obj["metadata"]
	if !found {
		return true
	}
	meta, ok := v.(map[string]any)
	return ok && provesMetadata(meta)
}

// provesIdentity says whether apiVersion, kind and metadata of the object itself are
// certainly valid.
func provesIdentity(id *Identity, obj map[string]any) bool {
	if obj["kind"] != any(id.Kind) || obj["apiVersion"] != any(id.APIVersion) {
		return false
	}
	meta, ok := obj["metadata"].(map[string]any)
	_, named := meta["name"]
	_, namespaced := meta["namespace"]
	return ok && named && namespaced == id.Namespaced && provesMetadata(meta)
}

// provesMetadata says whether metadata is certainly valid: it has nothing but what
// most objects have, spelled plainly.
func provesMetadata(meta map[string]any) bool {
	for k, v := range meta {
		switch k {
		case "name", "namespace":
			if s, _ := v.(string); !isPlainName(s) || strings.ToLower(s) != s {
				return false
			}
		case "generation":
			if n, ok := v.(int64); !ok || n < 0 {
				return false
			}
		case "labels":
			if !plainStrings(v, isPlainLabel) {
				return false
			}
		case "annotations":
			if !plainStrings(v, func(s string) bool { return len(s) < 1<<12 }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// plainStrings says whether v is a small map of qualified names to strings that are
// fine.
func plainStrings(v any, fine func(string) bool) bool {
	m, ok := v.(map[string]any)
	if !ok || len(m) > 32 {
		return false
	}
	for k, x := range m {
		prefix, name, qualified := strings.Cut(k, "/")
		if !qualified {
			prefix, name = "", k
		} else if _, ok := isDotted(prefix); !ok || len(prefix) > 200 || strings.ToLower(prefix) != prefix {
			return false
		}
		if s, ok := x.(string); !ok || !isPlainLabel(name) || name == "" || !fine(s) {
			return false
		}
	}
	return true
}

// isPlainLabel says whether s is a value that a label can have: letters, digits
// and, inside, dots, dashes and underscores.
func isPlainLabel(s string) bool {
	if len(s) > 63 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isAlphanumeric(c) && (i == 0 || i == len(s)-1 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}

// isPlainName says whether s is made of ASCII letters, and short enough for any
// kind of name.
func isPlainName(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			if i == 0 || i == len(s)-1 || s[i] != '-' && (s[i] < '0' || s[i] > '9') {
				return false
			}
		}
	}
	return true
}
