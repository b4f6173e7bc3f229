package custom

import (
	"compress/gzip"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"espalier.dev/server/backend"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// reads holds what the readers of all resources share.
type reads struct {
	store   *store.Store
	cache   *viewCache
	written *writtenViews
	// pages, frames, gzips and deflaters pool the memory of responses.
	pages     *buffers
	frames    *buffers
	gzips     *sync.Pool
	deflaters *sync.Pool // of *flate.Writer
}

func newReads(s *store.Store) *reads {
	return &reads{
		store: s, cache: newViewCache(viewCacheBytes), written: newWrittenViews(), pages: &buffers{max: outputBytes}, frames: &buffers{max: frameBytes},
		gzips: responsewriters.NewGzipWriterPoolOrDie(), deflaters: newDeflaters(),
	}
}

// reader answers GET, LIST and WATCH of one version of a custom resource with the stored
// bytes, without building objects. It handles the common requests and leaves all others to
// the handlers of k8s.io/apiserver, which also produce most errors: a request that it does not
// handle has not been answered in part.
type reader struct {
	*reads
	*views
	endpoint   *endpoint
	prefix     keys.Prefix
	namespaced bool
	fields     []selectableField
	// json is the serializer of JSON that is not formatted for people.
	json runtime.Serializer
	// watches is the number of watches that are served.
	watches atomic.Int64
}

func (s *serving) newReader(e *endpoint, kind *customKind, strategy *strategy) *reader {
	d := e.version.Definition()
	r := s.handler.reads
	return &reader{
		reads: r, endpoint: e, namespaced: d.Namespaced(), fields: strategy.fields,
		views:  &views{kind: kind, cache: r.cache, written: r.written, kept: e.version.Storage(), undecodable: undecodableLog{resource: d.GroupResource()}},
		prefix: keys.Root(r.store.Prefix()).Custom(d.GroupResource()),
		json:   e.serializer.media[0].Serializer,
	}
}

// handler returns the handler of a read. otherwise handles what is not for the reader.
func (r *reader) handler(s *serving, release func(), otherwise http.HandlerFunc) http.HandlerFunc {
	if r == nil {
		return otherwise
	}
	return func(w http.ResponseWriter, req *http.Request) {
		info, ok := apirequest.RequestInfoFrom(req.Context())
		if !ok || !r.handle(w, req, info, s, release) {
			otherwise(w, req)
		}
	}
}

// handle reports whether it has handled a request.
func (r *reader) handle(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo, s *serving, release func()) bool {
	if !r.negotiates(req, info.Verb) || !isSegment(info.Namespace) || !isSegment(info.Name) {
		return false
	}
	switch info.Verb {
	case "get":
		return r.get(w, req, info)
	case "list":
		return r.list(w, req, info)
	default:
		return r.watch(w, req, info, s, release)
	}
}

// negotiates reports whether the client gets plain JSON, and nothing else needs the objects.
func (r *reader) negotiates(req *http.Request, verb string) bool {
	if a := audit.AuditContextFrom(req.Context()); a != nil && !a.GetEventLevel().Less(auditinternal.LevelRequestResponse) {
		return false
	}
	accepted, info, err := negotiation.NegotiateOutputMediaType(req, r.endpoint.serializer, r.endpoint.scope)
	if err != nil || accepted.Convert != nil || info.MediaType != runtime.ContentTypeJSON {
		return false
	}
	if verb == "watch" {
		return !wsstream.IsWebSocketRequest(req) // the events of a watch are never formatted
	}
	return info.Serializer == r.json
}

// isSegment reports whether a name or namespace of a request can be part of a key.
func isSegment(s string) bool {
	return s != "." && s != ".." && !strings.ContainsAny(s, "/%")
}

// fail answers with an error, as the handlers of k8s.io/apiserver do.
func (r *reader) fail(w http.ResponseWriter, req *http.Request, err error) {
	if errors.Is(err, store.ErrClosed) {
		err = apierrors.NewServiceUnavailable("the server is shutting down")
	}
	responsewriters.ErrorNegotiated(backend.Failure(err), r.endpoint.serializer, r.endpoint.scope.Kind.GroupVersion(), w, req)
}

const (
	// freshTime limits the time that a read waits for the revision that it asks for, and
	// freshRetry is after how many seconds the client may try again.
	freshTime  = 3 * time.Second
	freshRetry = 1
)

// await waits until the store has a revision. A resourceVersion can be larger than any
// revision of etcd.
func (r *reader) await(ctx context.Context, revision uint64) error {
	have := uint64(r.store.Revision())
	switch {
	case revision <= have:
		return nil
	case revision > math.MaxInt64:
		return storage.NewTooLargeResourceVersionError(revision, have, freshRetry)
	}
	ctx, cancel := context.WithTimeout(ctx, freshTime)
	defer cancel()
	err := r.store.Await(ctx, int64(revision))
	var behind *store.BehindError
	if errors.As(err, &behind) {
		return storage.NewTooLargeResourceVersionError(uint64(behind.Want), uint64(behind.Have), freshRetry)
	}
	return err
}

// errNotCurrent is returned when the store cannot become as new as etcd, or has not been filled:
// then etcd must be asked.
var errNotCurrent = errors.New("the store is behind")

// sync waits until the store is as new as etcd. It returns errNotCurrent if that takes too long,
// although etcd works.
func (r *reader) sync(ctx context.Context) error {
	revision, err := r.store.Current(ctx)
	if err != nil {
		return err
	}
	err = r.await(ctx, uint64(revision))
	if storage.IsTooLargeResourceVersion(err) {
		return errNotCurrent
	}
	return err
}

// key returns the key of an object, or the prefix of those in a namespace, or of all.
func (r *reader) key(namespace, name string) string {
	if !r.namespaced {
		namespace = ""
	}
	return r.prefix.Key(namespace, name)
}

// get answers a GET.
func (r *reader) get(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo) bool {
	revision, ok := requestedRevision(req)
	if !ok {
		return false
	}
	switch revision {
	case "0":
		if !r.isLoaded() || backend.AsOf(req.Context()) != 0 {
			return false
		}
	case "":
		err := r.sync(req.Context())
		if errors.Is(err, errNotCurrent) {
			return false
		}
		if err != nil {
			r.fail(w, req, err)
			return true
		}
	default:
		n, err := storage.APIObjectVersioner{}.ParseResourceVersion(revision)
		if err != nil {
			return false
		}
		if err := r.await(req.Context(), n); err != nil {
			r.fail(w, req, err)
			return true
		}
	}
	e := r.store.Get(r.key(info.Namespace, info.Name))
	if e == nil {
		r.fail(w, req, apierrors.NewNotFound(r.undecodable.resource, info.Name))
		return true
	}
	v, err := r.of(e)
	if err != nil {
		return false
	}
	r.write(w, req, v.size(e.Revision)+len("\n"), func(b *output) {
		b.view(v, e.Revision)
		b.text("\n")
	})
	return true
}

// isLoaded reports whether the store has been filled.
func (r *reader) isLoaded() bool {
	select {
	case <-r.store.Loaded():
		return true
	default:
		return false
	}
}

// requestedRevision returns the resourceVersion of a GET. It reports false if the parameters
// are no longer supported.
func requestedRevision(req *http.Request) (string, bool) {
	values := req.URL.Query()
	return values.Get("resourceVersion"), len(values["export"]) == 0
}

const (
	// outputBytes is the size of one write. The transports split it as they need.
	outputBytes = 128 << 10
	// frameBytes is the same for a watch. There are many more watches than lists, and those of
	// slow clients wait in a write for a long time. With the header of an HTTP/2 frame, it fits
	// into one TLS record: one more byte would need a record and a system call of its own.
	frameBytes = 16<<10 - 9
	// gzipBytes is the size from which responses are compressed, as in k8s.io/apiserver.
	gzipBytes = 128 << 10
)

// write answers with a body of a known size, which compose writes.
func (r *reader) write(w http.ResponseWriter, req *http.Request, size int, compose func(*output)) {
	apirequest.TrackSerializeResponseObjectLatency(req.Context(), func() {
		h := w.Header()
		h.Set("Content-Type", runtime.ContentTypeJSON)
		o := &output{w: w, buffers: r.pages}
		if size > gzipBytes && responsewriters.ContentEncodingSupported(req, features.APIResponseCompression) == "gzip" {
			h.Set("Content-Encoding", "gzip")
			h.Add("Vary", "Accept-Encoding")
			z := r.gzips.Get().(*gzip.Writer)
			z.Reset(w)
			defer func() {
				_ = z.Close() // the client has gone
				z.Reset(nil)
				r.gzips.Put(z)
			}()
			o.w = z
		} else {
			h.Set("Content-Length", strconv.Itoa(size))
		}
		w.WriteHeader(http.StatusOK)
		compose(o)
		o.flush()
	})
}
