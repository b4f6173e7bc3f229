package faults

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// stream is the answer to a watch. It holds back or ends what the handler writes. All of it is one
// sequence of bytes, so events and bookmarks keep their order.
//
// The goroutine of the request writes, and those that release held events do: mu lets one of them
// write at a time. The stream ends with finish, in the goroutine of the request, after which
// nothing is written.
type stream struct {
	http.ResponseWriter
	query   *request
	config  Config
	started time.Time

	// mu guards the answer and the fields below. It is held during writes, which take as long as
	// the client likes.
	mu sync.Mutex
	// held are the bytes that are held back.
	held    bytes.Buffer
	framing framing
	done    bool

	// state guards the fields below, and is never held for long. It is locked after mu.
	state sync.Mutex
	// code is the status code, if it was sent.
	code   int
	cancel context.CancelFunc
	// holds are the rules that hold events back, and the time for which each does, or zero.
	holds map[*rule]time.Duration
	// timer releases held events, if it is not nil.
	timer *time.Timer
	// left is the number of events until the watch ends, or negative. expire sends an error then.
	left   int
	expire bool
	// over is set when the watch is about to end.
	over bool
}

func newStream(w http.ResponseWriter, q *request, c Config) *stream {
	return &stream{ResponseWriter: w, query: q, config: c, started: time.Now(), holds: map[*rule]time.Duration{}, left: -1}
}

// Unwrap returns the writer of the answer.
func (w *stream) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// compressed reports whether the answer is compressed.
func (w *stream) compressed() bool {
	w.state.Lock()
	defer w.state.Unlock()
	return w.code != 0 && w.ResponseWriter.Header().Get("Content-Encoding") != ""
}

// apply applies a fault to the watch.
func (w *stream) apply(r *rule, d drawn) {
	w.state.Lock()
	defer w.state.Unlock()
	switch {
	case r.Fault == HoldEvents:
		w.holds[r] = d.delay
	case w.left < 0 || d.after < w.left:
		w.left, w.expire = d.after, r.Fault == Expired
		w.endIfDue()
	}
}

// endIfDue ends the watch if no events are left and the client has got the header: before, the
// handler might answer that the request was canceled. The caller holds state.
func (w *stream) endIfDue() {
	if w.left == 0 && w.code == http.StatusOK {
		w.over = true
		w.cancel()
	}
}

// setCancel sets the function that ends the watch.
func (w *stream) setCancel(cancel context.CancelFunc) {
	w.state.Lock()
	defer w.state.Unlock()
	w.cancel = cancel
}

// release removes rules from those that hold events back.
func (w *stream) release(rules []*rule) {
	w.state.Lock()
	defer w.state.Unlock()
	changed := false
	for _, r := range rules {
		if _, ok := w.holds[r]; ok {
			delete(w.holds, r)
			changed = true
		}
	}
	switch {
	case !changed:
	case len(w.holds) == 0:
		// The client may be slow: the caller does not wait for it.
		go w.drain(false)
	default:
		w.startTimer()
	}
}

// startTimer starts the timer that releases the held events, unless there is one, or a rule holds
// them without a time limit. The caller holds state.
func (w *stream) startTimer() {
	if w.timer != nil {
		return
	}
	longest := time.Duration(0)
	for _, d := range w.holds {
		if d == 0 {
			return
		}
		longest = max(longest, d)
	}
	w.timer = time.AfterFunc(longest, func() { w.drain(true) })
}

// drain sends what is held back, unless events are held again. due sends it anyway.
func (w *stream) drain(due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Lock()
	if due {
		w.timer = nil
		for _, d := range w.holds {
			// A rule without a time limit was added.
			due = due && d > 0
		}
	}
	send := !w.done && !w.over && (due || len(w.holds) == 0)
	w.state.Unlock()
	if send {
		w.sendHeld()
	}
}

// sendHeld sends what is held back. The caller holds mu.
func (w *stream) sendHeld() {
	if w.held.Len() == 0 {
		return
	}
	// An error means that the client has gone, which ends the watch.
	_, _ = w.ResponseWriter.Write(w.held.Bytes())
	w.held = bytes.Buffer{}
	w.flush()
}

