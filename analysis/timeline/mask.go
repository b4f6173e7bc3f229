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

// lastApplied is the annotation in which kubectl keeps the object that was applied, with its data.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// masked begins a value that a Masker has written. No value in the data of a Secret begins so, because
// they are encoded as base64.
const masked = "(masked: "

// Masker replaces the data of Secrets by its size and a digest, such as "(masked: 5 bytes, digest
// 3f9a02c1)". Equal values have equal digests, so it shows whether a value has changed. Each Masker
// has a random key, which makes it impossible to guess values by their digests.
//
// It does so for the kind Secret of Kubernetes. It does not know what other objects have to hide.
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
	if obj == nil || obj.GetKind() != "Secret" || obj.GetAPIVersion() != "v1" {
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
	if annotations, _, _ := unstructured.NestedMap(obj.Object, "metadata", "annotations"); annotations[lastApplied] != nil {
		annotations[lastApplied] = m.mask(annotations[lastApplied])
		_ = unstructured.SetNestedMap(obj.Object, annotations, "metadata", "annotations") // it has been read there
	}
	return obj
}

// Change returns a change without the data of a Secret.
func (m *Masker) Change(c *Change) *Change {
	before, after := m.Object(c.Before), m.Object(c.After)
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
