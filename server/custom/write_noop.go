package custom

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/lru"

	"espalier.dev/crd"
	"espalier.dev/store"
)

// maxNoops is the number of applied configurations that are remembered, of about 300 bytes each.
const maxNoops = 1 << 14

// noops remembers applied configurations that have changed nothing, with the revision of the object.
// Controllers apply the same ones again and again: as long as the object and its CRD are the same, so is the result.
// It is safe for concurrent use.
type noops struct{ known *lru.Cache }

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

// repeated returns the result of an apply that is known to change nothing, after the checks that depend on more than the
// object. It returns nil if the apply must be done.
func (w *write) repeated(ctx context.Context, key noopKey) (runtime.Object, error) {
	noops := w.serving.handler.noops
	revision, ok := noops.known.Get(key)
	if !ok || !w.plain || recorded(ctx, auditinternal.LevelRequestResponse) || w.reader.store.Ages() {
		return nil, nil
	}
	if w.reader.sync(ctx) != nil {
		return nil, nil // the write has the same error, or asks etcd
	}
	e := w.reader.store.Get(w.reader.key(w.info.Namespace, w.name))
	if e == nil || e.Revision != revision || e.Stale {
		return nil, nil
	}
	v, err := w.reader.of(e)
	if err != nil || v.size(e.Revision) >= gzipBytes {
		return nil, nil
	}
	allowed, err := w.admitRepeated(ctx, e)
	if !allowed {
		noops.known.Remove(key) // a plugin wants to see the object
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	(&applyBody{body: w.body}).record(w.req.Context())
	w.stored = &storedTree{view: v}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"resourceVersion": strconv.FormatInt(e.Revision, 10)}}}, nil
}

// admitRepeated runs the admission plugins for an object that does not change. It reports false if one of them
// asks for the object: then the apply is done as a whole.
func (w *write) admitRepeated(ctx context.Context, e *store.Entry) (bool, error) {
	plugins := w.serving.handler.config.Admission()
	if !plugins.Handles(admission.Update) {
		return true, nil
	}
	object := func() runtime.Object {
		obj, err := w.kind.DecodeStored(e.Value)
		if err != nil {
			return w.kind.New() // what a plugin makes of it does not matter
		}
		return obj
	}
	audited := admission.WithAudit(plugins)
	a := w.attributes(ctx, w.name, object, object)
	if m, ok := audited.(admission.MutationInterface); ok {
		if err := m.Admit(ctx, a, w.scope); err != nil || a.wasSeen() {
			return !a.wasSeen(), err
		}
	}
	if v, ok := audited.(admission.ValidationInterface); ok {
		a = w.attributes(ctx, w.name, object, object)
		if err := v.Validate(ctx, a, w.scope); err != nil || a.wasSeen() {
			return !a.wasSeen(), err
		}
	}
	return true, nil
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
func (w *write) remember(key noopKey, resourceVersion string, result runtime.Object) {
	u, ok := result.(*unstructured.Unstructured)
	if !ok || w.created || w.observer.noticed.Load() || resourceVersion == "" || u.GetResourceVersion() != resourceVersion {
		return
	}
	if revision, err := strconv.ParseInt(resourceVersion, 10, 64); err == nil {
		w.serving.handler.noops.known.Add(key, revision)
	}
}
