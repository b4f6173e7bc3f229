package rest

import (
	"net/http"
	"regexp"
	"strings"
)

// NameTypes returns the writer of the response to a request with a verb: one whose messages name Go
// types of another package. Objects in memory have published types, and those of kube-apiserver
// have types of an internal package, which the answer names if an object cannot be written as the
// client wants it. For other requests the writer stays the same.
func NameTypes(w http.ResponseWriter, req *http.Request, verb, pkg string) http.ResponseWriter {
	accept := req.Header.Get("Accept")
	if !strings.Contains(accept, "as=PartialObjectMetadata") {
		return w
	}
	lists := strings.Contains(accept, "as=PartialObjectMetadataList")
	objects := strings.Contains(strings.ReplaceAll(accept, "as=PartialObjectMetadataList", ""), "as=PartialObjectMetadata")
	if verb == "watch" || verb == "list" && !objects || verb != "list" && !lists {
		return w
	}
	return &typeNames{w, pkg}
}

// typeNames is the writer of the response to a request that asks for the metadata of a list instead
// of an object, or the other way around.
type typeNames struct {
	http.ResponseWriter
	pkg string
}

// namedType matches the message of such a response.
var namedType = regexp.MustCompile(`(you requested \w+, but the requested object is (?:not )?a list \(\*)\w+(\.\w+\))`)

// Write writes a part of the body. An error is written at once.
func (t *typeNames) Write(body []byte) (int, error) {
	if len(body) > 1<<10 || !namedType.Match(body) {
		return t.ResponseWriter.Write(body)
	}
	if _, err := t.ResponseWriter.Write(namedType.ReplaceAll(body, []byte("${1}"+t.pkg+"$2"))); err != nil {
		return 0, err
	}
	return len(body), nil
}
