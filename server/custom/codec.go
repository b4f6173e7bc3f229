package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
	"espalier.dev/server/backend"
	serverrest "espalier.dev/server/rest"
)

// media is a format of bodies. k8s.io/apimachinery writes them, bodyDecoder reads them.
type media struct {
	runtime.Serializer
	yaml, strict, protobuf bool
}

// ProtobufKind is a Kind whose objects can be read and written as protobuf.
type ProtobufKind interface {
	Kind
	// FromProtobuf returns the JSON of an object in Kubernetes' envelope.
	FromProtobuf([]byte) ([]byte, error)
	// ToProtobuf returns the message of an object or of a list, without the envelope. It
	// reports false if obj is something else, such as a Status.
	ToProtobuf(obj runtime.Object) (message []byte, ok bool, err error)
}

// protobufEncoder writes the objects of a Kind in the envelope that the Serializer makes,
// and leaves all other objects to the Serializer.
type protobufEncoder struct {
	runtime.Serializer
	kind ProtobufKind
}

func (e protobufEncoder) Encode(obj runtime.Object, w io.Writer) error {
	message, ok, err := e.kind.ToProtobuf(obj)
	if err != nil {
		return err
	}
	if ok {
		unknown := &runtime.Unknown{Raw: message}
		unknown.APIVersion, unknown.Kind = obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		obj = unknown
	}
	return e.Serializer.Encode(obj, w)
}

// bodySerializer lists the media types in which objects of one version are read and written.
type bodySerializer struct {
	kind        Kind
	convertor   runtime.ObjectConvertor
	scheme      *runtime.Scheme
	typer       runtime.ObjectTyper
	media       []runtime.SerializerInfo
	replacement replacement
}

// replacement returns the object that a request replaces.
type replacement func() (schema.Object, error)

var _ runtime.NegotiatedSerializer = &bodySerializer{}

func newBodySerializer(kind Kind, convertor runtime.ObjectConvertor, scheme *runtime.Scheme,
	creator runtime.ObjectCreater, typer runtime.ObjectTyper) *bodySerializer {
	text := func(o kubejson.SerializerOptions) *media {
		return &media{Serializer: serverrest.StreamList(kubejson.NewSerializerWithOptions(kubejson.DefaultMetaFactory,
			creator, typer, o), o.Yaml, o.Pretty), yaml: o.Yaml, strict: o.Strict}
	}
	binary := &media{Serializer: protobuf.NewSerializerWithOptions(creator, typer,
		protobuf.SerializerOptions{StreamingCollectionsEncoding: true}), protobuf: true}
	if k, ok := kind.(ProtobufKind); ok {
		binary.Serializer = protobufEncoder{binary.Serializer, k}
	}
	return &bodySerializer{kind: kind, convertor: convertor, scheme: scheme, typer: typer, media: []runtime.SerializerInfo{
		{
			MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
			Serializer:       text(kubejson.SerializerOptions{StreamingCollectionsEncoding: true}),
			PrettySerializer: text(kubejson.SerializerOptions{Pretty: true}),
			StrictSerializer: text(kubejson.SerializerOptions{Strict: true, StreamingCollectionsEncoding: true}),
			StreamSerializer: &runtime.StreamSerializerInfo{EncodesAsText: true,
				Serializer: text(kubejson.SerializerOptions{}), Framer: kubejson.Framer},
		},
		{
			MediaType: runtime.ContentTypeYAML, MediaTypeType: "application", MediaTypeSubType: "yaml", EncodesAsText: true,
			Serializer:       text(kubejson.SerializerOptions{Yaml: true}),
			StrictSerializer: text(kubejson.SerializerOptions{Yaml: true, Strict: true}),
		},
		// Custom resources have no protobuf representation, but their tables, metadata and
		// statuses have.
		{
			MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
			Serializer:       binary,
			StrictSerializer: binary,
			StreamSerializer: &runtime.StreamSerializerInfo{Serializer: protobuf.NewRawSerializer(creator, typer),
				Framer: protobuf.LengthDelimitedFramer},
		},
	}}
}

