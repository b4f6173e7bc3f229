package backend

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"espalier.dev/store"
)

// corruptError is the error of a stored value that cannot be decrypted or decoded.
type corruptError struct {
	entry *store.Entry
	err   error
}

func (e *corruptError) Error() string {
	what := "decoded"
	if e.entry.Err != nil {
		what = "transformed"
	}
	return fmt.Sprintf("the value of %s at revision %d cannot be %s: %v. If it is lost, delete it with the option ignoreStoreReadErrorWithClusterBreakingPotential",
		e.entry.Key, e.entry.Revision, what, e.err)
}

func (e *corruptError) Unwrap() error { return e.err }

// corrupted returns the error of an entry that is corrupt. k8s.io/apiserver knows it by its
// code, and answers every request with the reason InternalError.
func corrupted(e *store.Entry, err error) error {
	return storage.NewCorruptObjError(e.Key, &corruptError{e, err})
}

// decode returns the object of an entry, with a resource version. If into is not nil, it
// becomes the object.
func (s *Storage) decode(e *store.Entry, revision int64, into runtime.Object) (runtime.Object, error) {
	if e.Err != nil {
		if s.corrupt(e.Err) {
			return nil, corrupted(e, e.Err)
		}
		return nil, storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", e.Key, e.Err))
	}
	obj, err := s.decodeValue(e.Value, revision, into)
	switch {
	case err == nil || s.config.Intact(err):
		return obj, err
	case s.unsafe:
		return nil, corrupted(e, err)
	}
	return nil, fmt.Errorf("decode %s: %w", e.Key, err)
}

// corrupt reports whether an error means that a value is corrupt, and is to be reported so.
func (s *Storage) corrupt(err error) bool { return s.unsafe && !s.config.Intact(err) }

func (s *Storage) decodeValue(value []byte, revision int64, into runtime.Object) (runtime.Object, error) {
	obj, gvk, err := s.config.Codec.Decode(value, nil, into)
	if err != nil {
		return nil, err
	}
	if into != nil && obj != into {
		return nil, fmt.Errorf("the codec has not decoded into the %T that was passed", into)
	}
	if reflect.TypeOf(obj) != s.typ {
		return nil, fmt.Errorf("the stored object is a %v, not one of the %s", gvk, s.config.Resource)
	}
	return obj, s.versioner.UpdateObject(obj, uint64(revision))
}

// result sets out to an object that was written as data at a revision. It need not be decoded
// if that returned the same object.
func (s *Storage) result(out, obj runtime.Object, data []byte, revision int64) error {
	written := obj
	if w, ok := obj.(Wrapper); ok {
		written = w.Unwrap()
	}
	if s.tripper == nil || written == nil || reflect.TypeOf(out) != reflect.TypeOf(written) || !s.tripper.RoundTrips(obj, data) {
		_, err := s.decodeValue(data, revision, out)
		return err
	}
	if out != written {
		if tree, ok := written.(*unstructured.Unstructured); ok {
			out.(*unstructured.Unstructured).Object = ShallowCopy(tree.Object)
		} else {
			reflect.ValueOf(out).Elem().Set(reflect.ValueOf(written.DeepCopyObject()).Elem())
		}
	}
	return s.versioner.UpdateObject(out, uint64(revision))
}

// ShallowCopy returns a copy of a tree whose metadata can be changed. Everything but the metadata
// is shared.
func ShallowCopy(tree map[string]any) map[string]any {
	tree = maps.Clone(tree)
	if meta, ok := tree["metadata"].(map[string]any); ok {
		tree["metadata"] = maps.Clone(meta)
	}
	return tree
}

// maxCorrupt is the number of corrupt objects that the error of a list names.
const maxCorrupt = 100

var errTooManyCorrupt = errors.New("too many errors, the list is truncated")

// corruption collects the corrupt objects of a list. Such a list is an error that names them.
type corruption struct {
	objects []error // storage.StorageError
	aborted error
}

// add takes in the error of an object. It reports false if the list must end.
func (c *corruption) add(err error) bool {
	if !storage.IsCorruptObject(err) {
		c.aborted = err
		return false
	}
	c.objects = append(c.objects, err)
	if len(c.objects) == maxCorrupt {
		c.aborted = errTooManyCorrupt
		return false
	}
	return true
}

// err returns the error of the list, or nil.
func (c *corruption) err(r runtimeschema.GroupResource) error {
	if len(c.objects) == 0 {
		return c.aborted
	}
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("failed to read %d of the %s from the storage, first: %v", len(c.objects), r, c.objects[0]),
		Details: &metav1.StatusDetails{Group: r.Group, Kind: r.Resource, Name: "list"},
	}
	cause := func(typ metav1.CauseType, key, message string) {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: typ, Field: key, Message: message})
	}
	for _, err := range c.objects {
		failed := (*storage.StorageError)(nil)
		errors.As(err, &failed)
		cause(metav1.CauseTypeUnexpectedServerResponse, failed.Key, err.Error())
	}
	switch {
	case errors.Is(c.aborted, errTooManyCorrupt):
		cause(metav1.CauseTypeTooMany, "", c.aborted.Error())
	case c.aborted != nil:
		cause(metav1.CauseTypeUnexpectedServerResponse, "", c.aborted.Error())
	}
	return &apierrors.StatusError{ErrStatus: status}
}
