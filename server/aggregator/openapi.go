package aggregator

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
)

// proxyDocument sends a request for the OpenAPI v3 document of a version to its server. As in
// kube-apiserver, it is a request of the aggregator: whether the client may read documents is decided by
// this server.
func (a *Aggregator) proxyDocument(b *backend, w http.ResponseWriter, req *http.Request) {
	switch {
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
	req.URL.RawQuery = ""
	a.forward(b, &user.DefaultInfo{Name: aggregatorUser}, w, req)
}
