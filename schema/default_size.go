package schema

import (
	"fmt"

	"espalier.dev/internal/jsonx"
)

// DefaultError is returned by Compile for a schema that cannot be compiled because of a
// default.
type DefaultError struct {
	// Path is the schema that has the default.
	Path SchemaPath
	// Err is what is wrong with the default.
	Err error
}

func (e *DefaultError) Error() string { return e.Path.String() + ".default: " + e.Err.Error() }

func (e *DefaultError) Unwrap() error { return e.Err }

// maxDefaultValues bounds the number of values in a default, including the defaults
// that are filled in below it. With a default list of ten objects, each of which has a
// default list of ten objects and so on for twenty levels, a few lines of schema would
// exhaust all memory.
const maxDefaultValues = 1 << 16

// boundDefaults rejects defaults that are too large.
func (c *compiler) boundDefaults() error {
	s := defaultSizes{p: c.p, limit: maxDefaultValues, known: map[int32]int{}}
	for i := range c.p.nodes {
		if c.p.nodes[i].flags&hasDefault != 0 && s.of(int32(i)) > maxDefaultValues {
			return &DefaultError{c.p.ref(int32(i)).Path(),
				fmt.Errorf("must not have more than %d values, including the defaults below it", maxDefaultValues)}
		}
	}
	for i := range c.p.nodes {
		if c.p.nodes[i].flags&hasDefault != 0 {
			c.p.defaultBytes(int32(i))
		}
	}
	return nil
}

// MaxDefaultBytes is the maximum size, as JSON, of the defaults that are filled in to an object. It is the
// maximum size of a request, so that an object that can be stored or sent with its defaults is below it.
// Without it, a list of empty objects would become hundreds of times as large as its text.
const MaxDefaultBytes = 3 << 20

// DefaultsError is returned for an object whose defaults have more than MaxDefaultBytes.
type DefaultsError struct {
	// Schema is the schema of the first value that exceeds the limit.
	Schema NodeRef
}

func (e *DefaultsError) Error() string {
	return fmt.Sprintf("%s: the defaults of the object have more than %d bytes: reduce the number of objects that get defaults there",
		e.Schema.Path().values(), MaxDefaultBytes)
}

// values returns the path to the values of a schema in objects, with * for indices and keys of maps.
func (p SchemaPath) values() string {
	path := make(Path, len(p))
	for i, s := range p {
		switch s.Keyword {
		case "properties":
			path[i] = Step{Key: s.Name}
		case "items":
			path[i] = Step{Kind: Index}
		default:
			path[i] = Step{Kind: MapKey}
		}
	}
	return path.Pattern()
}

// defaultBytes returns the size of the result of defaultOf as JSON, or a larger number than MaxDefaultBytes.
// boundDefaults has checked that it is finite.
func (p *Program) defaultBytes(id int32) int {
	n := &p.nodes[id]
	if n.dfltBytes == 0 {
		text, _ := jsonx.Append(nil, n.dflt) // it was read from JSON
		n.dfltBytes = int32(min(len(text)+p.missingBytes(id, n.dflt).bytes, MaxDefaultBytes+1))
	}
	return int(n.dfltBytes)
}

// missingBytes returns the size of the defaults that fillIn adds to a value of node id. It stops soon after
// MaxDefaultBytes.
func (p *Program) missingBytes(id int32, v any) (m missingDefaults) {
	m.p = p
	m.value(id, v)
	return m
}

// missingDefaults adds up the sizes of defaults.
type missingDefaults struct {
	p     *Program
	bytes int
	// last is the node that exceeded the limit.
	last int32
}

// add adds the size of a default, and of its name in an object.
func (m *missingDefaults) add(id int32, name int) {
	if m.bytes > MaxDefaultBytes {
		return
	}
	if m.bytes += name + m.p.defaultBytes(id); m.bytes > MaxDefaultBytes {
		m.last = id
	}
}

// nameBytes returns the size of the name of a field in JSON, with quotes and a colon. The comma is not
// counted: an empty object gets one less than fields.
func nameBytes(name string) int { return len(name) + 3 }

func (m *missingDefaults) value(id int32, v any) {
	n := &m.p.nodes[id]
	if n.flags&defaultsBelow == 0 || m.bytes > MaxDefaultBytes {
		return
	}
	part := func(child int32, name int, v any) {
		if child <= nowhere {
			return
		}
		if v == nil && m.p.nodes[child].flags&(nullable|hasDefault) == hasDefault {
			m.add(child, name)
		} else {
			m.value(child, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			child, _ := n.child(k)
			part(child, nameBytes(k), x)
		}
		for _, i := range n.props.defaulted {
			prop := &n.props.list[i]
			if _, found := v[prop.name]; !found {
				m.add(prop.node, nameBytes(prop.name))
			}
		}
	case []any:
		for _, x := range v {
			part(n.items, 0, x)
		}
	}
}

// DefaultedValues returns the number of values that an object has after [Program.Default], or limit+1 if
// there are more than limit. It does not change the object. Each item of a list gets the defaults of its
// schema, so a small object and a small schema can become very large: those who accept both from a client
// need a limit.
func (p *Program) DefaultedValues(obj Object, limit int) int {
	s := defaultSizes{p: p, limit: limit, known: map[int32]int{}}
	return s.value(root, obj)
}

// defaultSizes counts the values of defaults, and stops soon after the limit.
type defaultSizes struct {
	p     *Program
	limit int
	known map[int32]int
}

// of returns the number of values in the result of defaultOf.
func (s *defaultSizes) of(id int32) int {
	size, known := s.known[id]
	if !known {
		size = s.value(id, s.p.nodes[id].dflt)
		s.known[id] = size
	}
	return size
}

// value returns the number of values in v, a value of node id, after fillIn.
func (s *defaultSizes) value(id int32, v any) int {
	n := &s.p.nodes[max(id, nowhere)]
	size := 1
	part := func(child int32, v any) {
		if size > s.limit {
			return
		}
		if v == nil && child > nowhere && s.p.nodes[child].flags&(nullable|hasDefault) == hasDefault {
			size += s.of(child)
		} else {
			size += s.value(child, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			child, _ := n.child(k)
			part(child, x)
		}
		for _, i := range n.props.defaulted {
			prop := &n.props.list[i]
			if _, found := v[prop.name]; !found {
				part(prop.node, nil)
			}
		}
	case []any:
		for _, x := range v {
			part(n.items, x)
		}
	}
	return min(size, s.limit+1)
}
