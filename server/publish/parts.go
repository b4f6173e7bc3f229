package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/crd"
	"espalier.dev/internal/lru"
	"espalier.dev/openapi"
	"espalier.dev/server/served"
)

// part is what one CRD, or one version of it, adds to an OpenAPI document, as JSON: a change of
// one CRD leaves the parts of the others as they are. It has the members of some objects of the
// document: paths and schemas, and in OpenAPI v2 parameters.
type part struct {
	// id is that of the state of the CRD which it describes.
	id       string
	sections [][]named
	size     int // without what it shares with others
}

// named is a member of an object of a document.
type named struct {
	name string
	text *piece
}

// packFrom is the number of CRDs from which on parts are packed. The documents of fewer are
// written faster than they would be unpacked.
const packFrom = 1000

// partOf returns the part of a version in OpenAPI v3.
func (p *Publisher) partOf(v *served.Description) (*part, error) {
	return p.v3parts.get(v.Name(), v.Definition(), p.packs(), func(w *partWriter) error {
		if members, err := membersOf(p, v.OpenAPI.MembersV3); members != nil || err != nil {
			return w.addMembers(members, nil, err)
		}
		doc, err := v.OpenAPI.V3(p.builder())
		if err != nil {
			return err
		}
		doc = openapi.MergeV3(doc)
		if err := addAll(w, doc.Paths.Paths, nil, same); err != nil {
			return err
		}
		return addAll(w, doc.Components.Schemas, p.equal(v.OpenAPI.GoTypes, v.Version), same)
	})
}

// swaggerOf returns the part of all versions of a CRD in OpenAPI v2.
func (p *Publisher) swaggerOf(d *crd.Definition) (*part, error) { return p.swaggerWithout(d, nil) }

// swaggerWithout returns the part of the versions of a CRD in OpenAPI v2, except those that other servers
// serve.
func (p *Publisher) swaggerWithout(d *crd.Definition, remote []string) (*part, error) {
	return p.v2parts.get(without(remote), d, p.packs(), func(w *partWriter) error {
		var described []*served.Description
		all := &openapi.Members{Shared: map[string]*spec.Schema{}, Parameters: map[string]spec.Parameter{}}
		for _, v := range d.Versions() {
			if !v.Served() || slices.Contains(remote, v.Name()) {
				continue
			}
			one := p.describe(v)
			described = append(described, one)
			if all == nil {
				continue
			}
			members, err := membersOf(p, one.OpenAPI.MembersV2)
			if err != nil {
				return err
			}
			if members == nil {
				all = nil
				continue
			}
			all.Paths = append(all.Paths, members.Paths...)
			all.Schemas = append(all.Schemas, members.Schemas...)
			maps.Copy(all.Shared, members.Shared)
			maps.Copy(all.Parameters, members.Parameters)
		}
		if all != nil {
			return w.addMembers(all, withoutDefaults, nil)
		}
		return p.addSwagger(w, described)
	})
}

// without returns the version in the key of a part that lacks some versions of the CRD.
func without(versions []string) string {
	if len(versions) == 0 {
		return ""
	}
	return "without " + strings.Join(versions, ",")
}

