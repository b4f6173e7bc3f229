// Package source reads CRDs and objects from where they are stored: a running cluster, an etcd,
// a snapshot file of an etcd, a dump, or manifests. Objects are streamed, so the number of
// objects is not limited by memory.
package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/crd"
)

// Source is a place where CRDs and objects are stored. Its methods can be called several times,
// one after the other.
//
// A sequence goes on after an error that is a [*Failure], which is about one object or one
// resource. Any other error is the last element. The JSON of an object belongs to the caller.
type Source interface {
	// Definitions returns the CRDs. Their JSON has apiVersion and kind.
	Definitions(ctx context.Context) iter.Seq2[Object, error]
	// Objects returns the selected objects, each of them once, in any order.
	Objects(ctx context.Context, selected Selection) iter.Seq2[Object, error]
	// Stored reports whether objects are returned as they are stored. If not, they are as an
	// API server serves them: without the fields that the CRD does not specify, with defaults,
	// and in another version than the stored one.
	Stored() bool
	// Semantics returns the schema semantics that the source was written with, or an empty
	// string if it does not say so.
	Semantics(ctx context.Context) (string, error)
	// Close releases what the source holds.
	Close() error
}

// Selection selects objects.
type Selection struct {
	// Definitions are the CRDs whose objects are selected.
	Definitions []*crd.Definition
	// Namespaces selects the objects of some namespaces, and none without a namespace. If it is
	// empty, all objects are selected.
	Namespaces []string
	// Name selects objects with a name, unless it is empty.
	Name string
}

// has reports whether an object of one of the CRDs is selected.
func (s *Selection) has(namespace, name string) bool {
	return (len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, namespace)) && (s.Name == "" || s.Name == name)
}

// Object is an object of a source.
type Object struct {
	// Definition is the name of the object's CRD: crontabs.example.com. For a CRD it is its own
	// name.
	Definition      string
	Namespace, Name string
	JSON            []byte
	// Revision is the revision of etcd that wrote the object, which is its resource version. It
	// is zero if the source is no etcd.
	Revision int64
	// Item is the object in its file if the source is manifests, otherwise nil.
	Item *input.Item

	where string
}

// FullName returns namespace and name: default/my-job.
func (o *Object) FullName() string {
	return input.Identity{Namespace: o.Namespace, Name: o.Name}.FullName()
}

// Where returns the place of the object: file and line, key in etcd, or path in a URL.
func (o *Object) Where() string {
	if o.Item == nil {
		return o.where
	}
	line := o.Item.Position("").Value.Line
	switch {
	case !o.Item.Rendered():
		line = max(line, o.Item.Line())
	case line == 0:
		return o.Item.File
	}
	return fmt.Sprintf("%s:%d", o.Item.File, line)
}

// AsItem returns the object as the input of a command. The file of an object that is in none is the
// place of the object.
func (o *Object) AsItem() (*input.Item, error) {
	if o.Item != nil {
		return o.Item, nil
	}
	it, err := input.NewItem(o.Where(), o.JSON)
	if err != nil {
		return nil, &Failure{*o, Unreadable, err}
	}
	return it, nil
}

// Reason is why a part of a source cannot be read.
type Reason uint8

// The reasons of failures.
const (
	// Unreadable is the reason of an object that is no JSON, or that is cut off.
	Unreadable Reason = iota
	// Encrypted is the reason of an object that cannot be decrypted.
	Encrypted
	// Forbidden is the reason of a resource that the user may not read.
	Forbidden
	// Vanished is the reason of a resource that is not served, for example because its CRD was
	// deleted since it was read.
	Vanished
	// Failing is the reason of a resource that the server cannot list.
	Failing
)

// Failure is an object that cannot be read or, if it has no name, a whole resource. The rest of
// the source is read.
type Failure struct {
	Object Object
	Reason Reason
	Err    error
}

// Error returns the place and the reason.
func (f *Failure) Error() string {
	if where := f.Object.Where(); where != "" {
		return where + ": " + f.Err.Error()
	}
	return f.Err.Error()
}

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Err }

// Each calls use for the objects of a sequence of a [Source], and failed for what cannot be read.
// It returns the first error of use, or the one that ends the sequence.
func Each(all iter.Seq2[Object, error], failed func(*Failure), use func(Object) error) error {
	for o, err := range all {
		var failure *Failure
		switch {
		case errors.As(err, &failure):
			failed(failure)
			continue
		case err == nil:
			err = use(o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
