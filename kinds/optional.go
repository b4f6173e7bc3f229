package kinds

import (
	"encoding/json"
	"fmt"
	"reflect"

	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/resource"
)

// addOptional adds the Go types of optional versions, and their conversions.
func (t *Scheme) addOptional(resources []*Resource) error {
	if len(resources) == 0 {
		return nil // most servers have none, and need no memory for them
	}
	builder := runtime.SchemeBuilder{
		admissionregistrationv1alpha1.AddToScheme, admissionregistrationv1beta1.AddToScheme, networkingv1beta1.AddToScheme,
		resourcev1beta1.AddToScheme, resourcev1beta2.AddToScheme, storagev1beta1.AddToScheme,
	}
	if err := builder.AddToScheme(t.Scheme); err != nil {
		return err
	}
	for _, r := range resources {
		version, stored := r.GroupVersionKind().GroupVersion(), r.Stored.GroupVersion()
		for _, name := range []string{r.Kind, r.Kind + "List"} {
			if err := t.addConversions(version.WithKind(name), stored.WithKind(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// reshaped returns the functions that change objects as JSON to the version that is stored, and
// back. They are nil for versions with the same fields and defaults.
func reshaped(gv runtimeschema.GroupVersion) (toStored, fromStored func(map[string]any)) {
	switch gv {
	case resourcev1beta1.SchemeGroupVersion:
		return resource.FromV1beta1, resource.ToV1beta1
	case admissionregistrationv1alpha1.SchemeGroupVersion:
		return admissionregistration.FromV1alpha1, nil
	}
	return nil, nil
}

// addConversions adds the conversions between an optional version of a kind and the one that is
// stored.
func (t *Scheme) addConversions(version, stored runtimeschema.GroupVersionKind) error {
	toStored, fromStored := reshaped(version.GroupVersion())
	for _, c := range []struct {
		from, to runtimeschema.GroupVersionKind
		reshape  func(map[string]any)
	}{{version, stored, toStored}, {stored, version, fromStored}} {
		from, err := t.New(c.from)
		if err != nil {
			return err
		}
		to, err := t.New(c.to)
		if err != nil {
			return err
		}
		key, result := reflect.TypeOf(from), reflect.TypeOf(to).Elem()
		t.conversions[key] = append(t.conversions[key], conversion{c.to, func(in runtime.Object) runtime.Object {
			out := reflect.New(result).Interface().(runtime.Object)
			if err := recode(in, out, c.reshape); err != nil {
				utilruntime.HandleError(err) // the types have the same fields: there is no error
			}
			// A new object has its defaults before it is converted, unless its kind is not stored.
			if obj, ok := out.(kind.Object); ok && c.to == stored && t.defaults != nil {
				t.defaults(stored, obj)
			}
			return out
		}})
	}
	return nil
}

// recode copies the fields of an object to an object of another type. reshape, which may be nil,
// changes what differs.
func recode(in, out runtime.Object, reshape func(map[string]any)) error {
	data, err := json.Marshal(in)
	if err == nil && reshape != nil {
		tree := map[string]any{}
		if err = utiljson.Unmarshal(data, &tree); err == nil { // it keeps integers
			reshape(tree)
			data, err = json.Marshal(tree)
		}
	}
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return fmt.Errorf("convert %T to %T: %w", in, out, err)
	}
	return nil
}