// addSwagger adds the documents of versions of a CRD.
func (p *Publisher) addSwagger(w *partWriter, described []*served.Description) error {
	var docs []*spec.Swagger
	var versions []*crd.Version
	goTypes := false
	for _, v := range described {
		versions = append(versions, v.Version)
		goTypes = v.OpenAPI.GoTypes
		doc, err := v.OpenAPI.V2(p.builder())
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	doc := openapi.MergeV2(docs...)
	if err := addAll(w, doc.Paths.Paths, nil, same); err != nil {
		return err
	}
	if err := addAll(w, doc.Definitions, p.equal(goTypes, versions...), func(s spec.Schema) json.Marshaler { return withoutDefaults(&s) }); err != nil {
		return err
	}
	return addAll(w, doc.Parameters, parameterKey, same)
}

// membersOf returns the encoded members of a version, or nil.
func membersOf(p *Publisher, of func(*openapi.Builder) (*openapi.Members, error)) (*openapi.Members, error) {
	if of == nil {
		return nil, nil
	}
	return of(p.builder())
}

// same writes a member as it is.
func same[V json.Marshaler](v V) json.Marshaler { return v }

// withoutDefaults writes a schema as kube-apiserver does: clients of OpenAPI v2 do not expect defaults.
func withoutDefaults(s *spec.Schema) json.Marshaler { return handler.PruneDefaultsSchema(s) }

// parameterKey returns under which name a parameter is kept for all parts: names of parameters have a hash of
// their content.
func parameterKey(name string) string { return "parameter " + name }

// packs reports whether new parts are packed.
func (p *Publisher) packs() bool { return p.config.Source.Catalog().Len() >= p.packFrom }

// equal returns which definitions of versions are equal in all parts: of Go types all, otherwise those of
// the types that all resources share.
func (p *Publisher) equal(goTypes bool, versions ...*crd.Version) func(string) string {
	return func(name string) string {
		switch {
		case goTypes:
			return "type " + name
		case slices.ContainsFunc(versions, func(v *crd.Version) bool { return !p.builder().IsShared(v, name) }):
			return ""
		}
		return name
	}
}

// joinV3 returns the document that openapi.MergeV3 would return for the documents of the
// parts: if two have a path or schema of the same name, the first one is used.
func joinV3(parts []*part) (*joined, error) {
	// The frame is a document with one path and one schema, which the real ones replace.
	const path, schema = "/path", "schema"
	frame := openapi.MergeV3()
	frame.Paths.Paths[path], frame.Components.Schemas[schema] = &spec3.Path{}, &spec.Schema{}
	if len(parts) == 0 {
		frame = openapi.MergeV3()
	}
	data, err := json.Marshal(frame)
	if err != nil || len(parts) == 0 {
		return &joined{frame: [][]byte{data}}, err
	}
	before, rest, found := bytes.Cut(data, []byte(`"`+path+`":{}`))
	between, after, alsoFound := bytes.Cut(rest, []byte(`"`+schema+`":{}`))
	if !found || !alsoFound {
		return nil, fmt.Errorf("unexpected OpenAPI document %s", data)
	}
	return &joined{frame: [][]byte{before, between, after}, sections: [][]*piece{merge(parts, 0), merge(parts, 1)}}, nil
}

// merge returns all members of a section, sorted by name. The first one of a name is used.
func merge(parts []*part, section int) []*piece {
	first := map[string]*piece{}
	for _, part := range parts {
		for _, m := range part.sections[section] {
			if first[m.name] == nil {
				first[m.name] = m.text
			}
		}
	}
	out := make([]*piece, 0, len(first))
	for _, name := range slices.Sorted(maps.Keys(first)) {
		out = append(out, first[name])
	}
	return out
}

// allParts returns the parts of some CRDs, in their order. It describes those that are not known on
// all processors. All of its goroutines have ended when it returns.
func allParts[V any](list []V, of func(V) (*part, error), name func(V) string) []*part {
	parts := make([]*part, len(list))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(list)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list); i = int(next.Add(1)) - 1 {
				part, err := recovered(of, list[i])
				if err != nil {
					// One faulty CRD must not affect the others.
					klog.ErrorS(err, "Cannot describe a CRD in OpenAPI", "crd", name(list[i]))
					continue
				}
				parts[i] = part
			}
		})
	}
	group.Wait()
	out := parts[:0]
	for _, part := range parts {
		if part != nil {
			out = append(out, part)
		}
	}
	return out
}

// recovered calls a function, and returns a panic as an error: it would end the process, because no
// request is below it.
func recovered[V any](of func(V) (*part, error), v V) (_ *part, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return of(v)
}

// parts has the parts of one version of OpenAPI that were requested. It is safe for concurrent use.
type parts struct {
	cache  *lru.Cache[partKey, *part]
	packer packer
	mu     sync.Mutex
	// shared has the members that are in almost every part.
	shared map[string]*piece
}

