package fields

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	applying = string(metav1.ManagedFieldsOperationApply)
	updating = string(metav1.ManagedFieldsOperationUpdate)
)

// owner identifies an entry of managedFields. An applier has one entry for all versions.
type owner struct{ manager, operation, version, subresource string }

// entry is an entry of managedFields.
type entry struct {
	owner          // with the version of the fields, also for an applier
	time    string // RFC 3339 in UTC, or empty
	fields  set
	written map[string]any // the entry as it was read, if it has not changed
}

func (e *entry) is(o owner) bool {
	if e.operation == applying {
		o.version = e.version
	}
	return e.owner == o
}

// setFields replaces the fields of an entry, if they differ.
func (e *entry) setFields(s set) {
	if !sameMemory(e.fields, s) {
		e.fields, e.written = s, nil
	}
}

// setTime sets the time of an entry to the current time.
func (e *entry) setTime() {
	e.time, e.written = time.Now().UTC().Format(time.RFC3339), nil
}

// tree returns an entry as it is stored.
func (e *entry) tree() map[string]any {
	if e.written != nil {
		return e.written
	}
	out := map[string]any{"apiVersion": e.version, "fieldsType": "FieldsV1", "fieldsV1": e.fields, "operation": e.operation}
	for name, v := range map[string]string{"manager": e.manager, "subresource": e.subresource, "time": e.time} {
		if v != "" {
			out[name] = v
		}
	}
	return out
}

// compareEntries orders entries as they are stored.
func compareEntries(a, b *entry) int {
	// The text of a time that was not set sorts as the epoch.
	seconds := func(e *entry) string { return cmp.Or(e.time, "1970-01-01T00:00:00Z") }
	return cmp.Or(
		cmp.Compare(a.operation, b.operation),
		cmp.Compare(seconds(a), seconds(b)),
		cmp.Compare(a.manager, b.manager),
		cmp.Compare(a.version, b.version),
		cmp.Compare(a.subresource, b.subresource))
}

// readEntries reads managedFields. It returns false if the list, written again, would differ
// from what it was, or if its fields no longer fit the types.
func (m *Manager) readEntries(list []any) ([]*entry, bool) {
	entries := make([]*entry, 0, len(list)+1)
	for _, item := range list {
		tree, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		e := &entry{written: tree}
		for name, v := range tree {
			if name == "fieldsV1" {
				e.fields, _ = v.(map[string]any)
				continue
			}
			text, ok := v.(string)
			if !ok || text == "" {
				return nil, false
			}
			switch name {
			case "manager":
				e.manager = text
			case "operation":
				e.operation = text
			case "apiVersion":
				e.version = text
			case "subresource":
				e.subresource = text
			case "time":
				e.time = text
			case "fieldsType":
				if text != "FieldsV1" {
					return nil, false
				}
			default:
				return nil, false
			}
		}
		if e.operation != applying && e.operation != updating || len(e.fields) == 0 || tree["fieldsType"] == nil || !plainTime(e.time) {
			return nil, false
		}
		t, ok := m.typeOf(e.version)
		if !ok || e.version != m.version && m.convert != nil || e.fields[self] != nil || !t.fits(e.fields) {
			return nil, false
		}
		for _, other := range entries {
			if other.is(e.owner) {
				return nil, false
			}
		}
		entries = append(entries, e)
	}
	return entries, slices.IsSortedFunc(entries, compareEntries)
}

// plainTime reports whether a time is empty or in the only form in which it is written.
func plainTime(s string) bool {
	if s == "" {
		return true
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && !t.IsZero() && strings.HasSuffix(s, "Z") && len(s) == len("2006-01-02T15:04:05Z")
}

// fits reports whether a set is in its only form, and whether its fields are those of the
// type, which is nil if it does not matter: types that were granular may have become atomic.
func (t *typ) fits(s set) bool {
	if t != nil && len(s) > 0 {
		switch {
		case t.fields != nil:
			if t.fields.deduced {
				t = nil
			} else if t.fields.atomic {
				return false
			}
		case t.scalar != "":
			t = nil
		case t.items.atomic:
			return false
		}
	}
	for key, n := range s {
		node, ok := n.(map[string]any)
		if !ok {
			return false
		}
		if key == self {
			if len(node) > 0 || len(s) == 1 {
				return false
			}
			continue
		}
		name, isField := strings.CutPrefix(key, "f:")
		if !isField && !simpleKey(key) {
			return false
		}
		var below *typ
		switch {
		case t == nil:
		case isField != (t.fields != nil):
			return false // a map has become a list, or a list a map
		case isField:
			below = t.fields.field(name)
		default:
			below = t.items.element
		}
		if !below.fits(node) {
			return false
		}
	}
	return true
}
