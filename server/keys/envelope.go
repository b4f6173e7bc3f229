package keys

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime"
)

var (
	// protobuf begins an object in Kubernetes' envelope of protobuf messages, as it is stored and
	// sent.
	protobuf = []byte("k8s\x00")
	// encrypted begins an encrypted value.
	encrypted = []byte("k8s:enc:")
)

// IsProtobuf reports whether an object is encoded as protobuf. Otherwise, it is JSON.
func IsProtobuf(value []byte) bool { return bytes.HasPrefix(value, protobuf) }

// IsEncrypted reports whether a stored value is encrypted.
func IsEncrypted(value []byte) bool { return bytes.HasPrefix(value, encrypted) }

// Unwrap returns the content of the envelope of an object that is encoded as protobuf, and
// reports whether it is.
func Unwrap(value []byte) (envelope runtime.Unknown, isProtobuf bool, err error) {
	message, ok := bytes.CutPrefix(value, protobuf)
	if ok {
		err = envelope.Unmarshal(message)
	}
	return envelope, ok, err
}
