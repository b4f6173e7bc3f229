package builtin

import (
	"encoding/json"
	"fmt"
	"reflect"

	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"espalier.dev/server/builtin/kind"
)

// addOptional adds the Go types of optional versions, and their conversions. They have the same
// fields as the versions that are stored.
func (t *types) addOptional() error {
	builder := runtime.SchemeBuilder{
		admissionregistrationv1alpha1.AddToScheme, admissionregistrationv1beta1.AddToScheme, networkingv1beta1.AddToScheme,
		resourcev1beta2.AddToScheme, storagev1beta1.AddToScheme,
	}
	if err := builder.AddToScheme(t.Scheme); err != nil {
		return err
	}
	for _, r := range known() {
		if !r.Optional {
			continue
		}
		version, stored := r.GroupVersionKind().GroupVersion(), r.Stored.GroupVersion()
		for _, name := range []string{r.Kind, r.Kind + "List"} {
			if err := t.addSame(version.WithKind(name), stored.WithKind(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSame adds the conversions between two kinds with the same fields.
func (t *types) addSame(version, stored runtimeschema.GroupVersionKind) error {
	for _, pair := range [][2]runtimeschema.GroupVersionKind{{version, stored}, {stored, version}} {
		from, err := t.New(pair[0])
		if err != nil {
			return err
		}
		to, err := t.New(pair[1])
		if err != nil {
			return err
		}
		key, result := reflect.TypeOf(from), reflect.TypeOf(to).Elem()
		t.conversions[key] = append(t.conversions[key], conversion{pair[1], func(in runtime.Object) runtime.Object {
			out := reflect.New(result).Interface().(runtime.Object)
			if err := recode(in, out); err != nil {
				utilruntime.HandleError(err) // types with the same fields have no errors
			}
			// A new object has its defaults before it is converted, unless its kind is not stored.
			if obj, ok := out.(kind.Object); ok && pair[1] == stored && t.defaults != nil {
				t.defaults(stored, obj)
			}
			return out
		}})
	}
	return nil
}

// recode copies the fields of an object to an object of another type with the same fields.
func recode(in, out runtime.Object) error {
	data, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return fmt.Errorf("convert %T to %T: %w", in, out, err)
	}
	return nil
}
