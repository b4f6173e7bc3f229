package schema

import "fmt"

// DefaultError is why a schema cannot be compiled because of one of its defaults.
type DefaultError struct {
	// Path is the schema that has the default.
	Path SchemaPath
	// Err says what is wrong with it.
	Err error
}

func (e *DefaultError) Error() string { return e.Path.String() + ".default: " + e.Err.Error() }

func (e *DefaultError) Unwrap() error { return e.Err }

// maxDefaultValues bounds the values that one default consists of when the defaults
// of its parts are filled in. A list of ten objects, each with a list of ten
// objects by default, and so on for twenty levels, would be a few lines that fill
// any memory.
const maxDefaultValues = 1 << 16

// boundDefaults rejects defaults that are too large.
func (c *compiler) boundDefaults() error {
	s := defaultSizes{p: c.p, known: map[int32]int{}}
	for i := range c.p.nodes {
		if c.p.nodes[i].flags&hasDefault != 0 && s.of(int32(i)) > maxDefaultValues {
			return &DefaultError{c.p.ref(int32(i)).Path(), fmt.Errorf("must not have more than %d values, those of the defaults in it included", maxDefaultValues)}
		}
	}
	return nil
}

// defaultSizes counts the values of defaults, up to a little more than what is
// allowed.
type defaultSizes struct {
	p     *Program
	known map[int32]int
}

// of is the number of values that defaultOf returns.
func (s *defaultSizes) of(id int32) int {
	size, known := s.known[id]
	if !known {
		size = s.value(id, s.p.nodes[id].dflt)
		s.known[id] = size
	}
	return size
}

// value counts v, which is where node id is, as fillIn leaves it.
func (s *defaultSizes) value(id int32, v any) int {
	n := &s.p.nodes[max(id, nowhere)]
	size := 1
	part := func(child int32, v any) {
		if size > maxDefaultValues {
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
	return min(size, maxDefaultValues+1)
}
