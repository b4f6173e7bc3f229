package schema

import (
	"slices"

	"espalier.dev/internal/jsonx"
)

// IsNormal reports whether src is an object that Normalize would not change. It scans
// the text and builds nothing. A true result is always right. A false result may
// be wrong if the object has unusual metadata or duplicate members, or if the schema is
// in the draft-4 dialect. (Normalize means Normalize without options: FromStorage also
// adds a missing generation.)
func (p *Program) IsNormal(src []byte) bool {
	if p.sharing && p.hasDefaults {
		// A count cannot tell which of the fields that share a definition is missing.
		return false
	}
	s := scanner{p: p, r: p.reader(src)}
	defer p.putReader(s.r)
	return s.r.Peek() == '{' && s.object(root) && s.r.End() == nil
}

// scanner is a decoder that builds no values.
type scanner struct {
	p *Program
	r *jsonx.Reader
}

func (s *scanner) value(id int32) bool {
	switch s.r.Peek() {
	case '{':
		return s.object(id)
	case '[':
		return s.array(id)
	}
	return s.r.Skip() == nil
}

func (s *scanner) object(id int32) bool {
	if s.r.EnterObject() != nil {
		return false
	}
	n := &s.p.nodes[id]
	var present presence
	for i := 0; ; i++ {
		key, more, err := s.r.NextMember(i)
		if err != nil {
			return false
		}
		if !more {
			return present.count == len(n.props.defaulted)
		}
		child, _ := n.child(key)
		switch {
		case n.isMeta(key):
			if !s.metaField(child, key) {
				return false
			}
		case child == none:
			if n.flags&prunes != 0 || s.r.Skip() != nil {
				return false
			}
		case child != nowhere && s.r.Peek() == 'n':
			if c := &s.p.nodes[child]; c.flags&nullable == 0 && (c.flags&hasDefault != 0 || !s.p.preserveAll) {
				return false
			}
			if s.r.Skip() != nil {
				return false
			}
		default:
			if !s.value(child) {
				return false
			}
		}
		if c := max(child, nowhere); s.p.nodes[c].ordinal > 0 {
			present.add(s.p.nodes[c].ordinal)
		}
	}
}

// presence counts distinct fields.
type presence struct {
	count int
	first uint64         // the fields 0 to 63
	rest  map[int32]bool // the others
}

func (p *presence) add(i int32) {
	if i < 64 {
		if p.first&(1<<i) == 0 {
			p.first |= 1 << i
			p.count++
		}
		return
	}
	if p.rest == nil {
		p.rest = map[int32]bool{}
	}
	if !p.rest[i] {
		p.rest[i] = true
		p.count++
	}
}

// metaField scans apiVersion, kind or metadata. It returns false if the schema has
// defaults in metadata, which a scan cannot handle.
func (s *scanner) metaField(child int32, key string) bool {
	if key != "metadata" {
		if s.r.Peek() != '"' {
			return false
		}
		return s.r.Skip() == nil
	}
	if child > nowhere && s.p.nodes[child].flags&defaultsBelow != 0 {
		return false
	}
	return s.metaValue(objectMetaType())
}

// metaValue scans a value in metadata, as metaType.isNormal checks it in a tree.
func (s *scanner) metaValue(t *metaType) bool {
	c := s.r.Peek()
	switch t.kind {
	case metaString, metaTime:
		if c != '"' {
			return false
		}
		text, err := s.r.String()
		return err == nil && t.isNormal(text)
	case metaInteger, metaBoolean:
		v, err := s.r.Scalar(c)
		return err == nil && t.isNormal(v)
	case metaFields:
		return c == '{' && s.r.Skip() == nil
	case metaList:
		return c == '[' && s.metaList(t.elem)
	}
	return c == '{' && s.metaObject(t)
}

func (s *scanner) metaList(elem *metaType) bool {
	if s.r.EnterArray() != nil {
		return false
	}
	for i := 0; ; i++ {
		more, err := s.r.NextItem(i)
		if err != nil {
			return false
		}
		if !more {
			return i > 0
		}
		if !s.metaValue(elem) {
			return false
		}
	}
}

// metaObject scans a map or a struct.
func (s *scanner) metaObject(t *metaType) bool {
	if s.r.EnterObject() != nil {
		return false
	}
	var present presence
	for i := 0; ; i++ {
		key, more, err := s.r.NextMember(i)
		if err != nil {
			return false
		}
		if !more {
			return present.count == len(t.required) && (i > 0 || t.kind == metaStruct)
		}
		value := t.elem
		if t.kind == metaStruct {
			value = t.fields[key]
			if n := slices.Index(t.required, key); n >= 0 {
				present.add(int32(n))
			}
		}
		if value == nil || !s.metaValue(value) {
			return false
		}
	}
}

func (s *scanner) array(id int32) bool {
	if s.r.EnterArray() != nil {
		return false
	}
	child := s.p.nodes[id].items
	for i := 0; ; i++ {
		more, err := s.r.NextItem(i)
		if err != nil {
			return false
		}
		if !more {
			return true
		}
		if child == none {
			if s.r.Skip() != nil {
				return false
			}
			continue
		}
		if c := &s.p.nodes[child]; c.flags&(nullable|hasDefault) == hasDefault && s.r.Peek() == 'n' {
			return false
		}
		if !s.value(child) {
			return false
		}
	}
}
