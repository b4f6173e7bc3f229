package schema

import "fmt"

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
	return nil
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
