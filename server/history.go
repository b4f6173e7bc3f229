package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/timeline"
	"espalier.dev/server/builtin"
	"espalier.dev/server/definitions/protobuf"
	"espalier.dev/server/encryption"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// ErrNoHistory is returned if the server keeps its objects in etcd, where their history has neither
// times nor users.
var ErrNoHistory = errors.New("the server keeps its objects in etcd and records no history: keep them in memory (--storage memory)")

// History has the changes of all stored objects up to some time. It is safe for concurrent use, and
// may be used after the server has stopped.
type History struct {
	state      *memory.State
	root       keys.Root
	encryption *encryption.Encryption
	stored     *builtin.Reader
}

// History returns the changes of all stored objects up to now. It returns [ErrNoHistory] unless the
// server keeps its objects in memory.
func (s *Server) History() (*History, error) {
	if s.db.memory == nil {
		return nil, ErrNoHistory
	}
	return &History{state: s.db.memory.State(), root: s.db.root, encryption: s.db.encryption, stored: s.stored}, nil
}

// Revision returns the newest revision.
func (h *History) Revision() int64 { return h.state.Revision() }

// Begin returns the revision after which the history is complete, because earlier revisions were
// compacted. It is zero if it is complete from the start.
func (h *History) Begin() int64 { return h.state.Begin() }

// BeginTime returns the time of the revision of [History.Begin]. It is zero if that is.
func (h *History) BeginTime() time.Time { return h.state.BeginTime() }

// Newest returns the revision after which the stored values of all changes together have about a
// number of bytes, and how many changes of objects after the revision `after` are not among them. The
// values of deleted objects do not count: one revision may delete all.
func (h *History) Newest(after int64, bytes int) (begin int64, omitted int) {
	// perChange is what a change has in addition to its values.
	const perChange = 500
	type size struct {
		revision       int64
		bytes, changes int
	}
	var sizes []size
	for c := range h.state.Changes(after) {
		s := size{revision: c.Revision}
		for _, e := range c.Events {
			if _, _, ok := h.object(e); ok {
				s.changes++
				s.bytes += perChange
				if e.After.Revision != 0 {
					s.bytes += len(e.Before.Bytes) + len(e.After.Bytes)
				}
			}
		}
		sizes = append(sizes, s)
	}
	first := len(sizes)
	for first > 0 && sizes[first-1].bytes <= bytes {
		first--
		bytes -= sizes[first].bytes
	}
	if first == 0 {
		return max(after, h.Begin()), 0
	}
	for _, s := range sizes[:first] {
		omitted += s.changes
	}
	return sizes[first-1].revision, omitted
}

// Changes iterates over the changes after a revision that one of the filters selects, or all if there
// are none, oldest first. It decodes only objects that may be selected.
func (h *History) Changes(ctx context.Context, after int64, filters ...timeline.Filter) iter.Seq[*timeline.Change] {
	from, to := timeline.Revisions(filters)
	after = max(after, from-1)
	return func(yield func(*timeline.Change) bool) {
		kinds := map[string]string{} // by resource
		for c := range h.state.Changes(after) {
			if to > 0 && c.Revision > to {
				return
			}
			for _, e := range c.Events {
				resource, at, ok := h.object(e)
				if !ok {
					continue
				}
				out := newChange(&c, e, resource, at)
				out.Kind = kinds[out.Resource]
				if len(filters) > 0 && !slices.ContainsFunc(filters, func(f timeline.Filter) bool { return f.MayMatch(out) }) {
					continue
				}
				out.Kind = ""
				h.decodeChange(ctx, out, e, resource)
				if out.Kind != "" {
					kinds[out.Resource] = out.Kind
				}
				if timeline.Selects(filters, out) && !yield(out) {
					return
				}
			}
		}
	}
}

// object returns the resource and the name of the object that has a key. It reports false if the key is
// not that of an object, or was created and deleted in one transaction.
func (h *History) object(e memory.KeyChange) (resource runtimeschema.GroupResource, at keys.Object, ok bool) {
	if at, ok = h.root.Parse(e.Key); !ok || e.Before.Revision == 0 && e.After.Revision == 0 {
		return resource, at, false
	}
	resource, err := h.encryption.Resource(e.Key)
	return resource, at, err == nil
}

// newChange returns the change of an object, which is not decoded.
func newChange(c *memory.Change, e memory.KeyChange, resource runtimeschema.GroupResource, at keys.Object) *timeline.Change {
	out := &timeline.Change{
		Revision: c.Revision, Time: c.Time.UTC(), Action: timeline.Update,
		Resource: resource.String(), Namespace: at.Namespace, Name: at.Name,
	}
	switch {
	case e.Before.Revision == 0:
		out.Action = timeline.Create
	case e.After.Revision == 0:
		out.Action = timeline.Delete
	}
	if o, ok := c.Origin.(*timeline.Origin); ok {
		out.Origin = *o
	}
	switch {
	case c.Expired:
		out.Origin.Verb = timeline.Expire
	case out.Origin.Verb == "":
		out.Origin.Verb = string(out.Action)
	}
	return out
}

// encryptedPrefix begins the values that an EncryptionConfiguration encrypts.
const encryptedPrefix = "k8s:enc:"

// decodeChange sets what a change has of the decoded objects.
func (h *History) decodeChange(ctx context.Context, out *timeline.Change, e memory.KeyChange, resource runtimeschema.GroupResource) {
	for _, v := range []memory.Value{e.Before, e.After} {
		out.Encrypted = out.Encrypted || bytes.HasPrefix(v.Bytes, []byte(encryptedPrefix))
	}
	var failed [2]error
	out.Before, failed[0] = h.decode(ctx, resource, e.Key, e.Before)
	out.After, failed[1] = h.decode(ctx, resource, e.Key, e.After)
	for _, err := range failed {
		if err != nil {
			out.Unreadable = fmt.Sprintf("the stored value cannot be read: %v", timeline.WithoutObject(err))
		}
	}
	for _, obj := range []*unstructured.Unstructured{out.Before, out.After} {
		if obj != nil {
			out.APIVersion, out.Kind = obj.GetAPIVersion(), obj.GetKind()
		}
	}
}

// decode decodes a stored value. It returns nil if there is none.
func (h *History) decode(ctx context.Context, r runtimeschema.GroupResource, key string, v memory.Value) (*unstructured.Unstructured, error) {
	if v.Revision == 0 {
		return nil, nil
	}
	plain, _, err := h.encryption.FromStorage(ctx, key, v.Bytes)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	switch {
	case !keys.IsProtobuf(plain):
		err = obj.UnmarshalJSON(plain)
	case h.stored.Has(r):
		obj.Object, err = h.decodeBuiltin(r, plain)
	default:
		// Only CRDs are left: custom resources are JSON.
		if plain, err = protobuf.Decode(plain); err == nil {
			err = obj.UnmarshalJSON(plain)
		}
	}
	if err != nil {
		return nil, err
	}
	obj.SetResourceVersion(strconv.FormatInt(v.Revision, 10))
	return obj, nil
}

// decodeBuiltin decodes an object of one of Kubernetes' own kinds that is stored as Protobuf.
func (h *History) decodeBuiltin(r runtimeschema.GroupResource, value []byte) (map[string]any, error) {
	envelope, _, err := keys.Unwrap(value)
	if err != nil {
		return nil, err
	}
	obj, err := h.stored.Decode(r, &store.Entry{Value: value})
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(runtimeschema.FromAPIVersionAndKind(envelope.APIVersion, envelope.Kind))
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}
