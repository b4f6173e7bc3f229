package custom

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"

	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/store"
)

// view is a stored object as one version returns it, as JSON without its resourceVersion. It
// is immutable.
type view struct {
	of *viewID
	// text is the JSON without a newline. It shares memory with the stored value if the
	// object is stored as it is returned.
	text []byte
	// at is the offset in text at which the resourceVersion belongs. Keys are sorted.
	at int32
	// before and after report that a comma is needed before or after it.
	before, after bool
}

// viewID identifies the version, the schema and the conversion that made a view. Servers that share
// the Programs of a CRD share views.
type viewID = crd.Identity

const viewVersion = `"resourceVersion":"`

// size returns the length of what append appends.
func (v *view) size(revision int64) int {
	n := len(v.text) + len(viewVersion) + decimals(revision) + len(`"`)
	if v.before || v.after {
		n++
	}
	return n
}

// decimals returns the number of digits of a revision.
func decimals(n int64) int {
	digits := 1
	for ; n > 9; n /= 10 {
		digits++
	}
	return digits
}

// append appends the object with a resourceVersion.
func (v *view) append(out []byte, revision int64) []byte {
	out = append(out, v.text[:v.at]...)
	out = v.appendVersion(out, revision)
	return append(out, v.text[v.at:]...)
}

// appendVersion appends the resourceVersion that belongs at an offset of the text.
func (v *view) appendVersion(out []byte, revision int64) []byte {
	if v.before {
		out = append(out, ',')
	}
	out = append(out, viewVersion...)
	out = strconv.AppendInt(out, revision, 10)
	out = append(out, '"')
	if v.after {
		out = append(out, ',')
	}
	return out
}

// view returns what the version returns for a stored value.
func (k *customKind) view(value []byte) (*view, error) {
	if v := k.unchanged(value); v != nil {
		return v, nil
	}
	obj, err := k.DecodeStored(value)
	if err != nil {
		return nil, err
	}
	tree := content(obj)
	meta, ok := tree["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		tree["metadata"] = meta
	}
	delete(meta, "resourceVersion")
	text, err := jsonx.Append(nil, tree)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(text, bytes.TrimSuffix(value, []byte("\n"))) {
		text = value[:len(text)]
	}
	v := &view{of: k.id, text: text}
	if o, ok := v.outline(); !ok || !o.metadata {
		return nil, fmt.Errorf("the metadata of an object was not found in its JSON")
	}
	return v, nil
}

// unchanged returns the view of a value that is returned as it is stored, or nil if that is
// not certain. It builds no tree.
func (k *customKind) unchanged(value []byte) *view {
	if !jsonx.IsCanonical(value) {
		return nil
	}
	return k.canonical(value)
}

// canonical is like unchanged, for a value whose text is canonical.
func (k *customKind) canonical(value []byte) *view {
	v := &view{of: k.id, text: bytes.TrimSuffix(value, []byte("\n"))}
	o, ok := v.outline()
	if !ok || !o.metadata || o.apiVersion != k.apiVersion || !o.generation || o.resourceVersion {
		return nil
	}
	if program, err := k.program(); err != nil || !program.IsNormal(value) {
		return nil
	}
	return v
}

// asksWebhook reports whether a webhook converts a stored value. Its answer may be different
// the next time.
func (k *customKind) asksWebhook(value []byte) bool {
	return k.hasWebhook() && k.kinds.writtenIn(value, k.Name()) != k.Name()
}

// hasWebhook reports whether a webhook converts the objects of other versions.
func (k *customKind) hasWebhook() bool {
	_, ok := k.kinds.converter.(*webhookConverter)
	return ok
}

// outline is what decides whether an object is returned as it is stored, besides the schema.
type outline struct {
	apiVersion                            string
	metadata, generation, resourceVersion bool
}

