// Package kind describes the rules of Kubernetes' own kinds as data: what the server does to an
// object before it stores it.
//
// Objects are the Go types of k8s.io/api in the version that is stored. Kube-apiserver has the
// same rules for its internal types; error messages and the paths of fields are equal.
package kind

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object is an object of a kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// User is the user who sends a request. The users of k8s.io/apiserver implement it.
type User interface {
	GetName() string
	GetUID() string
	GetGroups() []string
	GetExtra() map[string][]string
}

// Rules are the rules of a kind. All functions may be nil. They must not keep or change the old
// object.
type Rules struct {
	// Default fills in defaults. It runs whenever an object is decoded: from a request or from
	// the storage.
	Default func(obj Object)
	// Main are the rules of writes of whole objects.
	Main Write
	// Status are the rules of the subresource status; nil means that there is none.
	Status *Write
	// Subresources are the rules of other subresources that write the object, by name, such as
	// finalize and approval.
	Subresources map[string]Write
	// Fields returns the fields for field selectors beside the name and the namespace.
	Fields func(obj Object) fields.Set
	// Requester sets the user who creates an object, after Prepare.
	Requester func(obj Object, by User)
	// CreateOnUpdate allows an update to create an object that does not exist.
	CreateOnUpdate bool
	// KeepsPrefix uses the generateName of a new object as its name, without a random suffix.
	KeepsPrefix bool
	// Conditional rejects updates without a resourceVersion.
	Conditional bool
	// Graceful returns the grace period in seconds of a deletion, given the one that the client
	// has asked for, if any. Objects of kinds without it are deleted immediately.
	Graceful func(obj Object, requested *int64) int64
}

// Write are the rules of one endpoint that writes objects. old is nil if the object is created.
type Write struct {
	// Prepare normalizes an object before it is validated: fields that the endpoint does not
	// write keep their old value, or none.
	Prepare func(obj, old Object)
	// Validate returns all errors, including those of the metadata.
	Validate func(obj, old Object) field.ErrorList
	// Warnings returns warnings for the client that writes a valid object.
	Warnings func(obj, old Object) []string
	// Canonicalize changes a valid object before it is stored.
	Canonicalize func(obj Object)
	// Reset are the paths of fields that the endpoint ignores, such as "status". Writers of
	// the endpoint never own them.
	Reset []string
}

// Write returns the rules of a subresource that writes objects, or of whole objects if it is empty,
// and reports whether there are any.
func (r *Rules) Write(subresource string) (w Write, ok bool) {
	switch {
	case subresource == "":
		return r.Main, true
	case subresource == "status" && r.Status != nil:
		return *r.Status, true
	}
	w, ok = r.Subresources[subresource]
	return w, ok
}

// Part returns a field of an object, such as Spec, which its Go type must have.
func Part(obj Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

// Change adapts a function on one Go type to a function on objects. old is nil for a create.
func Change[T Object](f func(obj, old T)) func(obj, old Object) {
	return func(obj, old Object) {
		before, _ := old.(T)
		f(obj.(T), before)
	}
}

// Check adapts a validation of one Go type.
func Check[T Object](f func(obj, old T) field.ErrorList) func(obj, old Object) field.ErrorList {
	return func(obj, old Object) field.ErrorList {
		before, _ := old.(T)
		return f(obj.(T), before)
	}
}

// Warn adapts a function that returns the warnings for objects of one Go type.
func Warn[T Object](f func(obj, old T) []string) func(obj, old Object) []string {
	return func(obj, old Object) []string {
		before, _ := old.(T)
		return f(obj.(T), before)
	}
}

// On adapts a function that changes objects of one Go type.
func On[T Object](f func(obj T)) func(obj Object) {
	return func(obj Object) { f(obj.(T)) }
}