// replacing returns the serializer for one request that replaces an object.
func (n *bodySerializer) replacing(r replacement) *bodySerializer {
	c := *n
	c.replacement = r
	return &c
}

func (n *bodySerializer) SupportedMediaTypes() []runtime.SerializerInfo { return n.media }

// standardMedia returns the formats of objects as they are, untransformed.
func (n *bodySerializer) standardMedia() (infos []runtime.SerializerInfo) {
	for _, i := range n.media {
		if n.supports(i.MediaType) {
			infos = append(infos, i)
		}
	}
	return infos
}

func (n *bodySerializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, n.convertor, n.scheme, n.typer, n.scheme, gv, nil, "customResource")
}

func (n *bodySerializer) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	m, ok := d.(*media)
	if !ok {
		return d
	}
	return &bodyDecoder{kind: n.kind, media: m, replacement: n.replacement, scheme: n.scheme}
}

// bodyDecoder decodes request bodies.
type bodyDecoder struct {
	kind        Kind
	media       *media
	replacement replacement // nil if nothing is replaced
	// scheme has the name that messages about unknown kinds name.
	scheme *runtime.Scheme
}

// Decode decodes a body. The error of a body that kube-apiserver cannot decode either is that of
// its decoder.
func (d *bodyDecoder) Decode(data []byte, defaults *runtimeschema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	obj, gvk, err := d.decode(data, defaults, into)
	if err != nil && obj == nil {
		if sent, failed := d.reference(data, defaults); failed != nil {
			return nil, sent, failed
		}
		if bad := (*schema.MetadataError)(nil); errors.As(err, &bad) && len(bad.Path) == 1 && bad.Path[0].Key == "metadata" {
			err = errors.New(bad.Problem) // without the path, as kube-apiserver reports it
		}
	}
	return obj, gvk, err
}

func (d *bodyDecoder) decode(data []byte, defaults *runtimeschema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	src, complaints, err := d.toJSON(data)
	if err != nil {
		return nil, nil, err
	}
	var sent *runtimeschema.GroupVersionKind // nil for trees
	if _, tree := into.(runtime.Unstructured); !tree && into != nil {
		if src, sent, err = d.withKind(src, defaults); err != nil {
			return nil, nil, err
		}
	}
	o := schema.DecodeOptions{Report: d.media.strict}
	obj, more, err := d.kind.Decode(src, o)
	// Stored values may contradict the schema; a client may send them back unchanged.
	var contradiction *schema.ContradictionError
	if errors.As(err, &contradiction) && d.replacement != nil {
		if o.Old, _ = d.replacement(); o.Old != nil {
			obj, more, err = d.kind.Decode(src, o)
		}
	}
	if err != nil {
		return nil, kindOf(src), err
	}
	complaints = append(complaints, more...)
	if gvk := obj.GetObjectKind().GroupVersionKind(); gvk.Kind == "" {
		return nil, &gvk, runtime.NewMissingKindErr(string(data))
	}

	if into != nil && reflect.TypeOf(into) == reflect.TypeOf(obj) {
		if err := assign(into, obj); err != nil {
			return nil, nil, err
		}
		obj = into
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	_, tree := obj.(runtime.Unstructured)
	if sent == nil && !tree {
		sent = kindOf(src)
	}
	if sent != nil {
		// A Kind with Go structs may have converted it. The handler compares the version that
		// was sent with that of the path.
		gvk = *sent
	}
	// The handler of a whole tree compares the version with that of the path.
	if gvk.Version == "" && (!tree || defaults == nil) {
		return nil, &gvk, runtime.NewMissingVersionErr(string(data))
	}
	if d.replacement != nil {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, &gvk, err
		}
		if v := m.GetResourceVersion(); strings.Trim(v, "0123456789") != "" {
			return nil, &gvk, fmt.Errorf("metadata.resourceVersion: Invalid value: %q: must be one that a server gave", v)
		}
	}
	if len(complaints) > 0 {
		return obj, &gvk, runtime.NewStrictDecodingError(complaints)
	}
	return obj, &gvk, nil
}

