package server

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
	"espalier.dev/server/rest"
)

// maxPatchBytes is the maximum of the levels of a merge patch times its size: the library of
// k8s.io/apiserver reads the rest of the text again for each level.
const maxPatchBytes = 500_000_000

// maxLevels is the nesting of JSON that encoding/json reads.
const maxLevels = 10_000

// boundBodies returns a handler that rejects bodies which need more memory or time than their
// size suggests: YAML whose aliases expand it beyond the limit of a request body, and large merge
// patches that are nested deeply.
func boundBodies(next http.Handler, serializer runtime.NegotiatedSerializer, sem schema.Semantics) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mediaType := rest.MediaType(req)
		isMerge := mediaType == string(types.MergePatchType)
		if isMerge || mayBeYAML(mediaType) {
			if bad := checkBody(rest.PeekBody(req, maxRequestBody), isMerge); bad != nil {
				rejectBody(w, req, serializer, bad)
				return
			}
		}
		if patch := types.PatchType(mediaType); req.Method == http.MethodPatch && rest.ChecksPatch(patch) {
			req = rest.WithPatch(req, patch, rest.PeekBody(req, maxRequestBody), sem.RefusesContradictions())
		}
		next.ServeHTTP(w, req)
	})
}

// checkBody returns an error for a merge patch, or for YAML, that is rejected.
func checkBody(body []byte, isMerge bool) error {
	if !isMerge {
		if bad := yamlx.CheckExpanded(body, maxRequestBody); bad != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("the YAML of the request is rejected: line %v", bad))
		}
	} else if levels := levelsOf(body); levels <= maxLevels && levels*len(body) > maxPatchBytes {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a merge patch of %d bytes has at most %d levels, got %d", len(body),
			maxPatchBytes/len(body), levels))
	}
	return nil
}

// mayBeYAML reports whether a body of a media type may be decoded as YAML. A body without one is
// JSON.
func mayBeYAML(mediaType string) bool {
	switch mediaType {
	case "", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, string(types.JSONPatchType),
		string(types.MergePatchType), string(types.StrategicMergePatchType):
		return false
	}
	return true
}

// levelsOf returns how deep a JSON text is nested.
func levelsOf(text []byte) (most int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}

// rejectBody answers a request with an error.
func rejectBody(w http.ResponseWriter, req *http.Request, serializer runtime.NegotiatedSerializer, err error) {
	gv := runtimeschema.GroupVersion{}
	if info, ok := apirequest.RequestInfoFrom(req.Context()); ok {
		gv = runtimeschema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	responsewriters.ErrorNegotiated(err, serializer, gv, w, req)
}
