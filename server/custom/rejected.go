package custom

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/json"

	"espalier.dev/api"
	"espalier.dev/kinds"
)

// reference decodes a rejected body as kube-apiserver does, and returns its error. The error is nil
// if only a Kind rejects the body.
func (d *bodyDecoder) reference(data []byte, defaults *runtimeschema.GroupVersionKind) (*runtimeschema.GroupVersionKind, error) {
	if d.media.protobuf {
		return d.protobufReference(data, defaults)
	}
	if _, tree := d.kind.New().(runtime.Unstructured); !tree {
		return d.structReference(data, defaults)
	}
	if defaults == nil { // a patched object
		return nil, nil
	}
	obj, sent, err := d.media.Decode(data, defaults, &unstructured.Unstructured{})
	if err != nil && obj != nil {
		err = nil // strict decoding found something else
	}
	return sent, err
}

// protobufReference decodes a rejected body that is protobuf.
func (d *bodyDecoder) protobufReference(data []byte, defaults *runtimeschema.GroupVersionKind) (*runtimeschema.GroupVersionKind, error) {
	if _, ok := d.kind.(ProtobufKind); !ok {
		return nil, nil
	}
	// Only the envelope is read: the message in it is not one of a registered type.
	_, sent, err := protobuf.NewSerializer(nil, d.scheme).Decode(data, defaults, &runtime.Unknown{})
	return sent, err
}

// structReference decodes a rejected body as an object of a Go type.
func (d *bodyDecoder) structReference(data []byte, defaults *runtimeschema.GroupVersionKind) (*runtimeschema.GroupVersionKind, error) {
	src, _, err := d.toJSON(data)
	if err != nil {
		return nil, err
	}
	sent, err := kubejson.DefaultMetaFactory.Interpret(src)
	if err != nil {
		return nil, err
	}
	empty := d.kind.New()
	expected := empty.GetObjectKind().GroupVersionKind()
	if defaults == nil {
		defaults = &expected
	}
	if sent.Kind == "" {
		sent.Kind = defaults.Kind
	}
	if sent.Version == "" {
		sent.Group, sent.Version = defaults.Group, defaults.Version
	}
	list := d.kind.NewList()
	switch {
	case sent.GroupVersion() == expected.GroupVersion() && sent.Kind == list.GetObjectKind().GroupVersionKind().Kind:
		name := reflect.TypeOf(list).Elem().Name()
		return sent, fmt.Errorf("converting (%s.%s) to (%s): unknown conversion", sent.Version, name, kinds.InternalType(expected.GroupKind()))
	case sent.GroupKind() != expected.GroupKind():
		return sent, runtime.NewNotRegisteredErrForKind(d.scheme.Name(), *sent)
	case sent.Version != expected.Version:
		if _, err := d.scheme.New(*sent); err != nil {
			return sent, runtime.NewNotRegisteredErrForKind(d.scheme.Name(), *sent)
		}
		return nil, nil // the other version has another type
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(src, empty); err != nil {
		// The package of the types is named after their version in Kubernetes.
		return sent, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), " of type api.", " of type "+api.Version+"."))
	}
	return nil, nil
}
