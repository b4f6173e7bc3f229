package typed

import (
	"reflect"
	"strings"
)

// maxFields bounds the fields of a struct, so that those that were read fit a small set.
const maxFields = 128

// fields are those of a struct, by their names in JSON.
type fields map[string]*field

type field struct {
	number int
	index  []int
	read   read
}

// newFields returns the fields of a struct. It returns false if a field is unusual: sigs.k8s.io/json has rules for names that occur
// twice, options and embedded pointers.
func newFields(t reflect.Type) (fields, bool) {
	all := fields{}
	return all, all.add(t, nil) && len(all) <= maxFields
}

func (f fields) add(t reflect.Type, at []int) bool {
	for i := range t.NumField() {
		declared := t.Field(i)
		index := append(at[:len(at):len(at)], i)
		tag := declared.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
			continue
		case declared.Anonymous && name == "":
			if declared.Type.Kind() != reflect.Struct || !f.add(declared.Type, index) {
				return false
			}
			continue
		case !declared.IsExported():
			continue
		case strings.Contains(options, "string"):
			return false
		case name == "":
			name = declared.Name
		}
		if f[name] != nil {
			return false
		}
		f[name] = &field{len(f), index, readerOf(declared.Type)}
	}
	return true
}

func (f fields) read(d *decoder, v reflect.Value) error {
	if d.Peek() != '{' {
		return errUnusual
	}
	if err := d.EnterObject(); err != nil {
		return err
	}
	var seen [maxFields / 64]uint64
	for n := 0; ; n++ {
		name, more, err := d.NextMember(n)
		if err != nil || !more {
			return err
		}
		to := f[name]
		if to == nil {
			return errUnusual
		}
		word, bit := to.number/64, uint64(1)<<(to.number%64)
		if seen[word]&bit != 0 {
			return errUnusual
		}
		seen[word] |= bit
		member := v
		for _, i := range to.index {
			member = member.Field(i)
		}
		if err := to.read(d, member); err != nil {
			return err
		}
	}
}
