package jsonx

import (
	"errors"
	"iter"
)

// Step is one step of the path to a value: the name of a member, or the index of an item.
type Step struct {
	Key   string
	Index int
	// IsIndex tells an index from a name.
	IsIndex bool
}

// Duplicates visits the path of each member of src whose name occurs earlier in the same
// object, in the order of the text. src must be valid JSON. A path is only valid until the
// next one, because all paths together may be far longer than src.
func Duplicates(src []byte) iter.Seq[[]Step] {
	return func(yield func([]Step) bool) {
		d := duplicates{yield: yield}
		d.r.Reset(src)
		_ = d.value()
	}
}

type duplicates struct {
	r     Reader
	way   []Step
	yield func([]Step) bool
}

// errStopped is returned when the consumer stops the iteration.
var errStopped = errors.New("stopped")

func (d *duplicates) value() error {
	switch c := d.r.Peek(); c {
	case '{':
		seen := map[string]bool{}
		return d.r.Members(func(name string) error {
			d.way = append(d.way, Step{Key: name})
			if seen[name] && !d.yield(d.way) {
				return errStopped
			}
			seen[name] = true
			return d.below()
		})
	case '[':
		return d.r.Items(func(i int) error {
			d.way = append(d.way, Step{Index: i, IsIndex: true})
			return d.below()
		})
	default:
		_, err := d.r.Scalar(c)
		return err
	}
}

// below visits the value at the last step, and removes the step.
func (d *duplicates) below() error {
	err := d.value()
	d.way = d.way[:len(d.way)-1]
	return err
}

// Parse reads a text that consists of one value.
func Parse(src []byte) (any, error) {
	var r Reader
	r.Reset(src)
	v, err := r.Value()
	if err != nil {
		return nil, err
	}
	return v, r.End()
}
