package aggregator

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream"
)

// documents3 is the path of OpenAPI v3 documents.
const documents3 = "/openapi/v3"

// proxyDocument sends a request for the OpenAPI v3 document of a version to its server. As in
// kube-apiserver, it is a request of the aggregator: whether the client may read documents is decided by
// this server.
func (a *Aggregator) proxyDocument(b *backend, w http.ResponseWriter, req *http.Request) {
	gv := b.groupVersion()
	switch {
	case req.URL.Path != documents3+"/apis/"+gv.Group+"/"+gv.Version:
		// The aggregator may read more than the client.
		fail(w, req, "404 page not found", http.StatusNotFound)
		return
	case httpstream.IsUpgradeRequest(req):
		fail(w, req, "an OpenAPI document cannot be upgraded to another protocol", http.StatusBadRequest)
		return
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, req, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	case !b.available:
		fail(w, req, "service unavailable", http.StatusServiceUnavailable)
		return
	case b.err != nil:
		fail(w, req, b.err.Error(), http.StatusInternalServerError)
		return
	}
	// The server would redirect a request with a hash that is no longer that of the document.
	req = req.Clone(req.Context())
	req.URL.RawQuery, req.URL.RawPath = "", ""
	a.forward(b, &user.DefaultInfo{Name: aggregatorUser}, w, req)
}
