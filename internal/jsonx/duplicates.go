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
		if err := d.r.EnterObject(); err != nil {
			return err
		}
		seen := map[string]bool{}
		for n := 0; ; n++ {
			key, more, err := d.r.NextMember(n)
			if err != nil || !more {
				return err
			}
			d.way = append(d.way, Step{Key: key})
			if seen[key] && !d.yield(d.way) {
				return errStopped
			}
			seen[key] = true
			if err := d.value(); err != nil {
				return err
			}
			d.way = d.way[:len(d.way)-1]
		}
	case '[':
		if err := d.r.EnterArray(); err != nil {
			return err
		}
		for n := 0; ; n++ {
			more, err := d.r.NextItem(n)
			if err != nil || !more {
				return err
			}
			d.way = append(d.way, Step{Index: n, IsIndex: true})
			if err := d.value(); err != nil {
				return err
			}
			d.way = d.way[:len(d.way)-1]
		}
	default:
		_, err := d.r.Scalar(c)
		return err
	}
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
