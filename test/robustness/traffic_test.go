package robustness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"espalier.dev/test/robustness/internal/history"
)

const (
	group   = "robust.example.com"
	plural  = "things"
	crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	crdName = plural + "." + group
)

var (
	namespaces = []string{"a", "b"}
	names      = []string{"x", "y", "z"}
	colors     = []string{"red", "blue"}
	versions   = []string{"v1", "v2"}
)

// definition returns the CRD with a storage version and a description, which changes the
// schema but not the objects.
func definition(storage, description string) map[string]any {
	var list []any
	for _, name := range versions {
		list = append(list, map[string]any{
			"name": name, "served": true, "storage": name == storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "description": description,
				"properties": map[string]any{"spec": map[string]any{
					"type": "object", "properties": map[string]any{"value": map[string]any{"type": "string"}},
				}},
			}},
		})
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": crdName},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "versions": list,
			"names": map[string]any{"plural": plural, "kind": "Thing"},
		},
	}
}

// object returns an object to write. Only labels and value are optional.
func object(version, key, color, value string) map[string]any {
	namespace, name := split(key)
	return map[string]any{
		"apiVersion": group + "/" + version, "kind": "Thing",
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"color": color}},
		"spec":     map[string]any{"value": value},
	}
}

func split(key string) (namespace, name string) {
	for i := range key {
		if key[i] == '/' {
			return key[:i], key[i+1:]
		}
	}
	return "", key
}

// collection returns the path of a collection. The scope is NAMESPACE/ or empty.
func collection(version, scope string) string {
	if scope != "" {
		scope = "namespaces/" + scope
	}
	return "/apis/" + group + "/" + version + "/" + scope + plural
}

func objectPath(version, key string) string {
	namespace, name := split(key)
	return collection(version, namespace+"/") + "/" + name
}

// recorder collects the operations of all clients.
type recorder struct {
	began time.Time
	mu    sync.Mutex
	ops   []*history.Operation
	// acked is the highest revision of an acknowledged write or list.
	acked int64
}

func (r *recorder) now() time.Duration { return time.Since(r.began) }

func (r *recorder) add(op *history.Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
	if op.Object != nil && op.Kind != history.Delete && !op.Stale {
		r.acked = max(r.acked, op.Object.Revision)
	}
}

func (r *recorder) revision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked
}

// worker is a client that sends random requests, one after the other.
type worker struct {
	*client
	*recorder
	id     int
	rand   *rand.Rand
	writes int
	// last is what the worker has last seen of each object.
	last map[string]history.Object
	// revisions are some that the server has returned.
	revisions []int64
}

// run sends requests until the context ends. Each has a timeout, after which its outcome is
// unknown.
func (w *worker) run(ctx context.Context, pause time.Duration) {
	for ctx.Err() == nil {
		w.step(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(w.rand.Int64N(int64(2 * pause)))):
		}
	}
}

