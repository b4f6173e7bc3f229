package served

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Media are the media types of the paths of a resource. kube-apiserver compares them with the
// headers of a request for one of its own resources before anything else, and more strictly than
// when it encodes a response: "application/*" matches none of them.
type Media struct {
	// objects are those of responses, lists those of lists and watches.
	objects, lists []string
	patches        []string
}

// OwnMedia are the media types of the server's own resources.
var OwnMedia = newMedia()

func newMedia() *Media {
	const watched = ";stream=watch"
	m := &Media{objects: []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf}}
	m.lists = append(slices.Clone(m.objects), runtime.ContentTypeJSON+watched, runtime.ContentTypeProtobuf+watched)
	for _, t := range []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType} {
		m.patches = append(m.patches, string(t))
	}
	return m
}

// check returns an error if the path of a request does not have the media type of its body, or
// none of those that it accepts.
func (m *Media) check(req *http.Request, info *apirequest.RequestInfo) error {
	if info.Subresource != "" && isConnection(info.Subresource) {
		return nil
	}
	if req.Method == http.MethodPatch && !matches(req.Header.Get("Content-Type"), m.patches) {
		return generic(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	accept := req.Header.Get("Accept")
	if accept == "" || accepts(accept, runtime.ContentTypeJSON) {
		return nil
	}
	produced := m.produced(req.Method, info)
	if accepts(accept, produced...) {
		return nil
	}
	return generic(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+strings.Join(produced, ", "))
}

// produced returns the media types of the responses to a request.
func (m *Media) produced(method string, info *apirequest.RequestInfo) []string {
	switch {
	case info.Subresource == "log":
		return append([]string{"text/plain"}, m.objects...)
	case info.Subresource != "" || method != http.MethodGet:
		return m.objects
	case isWatchPath(info) || len(info.Parts) < 2:
		return m.lists
	}
	return m.objects
}

// isConnection reports whether a subresource is a connection, whose content is any.
func isConnection(subresource string) bool {
	switch subresource {
	case "attach", "exec", "portforward", "proxy":
		return true
	}
	return false
}

// accepts reports whether a header accepts one of some media types.
func accepts(header string, mediaTypes ...string) bool {
	return matches(header, mediaTypes) || matches(header, []string{"*/*"})
}

// matches reports whether a header names one of some media types. Parameters do not count.
func matches(header string, mediaTypes []string) bool {
	for name := range strings.SplitSeq(header, ",") {
		name, _, _ = strings.Cut(name, ";")
		if slices.Contains(mediaTypes, strings.Trim(name, " ")) {
			return true
		}
	}
	return false
}
