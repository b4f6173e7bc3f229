package custom

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"

	"espalier.dev/internal/jsonx"
)

// respond writes the result of a write. All formats but plain JSON, and responses that are
// recorded by an audit or compressed, are written by k8s.io/apiserver.
func (w *write) respond(ctx context.Context, rw http.ResponseWriter, code int, obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && w.plain && !recorded(w.req.Context(), auditinternal.LevelRequestResponse) {
		data, err := w.text(u)
		if err == nil && (len(data) < gzipBytes || responsewriters.ContentEncodingSupported(w.req, features.APIResponseCompression) == "") {
			rw.Header().Set("Content-Type", runtime.ContentTypeJSON)
			rw.WriteHeader(code)
			_, _ = rw.Write(append(data, '\n')) // a client that is gone misses nothing
			return
		}
	}
	// A read of the object has the same response, except for the code. Its path has a name.
	info := *w.info
	info.Name = w.name
	if info.Name == "" {
		info.Name = "created"
	}
	req := w.req.Clone(apirequest.WithRequestInfo(ctx, &info))
	if strings.Contains(req.URL.RawQuery, "export") {
		query := req.URL.Query()
		query.Del("export") // an error for reads alone
		req.URL.RawQuery = query.Encode()
	}
	handlers.GetResource(result{obj}, w.scope)(&withCode{rw, code}, req)
}

// text returns the JSON of the result: the text that was stored, with the resourceVersion, if
// a read returns that too.
func (w *write) text(obj *unstructured.Unstructured) ([]byte, error) {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err == nil && w.stored != nil && w.stored.view != nil {
		v := w.stored.view
		return v.append(make([]byte, 0, v.size(revision)+len("\n")), revision), nil
	}
	return jsonx.Append(nil, obj.Object)
}

// recorded reports whether an audit records what a level has.
func recorded(ctx context.Context, level auditinternal.Level) bool {
	ac := audit.AuditContextFrom(ctx)
	return ac.Enabled() && !ac.GetEventLevel().Less(level)
}

// result is a storage that has one object.
type result struct{ obj runtime.Object }

func (r result) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
	return r.obj, nil
}

// withCode is a response whose code for success is another one.
type withCode struct {
	http.ResponseWriter
	code int
}

func (w *withCode) WriteHeader(code int) {
	if code == http.StatusOK {
		code = w.code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the response for http.ResponseController.
func (w *withCode) Unwrap() http.ResponseWriter { return w.ResponseWriter }
