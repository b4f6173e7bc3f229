package builtin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	apitypes "k8s.io/apimachinery/pkg/types"

	"espalier.dev/kinds"
	serverrest "espalier.dev/server/rest"
)

// bodySerializer encodes and decodes the bodies of requests for one kind.
type bodySerializer struct {
	serializer.CodecFactory
	convertor *kinds.Converter
	media     []runtime.SerializerInfo
}

func newBodySerializer(c *kinds.Converter) *bodySerializer {
	return &bodySerializer{CodecFactory: c.Codecs, convertor: c, media: serverrest.StreamLists(c.Codecs.SupportedMediaTypes())}
}

func (n *bodySerializer) SupportedMediaTypes() []runtime.SerializerInfo { return n.media }

func (n *bodySerializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, n.convertor, n.convertor, n.convertor, nil, gv, nil, "builtin")
}

func (n *bodySerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	in, _ := runtime.SerializerInfoForMediaType(n.SupportedMediaTypes(), runtime.ContentTypeYAML)
	return boundedDecoder{n.convertor.Scheme, d == in.Serializer || d == in.StrictSerializer, versioning.NewCodec(nil, d,
		n.convertor, n.convertor, n.convertor, n.convertor.Scheme, nil, gv, "builtin")}
}

// boundedDecoder rejects objects that need too much memory, or too much time: k8s.io/apiserver
// compares an owner reference that has the UID of another one with all others.
type boundedDecoder struct {
	types *kinds.Scheme
	// isYAML is set for YAML. Other text that is not JSON is not parsed.
	isYAML bool
	runtime.Decoder
}

// maxOwnerComparisons bounds these comparisons.
const maxOwnerComparisons = 1_000_000

func (d boundedDecoder) Decode(data []byte, defaults *runtimeschema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	if err := checkDecoded(d.types, data, d.isYAML, defaults, into); err != nil {
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
func storageCodec(c *kinds.Converter, r *kinds.Resource) runtime.Codec {
	stored := r.StoredKind().GroupVersion()
	var encoder runtime.Encoder = protobuf.NewSerializer(c, c)
	if r.JSON {
		encoder = json.NewSerializerWithOptions(json.DefaultMetaFactory, c, c, json.SerializerOptions{})
	}
	return &storedCodec{versioning.NewCodec(encoder, c.Codecs.UniversalDeserializer(), c, c, c,
		c.Scheme, stored, stored, "builtin storage")}
}

// storedCodec is a codec of stored objects. In memory these have no apiVersion and kind, as in
// kube-apiserver, so that lists do not repeat them for each object. Encoders of responses add
// them.
type storedCodec struct{ runtime.Codec }

func (c *storedCodec) Decode(data []byte, defaults *runtimeschema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *runtimeschema.GroupVersionKind, error) {
	obj, gvk, err := c.Codec.Decode(data, defaults, into)
	if err == nil {
		obj.GetObjectKind().SetGroupVersionKind(runtimeschema.GroupVersionKind{})
	}
	return obj, gvk, err
}
