package kinds

import (
	"fmt"
	"reflect"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/kinds/kind"
)

// Scheme has the Go types of all kinds, their codecs, defaults and conversions.
type Scheme struct {
	*runtime.Scheme
	Codecs serializer.CodecFactory
	// defaults fills in the defaults of a stored kind.
	defaults func(runtimeschema.GroupVersionKind, kind.Object)
	// conversions are the conversions to a Go type, by the kind that is converted.
	conversions map[reflect.Type][]conversion
}

// conversion converts objects of a kind that is not stored to the stored kind, or back.
type conversion struct {
	to      runtimeschema.GroupVersionKind
	convert func(runtime.Object) runtime.Object
}

// AddToScheme adds the Go types of all kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	builder := runtime.SchemeBuilder{
		admissionregistrationv1.AddToScheme, apiregistrationv1.AddToScheme, appsv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		autoscalingv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
	}
	return builder.AddToScheme(s)
}

// NewScheme returns the scheme of the resources that are served by default, and of optional ones.
// defaults fills in the defaults of an object of a kind that is stored.
func NewScheme(defaults func(runtimeschema.GroupVersionKind, kind.Object), optional []*Resource) (*Scheme, error) {
	t := &Scheme{Scheme: runtime.NewScheme(), defaults: defaults, conversions: map[reflect.Type][]conversion{}}
	if err := AddToScheme(t.Scheme); err != nil {
		return nil, err
	}
	for from, conv := range conversions() {
		t.conversions[from] = append(t.conversions[from], conv)
	}
	if err := t.addOptional(optional); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(t.Scheme, runtimeschema.GroupVersion{Version: "v1"})
	t.AddKnownTypes(policyv1beta1.SchemeGroupVersion, &policyv1beta1.Eviction{}) // which the subresource of pods accepts
	t.Codecs = serializer.NewCodecFactory(t.Scheme, serializer.WithStreamingCollectionEncodingToJSON(),
		serializer.WithStreamingCollectionEncodingToProtobuf())
	return t, nil
}

// Default fills in the defaults of an object. Objects of kinds that are not stored get them when
// they are converted to the kind that is.
func (t *Scheme) Default(obj runtime.Object) {
	o, ok := obj.(kind.Object)
	if !ok {
		return
	}
	if gvks, _, err := t.ObjectKinds(obj); err == nil {
		t.defaults(gvks[0], o)
	}
}

// Converter converts objects between the versions of a kind.
type Converter struct {
	*Scheme
	// Fields are the fields of field selectors beside the name and the namespace; nil for a kind
	// without any.
	Fields map[string]bool
}

// Convert copies an object to one of another Go type.
func (c *Converter) Convert(in, out, _ any) error {
	from, ok := in.(runtime.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", in)
	}
	gvks, _, err := c.ObjectKinds(out.(runtime.Object))
	if err != nil {
		return err
	}
	unknown := func() error {
		return fmt.Errorf("converting (%s) to (%s): unknown conversion", reflect.TypeOf(in).Elem(), InternalType(gvks[0].GroupKind()))
	}
	if sent, _, err := c.ObjectKinds(from); err == nil && sent[0].Kind != gvks[0].Kind {
		if gvks[0].Group == apiregistrationv1.GroupName && sent[0].Group != gvks[0].Group {
			return runtime.NewNotRegisteredErrForKind(c.Name(), sent[0]) // in kube-apiserver, the group has a scheme of its own
		}
		return unknown()
	}
	converted, err := c.ConvertToVersion(from, gvks[0].GroupVersion())
	if err != nil && !runtime.IsNotRegisteredError(err) {
		return err
	}
	to := reflect.ValueOf(out)
	if err != nil || to.Type() != reflect.TypeOf(converted) {
		return unknown()
	}
	to.Elem().Set(reflect.ValueOf(converted).Elem())
	return nil
}

// InternalType returns the name of kube-apiserver's internal Go type of a kind, which some of its
// messages have.
func InternalType(gk runtimeschema.GroupKind) string {
	return InternalPackage(gk.Group) + "." + gk.Kind
}

// InternalPackage returns the name of the package of such types of a group. It is the first label
// of the group, apart from a few.
func InternalPackage(group string) string {
	switch group {
	case corev1.GroupName, eventsv1.GroupName:
		return "core"
	case "internal.apiserver.k8s.io":
		return "apiserverinternal"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// ConvertToVersion returns an object in another version. It may share memory with the given one.
func (c *Converter) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	// Field management converts what it has merged, which has no Go type.
	if u, ok := in.(*unstructured.Unstructured); ok {
		typed, err := c.New(u.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return nil, err
		}
		in = typed
	}
	for _, conv := range c.conversions[reflect.TypeOf(in)] {
		gvks, _, err := c.ObjectKinds(in)
		if err != nil {
			return nil, err
		}
		if target, ok := to.KindForGroupVersionKinds([]runtimeschema.GroupVersionKind{gvks[0], conv.to}); ok && target == conv.to {
			out := conv.convert(in)
			out.GetObjectKind().SetGroupVersionKind(target)
			return out, nil
		}
	}
	return c.Scheme.UnsafeConvertToVersion(in, to)
}

// withoutNamespaceLabel are kinds that objects cannot be selected of by their namespace. For other kinds
// without one, kube-apiserver accepts it.
var withoutNamespaceLabel = map[string]bool{"CertificateSigningRequest": true, "Namespace": true, "Node": true, "ResourceSlice": true}

// ConvertFieldLabel checks that a field can be selected by.
func (c *Converter) ConvertFieldLabel(gvk runtimeschema.GroupVersionKind, label, value string) (string, string, error) {
	if c.Fields == nil {
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	}
	namespace := label == "metadata.namespace" && !withoutNamespaceLabel[gvk.Kind]
	if label == "metadata.name" || namespace || c.Fields[label] {
		return label, value, nil
	}
	switch gvk.Kind { // some have messages of their own
	case "ResourceSlice":
		return "", "", fmt.Errorf("field label not supported for %s: %s", gvk, label)
	case "Job":
		return "", "", fmt.Errorf("field label %q not supported for Job", label)
	case "ReplicaSet":
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	case "Pod":
		if label == "spec.host" {
			return "spec.nodeName", value, nil
		}
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}
