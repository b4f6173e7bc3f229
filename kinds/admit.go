package kinds

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

func init() { espalier.RegisterKinds(NewAdmission(nil)) }

// Admission admits objects of the built-in kinds for package espalier.
type Admission struct {
	// Offline makes the rules when they are first used.
	Offline func() (*Offline, error)
}

// NewAdmission returns an Admission. cel is that of [Rules].
func NewAdmission(cel CEL) *Admission {
	return &Admission{sync.OnceValues(func() (*Offline, error) { return NewOffline(cel) })}
}

// All returns the kinds that are served by default.
func (a *Admission) All() []runtimeschema.GroupVersionKind {
	var list []runtimeschema.GroupVersionKind
	for _, r := range Resources() {
		list = append(list, r.GroupVersionKind())
	}
	return list
}

// HasStatus reports whether status is a subresource of a kind.
func (a *Admission) HasStatus(gvk runtimeschema.GroupVersionKind) bool {
	r := ByKind(gvk)
	return r != nil && r.Subresource("status") != nil
}

// Admit implements [espalier.Kinds]. Objects that the API server does not store, such as reviews,
// are only decoded.
func (a *Admission) Admit(_ context.Context, w espalier.KindRequest) (*espalier.Result, error) {
	offline, err := a.Offline()
	if err != nil {
		return nil, err
	}
	r, err := offline.Request(w.Source)
	switch {
	case err != nil:
		return nil, err
	case r.Undecodable != nil:
		return nil, r.undecodable()
	}
	r.Namespace = w.Namespace
	given, old := parse(w.Source), parse(w.Old)
	if err := r.place(w, given, old); err != nil {
		return nil, err
	}
	result := &espalier.Result{}
	if len(r.Strict) > 0 || bytes.Contains(w.Source, []byte("null")) {
		result.Changes = r.Compare().Changes
	}
	for _, err := range r.Strict {
		result.Warnings = append(result.Warnings, err.Error())
	}
	var errs field.ErrorList
	if resource := ByKind(r.Kind); !resource.CreateOnly {
		var warnings []string
		if warnings, errs, err = r.Write(w.Subresource); err != nil {
			return nil, err
		}
		result.Warnings = append(result.Warnings, warnings...)
	}
	if result.Object, err = r.Encode(false); err != nil {
		return nil, err
	}
	for _, e := range errs {
		path, _ := Locate(strings.TrimPrefix(e.Field, "<nil>"), result.Object)
		result.Violations = append(result.Violations, schema.Violation{Kind: schema.Builtin,
			Path: path, Value: e.BadValue, Cause: e, Closest: -1})
	}
	WithoutServer(w, given, old, result.Object)
	result.Changes = slices.DeleteFunc(result.Changes, func(c schema.Change) bool {
		_, filled := c.Path.Find(result.Object)
		return c.Kind == schema.NullDropped && filled
	})
	result.Changes = append(result.Changes, Defaulted(given, result.Object)...)
	slices.SortStableFunc(result.Changes, func(a, b schema.Change) int { return strings.Compare(a.Path.String(), b.Path.String()) })
	return result, nil
}

// parse returns an object in JSON. Numbers that no field can have may keep it from being parsed; then
// it has no fields.
func parse(source []byte) schema.Object {
	tree, _ := jsonx.Parse(source)
	obj, _ := tree.(schema.Object)
	return obj
}

// place sets the object that is replaced, if any, and checks that the request is for this version.
func (r *Request) place(w espalier.KindRequest, given, old schema.Object) error {
	const field = "resourceVersion"
	version := metadata(given)[field]
	switch {
	case w.Old == nil && version != nil && version != "":
		return &espalier.FieldError{Path: schema.Path{{Key: "metadata"}, {Key: field}},
			Problem: "must not be set on an object to be created"}
	case w.Old == nil:
		return nil
	case ByKind(r.Kind).CreateOnly:
		return fmt.Errorf("a %s cannot be updated, because it is not stored", r.Kind.Kind)
	}
	if before := metadata(old)[field]; version != nil && before != nil && version != before {
		return fmt.Errorf("metadata.resourceVersion: %v is not %v, that of the old object: the object has been modified, apply the changes to the latest version", version, before)
	}
	if err := r.Replace(w.Old); err != nil {
		return fmt.Errorf("old object: %w", err)
	}
	return nil
}

func metadata(obj schema.Object) map[string]any {
	meta, _ := obj["metadata"].(map[string]any)
	return meta
}

// WithoutServer removes from a written object what only a server knows, and what Go fills in.
func WithoutServer(w espalier.KindRequest, given, old, written schema.Object) {
	meta := metadata(written)
	remove := []string{"uid", "creationTimestamp", "name"}
	if w.Old != nil {
		remove = append(remove, "resourceVersion")
	}
	for _, field := range remove {
		before, sent := metadata(old)[field], metadata(given)[field]
		if w.Old == nil && field != "name" || before == nil && (sent == nil || field == "resourceVersion") {
			delete(meta, field)
		}
	}
	if w.Subresource == "" && old["status"] == nil {
		delete(written, "status")
	}
}

// undecodable returns the error about an object that cannot be decoded. Its causes name the fields.
func (r *Request) undecodable() error {
	status := apierrors.NewBadRequest(r.Undecodable.Error())
	status.ErrStatus.Details = &metav1.StatusDetails{}
	for _, e := range r.Compare().Wrong {
		cause := metav1.StatusCause{Type: metav1.CauseTypeTypeInvalid, Field: e.Path.String(), Message: e.Problem}
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, cause)
	}
	return status
}

// Defaulted returns the fields that the API server has added to an object, without metadata and
// status.
func Defaulted(given, stored schema.Object) (changes []schema.Change) {
	var path schema.Path
	var compare func(given, stored any)
	below := func(s schema.Step, f func()) {
		path = append(path, s)
		f()
		path = path[:len(path)-1]
	}
	compare = func(given, stored any) {
		switch stored := stored.(type) {
		case map[string]any:
			given, ok := given.(map[string]any)
			if !ok {
				return
			}
			for _, name := range slices.Sorted(maps.Keys(stored)) {
				value := stored[name]
				if len(path) == 0 && (name == "metadata" || name == "status") {
					continue
				}
				below(schema.Step{Key: name}, func() {
					before := given[name]
					if m, ok := value.(map[string]any); before == nil && value != nil && !(ok && len(m) == 0) {
						changes = append(changes, schema.Change{Kind: schema.Defaulted, Path: slices.Clone(path)})
						return
					}
					compare(before, value)
				})
			}
		case []any:
			given, ok := given.([]any)
			if !ok || len(given) != len(stored) {
				return
			}
			for i := range stored {
				below(schema.Step{Kind: schema.Index, Index: i}, func() { compare(given[i], stored[i]) })
			}
		}
	}
	compare(given, stored)
	return changes
}
