package custom

import (
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"espalier.dev/internal/jsonx"
	"espalier.dev/server/keys"
)

// selection is the selectors of a request. It reads what they need from the JSON of objects.
type selection struct {
	label labels.Selector // nil if it selects everything
	field fields.Selector // nil if it selects everything
	// names are the fields that the field selector uses.
	names      []string
	namespaced bool
	prefix     keys.Prefix
	fields     []selectableField
}

func (r *reader) selecting(label labels.Selector, field fields.Selector) *selection {
	s := &selection{namespaced: r.namespaced, prefix: r.prefix}
	if label != nil && !label.Empty() {
		s.label = label
	}
	if field != nil && !field.Empty() {
		s.field, s.fields = field, r.fields
		for _, f := range field.Requirements() {
			s.names = append(s.names, f.Field)
		}
	}
	return s
}

// empty reports whether all objects are selected.
func (s *selection) empty() bool { return s.label == nil && s.field == nil }

// matches reports whether an object is selected.
func (s *selection) matches(key string, v *view) (bool, error) {
	if s.label != nil {
		set, err := v.labels()
		if err != nil {
			return false, err
		}
		if !s.label.Matches(set) {
			return false, nil
		}
	}
	if s.field == nil {
		return true, nil
	}
	set := fields.Set{}
	namespace, name, _ := s.prefix.Cut(key)
	for _, n := range s.names {
		switch {
		case n == "metadata.name":
			set[n] = name
		case n == "metadata.namespace" && s.namespaced:
			set[n] = namespace
		default:
			text, err := s.fieldOf(v, n)
			if err != nil {
				return false, err
			}
			set[n] = text
		}
	}
	return s.field.Matches(set), nil
}

// labels returns the labels of an object.
func (v *view) labels() (labels.Set, error) {
	var r jsonx.Reader
	r.Reset(v.text)
	if ok, err := descend(&r, "metadata", "labels"); err != nil || !ok || r.Peek() != '{' {
		return nil, err
	}
	set := labels.Set{}
	err := r.Members(func(name string) error {
		if r.Peek() != '"' {
			return r.Skip()
		}
		text, err := r.String()
		set[name] = text
		return err
	})
	return set, err
}

// descend moves to a value below the object that is next. It reports false if there is none.
func descend(r *jsonx.Reader, path ...string) (bool, error) {
	for _, step := range path {
		if r.Peek() != '{' || r.EnterObject() != nil { // no path is too deep
			return false, nil
		}
		for n := 0; ; n++ {
			name, more, err := r.NextMember(n)
			if err != nil || !more {
				return false, err
			}
			if name == step {
				break
			}
			if err := r.Skip(); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// fieldOf returns the text of a selectable field, as strategy.attributes does.
func (s *selection) fieldOf(v *view, name string) (string, error) {
	for _, f := range s.fields {
		if f.name != name {
			continue
		}
		var r jsonx.Reader
		r.Reset(v.text)
		if f.steps != nil {
			if ok, err := descend(&r, f.steps...); err != nil || !ok {
				return "", err
			}
			value, err := r.Value()
			if err != nil || value == nil {
				return "", err
			}
			return fmt.Sprint(value), nil
		}
		tree, err := r.Value()
		if err != nil {
			return "", err
		}
		return f.text(tree)
	}
	return "", nil
}