// outline finds the place of the resourceVersion in a canonical text, and what else it passes
// on its way.
func (v *view) outline() (o outline, ok bool) {
	var r jsonx.Reader
	r.Reset(v.text)
	if r.Peek() != '{' || r.EnterObject() != nil {
		return o, false
	}
	for n := 0; ; n++ {
		name, more, err := r.NextMember(n)
		if err != nil {
			return o, false
		}
		if !more {
			return o, true
		}
		switch {
		case name == "apiVersion" && r.Peek() == '"':
			if o.apiVersion, err = r.String(); err != nil {
				return o, false
			}
		case name == "metadata" && r.Peek() == '{':
			o.metadata = true
			return o, v.locate(&r, &o)
		default:
			if r.Skip() != nil {
				return o, false
			}
		}
	}
}

// locate finds the place of the resourceVersion in the metadata, which is next.
func (v *view) locate(r *jsonx.Reader, o *outline) bool {
	if r.EnterObject() != nil {
		return false
	}
	found := false
	for n := 0; ; n++ {
		name, more, err := r.NextMember(n)
		if err != nil {
			return false
		}
		if !more {
			if !found {
				v.at, v.before = int32(r.Offset()-1), n > 0
			}
			return true
		}
		switch {
		case name == "generation":
			o.generation = true
		case name == "resourceVersion":
			o.resourceVersion = true
		case name > "resourceVersion" && !found:
			found = true
			start, _ := r.Name()
			v.at, v.after = int32(start), true
		}
		if r.Skip() != nil {
			return false
		}
	}
}

// views makes the views of one version.
type views struct {
	kind  *customKind
	cache *viewCache
	// written holds the views of values that were just written.
	written *writtenViews
	// kept reports that views are kept with their entries, because the version is that in
	// which objects are stored.
	kept        bool
	undecodable undecodableLog
	// making is held while a view is made that will be kept, one for several entries.
	making [16]sync.Mutex
}

// of returns the view of an entry. The error says why the entry cannot be decoded or converted.
func (s *views) of(e *store.Entry) (*view, error) {
	if v := s.memo(e); v != nil {
		return v, nil
	}
	if !s.kept || s.isGrown(e) {
		return s.cache.Get(viewKey{e, s.kind.id}, func() (*view, error) { return s.make(e) })
	}
	if s.kind.asksWebhook(e.Value) {
		return s.make(e)
	}
	// The watchers of a resource all need the view of a new entry at the same time.
	m := &s.making[uint64(e.Revision)%uint64(len(s.making))]
	m.Lock()
	defer m.Unlock()
	if v := s.memo(e); v != nil {
		return v, nil
	}
	v, err := s.make(e)
	if err != nil {
		return nil, err
	}
	if len(v.text) <= 2*len(e.Value)+maxGrowth {
		e.SetMemo(v)
		return v, nil
	}
	e.SetMemo(&view{of: s.kind.id})
	return s.cache.Get(viewKey{e, s.kind.id}, func() (*view, error) { return v, nil })
}

// maxGrowth is how much larger than twice its stored value a view may be to be kept with its entry. A schema with many
// defaults can make objects hundreds of times as large, and only the number of entries bounds how many views are kept.
const maxGrowth = 4 << 10

// memo returns the view that is kept with an entry, or nil.
func (s *views) memo(e *store.Entry) *view {
	if v, ok := e.Memo().(*view); ok && v.of == s.kind.id && v.text != nil {
		return v
	}
	return nil
}

// isGrown reports whether the view of an entry is known to be too large to be kept with it. Its memo has no text then.
func (s *views) isGrown(e *store.Entry) bool {
	v, ok := e.Memo().(*view)
	return ok && v.of == s.kind.id && v.text == nil
}

func (s *views) make(e *store.Entry) (*view, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	if v := s.written.take(s.kind.id, e.Value); v != nil {
		return v, nil
	}
	v, err := s.kind.view(e.Value)
	if err != nil && !IsConversionError(err) {
		s.undecodable.found(err)
	}
	return v, err
}
