package builtin

import (
	"fmt"
	"reflect"

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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	apitypes "k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/server/builtin/kind"
)

// types has the Go types of all kinds, and their codecs.
type types struct {
	*runtime.Scheme
	codecs serializer.CodecFactory
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
		admissionregistrationv1.AddToScheme, apiregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		autoscalingv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
	}
	return builder.AddToScheme(s)
}

// newTypes returns the types of the resources that are served by default, and of optional ones.
func newTypes(defaults func(runtimeschema.GroupVersionKind, kind.Object), optional []*Resource) (*types, error) {
	t := &types{Scheme: runtime.NewScheme(), defaults: defaults, conversions: map[reflect.Type][]conversion{}}
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
	t.codecs = serializer.NewCodecFactory(t.Scheme, serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf())
	return t, nil
}

// Default fills in the defaults of an object. Objects of kinds that are not stored get them when
// they are converted to the kind that is.
func (t *types) Default(obj runtime.Object) {
	o, ok := obj.(kind.Object)
	if !ok {
		return
	}
	if gvks, _, err := t.ObjectKinds(obj); err == nil {
		t.defaults(gvks[0], o)
	}
}

// convertor converts objects between the versions of a kind.
type convertor struct {
	*types
	// fields are the fields of field selectors beside the name and the namespace; nil for a kind
	// without any.
	fields map[string]bool
}

func (c *convertor) Convert(in, out, _ any) error {
	from, ok := in.(runtime.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", in)
	}
	gvks, _, err := c.ObjectKinds(out.(runtime.Object))
	if err != nil {
		return err
	}
	converted, err := c.ConvertToVersion(from, gvks[0].GroupVersion())
	if err != nil {
		return err
	}
	to, value := reflect.ValueOf(out).Elem(), reflect.ValueOf(converted).Elem()
	if to.Type() != value.Type() {
		return fmt.Errorf("converting (%s) to (%s): unknown conversion", value.Type(), to.Type())
	}
	to.Set(value)
	return nil
}

func (c *convertor) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
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

// ConvertFieldLabel checks that a field can be selected by.
func (c *convertor) ConvertFieldLabel(gvk runtimeschema.GroupVersionKind, label, value string) (string, string, error) {
	if c.fields == nil {
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	}
	if label == "metadata.name" || label == "metadata.namespace" || c.fields[label] {
		return label, value, nil
	}
	if label == "spec.host" && gvk.Kind == "Pod" {
		return "spec.nodeName", value, nil
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// copying is a convertor whose results share no memory with the input.
type copying struct{ *convertor }

func (c copying) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	return c.convertor.ConvertToVersion(in.DeepCopyObject(), to)
}

// negotiated encodes and decodes the bodies of requests for one kind.
type negotiated struct {
	serializer.CodecFactory
	convertor *convertor
}

func (n *negotiated) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, n.convertor, n.convertor.Scheme, n.convertor.Scheme, nil, gv, nil, "builtin")
}

func (n *negotiated) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	in, _ := runtime.SerializerInfoForMediaType(n.SupportedMediaTypes(), runtime.ContentTypeYAML)
	return boundedDecoder{n.convertor.types, d == in.Serializer || d == in.StrictSerializer, versioning.NewCodec(nil, d, n.convertor, n.convertor.Scheme, n.convertor.Scheme, n.convertor.types, nil, gv, "builtin")}
}

// boundedDecoder rejects objects that need too much memory, or too much time: k8s.io/apiserver
// compares an owner reference that has the UID of another one with all others.
type boundedDecoder struct {
	types *types
	// isYAML is set for YAML. Other text that is not JSON is not parsed.
	isYAML bool
	runtime.Decoder
}

// maxOwnerComparisons bounds these comparisons.
const maxOwnerComparisons = 1_000_000

func (d boundedDecoder) Decode(data []byte, defaults *runtimeschema.GroupVersionKind, into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	if err := d.types.checkDecoded(data, d.isYAML, defaults, into); err != nil {
		return nil, nil, err
	}
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	if obj == nil {
		return obj, gvk, err
	}
	m, noMeta := meta.Accessor(obj)
	if noMeta != nil {
		return obj, gvk, err
	}
	refs := m.GetOwnerReferences()
	uids := make(map[apitypes.UID]bool, len(refs))
	for _, ref := range refs {
		uids[ref.UID] = true
	}
	if same := len(refs) - len(uids); same*len(refs) > maxOwnerComparisons {
		return nil, gvk, fmt.Errorf("metadata.ownerReferences: %d of %d items have the UID of another one: remove them", same, len(refs))
	}
	return obj, gvk, err
}

// storageCodec returns the codec of the stored objects of a resource. It also reads the encoding
// that it does not write: another server may have stored it.
func (c *convertor) storageCodec(r *Resource) runtime.Codec {
	stored := r.stored().GroupVersion()
	var encoder runtime.Encoder = protobuf.NewSerializer(c.Scheme, c.Scheme)
	if r.JSON {
		encoder = json.NewSerializerWithOptions(json.DefaultMetaFactory, c.Scheme, c.Scheme, json.SerializerOptions{})
	}
	return &storedCodec{versioning.NewCodec(encoder, c.codecs.UniversalDeserializer(), c, c.Scheme, c.Scheme, c.types, stored, stored, "builtin storage")}
}

// storedCodec is a codec of stored objects. In memory these have no apiVersion and kind, as in
// kube-apiserver, so that lists do not repeat them for each object. Encoders of responses add
// them.
type storedCodec struct{ runtime.Codec }

func (c *storedCodec) Decode(data []byte, defaults *runtimeschema.GroupVersionKind, into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	obj, gvk, err := c.Codec.Decode(data, defaults, into)
	if err == nil {
		obj.GetObjectKind().SetGroupVersionKind(runtimeschema.GroupVersionKind{})
	}
	return obj, gvk, err
}
