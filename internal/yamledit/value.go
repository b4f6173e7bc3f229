package yamledit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"espalier.dev/internal/jsonx"
)

// onValue applies the change to a tree of Go values, which the edited text must equal.
func (c change) onValue(root any) (any, error) {
	switch c.op {
	case Set:
		return setValue(root, c.path, c.value)
	case Remove:
		_, root, err := takeValue(root, c.path)
		return root, err
	case Copy:
		v, err := valueAt(root, c.path)
		if err != nil {
			return nil, err
		}
		return setValue(root, c.to, jsonx.Copy(v))
	case Rename:
		if at, err := valueAt(root, c.to); err == nil {
			return nil, fmt.Errorf("%s already exists: %v", c.to[len(c.to)-1], at)
		}
	}
	v, root, err := takeValue(root, c.path)
	if err != nil {
		return nil, err
	}
	return setValue(root, c.to, v)
}

var errNoValue = errors.New("no such value")

// valueAt returns the value at a path.
func valueAt(v any, path []string) (any, error) {
	for _, token := range path {
		switch c := v.(type) {
		case map[string]any:
			next, ok := c[token]
			if !ok {
				return nil, errNoValue
			}
			v = next
		case []any:
			i, err := itemIndex(c, token)
			if err != nil {
				return nil, err
			}
			v = c[i]
		default:
			return nil, errNoValue
		}
	}
	return v, nil
}

// itemIndex returns the number of the item that a token names.
func itemIndex(list []any, token string) (int, error) {
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || i >= len(list) || strconv.Itoa(i) != token {
		return 0, errNoValue
	}
	return i, nil
}

// takeValue removes the value at a path and returns it.
func takeValue(root any, path []string) (taken, rest any, err error) {
	last := path[len(path)-1]
	parent, err := valueAt(root, path[:len(path)-1])
	if err != nil {
		return nil, nil, err
	}
	switch c := parent.(type) {
	case map[string]any:
		v, ok := c[last]
		if !ok {
			return nil, nil, errNoValue
		}
		delete(c, last)
		return v, root, nil
	case []any:
		i, err := itemIndex(c, last)
		if err != nil {
			return nil, nil, err
		}
		v := c[i]
		root, err = setValue(root, path[:len(path)-1], slices.Delete(slices.Clone(c), i, i+1))
		return v, root, err
	}
	return nil, nil, errNoValue
}

// setValue returns root with v at the path.
func setValue(root any, path []string, v any) (any, error) {
	if len(path) == 0 {
		return v, nil
	}
	token := path[0]
	switch c := root.(type) {
	case nil:
		if token == "-" {
			return setValue([]any{}, path, v)
		}
		return setValue(map[string]any{}, path, v)
	case map[string]any:
		next, err := setValue(c[token], path[1:], v)
		if err != nil {
			return nil, err
		}
		c[token] = next
		return c, nil
	case []any:
		if token == "-" || token == strconv.Itoa(len(c)) {
			next, err := setValue(nil, path[1:], v)
			return append(c, next), err
		}
		i, err := itemIndex(c, token)
		if err != nil {
			return nil, err
		}
		c[i], err = setValue(c[i], path[1:], v)
		return c, err
	}
	return nil, fmt.Errorf("%q leads into a value that is neither a mapping nor a list", token)
}
