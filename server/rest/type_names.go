package rest

import (
	"io"
	"net/http"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NameTypes returns media types whose statuses name Go types of another package: objects in memory
// have published types, and those of kube-apiserver have the types of an internal package, which it
// names in messages.
func NameTypes(infos []runtime.SerializerInfo, pkg string) []runtime.SerializerInfo {
	out := slices.Clone(infos)
	for n := range out {
		i := &out[n]
		i.Serializer = NameType(i.Serializer, pkg)
		if i.PrettySerializer != nil {
			i.PrettySerializer = NameType(i.PrettySerializer, pkg)
		}
	}
	return out
}

// NameType returns a serializer whose statuses name Go types of another package.
func NameType(s runtime.Serializer, pkg string) runtime.Serializer { return &typeNames{s, pkg} }

type typeNames struct {
	runtime.Serializer
	pkg string
}

var _ runtime.EncoderWithAllocator = &typeNames{}

// Encode writes an object.
func (t *typeNames) Encode(obj runtime.Object, w io.Writer) error {
	return t.Serializer.Encode(t.named(obj), w)
}

// EncodeWithAllocator implements runtime.EncoderWithAllocator.
func (t *typeNames) EncodeWithAllocator(obj runtime.Object, w io.Writer, memory runtime.MemoryAllocator) error {
	if e, ok := t.Serializer.(runtime.EncoderWithAllocator); ok {
		return e.EncodeWithAllocator(t.named(obj), w, memory)
	}
	return t.Encode(obj, w)
}

// namedType matches the message of an object that cannot be written as a client wants it.
var namedType = regexp.MustCompile(`^(you requested \w+, but the requested object is (?:not )?a list \(\*)\w+(\.\w+\))$`)

// named returns the object that is written.
func (t *typeNames) named(obj runtime.Object) runtime.Object {
	status, ok := obj.(*metav1.Status)
	if !ok || status.Code != http.StatusNotAcceptable {
		return obj
	}
	renamed := *status
	renamed.Message = namedType.ReplaceAllString(status.Message, "${1}"+t.pkg+"$2")
	return &renamed
}
