package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/klog/v2"

	"espalier.dev/schema"
	"espalier.dev/server/backend"
)

// An etcd without space rejects writes, but serves reads and deletions, and so does the server: it
// starts, makes the missing writes of the start when there is space, and is ready all the time,
// because load balancers must let deletions through. The check etcd-space reports the state.

// fullRetry is the time between attempts to write what was rejected at the start.
const fullRetry = time.Second

// spacePath is the path of the check that fails while etcd rejects writes.
const spacePath = "/readyz/etcd-space"

// advice returns what to do while etcd rejects writes for lack of space.
func (db *database) advice() string {
	if db.member != nil {
		return db.member.Advice()
	}
	return "Compact and defragment etcd, or raise its --quota-backend-bytes, and clear the alarm with \"etcdctl alarm disarm\""
}

// checkSpace returns an error while etcd rejects writes for lack of space. If etcd does not answer,
// other checks fail.
func (db *database) checkSpace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	for _, endpoint := range db.client.Endpoints() {
		status, err := db.client.Status(ctx, endpoint)
		if err != nil {
			continue
		}
		if hasNoSpace(status) {
			return fmt.Errorf("etcd has no space left: objects can be read and deleted, but not written. %s", db.advice())
		}
		return nil
	}
	return nil
}

// serveSpace serves the check etcd-space.
func (db *database) serveSpace(mux *mux.PathRecorderMux) {
	mux.HandleFunc(spacePath, func(w http.ResponseWriter, r *http.Request) {
		if err := db.checkSpace(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, "ok") // the client may be gone
	})
}

// reportSpace adds to the verbose answer of /readyz that etcd rejects writes. The check cannot be
// one of the generic server, which would not be ready if it failed.
func (db *database) reportSpace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !r.URL.Query().Has("verbose") {
			next.ServeHTTP(w, r)
			return
		}
		c := &codeWriter{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(c, r)
		if c.code != http.StatusOK {
			return // it is not ready, or the client may not know
		}
		if db.checkSpace(r.Context()) != nil {
			_, _ = fmt.Fprintf(w, "[!]etcd-space: etcd is full and rejects writes; objects can be read and deleted. See %s\n", spacePath)
		}
	})
}

// codeWriter remembers the status code of an answer.
type codeWriter struct {
	http.ResponseWriter
	code int
}

func (w *codeWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the writer of the answer.
func (w *codeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// reportFull makes the server report that etcd is full in /readyz.
func (db *database) reportFull(c *genericapiserver.Config) {
	build := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(next http.Handler, c *genericapiserver.Config) http.Handler {
		return db.reportSpace(build(next, c))
	}
}

// newRecorder returns the controller that records the semantics when there is space. If another
// server has recorded other semantics in the meantime, the controller fails, and the server is not
// ready.
func (db *database) newRecorder(sem schema.Semantics) controller {
	return controller{name: "semantics", run: func(ctx context.Context) error {
		err := untilSpace(ctx, func() error { return db.recordSemantics(ctx, sem) })
		if err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
}

// untilSpace calls write until it is not rejected for lack of space.
func untilSpace(ctx context.Context, write func() error) error {
	for {
		err := write()
		if !backend.IsFull(err) {
			return err
		}
		klog.FromContext(ctx).V(2).Info("A write of the start waits for space in etcd", "reason", err.Error())
		select {
		case <-time.After(fullRetry):
		case <-ctx.Done():
			return nil
		}
	}
}
