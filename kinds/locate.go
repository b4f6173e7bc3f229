package kinds

import (
	"strconv"
	"strings"

	"espalier.dev/schema"
)

// Locate returns the path that API servers write as spec.containers[0].resources.limits[cpu], in the
// object in tree. exact reports whether the object has a value there. The text does not say where its
// names end, so that the names of the object decide.
func Locate(text string, tree any) (path schema.Path, exact bool) {
	exact = true
	for rest := text; rest != ""; {
		name, after, found := next(rest, tree)
		path = append(path, stepOf(rest, name, tree))
		rest = after
		if exact = exact && found; !exact {
			tree = nil
			continue
		}
		tree = child(tree, name)
	}
	return path, exact
}

// stepOf returns the step of a name that text begins with.
func stepOf(text, name string, tree any) schema.Step {
	if text[0] != '[' {
		return schema.Step{Key: name}
	}
	_, isMap := tree.(map[string]any)
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && !isMap {
		return schema.Step{Kind: schema.Index, Index: i}
	}
	return schema.Step{Kind: schema.MapKey, Key: name}
}

// next returns the first name of a path, and the rest of the path. found reports whether the value
// in tree has a member of that name.
func next(path string, tree any) (name, rest string, found bool) {
	dotted := strings.TrimPrefix(path, ".")
	if members, ok := tree.(map[string]any); ok {
		for key := range members {
			if len(key) < len(name) || found && len(key) == len(name) {
				continue
			}
			if after, ok := strings.CutPrefix(path, "["+key+"]"); ok {
				name, rest, found = key, after, true
			} else if after, ok := strings.CutPrefix(dotted, key); ok && (after == "" || after[0] == '.' || after[0] == '[') {
				name, rest, found = key, after, true
			}
		}
		if found {
			return name, rest, true
		}
	}
	if inside, ok := strings.CutPrefix(path, "["); ok {
		name, rest, ok = strings.Cut(inside, "]")
		if list, isList := tree.([]any); ok && isList {
			i, err := strconv.Atoi(name)
			found = err == nil && i >= 0 && i < len(list)
		}
		return name, rest, found
	}
	end := strings.IndexAny(dotted, ".[")
	if end < 0 {
		end = len(dotted)
	}
	return dotted[:end], dotted[end:], false
}

// child returns the member or the item of that name.
func child(tree any, name string) any {
	switch tree := tree.(type) {
	case map[string]any:
		return tree[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(tree) {
			return tree[i]
		}
	}
	return nil
}