func (w *worker) step(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	key := pick(w.rand, namespaces) + "/" + pick(w.rand, names)
	switch n := w.rand.IntN(100); {
	case n < 14:
		w.create(ctx, key)
	case n < 30:
		w.update(ctx, key)
	case n < 42:
		w.patch(ctx, key, false)
	case n < 52:
		w.patch(ctx, key, true)
	case n < 62:
		w.delete(ctx, key)
	case n < 74:
		w.get(ctx, key, false)
	case n < 80:
		w.get(ctx, key, true)
	default:
		w.list(ctx)
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (w *worker) value() string {
	w.writes++
	return fmt.Sprintf("c%d-%d", w.id, w.writes)
}

// send sends a request for an object and records the operation.
func (w *worker) send(ctx context.Context, op *history.Operation, method, path, media string, body any) {
	op.Client = w.id
	op.Call = w.now()
	a, err := w.do(ctx, method, path, media, body)
	op.Return = w.now()
	w.classify(op, a, err)
	if op.Object != nil && op.Kind != history.Delete {
		w.last[op.Key] = *op.Object
		w.remember(op.Object.Revision)
	}
	w.add(op)
}

// remember keeps a revision for later lists.
func (w *worker) remember(revision int64) {
	if len(w.revisions) == 20 {
		w.revisions = w.revisions[1:]
	}
	w.revisions = append(w.revisions, revision)
}

// classify sets the outcome of an operation on an object.
func (w *worker) classify(op *history.Operation, a answer, err error) {
	write := op.Kind != history.Get
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		op.Outcome, op.Problem = history.Rejected, err.Error() // it was not sent
		return
	}
	if err != nil || a.code >= 500 {
		op.Outcome, op.Problem = history.Unknown, fmt.Sprintf("%v %v", err, a)
		return
	}
	s := a.status()
	_, name := split(op.Key)
	about := s.Details != nil && s.Details.Name == name
	switch {
	case a.code < 300 && op.Kind == history.Delete:
		op.Outcome = history.OK
		if s.Details != nil {
			op.Object = &history.Object{UID: s.Details.UID}
		}
		if op.Object == nil || op.Object.UID == "" {
			op.Problem = "the response has no UID: " + a.String()
		}
		return
	case a.code < 300:
		_, o, err := history.ParseObject(a.body)
		if err != nil {
			op.Problem = err.Error()
		}
		op.Outcome, op.Object = history.OK, &o
		return
	case a.code == http.StatusNotFound && about:
		op.Outcome = history.Absent
	case a.code == http.StatusConflict && op.Kind == history.Create && s.Reason == "AlreadyExists":
		op.Outcome = history.Exists
	case a.code == http.StatusConflict && op.Precondition != 0:
		op.Outcome = history.Conflict
	case write || a.code == http.StatusNotFound || a.code == http.StatusTooManyRequests:
		op.Outcome = history.Rejected
	default:
		op.Outcome = history.Unknown
	}
	op.Problem = a.String()
}

func (w *worker) create(ctx context.Context, key string) {
	op := &history.Operation{Kind: history.Create, Key: key, Value: w.value()}
	version := pick(w.rand, versions)
	namespace, _ := split(key)
	w.send(ctx, op, http.MethodPost, collection(version, namespace+"/"), "application/json", object(version, key, pick(w.rand, colors), op.Value))
}

// update replaces the object that the worker has last seen, so it often conflicts.
func (w *worker) update(ctx context.Context, key string) {
	seen, ok := w.last[key]
	if !ok {
		w.get(ctx, key, false)
		return
	}
	op := &history.Operation{Kind: history.Update, Key: key, Value: w.value(), Precondition: seen.Revision}
	version := pick(w.rand, versions)
	obj := object(version, key, pick(w.rand, colors), op.Value)
	meta := obj["metadata"].(map[string]any)
	meta["resourceVersion"], meta["uid"] = strconv.FormatInt(seen.Revision, 10), seen.UID
	w.send(ctx, op, http.MethodPut, objectPath(version, key), "application/json", obj)
}

// patch sends a merge patch, or an apply patch, which creates the object if it does not exist.
func (w *worker) patch(ctx context.Context, key string, apply bool) {
	op := &history.Operation{Kind: history.Patch, Key: key, Value: w.value()}
	version := pick(w.rand, versions)
	path := objectPath(version, key)
	obj := object(version, key, pick(w.rand, colors), op.Value)
	if apply {
		op.Kind = history.Apply
		path += fmt.Sprintf("?fieldManager=worker-%d&force=true", w.id%2)
	}
	w.send(ctx, op, http.MethodPatch, path, contentType(http.MethodPatch, apply), obj)
}

// delete deletes an object, sometimes only if it is as the worker has last seen it.
func (w *worker) delete(ctx context.Context, key string) {
	op := &history.Operation{Kind: history.Delete, Key: key}
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions"}
	if seen, ok := w.last[key]; ok && w.rand.IntN(2) == 0 {
		op.Precondition = seen.Revision
		options["preconditions"] = map[string]any{"resourceVersion": strconv.FormatInt(seen.Revision, 10)}
	}
	w.send(ctx, op, http.MethodDelete, objectPath(pick(w.rand, versions), key), "application/json", options)
}

func (w *worker) get(ctx context.Context, key string, stale bool) {
	op := &history.Operation{Kind: history.Get, Key: key, Stale: stale}
	path := objectPath(pick(w.rand, versions), key)
	if stale {
		path += "?resourceVersion=0"
	}
	w.send(ctx, op, http.MethodGet, path, "", nil)
}

// list lists a namespace or all: consistent, at any revision, or at an exact one; in one
// response or in pages.
func (w *worker) list(ctx context.Context) {
	op := &history.Operation{Client: w.id, Kind: history.List}
	if w.rand.IntN(2) == 0 {
		op.Key = pick(w.rand, namespaces) + "/"
	}
	query := url.Values{}
	switch n := w.rand.IntN(10); {
	case n < 2:
		query.Set("resourceVersion", "0")
		op.Stale = true
	case n < 4 && len(w.revisions) > 0:
		op.Exact = pick(w.rand, w.revisions)
		query.Set("resourceVersion", strconv.FormatInt(op.Exact, 10))
		query.Set("resourceVersionMatch", "Exact")
	}
	if w.rand.IntN(3) == 0 {
		query.Set("limit", "2")
	}
	w.pages(ctx, op, collection(pick(w.rand, versions), op.Key), query)
	w.add(op)
}

// pages reads a list. The operation ends with its first page, which sets the revision.
func (w *worker) pages(ctx context.Context, op *history.Operation, path string, query url.Values) {
	op.Items = map[string]history.Object{}
	op.Call = w.now()
	for first := true; ; first = false {
		a, err := w.do(ctx, http.MethodGet, path+"?"+query.Encode(), "", nil)
		if first {
			op.Return = w.now()
		}
		if err != nil || a.code != http.StatusOK {
			op.Problem = fmt.Sprintf("%v %v", err, a)
			op.Partial = !first
			if first {
				op.Outcome = history.Unknown
			}
			return
		}
		var page struct {
			Metadata struct{ ResourceVersion, Continue string }
			Items    []json.RawMessage
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			op.Outcome, op.Problem = history.Unknown, err.Error()
			return
		}
		op.Outcome = history.OK
		if first {
			if _, err := fmt.Sscan(page.Metadata.ResourceVersion, &op.Revision); err != nil {
				op.Problem = fmt.Sprintf("resourceVersion %q", page.Metadata.ResourceVersion)
			}
			w.remember(op.Revision)
		}
		for _, item := range page.Items {
			key, o, err := history.ParseObject(item)
			if err != nil {
				op.Problem = err.Error()
			}
			op.Items[key] = o
		}
		if page.Metadata.Continue == "" {
			return
		}
		query = url.Values{"limit": {"2"}, "continue": {page.Metadata.Continue}}
	}
}
