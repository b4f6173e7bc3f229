package jsonx

import (
	"errors"
	"iter"
)

// Step is one step of the way to a value: the name of a member, or else the
// index of an item.
type Step struct {
	Key   string
	Index int
	// IsIndex tells an index from a name.
	IsIndex bool
}

// Duplicates visits the way to each member of src whose name occurs earlier in the
// same object, in the order of the text. src must be valid JSON. A way is only
// valid until the next one: all of them together may be far longer than src.
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

// errStopped says that nobody wants to know more.
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

// below visits the value that the last step leads to, and takes the step back.
func (d *duplicates) below() error {
	err := d.value()
	d.way = d.way[:len(d.way)-1]
	return err
}

// Parse reads a text that is one value.
func Parse(src []byte) (any, error) {
	var r Reader
	r.Reset(src)
	v, err := r.Value()
	if err != nil {
		return nil, err
	}
	return v, r.End()
}