func (w *stream) flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// WriteHeader sends the status code.
func (w *stream) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
	w.state.Lock()
	defer w.state.Unlock()
	w.code = code
	w.framing = newFraming(w.ResponseWriter.Header())
	w.endIfDue()
}

// Write sends events, or holds them back.
func (w *stream) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Lock()
	if w.code != http.StatusOK {
		// An error, not events.
		w.state.Unlock()
		return w.ResponseWriter.Write(p)
	}
	now, later := w.split(p)
	if len(later) > 0 {
		w.startTimer()
	}
	released := len(w.holds) == 0
	w.state.Unlock()
	if released {
		w.sendHeld()
	}
	w.held.Write(later)
	if len(now) == 0 {
		return len(p), nil
	}
	if n, err := w.ResponseWriter.Write(now); err != nil {
		return n, err
	}
	return len(p), nil
}

// split returns which part of p is sent now, and which is held back. The rest is dropped because
// the watch ends. The caller holds mu and state.
func (w *stream) split(p []byte) (now, later []byte) {
	sent, kept := 0, 0
	// The rest of a compressed answer is complete only with its end.
	for sent+kept < len(p) && (!w.over || w.framing.form == opaque) {
		begun := w.framing.inside
		n := w.framing.next(p[sent+kept:])
		switch {
		case len(w.holds) == 0:
			sent += n
		case kept == 0 && begun && w.held.Len() == 0:
			sent += n // the client has got a part of the event, and gets the rest
		default:
			kept += n
		}
		if w.left > 0 && !w.framing.inside {
			w.left--
			w.endIfDue()
		}
	}
	return p[:sent], p[sent : sent+kept]
}

// Flush sends the header and the events that were written.
func (w *stream) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.flush()
	}
}

// finish ends the stream after the handler has returned. Events that are held back are dropped,
// as if the connection were lost: the client resumes the watch at the last event that it has got.
// Before an error they are sent.
func (w *stream) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Lock()
	expire := w.over && w.expire
	if w.timer != nil {
		w.timer.Stop()
	}
	w.state.Unlock()
	w.done = true
	if !expire || w.framing.inside {
		return
	}
	w.sendHeld()
	if err := w.sendError(); err != nil {
		klog.ErrorS(err, "Cannot send an injected error to a watch, which ends without it")
		return
	}
	w.flush()
}

// sendError sends the error that the revision of the watch has expired, as an event.
func (w *stream) sendError() error {
	h := w.ResponseWriter.Header()
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return err
	}
	info, ok := runtime.SerializerInfoForMediaType(w.config.Serializer.SupportedMediaTypes(), media)
	if !ok || info.StreamSerializer == nil {
		return fmt.Errorf("no encoder for %s", media)
	}
	v1 := runtimeschema.GroupVersion{Version: "v1"}
	status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s (%d)", w.query.revision, w.config.Revision())).ErrStatus
	object, err := runtime.Encode(w.config.Serializer.EncoderForVersion(info.Serializer, v1), &status)
	if err != nil {
		return err
	}
	var frame bytes.Buffer
	event := &metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: bytes.TrimSuffix(object, []byte("\n"))}}
	encoder := w.config.Serializer.EncoderForVersion(info.StreamSerializer.Serializer, v1)
	if err := encoder.Encode(event, info.StreamSerializer.Framer.NewFrameWriter(&frame)); err != nil {
		return err
	}
	switch h.Get("Content-Encoding") {
	case "":
		_, err = w.ResponseWriter.Write(frame.Bytes())
	case "gzip":
		// A compressed answer may have several parts.
		z := gzip.NewWriter(w.ResponseWriter)
		_, err = z.Write(frame.Bytes())
		err = errors.Join(err, z.Close())
	default:
		return fmt.Errorf("unknown encoding %s", h.Get("Content-Encoding"))
	}
	return err
}