func newParts() *parts {
	return &parts{
		cache:  lru.New(maxParts, func(_ partKey, p *part) int64 { return int64(p.size) }),
		shared: map[string]*piece{},
	}
}

// maxParts is the total size of the parts that are kept. Others are written again when they
// are requested.
const maxParts = 256 << 20

// partKey is the key of a part. A part of another state of the CRD replaces it.
type partKey struct {
	crd     string
	version string // empty if the part describes all versions, or that of the function without
}

// get returns the part of a CRD. write writes it if it is not known.
func (c *parts) get(version string, d *crd.Definition, packed bool, write func(*partWriter) error) (*part, error) {
	id, err := identify(d)
	if err != nil {
		return nil, err
	}
	if packed {
		id = "packed " + id
	}
	return c.cache.GetValid(partKey{d.Name(), version}, func(p *part) bool { return p.id == id }, func() (*part, error) {
		w := &partWriter{parts: c, packed: packed, out: &part{id: id}}
		if err := write(w); err != nil {
			return nil, err
		}
		return w.out, nil
	})
}

// retain drops the parts of CRDs that are not served any more.
func (c *parts) retain(served map[partKey]bool) {
	c.cache.Retain(func(key partKey) bool { return served[key] })
}

// partWriter writes a part.
type partWriter struct {
	parts  *parts
	packed bool
	out    *part
}

// addAll adds a section. equal is nil, or returns under which name the text of a member is kept for
// all parts that have it, or nothing if each part has its own.
func addAll[V any](w *partWriter, from map[string]V, equal func(string) string, value func(V) json.Marshaler) error {
	w.out.sections = append(w.out.sections, make([]named, 0, len(from)))
	return addMore(w, from, equal, value)
}

// addMore adds members to the last section.
func addMore[V any](w *partWriter, from map[string]V, equal func(string) string, value func(V) json.Marshaler) error {
	for name, v := range from {
		key := ""
		if equal != nil {
			key = equal(name)
		}
		if known := w.parts.known(key); known != nil {
			w.add(name, known)
			continue
		}
		content, err := openapi.EncodeMember(name, value(v))
		if err != nil {
			return err
		}
		if key != "" {
			w.add(name, w.parts.keep(key, rawPiece(content)))
		} else if err := w.addOwn(name, content); err != nil {
			return err
		}
	}
	return nil
}

// add adds a member to the last section.
func (w *partWriter) add(name string, text *piece) {
	last := &w.out.sections[len(w.out.sections)-1]
	*last = append(*last, named{name, text})
}

// addOwn adds a member that no other part has to the last section.
func (w *partWriter) addOwn(name string, content []byte) error {
	text := rawPiece(content)
	if w.packed {
		var err error
		if text, err = w.parts.packer.pack(content); err != nil {
			return err
		}
	}
	w.out.size += len(name) + text.memory()
	w.add(name, text)
	return nil
}

// addMembers adds all sections of versions of a CRD, unless there is an error. value returns what is written of
// a schema that all parts share; nil is the schema itself.
func (w *partWriter) addMembers(m *openapi.Members, value func(*spec.Schema) json.Marshaler, err error) error {
	if err != nil {
		return err
	}
	if value == nil {
		value = same[*spec.Schema]
	}
	for _, own := range [][]openapi.Member{m.Paths, m.Schemas} {
		w.out.sections = append(w.out.sections, make([]named, 0, len(own)))
		for _, member := range own {
			if err := w.addOwn(member.Name, member.Text); err != nil {
				return err
			}
		}
	}
	if err := addMore(w, m.Shared, func(name string) string { return name }, value); err != nil {
		return err
	}
	return addAll(w, m.Parameters, parameterKey, same)
}

// known returns a text that is kept, or nil.
func (c *parts) known(key string) *piece {
	if key == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shared[key]
}

// keep keeps a text, and returns that of all parts.
func (c *parts) keep(key string, text *piece) *piece {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared[key] == nil {
		c.shared[key] = text
	}
	return c.shared[key]
}
