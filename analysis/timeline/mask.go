package timeline

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxAnnotation is the maximum length of an annotation that a Masker does not mask.
const maxAnnotation = 256

// masked begins a value that a Masker has written. No value in the data of a Secret begins so, because
// they are encoded as base64.
const masked = "(masked: "

// Masker replaces the data of Secrets by its size and a digest, such as "(masked: 5 bytes, digest
// 3f9a02c1)". Equal values have equal digests, so it shows whether a value has changed. Each Masker
// has a random key, which makes it impossible to guess values by their digests.
//
// It does so for the kind Secret of Kubernetes. Tools keep the whole object in an annotation, as kubectl
// apply does, so it also masks annotations of Secrets that are longer than 256 bytes or begin with
// "{". Of other objects it masks those that are encrypted in the storage: all fields but apiVersion,
// kind and metadata, and the same annotations.
type Masker struct{ key [sha256.Size]byte }

// NewMasker returns a Masker with a new key.
func NewMasker() *Masker {
	m := &Masker{}
	_, _ = rand.Read(m.key[:]) // never fails
	return m
}

// Object returns an object without the data of a Secret. It returns obj, which may be nil, if
// that is none, and otherwise a copy.
func (m *Masker) Object(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if !isSecret(obj) {
		return obj
	}
	obj = obj.DeepCopy()
	for _, field := range []string{"data", "stringData"} {
		if values, ok := obj.Object[field].(map[string]any); ok {
			for name, v := range values {
				values[name] = m.mask(v)
			}
		} else if v, ok := obj.Object[field]; ok {
			obj.Object[field] = m.mask(v)
		}
	}
	m.annotations(obj)
	return obj
}

func isSecret(obj *unstructured.Unstructured) bool {
	return obj != nil && obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1"
}

// annotations masks annotations that may have the whole object.
func (m *Masker) annotations(obj *unstructured.Unstructured) {
	annotations, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "annotations")
	values, _ := annotations.(map[string]any)
	for name, v := range values {
		if s, ok := v.(string); !ok || len(s) > maxAnnotation || strings.HasPrefix(strings.TrimSpace(s), "{") {
			values[name] = m.mask(v)
		}
	}
}

// encrypted returns a copy of an object that is encrypted in the storage, without its content.
func (m *Masker) encrypted(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || isSecret(obj) {
		return m.Object(obj)
	}
	obj = obj.DeepCopy()
	for name, v := range obj.Object {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			obj.Object[name] = m.mask(v)
		}
	}
	m.annotations(obj)
	return obj
}

// Change returns a change without the data of a Secret or of an encrypted object.
func (m *Masker) Change(c *Change) *Change {
	mask := m.Object
	if c.Encrypted {
		mask = m.encrypted
	}
	before, after := mask(c.Before), mask(c.After)
	if before == c.Before && after == c.After {
		return c
	}
	out := *c
	out.Before, out.After = before, after
	return &out
}

func (m *Masker) mask(v any) any {
	s, ok := v.(string)
	switch {
	case v == nil:
		return nil
	case !ok:
		s = fmt.Sprint(v)
	case strings.HasPrefix(s, masked):
		return s
	}
	value := []byte(s)
	if decoded, err := base64.StdEncoding.DecodeString(s); err == nil {
		value = decoded
	}
	mac := hmac.New(sha256.New, m.key[:])
	mac.Write(value)
	return fmt.Sprintf("%s%d bytes, digest %x)", masked, len(value), mac.Sum(nil)[:4])
}
