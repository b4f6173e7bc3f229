package kinds

import (
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"espalier.dev/internal/jsonx"
)

// metaFactory finds the kind of an object. It does what json.DefaultMetaFactory does, which decodes the
// object with reflection, and leaves everything unusual to it.
type metaFactory struct{}

// Interpret returns the kind of an object in JSON.
func (metaFactory) Interpret(data []byte) (*runtimeschema.GroupVersionKind, error) {
	if apiVersion, kind, ok := typeMetaOf(data); ok {
		if gv, err := runtimeschema.ParseGroupVersion(apiVersion); err == nil {
			return &runtimeschema.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: kind}, nil
		}
	}
	return json.DefaultMetaFactory.Interpret(data)
}

// typeMetaOf returns apiVersion and kind of an object. It returns false unless the text is valid, and
// has each of them once, as a string: encoding/json ignores case, and the last one wins.
func typeMetaOf(data []byte) (apiVersion, kind string, ok bool) {
	var r jsonx.Reader
	r.Borrow(data)
	if r.Peek() != '{' {
		return "", "", false
	}
	versions, names := 0, 0
	err := r.Members(func(name string) (err error) {
		var into *string
		switch {
		case strings.EqualFold(name, "apiVersion"):
			versions++
			into = &apiVersion
		case strings.EqualFold(name, "kind"):
			names++
			into = &kind
		}
		if into == nil || r.Peek() != '"' {
			return r.SkipRaw()
		}
		*into, err = r.String()
		return err
	})
	if err != nil || r.End() != nil || versions != 1 || names != 1 {
		return "", "", false
	}
	return strings.Clone(apiVersion), strings.Clone(kind), apiVersion != "" && kind != ""
}
