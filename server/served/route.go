package served

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Routes are the paths of one version of a resource of the server itself, and their methods.
type Routes struct {
	Namespaced bool
	// Verbs are those of the resource.
	Verbs []string
	// Subresource returns the verbs of a subresource, and none if it does not exist.
	Subresource func(name string) []string
	// Media are the media types of the paths. Nil means that only the handlers check them.
	Media *Media
}

// Check returns nil if the resource has the path of a request, and the path has its method and
// media types. The error is that of kube-apiserver: not found if there is no such path, whether or
// not the object exists, method not allowed, unsupported media type, or not acceptable.
//
// The verb of a request, which is authorized, is the same for the path of a collection and of an
// object. A POST to the path of an object must not be handled: the name and the namespace in
// the path would be authorized, and the object in the body created.
func (r Routes) Check(req *http.Request, info *apirequest.RequestInfo) error {
	methods := r.methods(info)
	if len(methods) == 0 {
		return NotFound()
	}
	if !slices.Contains(methods, req.Method) {
		return NotAllowed()
	}
	if r.Media != nil {
		return r.Media.check(req, info)
	}
	return nil
}

// methods returns the methods of the path of a request. It has none if it does not exist.
func (r Routes) methods(info *apirequest.RequestInfo) []string {
	// A list that selects an object by its name has this name, too: only the path counts.
	depth := len(info.Parts)
	if !inScope(r.Namespaced, info) {
		return nil
	}
	switch {
	case info.Verb == "proxy":
		return nil // a path below /proxy
	case isWatchPath(info):
		// The resource and the object are below /watch, the subresource is not.
		if depth > 2 || !slices.Contains(r.Verbs, "watch") {
			return nil
		}
		return []string{http.MethodGet}
	case depth > 2:
		return r.belowObject(info)
	case depth == 2:
		return methodsOf(r.Verbs, map[string]string{
			"get": http.MethodGet, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete,
		})
	case r.Namespaced && info.Namespace == "":
		return methodsOf(r.Verbs, map[string]string{"list": http.MethodGet})
	}
	return methodsOf(r.Verbs, map[string]string{"list": http.MethodGet, "create": http.MethodPost, "deletecollection": http.MethodDelete})
}

// belowObject returns the methods of the path of a subresource.
func (r Routes) belowObject(info *apirequest.RequestInfo) []string {
	verbs := r.Subresource(info.Subresource)
	if proxied := info.Subresource == "proxy"; proxied && len(verbs) > 0 {
		// It has paths of its own, and all methods.
		return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	}
	if len(info.Parts) > 3 {
		return nil
	}
	return methodsOf(verbs, map[string]string{
		"get": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete,
	})
}

// methodsOf returns the methods of verbs.
func methodsOf(verbs []string, methods map[string]string) (out []string) {
	for _, verb := range verbs {
		if method := methods[verb]; method != "" {
			out = append(out, method)
		}
	}
	return out
}

// isWatchPath reports whether the path of a request is one below /watch.
func isWatchPath(info *apirequest.RequestInfo) bool {
	below := belowVersion(info)
	return info.Verb == "watch" && len(below) > 0 && below[0] == "watch"
}

// belowVersion returns the segments of a path below its group and version.
func belowVersion(info *apirequest.RequestInfo) []string {
	segments := strings.Split(strings.Trim(info.Path, "/"), "/")
	version := 1 // its index
	if info.APIPrefix == "apis" {
		version = 2
	}
	return segments[min(version+1, len(segments)):]
}

// inScope reports whether the path of a request matches the scope of its resource. Collections of
// namespaced resources exist for all namespaces, too.
func inScope(namespaced bool, info *apirequest.RequestInfo) bool {
	if namespaced {
		return info.Namespace != "" || len(info.Parts) == 1
	}
	if info.Namespace == "" {
		return true
	}
	// The path of a namespace names it both as the namespace and as the object. It is not below
	// itself.
	below := len(belowVersion(info))
	if isWatchPath(info) {
		below--
	}
	return info.APIGroup == "" && info.Resource == "namespaces" && info.Namespace == info.Name && below == len(info.Parts)
}

// NotFound returns the error of a path that does not exist.
func NotFound() error { return generic(http.StatusNotFound, "") }

// NotAllowed returns the error of a method that a path does not have.
func NotAllowed() error { return generic(http.StatusMethodNotAllowed, "") }

func generic(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", runtimeschema.GroupResource{}, "", message, 0, false)
}
