package api

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/internal/jsonx"
)

// Identify returns the apiVersion and kind of an object in JSON. A field that is
// missing or not a string is "", and so are both fields of a value that is not an
// object. Identify stops reading when it has found both, so it returns an error
// only if the text before that is not JSON.
func Identify(src []byte) (id metav1.TypeMeta, err error) {
	var r jsonx.Reader
	r.Borrow(src)
	if r.Peek() != '{' {
		return id, r.Skip()
	}
	if err := r.EnterObject(); err != nil {
		return id, err
	}
	for n, found := 0, 0; found < 2; n++ {
		key, more, err := r.NextMember(n)
		if err != nil || !more {
			return id, err
		}
		var into *string
		switch key {
		case "apiVersion":
			into = &id.APIVersion
		case "kind":
			into = &id.Kind
		}
		if into == nil || *into != "" || r.Peek() != '"' {
			if err := r.Skip(); err != nil {
				return id, err
			}
			continue
		}
		text, err := r.String()
		if err != nil {
			return id, err
		}
		// Cloning avoids keeping the whole document in memory.
		*into = strings.Clone(text)
		found++
	}
	return id, nil
}

// IdentifyObject returns the apiVersion and kind of an object. A field that is
// missing or not a string is "".
func IdentifyObject(obj map[string]any) (id metav1.TypeMeta) {
	id.APIVersion, _ = obj["apiVersion"].(string)
	id.Kind, _ = obj["kind"].(string)
	return id
}

// IsDefinition reports whether an apiVersion and kind are those of a
// CustomResourceDefinition, in any version of its group.
func IsDefinition(id metav1.TypeMeta) bool {
	return id.Kind == Kind && strings.HasPrefix(id.APIVersion, GroupName+"/")
}
