package espalier

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Result is the result of admitting an object.
type Result struct {
	// Object is the object as it would be stored in its own version, without what only the
	// API server can add: a uid, timestamps, a new resourceVersion. If the storage version
	// is another one, the conversion may drop more fields: see package analysis/object.
	Object Object
	// Changes lists the fields that were pruned, dropped and defaulted, each with its
	// path and the schema that caused the change. Built-in kinds have no schemas.
	Changes []schema.Change
	// IgnoredChanges lists changes in the part of the object that the request does not
	// write: the status or, for an update of the status, everything else. They do not
	// affect the stored object, but the API server warns of unknown fields there too.
	IgnoredChanges []schema.Change
	// Truncated is true if there were more changes than are listed.
	Truncated bool
	// Warnings are the warnings that the API server sends to the client.
	Warnings []string
	// Violations are the reasons to reject the object. A valid object has none. Those of a
	// built-in kind have the kind schema.Builtin, and are Kubernetes' field errors.
	Violations schema.Violations

	kind string
}

// Pruned returns the changes that removed a field because the schema does not specify it.
func (r *Result) Pruned() []schema.Change { return r.changes(schema.Pruned) }

// Defaulted returns the changes that filled in a default.
func (r *Result) Defaulted() []schema.Change { return r.changes(schema.Defaulted) }

func (r *Result) changes(kind schema.ChangeKind) (list []schema.Change) {
	for _, c := range r.Changes {
		if c.Kind == kind {
			list = append(list, c)
		}
	}
	return list
}

// keep moves the changes whose first field is not kept to IgnoredChanges.
func (r *Result) keep(field func(string) bool) {
	r.Changes = slices.DeleteFunc(r.Changes, func(c schema.Change) bool {
		if len(c.Path) == 0 || field(c.Path[0].Key) {
			return false
		}
		r.IgnoredChanges = append(r.IgnoredChanges, c)
		return true
	})
}

// Err returns nil if the object is valid, and an [*InvalidError] otherwise.
func (r *Result) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	meta, _ := r.Object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	errs := r.Violations.FieldErrors()
	if r.Violations.Truncated() {
		errs = append(errs, schema.MoreErrors())
	}
	return &InvalidError{Kind: r.kind, Name: name, Errors: errs}
}

// Into stores Object in the value that v points to, such as the Go type of the custom
// resource, and replaces its previous contents. If the object is invalid, Into does not
// change v and returns the error of [Result.Err].
func (r *Result) Into(v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("cannot store an object in a %T: a non-nil pointer is required", v)
	}
	if err := r.Err(); err != nil {
		return err
	}
	data, err := json.Marshal(r.Object)
	if err != nil {
		return err
	}
	fresh := reflect.New(target.Type().Elem())
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, fresh.Interface()); err != nil {
		return fmt.Errorf("store the object in a %T: %w", v, err)
	}
	target.Elem().Set(fresh.Elem())
	return nil
}

// FieldError is returned for an object that cannot be admitted because of one of its
// fields, regardless of the schema.
type FieldError struct {
	Path schema.Path
	// Problem is what is wrong with the field.
	Problem string
}

// Error returns the path and the problem.
func (e *FieldError) Error() string { return e.Path.String() + ": " + e.Problem }

// InvalidError is returned for an object that the API server would reject.
type InvalidError struct {
	// Kind is the kind of the object with its group, such as CronTab.example.com.
	Kind   string
	Name   string
	Errors field.ErrorList
}

func invalidCRD(name string, errs field.ErrorList) error {
	return &InvalidError{Kind: api.Kind + "." + api.GroupName, Name: name, Errors: errs}
}

// Error returns the message of the API server.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s %q is invalid: %v", e.Kind, e.Name, crd.BoundErrors(e.Errors).ToAggregate())
}

// Unwrap returns the reasons.
func (e *InvalidError) Unwrap() []error {
	errs := make([]error, len(e.Errors))
	for i, err := range e.Errors {
		errs[i] = err
	}
	return errs
}
