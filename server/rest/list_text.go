package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	goruntime "runtime"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// StreamLists returns media types that write lists item by item.
func StreamLists(infos []runtime.SerializerInfo) []runtime.SerializerInfo {
	out := slices.Clone(infos)
	for n := range out {
		i := &out[n]
		i.Serializer = StreamList(i.Serializer, i.MediaType == runtime.ContentTypeYAML, false)
		if i.PrettySerializer != nil {
			i.PrettySerializer = StreamList(i.PrettySerializer, false, true)
		}
	}
	return out
}

// StreamList returns a serializer that writes a list as YAML or as formatted JSON item by item, as
// that of k8s.io/apimachinery does for JSON and protobuf. The text is the same.
func StreamList(s runtime.Serializer, isYAML, pretty bool) runtime.Serializer {
	switch {
	case isYAML:
		return &listText{s, yamlItems}
	case pretty:
		return &listText{s, prettyItems}
	}
	return s
}

// listText writes lists item by item.
type listText struct {
	runtime.Serializer
	itemsText
}

// itemsText is how a text writes the items of a list.
type itemsText struct {
	// empty is the text of a list without items. It occurs once: what is deeper than the list, such
	// as a line of a string, is indented.
	empty string
	// before and after are written instead, around the items, with separator between them.
	before, separator, after string
	// convert returns the text of some items, which are the JSON of a list.
	convert func(items []byte) ([]byte, error)
}

var (
	prettyItems = itemsText{
		empty: "\n  \"items\": []", before: "\n  \"items\": [\n    ", separator: ",\n    ", after: "\n  ]",
		convert: func(items []byte) ([]byte, error) {
			var b bytes.Buffer
			err := json.Indent(&b, items, "  ", "  ")
			return bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte("[\n    ")), []byte("\n  ]")), err
		},
	}
	// The items have the same depth as in the whole list: lines are folded by their length.
	yamlItems = itemsText{empty: "\nitems: []\n", before: "\nitems:\n", convert: yaml.JSONToYAML}
	// converting limits the conversions at the same time: one to YAML needs more than ten times the
	// memory of its items, and more conversions than processors are not faster.
	converting = make(chan struct{}, goruntime.GOMAXPROCS(0))
)

// convertedBytes is the size of the items that are converted together. A conversion to YAML has
// buffers of this order.
const convertedBytes = 64 << 10

// Encode writes an object.
func (e *listText) Encode(obj runtime.Object, w io.Writer) error {
	head, tail, ok := e.frame(obj)
	if !ok {
		return e.Serializer.Encode(obj, w)
	}
	// A short first write tells k8s.io/apiserver that more will follow, which may be compressed.
	for _, part := range []string{head[:1], head[1:], e.before} {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
	}
	var items bytes.Buffer // as JSON, which each begins with a bracket or a comma
	encoder, first := json.NewEncoder(&items), true
	flush := func() error {
		if items.Len() == 0 {
			return nil
		}
		items.WriteByte(']')
		text, err := e.text(items.Bytes())
		items.Reset()
		if err != nil {
			return err
		}
		if !first {
			if _, err := io.WriteString(w, e.separator); err != nil {
				return err
			}
		}
		first = false
		_, err = w.Write(text)
		return err
	}
	if err := meta.EachListItem(obj, func(item runtime.Object) error {
		if items.Len() == 0 {
			items.WriteByte('[')
		} else {
			items.WriteByte(',')
		}
		if err := encoder.Encode(item); err != nil {
			return err
		}
		if items.Len() < convertedBytes {
			return nil
		}
		return flush()
	}); err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, e.after+tail)
	return err
}

// text converts items when there is a processor for it.
func (e *listText) text(items []byte) ([]byte, error) {
	converting <- struct{}{}
	defer func() { <-converting }()
	return e.convert(items)
}

// frame returns the text of a list before and after its items. It reports false if obj is not a
// list with items that are written one by one.
func (e *listText) frame(obj runtime.Object) (head, tail string, ok bool) {
	var empty runtime.Object
	if list, ok := obj.(*unstructured.UnstructuredList); ok {
		if len(list.Items) == 0 {
			return "", "", false
		}
		empty = &unstructured.UnstructuredList{Object: list.Object}
	} else {
		if meta.LenList(obj) == 0 {
			return "", "", false
		}
		list := reflect.New(reflect.TypeOf(obj).Elem())
		list.Elem().Set(reflect.ValueOf(obj).Elem())
		empty = list.Interface().(runtime.Object)
		items, _ := meta.GetItemsPtr(empty) // it has items
		slice := reflect.ValueOf(items).Elem()
		if !reflect.PointerTo(slice.Type().Elem()).Implements(reflect.TypeFor[runtime.Object]()) {
			return "", "", false
		}
		slice.SetLen(0)
	}
	var b bytes.Buffer
	if err := e.Serializer.Encode(empty, &b); err != nil {
		return "", "", false
	}
	before, after, ok := bytes.Cut(b.Bytes(), []byte(e.empty)) // which begins with a new line
	return string(before), string(after), ok
}
