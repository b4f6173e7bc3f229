package jsonx

// Step is one step of the way to a value: the name of a member, or else the
// index of an item.
type Step struct {
	Key   string
	Index int
	// IsIndex tells an index from a name.
	IsIndex bool
}

// Duplicates returns the way to each member of src whose name occurs earlier in the
// same object, in the order of the text. src must be valid JSON.
func Duplicates(src []byte) [][]Step {
	d := duplicates{}
	d.r.Reset(src)
	if d.value() != nil {
		return nil
	}
	return d.found
}

type duplicates struct {
	r     Reader
	way   []Step
	found [][]Step
}

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
			if seen[key] {
				d.found = append(d.found, append([]Step(nil), d.way...))
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