// kindOf returns the apiVersion and kind of a rejected body, or nil if it is not JSON. Unlike
// api.Identify it reads the whole text, because the message depends on it.
func kindOf(src []byte) *runtimeschema.GroupVersionKind {
	var typ metav1.TypeMeta
	if err := json.Unmarshal(src, &typ); err != nil {
		return nil
	}
	gvk := typ.GroupVersionKind()
	return &gvk
}

// withKind returns the apiVersion and kind of an object of a Go type, and adds those that it lacks: those
// of the request's path, or of the Kind if defaults is nil. As in k8s.io/apimachinery, null is an object
// without fields, and the last of repeated members counts.
func (d *bodyDecoder) withKind(src []byte, defaults *runtimeschema.GroupVersionKind) ([]byte, *runtimeschema.GroupVersionKind, error) {
	sent, err := kubejson.DefaultMetaFactory.Interpret(src)
	if err != nil {
		return nil, nil, err
	}
	if string(bytes.TrimSpace(src)) == "null" {
		src = []byte("{}")
	}
	if defaults == nil {
		own := d.kind.New().GetObjectKind().GroupVersionKind()
		defaults = &own
	}
	added := map[string]string{}
	if sent.GroupVersion().Empty() {
		sent.Group, sent.Version = defaults.Group, defaults.Version
		added["apiVersion"] = sent.GroupVersion().String()
	}
	if sent.Kind == "" {
		sent.Kind = defaults.Kind
		added["kind"] = sent.Kind
	}
	if len(added) > 0 {
		src, err = withMembers(src, added)
	}
	return src, sent, err
}

// withMembers returns an object with some of its members replaced, or added.
func withMembers(src []byte, replaced map[string]string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(src, &members); err != nil {
		return nil, err
	}
	text := []byte{'{'}
	for name, value := range replaced {
		if _, ok := members[name]; ok {
			for name, value := range replaced {
				members[name] = json.RawMessage(strconv.Quote(value))
			}
			return json.Marshal(members)
		}
		text = append(text, strconv.Quote(name)+":"+strconv.Quote(value)+","...)
	}
	if len(members) == 0 {
		text = text[:len(text)-1]
	}
	return append(text, bytes.TrimLeft(src, " \t\r\n")[1:]...), nil
}

// toJSON converts a body to the format that Kinds read, and returns the errors of strict
// decoding.
func (d *bodyDecoder) toJSON(data []byte) (src []byte, complaints []error, err error) {
	switch {
	case d.media.protobuf:
		k, ok := d.kind.(ProtobufKind)
		if !ok {
			return nil, nil, errors.New("custom resources cannot be sent as protobuf")
		}
		src, err = k.FromProtobuf(data)
		return src, nil, err
	case d.media.yaml:
		if src, err = yaml.YAMLToJSON(data); err != nil {
			return nil, nil, err
		}
		if d.media.strict {
			if _, err := yaml.YAMLToJSONStrict(data); err != nil {
				complaints = append(complaints, err)
			}
		}
		return src, complaints, nil
	}
	return data, nil, nil
}

// supports reports whether objects can be read and written in a format.
func (n *bodySerializer) supports(mediaType string) bool {
	_, ok := n.kind.(ProtobufKind)
	return ok || mediaType != runtime.ContentTypeProtobuf
}

// storageCodec encodes and decodes stored objects with a Kind.
type storageCodec struct {
	kind Kind
	// memory is the version of objects in memory, stored the version in which they are
	// written.
	memory, stored runtimeschema.GroupVersion
	undecodable    undecodableLog
	// written gets the views of what is encoded.
	written *writtenViews
}

// storedTree is an object with what was written of it. A response is made of that, so that an object
// is encoded once.
type storedTree struct {
	*unstructured.Unstructured
	value []byte
	// view is what a read of the value returns, or nil if it must be decoded for that.
	view *view
}

// Unwrap returns the object.
func (t *storedTree) Unwrap() runtime.Object { return t.Unstructured }

var (
	_ runtime.Codec    = &storageCodec{}
	_ backend.Replacer = &storageCodec{}
)

func (c *storageCodec) Identifier() runtime.Identifier {
	return runtime.Identifier("espalier " + c.stored.String() + " from " + c.memory.String())
}

