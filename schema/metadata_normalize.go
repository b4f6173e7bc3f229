package schema

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// isCanonicalTime reports whether s is a time in the format that Kubernetes writes,
// such as 2006-01-02T15:04:05Z. Only the 29th to 31st of a month need a real parser.
func isCanonicalTime(s string) bool {
	const form = "0000-00-00T00:00:00Z"
	if len(s) != len(form) {
		return false
	}
	for i := 0; i < len(form); i++ {
		if form[i] == '0' {
			if s[i] < '0' || s[i] > '9' {
				return false
			}
		} else if s[i] != form[i] {
			return false
		}
	}
	two := func(i int) int { return int(s[i]-'0')*10 + int(s[i+1]-'0') }
	month, day := two(5), two(8)
	if s[:4] == "0001" || s[:4] == "0000" || month < 1 || month > 12 || day < 1 || two(11) > 23 || two(14) > 59 || two(17) > 59 {
		return false
	}
	if day > 28 {
		_, err := time.Parse(time.RFC3339, s)
		return err == nil
	}
	return true
}

// normalizeMetadata normalizes metadata to the JSON that metav1.ObjectMeta encodes to.
// If drop is true, malformed fields are removed and returned; otherwise they are an
// error. The unknown paths are relative to metadata.
func normalizeMetadata(v any, drop bool) (out map[string]any, unknown, dropped []Path, err error) {
	m, _ := v.(map[string]any)
	if m != nil {
		var normal bool
		if unknown, normal = removeUnknown(m); normal {
			return m, unknown, nil, nil
		}
	}
	meta, err := objectMeta(v)
	if err != nil && drop && m != nil {
		rest := maps.Clone(m)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if _, err := objectMeta(map[string]any{k: m[k]}); err != nil {
				dropped = append(dropped, Path{{Key: k}})
				delete(rest, k)
			}
		}
		meta, err = objectMeta(rest)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	out, err = runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	return out, append(unknown, unknownBelow(m)...), dropped, err
}

// removeUnknown removes the fields that metav1.ObjectMeta does not have, and all nulls.
// It reports whether the rest is normal: whether ObjectMeta encodes to the same JSON.
func removeUnknown(m map[string]any) (unknown []Path, normal bool) {
	fields := objectMetaType().fields
	normal = true
	for k, v := range m {
		switch f := fields[k]; {
		case f == nil:
			unknown = append(unknown, Path{{Key: k}})
			delete(m, k)
		case v == nil:
			delete(m, k)
		case normal:
			normal = f.isNormal(v)
		}
	}
	return unknown, normal
}

// unknownBelow returns the fields in the lists of m that metav1.ObjectMeta does not
// have. It has all other fields of m.
func unknownBelow(m map[string]any) (unknown []Path) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list := objectMetaType().fields[k]
		if list.kind != metaList || list.elem.kind != metaStruct {
			continue
		}
		items, _ := m[k].([]any)
		for i, x := range items {
			item, _ := x.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(item)) {
				if list.elem.fields[name] == nil {
					unknown = append(unknown, Path{{Key: k}, {Index: i, Kind: Index}, {Key: name}})
				}
			}
		}
	}
	return unknown
}

// MetadataError is returned for an object with a malformed apiVersion, kind or
// metadata, its own or that of an embedded resource.
type MetadataError struct {
	Path Path
	// Value is the malformed value.
	Value any
	// Problem is what is wrong with it.
	Problem string
}

// Error returns the path and the problem. For embedded resources it includes the value,
// as kube-apiserver does.
func (e *MetadataError) Error() string {
	switch {
	case len(e.Path) == 0:
		return e.Problem
	case len(e.Path) > 1:
		return field.Invalid(e.Path.FieldPath(), e.Value, e.Problem).Error()
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Problem)
}
