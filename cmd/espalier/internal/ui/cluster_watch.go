package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/internal/textdiff"
	"espalier.dev/web/protocol"
)

// The limits of a change that is shown: the size of the texts that are compared, and the lines of the
// difference. diffContext is the number of lines around a change.
const (
	maxDiffed    = 1 << 20
	maxDiffLines = 400
	diffContext  = 2
)

// Pauses between watches that the server ends at once.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
)

// watchRequest asks for the changes of the objects of a CRD or, with a name, of one object.
type watchRequest struct {
	objectsRequest
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// change is a line of the answer to a watchRequest.
type change struct {
	// Type is started when the server has accepted the watch, ADDED, MODIFIED, DELETED, expired if the
	// objects have to be listed again, failed, or rejected if the server allows no watch.
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	Row  *tableRow `json:"row,omitempty"`
	// Diff is the change of the one object that is watched, and Revision its resource version.
	Diff     []diffLine `json:"diff,omitempty"`
	Revision string     `json:"revision,omitempty"`
	More     bool       `json:"more,omitempty"`
	Message  string     `json:"message,omitempty"`
}

// diffLine is a line of a difference. Op is a blank, +, -, or @ for the start of a part.
type diffLine struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// watch sends changes until the browser is gone, one JSON value in a line.
func (c *Cluster) watch(w http.ResponseWriter, r *http.Request, body []byte) {
	select {
	case c.watches <- struct{}{}:
		defer func() { <-c.watches }()
	default:
		writeJSON(w, protocol.Response{Error: &protocol.Error{Code: protocol.Failed, Message: fmt.Sprintf("there are %d watches already: close other tabs", maxWatches)}})
		return
	}
	// The deadline for reading the request would end it.
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Time{}) // a connection without deadlines has none
	var watched *watched
	_, err := request(func(ctx context.Context, r watchRequest) (_ any, err error) {
		watched, err = c.newWatched(ctx, r)
		return nil, err
	})(r.Context(), body)
	if err != nil {
		writeJSON(w, protocol.Response{Error: asError(r.Context(), err)})
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	watched.send = func(e change) error {
		e.Time = time.Now()
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		// A browser that does not read must not keep the watch.
		_ = controller.SetWriteDeadline(time.Now().Add(timeout))
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
		return controller.Flush()
	}
	watched.run(r.Context())
}

// watched is a watch of the page.
type watched struct {
	live       *source.Live
	collection source.Collection
	// define reads the CRD. definition is nil while it cannot be read, for the reason in problem, and is
	// read again after retry.
	define     func(context.Context) (*definition, error)
	definition *definition
	problem    string
	retry      time.Time
	version    string
	// text is the last state of the one object that is watched.
	text string
	send func(change) error
}

func (c *Cluster) newWatched(ctx context.Context, r watchRequest) (*watched, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	known, live, err := c.named(r.CRD)
	if err != nil {
		return nil, err
	}
	w := &watched{live: live, version: r.ResourceVersion}
	if w.collection, err = known.collection(r.Version); err != nil {
		return nil, err
	}
	w.collection.Namespace, w.collection.Name = r.Namespace, r.Name
	w.define = func(ctx context.Context) (*definition, error) {
		d, _, err := c.definition(ctx, r.CRD, r.Semantics)
		return d, err
	}
	w.prepare(ctx)
	if r.Name == "" {
		return w, nil
	}
	page, err := live.Page(ctx, w.collection, 1, "")
	if err != nil {
		return nil, err
	}
	w.version = page.Version
	if len(page.Rows) > 0 {
		w.text, err = readableYAML(page.Rows[0].JSON)
	}
	return w, err
}

// prepare reads the CRD, unless it is known, or could not be read a moment ago.
func (w *watched) prepare(ctx context.Context) {
	if w.definition != nil || time.Now().Before(w.retry) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	if w.definition, err = w.define(ctx); err != nil {
		w.problem = asError(ctx, err).Message
		w.retry = time.Now().Add(lastPause)
	}
}

// run watches until the browser is gone, or the watch cannot be continued.
func (w *watched) run(ctx context.Context) {
	isStarted := false
	started := func() error {
		if isStarted {
			return nil
		}
		isStarted = true
		return w.send(change{Type: "started"})
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		start := time.Now()
		err := w.live.Watch(ctx, w.collection, w.version, started, func(e source.Event) error { return w.event(ctx, &e) })
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, source.ErrExpired):
			_ = w.send(change{Type: "expired"}) // the browser may be gone
			return
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			_ = w.send(change{Type: "rejected", Message: brief(err)}) // as above
			return
		case err != nil:
			_ = w.send(change{Type: "failed", Message: brief(err)}) // as above
			return
		}
		if time.Since(start) > lastPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// event sends a change.
func (w *watched) event(ctx context.Context, e *source.Event) error {
	if e.Version != "" {
		w.version = e.Version
	}
	for i := range e.Rows {
		r := &e.Rows[i]
		revision := resourceVersion(r.JSON)
		if revision != "" {
			w.version = revision
		}
		if e.Type == "BOOKMARK" {
			continue
		}
		w.prepare(ctx)
		row := rowOf(ctx, w.definition, w.problem, r)
		out := change{Type: e.Type, Row: &row, Revision: revision}
		if w.collection.Name != "" {
			w.diff(&out, r.JSON)
		}
		if err := w.send(out); err != nil {
			return err
		}
	}
	return nil
}

// diff adds the difference to the state before.
func (w *watched) diff(out *change, object []byte) {
	before, now := w.text, ""
	if out.Type != "DELETED" {
		var err error
		if now, err = readableYAML(object); err != nil {
			out.Message = err.Error()
			return
		}
	}
	w.text = now
	if len(before) > maxDiffed || len(now) > maxDiffed {
		out.Message = "the object is too large to compare"
		return
	}
	for i, h := range textdiff.Hunks(withoutVersion(before), withoutVersion(now), diffContext) {
		if i > 0 {
			out.Diff = append(out.Diff, diffLine{"@", h.Header()})
		}
		for _, l := range h.Lines {
			if len(out.Diff) >= maxDiffLines {
				out.More = true
				return
			}
			out.Diff = append(out.Diff, diffLine{string(rune(l.Op)), cut(strings.TrimSuffix(string(l.Text), "\n"), maxLine)})
		}
	}
}

// withoutVersion returns an object without its resource version, which every change changes.
func withoutVersion(text string) []byte {
	before, rest, ok := strings.Cut(text, "\n  resourceVersion: ")
	if _, after, more := strings.Cut(rest, "\n"); ok && more {
		return []byte(before + "\n" + after)
	}
	return []byte(text)
}

// resourceVersion returns the resource version of an object, or an empty string.
func resourceVersion(object []byte) string {
	var head struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(object, &head) // an object that cannot be read has none
	return head.Metadata.ResourceVersion
}