// RoundTrips reports whether it is certain that decoding a value returns the object of which
// it was encoded. It often does not: a read adds the defaults of a status that a create has
// removed, and drops empty metadata.
func (c *storageCodec) RoundTrips(obj runtime.Object, value []byte) bool {
	if t, ok := obj.(*storedTree); ok && bytes.Equal(t.value, value) {
		return t.view != nil
	}
	return c.unchanged(value) != nil
}

// unchanged returns the view of a value that is read as it was written, or nil if that is not
// certain.
func (c *storageCodec) unchanged(value []byte) *view {
	k, ok := c.kind.(*customKind)
	if !ok || c.memory != c.stored {
		return nil
	}
	return k.unchanged(value)
}

// Calls reports whether decoding may call a conversion webhook.
func (c *storageCodec) Calls() bool {
	k, custom := c.kind.(*customKind)
	return custom && k.hasWebhook() && c.memory != c.stored
}

func (c *storageCodec) Encode(obj runtime.Object, w io.Writer) error {
	return c.EncodeOver(obj, nil, w)
}

// EncodeOver implements backend.Replacer.
func (c *storageCodec) EncodeOver(obj runtime.Object, old []byte, w io.Writer) error {
	t, ok := obj.(*storedTree)
	k, custom := c.kind.(*customKind)
	if !ok || !custom {
		return c.kind.EncodeStored(obj, old, w)
	}
	var text bytes.Buffer
	canonical, err := k.encodeTree(t.Object, old, &text)
	if err != nil {
		return err
	}
	t.value, t.view = text.Bytes(), nil
	if c.memory == c.stored && (canonical || jsonx.IsCanonical(t.value)) {
		t.view = k.canonical(t.value)
	}
	if t.view != nil {
		c.written.add(t.view)
	}
	_, err = w.Write(t.value)
	return err
}

func (c *storageCodec) Decode(data []byte, _ *runtimeschema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	obj, err := c.kind.DecodeStored(data)
	if err != nil {
		c.undecodable.found(err)
		return nil, nil, err
	}
	if into != nil {
		if err := assign(into, obj); err != nil {
			return nil, nil, err
		}
		obj = into
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	return obj, &gvk, nil
}

// creator creates empty objects of the versions of a resource.
type creator struct {
	kinds func(version string) (Kind, error)
}

func (c creator) New(gvk runtimeschema.GroupVersionKind) (runtime.Object, error) {
	kind, err := c.kinds(gvk.Version)
	if err != nil {
		return nil, err
	}
	return kind.New(), nil
}

// typer returns the kind of an object from the scheme if it is registered there (for example
// options), otherwise from the object.
type typer struct{ runtime.ObjectTyper }

func (t typer) ObjectKinds(obj runtime.Object) ([]runtimeschema.GroupVersionKind, bool, error) {
	if _, ok := obj.(runtime.Unstructured); !ok {
		kinds, unversioned, err := t.ObjectTyper.ObjectKinds(obj)
		if !runtime.IsNotRegisteredError(err) {
			return kinds, unversioned, err
		}
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	_, tree := obj.(runtime.Unstructured)
	switch {
	case gvk.Kind == "" && !tree:
		return t.ObjectTyper.ObjectKinds(obj) // which returns an error
	case gvk.Kind == "":
		return nil, false, runtime.NewMissingKindErr("object has no kind field")
	case gvk.Version == "":
		return nil, false, runtime.NewMissingVersionErr("object has no apiVersion field")
	}
	return []runtimeschema.GroupVersionKind{gvk}, false, nil
}

func (t typer) Recognizes(runtimeschema.GroupVersionKind) bool { return true }

// defaulter applies defaults after server-side apply, which merges trees. Bodies get their
// defaults when they are decoded.
type defaulter struct {
	runtime.ObjectDefaulter
	kinds func(version string) (Kind, error)
	group runtimeschema.GroupKind
}

func (d *defaulter) Default(in runtime.Object) {
	gvk := in.GetObjectKind().GroupVersionKind()
	if gvk.GroupKind() != d.group {
		d.ObjectDefaulter.Default(in)
		return
	}
	kind, err := d.kinds(gvk.Version)
	if err != nil {
		return
	}
	kind.Default(in)
}
