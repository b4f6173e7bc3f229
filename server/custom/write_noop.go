package custom

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/lru"

	"espalier.dev/crd"
	"espalier.dev/store"
)

// maxNoops is the number of applied configurations that are remembered, of about 300 bytes each.
const maxNoops = 1 << 14

// noops remembers applied configurations that have changed nothing, with the entry of the object in the store.
// Controllers apply the same ones again and again: as long as the object and its CRD are the same, so is the result.
// An entry is another one after a restore of etcd, also with the same revision. It is safe for concurrent use.
type noops struct{ known *lru.Cache } // noopKey → weak.Pointer[store.Entry]

func newNoops() *noops { return &noops{lru.New(maxNoops)} }

// noopKey is everything that the result of an apply depends on, besides the stored object and admission.
type noopKey struct {
	// version identifies the schema and the conversion.
	version *crd.Identity
	digest  [sha256.Size]byte
}

// noopKey returns the key of the request, which is an apply. It reports false if its result cannot be remembered.
func (w *write) noopKey() (noopKey, bool) {
	kind, ok := w.kind.(*customKind)
	if !ok || w.reader == nil || kind.hasWebhook() || w.options.isDryRun() || !isSegment(w.info.Namespace) || !isSegment(w.name) {
		return noopKey{}, false
	}
	h := sha256.New()
	var size [8]byte
	for _, part := range [...]string{w.reader.key(w.info.Namespace, w.name), w.scope.Subresource, w.options.manager,
		strconv.FormatBool(w.options.force), w.options.fieldValidation} {
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	h.Write(w.body)
	k := noopKey{version: kind.id}
	h.Sum(k.digest[:0])
	return k, true
}

// entry returns the entry of the object, or nil. It does not ask etcd.
func (w *write) entry() *store.Entry {
	return w.reader.store.Get(w.reader.key(w.info.Namespace, w.name))
}

// repeated returns the result of an apply that is known to change nothing, after the checks that depend on more than the
// object. It returns nil if the apply must be done.
func (w *write) repeated(ctx context.Context, key noopKey) (runtime.Object, error) {
	known := w.serving.handler.noops.known
	remembered, ok := known.Get(key)
	if !ok || !w.plain || recorded(ctx, auditinternal.LevelRequestResponse) || w.reader.store.Ages() {
		return nil, nil
	}
	e := w.entry()
	if e == nil || e != remembered.(weak.Pointer[store.Entry]).Value() || e.Stale {
		known.Remove(key)
		return nil, nil
	}
	if w.reader.sync(ctx) != nil || w.entry() != e {
		return nil, nil // the write has the same error, or another object
	}
	v, err := w.reader.of(e)
	if err != nil {
		return nil, nil
	}
	(&applyBody{body: w.body}).record(w.req.Context())
	seen, err := w.admitRepeated(ctx, e)
	if seen {
		known.Remove(key)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.stored = &storedTree{view: v}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"resourceVersion": strconv.FormatInt(e.Revision, 10)}}}, nil
}

// admitRepeated runs the admission plugins for an object that does not change. It reports true if one of them
// asks for the object: then the apply is done as a whole, so this run must not have an effect. It ends when
// a plugin asks, before the plugin can call a webhook.
func (w *write) admitRepeated(ctx context.Context, e *store.Entry) (seen bool, err error) {
	plugins := w.serving.handler.config.Admission()
	if !plugins.Handles(admission.Update) {
		return false, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	warnings := &heldWarnings{}
	ctx = warning.WithWarningRecorder(ctx, warnings)
	object := func() runtime.Object {
		stop()
		obj, err := w.kind.DecodeStored(e.Value)
		if err != nil {
			return w.kind.New()
		}
		return obj
	}
	a := w.attributes(ctx, w.name, object, object)
	if m, ok := plugins.(admission.MutationInterface); ok {
		err = m.Admit(ctx, a, w.scope)
	}
	if v, ok := plugins.(admission.ValidationInterface); ok && err == nil && !a.wasSeen() {
		err = v.Validate(ctx, a, w.scope)
	}
	if a.wasSeen() {
		return true, nil
	}
	if ac := audit.AuditContextFrom(w.req.Context()); ac.Enabled() {
		audit.AddAuditAnnotationsMap(w.req.Context(), a.GetAnnotations(ac.GetEventLevel()))
	}
	for _, text := range warnings.texts {
		warning.AddWarning(w.req.Context(), text.agent, text.text)
	}
	return false, err
}

// heldWarnings are warnings that may be sent later. Plugins may add them concurrently.
type heldWarnings struct {
	mu    sync.Mutex
	texts []struct{ agent, text string }
}

// AddWarning implements warning.Recorder.
func (h *heldWarnings) AddWarning(agent, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, struct{ agent, text string }{agent, text})
}

// observer learns what an apply does besides its result. It is a warning.Recorder.
type observer struct {
	request context.Context
	// noticed is set by a warning, and by an admission plugin that has seen the object.
	noticed atomic.Bool
}

// observe adds an observer to the write, and returns a context with it.
func (w *write) observe(ctx context.Context) context.Context {
	w.observer = &observer{request: w.req.Context()}
	w.req = w.req.WithContext(warning.WithWarningRecorder(w.req.Context(), w.observer))
	return warning.WithWarningRecorder(ctx, w.observer)
}

// AddWarning passes a warning on.
func (o *observer) AddWarning(agent, text string) {
	o.noticed.Store(true)
	warning.AddWarning(o.request, agent, text)
}

// admitted learns what admission plugins have seen. There is no observer if nothing is to be remembered.
func (o *observer) admitted(a *attributes) {
	if o != nil && a.wasSeen() {
		o.noticed.Store(true)
	}
}

// remember remembers an apply to an object with a resourceVersion, if it has changed nothing and has no other effect.
// Large objects are compressed for many clients, which repeated does not do.
func (w *write) remember(key noopKey, resourceVersion string, result runtime.Object) {
	u, ok := result.(*unstructured.Unstructured)
	if !ok || w.stored == nil || w.created || w.observer.noticed.Load() || resourceVersion == "" || u.GetResourceVersion() != resourceVersion {
		return
	}
	e := w.entry()
	if e != nil && strconv.FormatInt(e.Revision, 10) == resourceVersion && len(e.Value) < gzipBytes/2 {
		w.serving.handler.noops.known.Add(key, weak.Make(e))
	}
}
