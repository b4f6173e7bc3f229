package policies

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/schema"
)

// maxChangedPaths bounds the fields that a Mutation lists.
const maxChangedPaths = 100

// changed returns the paths of the fields that differ between two objects.
func changed(before, after runtime.Object) (paths []schema.Path, err error) {
	if before == after {
		return nil, nil
	}
	a, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, err
	}
	b, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return nil, err
	}
	// A Go type may lack what the tree has, or the other way around.
	for _, key := range []string{"apiVersion", "kind"} {
		if a[key] == nil || b[key] == nil {
			delete(a, key)
			delete(b, key)
		}
	}
	difference(nil, a, b, &paths)
	return paths, nil
}

// difference adds the paths of the values that differ.
func difference(path schema.Path, before, after any, paths *[]schema.Path) {
	if len(*paths) == maxChangedPaths || isEmpty(before) && isEmpty(after) {
		return
	}
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			names := maps.Clone(b)
			maps.Copy(names, a)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				difference(append(slices.Clip(path), schema.Step{Key: name}), b[name], a[name], paths)
			}
			return
		}
	case []any:
		if a, ok := after.([]any); ok && len(a) == len(b) {
			for i := range b {
				difference(append(slices.Clip(path), schema.Step{Kind: schema.Index, Index: i}), b[i], a[i], paths)
			}
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		*paths = append(*paths, slices.Clone(path))
	}
}

// isEmpty reports whether a value is missing. Go types cannot tell an empty struct from a missing one.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, x := range v {
			if !isEmpty(x) {
				return false
			}
		}
		return true
	}
	return false
}
