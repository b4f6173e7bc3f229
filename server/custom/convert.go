package custom

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/served"
)

// Converter converts an object to another version of the same resource. The result may share
// memory with obj, which is not changed. An object of another type, such as a Status, is
// returned unchanged.
type Converter interface {
	Convert(obj runtime.Object, to runtimeschema.GroupVersion) (runtime.Object, error)
}

// treeConverter converts a tree to another version. The result may share memory with obj,
// which is not changed.
type treeConverter interface {
	Convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error)
}

// relabel is the conversion strategy None: it changes only the apiVersion.
type relabel struct{}

func (relabel) Convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	out := maps.Clone(obj)
	out["apiVersion"] = to.String()
	return out, nil
}

// purpose is the purpose of a conversion.
type purpose int

const (
	// writing converts an object to be stored: values that contradict the types of the
	// version are errors.
	writing purpose = iota
	// reading never fails because of the schema, because stored objects may contradict it.
	reading
)

// convert converts a tree to a version and decodes it with the schema of that version. It
// takes ownership of obj: the result shares memory with it.
func (k *customKinds) convert(obj schema.Object, to runtimeschema.GroupVersion, why purpose) (schema.Object, error) {
	return k.convertWith(obj, to, schema.DecodeOptions{WithoutDefaults: true, FromStorage: why == reading})
}

func (k *customKinds) convertWith(obj schema.Object, to runtimeschema.GroupVersion, o schema.DecodeOptions) (schema.Object, error) {
	if obj["apiVersion"] == any(to.String()) {
		return obj, nil
	}
	out, err := k.converter.Convert(obj, to)
	if err != nil {
		return nil, err
	}
	program, err := k.program(to.Version)
	if err != nil {
		return nil, err
	}
	_, err = program.Normalize(out, o)
	return out, err
}

// convertCopy is convert, but leaves obj unchanged.
func (k *customKinds) convertCopy(obj schema.Object, to runtimeschema.GroupVersion, why purpose) (schema.Object, error) {
	if obj["apiVersion"] == any(to.String()) {
		return obj, nil
	}
	return k.convert(runtime.DeepCopyJSON(obj), to, why)
}

// Convert converts objects for k8s.io/apiserver, which merges or returns them. The storage
// has its own conversion.
func (k *customKinds) Convert(in runtime.Object, to runtimeschema.GroupVersion) (runtime.Object, error) {
	switch in := in.(type) {
	case *unstructured.UnstructuredList:
		for i := range in.Items {
			obj, err := k.convertCopy(in.Items[i].Object, to, reading)
			if err != nil {
				return nil, err
			}
			in.Items[i].Object = obj
		}
		in.SetAPIVersion(to.String())
		return in, nil
	case *unstructured.Unstructured:
		obj, err := k.convertCopy(in.Object, to, reading)
		if err != nil {
			return nil, err
		}
		return &unstructured.Unstructured{Object: obj}, nil
	}
	return in, nil
}

// convertOwned returns the conversion for field management, or nil if it only changes the
// apiVersion.
func (k *customKinds) convertOwned() func(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	if k.definition.Semantics().PrunesOwnedFields() {
		return func(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
			return k.convertCopy(obj, to, reading)
		}
	}
	if _, ok := k.converter.(relabel); ok {
		return nil
	}
	return k.converter.Convert
}

// writtenIn returns the version in which data was stored if the CRD still has it, or the
// version otherwise.
func (k *customKinds) writtenIn(data []byte, otherwise string) string {
	id, err := api.Identify(data)
	if err != nil {
		return otherwise
	}
	gv, err := runtimeschema.ParseGroupVersion(id.APIVersion)
	if err != nil || gv.Group != k.definition.Group() || k.definition.Version(gv.Version) == nil {
		return otherwise
	}
	return gv.Version
}

// objectConvertor is the conversion interface of k8s.io/apiserver.
type objectConvertor struct {
	definition *crd.Definition
	converter  Converter
}

var _ runtime.ObjectConvertor = &objectConvertor{}

func (c *objectConvertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	if tree, ok := in.(*unstructured.Unstructured); ok && from == served.ScaleKind() {
		// A mutating policy has made a tree of it.
		scale := &autoscalingv1.Scale{}
		return scale, runtime.DefaultUnstructuredConverter.FromUnstructured(tree.Object, scale)
	}
	if from.Group != c.definition.Group() {
		return in, nil // for example a Scale
	}
	to, ok := target.KindForGroupVersionKinds([]runtimeschema.GroupVersionKind{from})
	if !ok {
		return nil, fmt.Errorf("%s cannot be converted to %s", from, target)
	}
	return c.converter.Convert(in, to.GroupVersion())
}

func (c *objectConvertor) Convert(in, out, _ any) error {
	if scale, ok := in.(*autoscalingv1.Scale); ok {
		if into, ok := out.(*autoscalingv1.Scale); ok {
			scale.DeepCopyInto(into)
			return nil
		}
	}
	from, ok := in.(runtime.Object)
	into, ok2 := out.(runtime.Object)
	if !ok || !ok2 {
		return fmt.Errorf("%T cannot be converted to %T", in, out)
	}
	if tree, ok := in.(*unstructured.Unstructured); ok {
		// An admission plugin may have changed it.
		if gvk := tree.GroupVersionKind(); gvk.Group != c.definition.Group() || c.definition.Version(gvk.Version) == nil {
			return fmt.Errorf("request to convert CR from an invalid group/version: %s", gvk.GroupVersion())
		}
	}
	gv := into.GetObjectKind().GroupVersionKind().GroupVersion()
	if gv.Empty() {
		gv = from.GetObjectKind().GroupVersionKind().GroupVersion()
	}
	obj, err := c.converter.Convert(from, gv)
	if err != nil {
		return err
	}
	return assign(into, obj)
}

// assign copies obj to into, which must have the same type.
func assign(into, obj runtime.Object) error {
	if into == obj {
		return nil
	}
	to, from := reflect.ValueOf(into), reflect.ValueOf(obj)
	if to.Type() != from.Type() || to.Kind() != reflect.Pointer {
		return fmt.Errorf("%T cannot be assigned to %T", obj, into)
	}
	to.Elem().Set(from.Elem())
	return nil
}

// ConvertFieldLabel checks that a field selector is supported.
func (c *objectConvertor) ConvertFieldLabel(gvk runtimeschema.GroupVersionKind, label, value string) (string, string, error) {
	switch {
	case gvk.Group == api.GroupName: // CRDs
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	case label == "metadata.name", label == "metadata.namespace" && c.definition.Namespaced():
		return label, value, nil
	}
	if v := c.definition.Version(gvk.Version); v != nil {
		if slices.ContainsFunc(v.Spec().SelectableFields, func(f api.SelectableField) bool {
			return strings.TrimPrefix(f.JSONPath, ".") == label
		}) {
			return label, value, nil
		}
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}
