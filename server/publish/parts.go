package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/internal/lru"
	"espalier.dev/openapi"
	"espalier.dev/server/served"
)

// text is a document in pieces, most of which are shared with other documents.
type text [][]byte

// reader returns a reader of the whole text.
func (t text) reader() io.ReadSeeker {
	r := &textReader{text: t, ends: make([]int64, len(t))}
	size := int64(0)
	for i, piece := range t {
		size += int64(len(piece))
		r.ends[i] = size
	}
	return io.NewSectionReader(r, 0, size)
}

// textReader is an io.ReaderAt of a text.
type textReader struct {
	text text
	ends []int64 // the offsets after each piece
}

func (r *textReader) ReadAt(to []byte, offset int64) (n int, err error) {
	for i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > offset }); i < len(r.text) && n < len(to); i++ {
		piece := r.text[i]
		skip := offset + int64(n) - (r.ends[i] - int64(len(piece)))
		n += copy(to[n:], piece[skip:])
	}
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

// part is what one version of a CRD adds to an OpenAPI v3 document, as JSON: a change of one
// CRD leaves the parts of the others as they are.
type part struct {
	paths, schemas map[string]json.RawMessage
	size           int // without what it shares with others
}

// partOf returns the part of a version.
func (p *Publisher) partOf(v *served.Description) (*part, error) {
	id, err := identify(v.Definition())
	if err != nil {
		return nil, err
	}
	return p.parts.cache.Get(v.Name()+" "+id, func() (*part, error) {
		doc, err := v.OpenAPI.V3(p.builder())
		if err != nil {
			return nil, err
		}
		doc = openapi.MergeV3(doc)
		out := &part{}
		if out.paths, err = writeAll(doc.Paths.Paths); err != nil {
			return nil, err
		}
		if v.OpenAPI.GoTypes {
			out.schemas, err = writeOnce(&p.parts.types, doc.Components.Schemas, func(s *spec.Schema) ([]byte, error) { return json.Marshal(s) })
		} else {
			out.schemas, err = writeAll(doc.Components.Schemas)
		}
		if err != nil {
			return nil, err
		}
		p.parts.share(out)
		return out, nil
	})
}

// joinV3 returns the document that openapi.MergeV3 would return for the documents of the
// parts: if two have a path or schema of the same name, the first one is used.
func joinV3(parts []*part) (text, error) {
	// The frame is a document with one path and one schema, which the real ones replace.
	const path, schema = "/path", "schema"
	frame := openapi.MergeV3()
	frame.Paths.Paths[path], frame.Components.Schemas[schema] = &spec3.Path{}, &spec.Schema{}
	if len(parts) == 0 {
		frame = openapi.MergeV3()
	}
	data, err := json.Marshal(frame)
	if err != nil || len(parts) == 0 {
		return text{data}, err
	}
	before, rest, found := bytes.Cut(data, []byte(`"`+path+`":{}`))
	between, after, alsoFound := bytes.Cut(rest, []byte(`"`+schema+`":{}`))
	if !found || !alsoFound {
		return nil, fmt.Errorf("unexpected OpenAPI document %s", data)
	}
	paths, schemas := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, part := range parts {
		addMissing(paths, part.paths)
		addMissing(schemas, part.schemas)
	}
	out := text{before}
	if out, err = out.members(paths); err != nil {
		return nil, err
	}
	if out, err = append(out, between).members(schemas); err != nil {
		return nil, err
	}
	return append(out, after), nil
}

// members appends the members of an object, sorted by name.
func (t text) members(members map[string]json.RawMessage) (text, error) {
	for i, name := range slices.Sorted(maps.Keys(members)) {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			key = append([]byte{','}, key...)
		}
		t = append(t, append(key, ':'), members[name])
	}
	return t, nil
}

// parts has the parts that were requested. It is safe for concurrent use.
type parts struct {
	cache *lru.Cache[string, *part]
	mu    sync.Mutex
	// shared has the texts that are in almost every part.
	shared map[string]json.RawMessage
	// types has the definitions of Go types.
	types texts
}

func newParts() *parts {
	return &parts{
		cache:  lru.New(maxParts, func(_ string, p *part) int64 { return int64(p.size) }),
		shared: map[string]json.RawMessage{},
	}
}

// texts are the texts of definitions that are equal in all documents, by name. The zero value
// is empty. They are safe for concurrent use.
type texts struct {
	mu     sync.Mutex
	byName map[string]json.RawMessage
}

// writeOnce returns the texts of some definitions, and writes those that were not needed before.
func writeOnce[V any](t *texts, from map[string]V, write func(V) ([]byte, error)) (map[string]json.RawMessage, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName == nil {
		t.byName = map[string]json.RawMessage{}
	}
	out := make(map[string]json.RawMessage, len(from))
	for name, v := range from {
		if _, ok := t.byName[name]; !ok {
			text, err := write(v)
			if err != nil {
				return nil, err
			}
			t.byName[name] = text
		}
		out[name] = t.byName[name]
	}
	return out, nil
}

// maxParts is the total size of the parts that are kept. Others are written again when they
// are requested.
const maxParts = 128 << 20

// share replaces the schemas of Kubernetes' own types, which are in almost every part, by
// those of other parts, and computes the size of the rest.
func (c *parts) share(p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, schema := range p.schemas {
		if shared, ok := c.shared[name]; ok && bytes.Equal(shared, schema) {
			p.schemas[name] = shared
			continue
		} else if !ok && strings.HasPrefix(name, "io.k8s.") {
			c.shared[name] = schema
			continue
		}
		p.size += len(name) + len(schema)
	}
	for name, path := range p.paths {
		p.size += len(name) + len(path)
	}
}
