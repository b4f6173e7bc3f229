package fix

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
)

// editor changes a tree and records the changes as edits that do the same to the text.
type editor struct {
	tree  any
	edits []analysis.Edit
	// err is the error of the first edit that was not possible. No further edits are made.
	err error
	// moved lists the moves in order.
	moved []move
}

// move records that the value at to was moved or copied from from.
type move struct{ from, to string }

// origin returns the pointer that a value had before all edits.
func (e *editor) origin(pointer string) string {
	for _, m := range slices.Backward(e.moved) {
		if rest, ok := jsonptr.CutPrefix(pointer, m.to); ok {
			pointer = m.from + rest
		}
	}
	return pointer
}

func (e *editor) set(value any, at ...string) {
	e.do(analysis.Edit{Op: yamledit.Set, Pointer: jsonptr.New(at...), Value: value})
}

func (e *editor) remove(at ...string) {
	e.do(analysis.Edit{Op: yamledit.Remove, Pointer: jsonptr.New(at...)})
}

func (e *editor) rename(to string, at ...string) {
	e.do(analysis.Edit{Op: yamledit.Rename, Pointer: jsonptr.New(at...), To: to})
}

func (e *editor) move(from, to []string) {
	e.do(analysis.Edit{Op: yamledit.Move, Pointer: jsonptr.New(from...), To: jsonptr.New(to...)})
}

func (e *editor) copy(from, to []string) {
	e.do(analysis.Edit{Op: yamledit.Copy, Pointer: jsonptr.New(from...), To: jsonptr.New(to...)})
}

// at returns the value at a path of tokens.
func (e *editor) at(tokens ...string) (any, bool) {
	v := e.tree
	for _, token := range tokens {
		switch around := v.(type) {
		case map[string]any:
			sub, ok := around[token]
			if !ok {
				return nil, false
			}
			v = sub
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(around) {
				return nil, false
			}
			v = around[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func (e *editor) object(tokens ...string) map[string]any {
	v, _ := e.at(tokens...)
	m, _ := v.(map[string]any)
	return m
}

func (e *editor) list(tokens ...string) []any {
	v, _ := e.at(tokens...)
	l, _ := v.([]any)
	return l
}

// do applies an edit, unless an earlier one was not possible.
func (e *editor) do(edit analysis.Edit) {
	if e.err != nil {
		return
	}
	if e.err = e.try(edit); e.err == nil {
		e.edits = append(e.edits, edit)
	}
}

// try applies an edit to the tree.
func (e *editor) try(edit analysis.Edit) error {
	tokens := jsonptr.Split(edit.Pointer)
	if len(tokens) == 0 {
		return fmt.Errorf("cannot edit the document root")
	}
	v, exists := e.at(tokens...)
	if !exists && edit.Op != yamledit.Set {
		return fmt.Errorf("%s not found", edit.Pointer)
	}
	to := edit.To
	switch edit.Op {
	case yamledit.Set:
		return e.put(tokens, jsonx.Copy(edit.Value))
	case yamledit.Remove:
		e.cut(tokens)
		return nil
	case yamledit.Rename:
		e.cut(tokens)
		to = jsonptr.New(append(tokens[:len(tokens)-1], edit.To)...)
	case yamledit.Move:
		e.cut(tokens)
	case yamledit.Copy:
		v = jsonx.Copy(v)
	default:
		return fmt.Errorf("unknown edit %q", edit.Op)
	}
	e.moved = append(e.moved, move{edit.Pointer, to})
	return e.put(jsonptr.Split(to), v)
}

// cut removes the value at a path, which must exist.
func (e *editor) cut(tokens []string) {
	around, _ := e.at(tokens[:len(tokens)-1]...)
	last := tokens[len(tokens)-1]
	switch around := around.(type) {
	case map[string]any:
		delete(around, last)
	case []any:
		i, _ := strconv.Atoi(last)
		// Deleting an item creates a new slice, so set it in the parent.
		_ = e.put(tokens[:len(tokens)-1], slices.Delete(slices.Clone(around), i, i+1))
	}
}

// put sets the value at a path, which is not that of the document, and creates missing parent objects.
func (e *editor) put(tokens []string, value any) error {
	parent, last := tokens[:len(tokens)-1], tokens[len(tokens)-1]
	around, ok := e.at(parent...)
	if !ok || around == nil {
		return e.put(parent, map[string]any{last: value})
	}
	switch around := around.(type) {
	case map[string]any:
		around[last] = value
		return nil
	case []any:
		if i, err := strconv.Atoi(last); err == nil && i >= 0 && i < len(around) {
			around[i] = value
			return nil
		} else if last == "-" || i == len(around) && err == nil {
			return e.put(parent, append(slices.Clone(around), value))
		}
	}
	return fmt.Errorf("cannot add a value at %s", jsonptr.New(tokens...))
}

// become makes the edits that turn the value at a path into want.
func (e *editor) become(want any, at ...string) {
	have, ok := e.at(at...)
	switch w := want.(type) {
	case map[string]any:
		if h, ok := have.(map[string]any); ok {
			e.becomeObject(h, w, at)
			return
		}
	case []any:
		if h, ok := have.([]any); ok && len(w) > 0 {
			e.becomeList(h, w, at)
			return
		}
	}
	if !ok || !reflect.DeepEqual(have, want) {
		e.set(want, at...)
	}
}

func (e *editor) becomeObject(have, want map[string]any, at []string) {
	for _, k := range sortedKeys(have) {
		if _, ok := want[k]; !ok {
			e.remove(below(at, k)...)
		}
	}
	for _, k := range sortedKeys(want) {
		e.become(want[k], below(at, k)...)
	}
}

// becomeList edits items one by one if the length stays the same. If items are only
// removed, it removes them and leaves the others unchanged. Any other change replaces the
// list.
func (e *editor) becomeList(have, want []any, at []string) {
	if len(have) == len(want) {
		for i := range want {
			e.become(want[i], below(at, strconv.Itoa(i))...)
		}
		return
	}
	var gone []int
	kept := 0
	for i := range have {
		if kept < len(want) && reflect.DeepEqual(have[i], want[kept]) {
			kept++
		} else {
			gone = append(gone, i)
		}
	}
	if kept < len(want) {
		e.set(want, at...)
		return
	}
	for _, i := range slices.Backward(gone) {
		e.remove(below(at, strconv.Itoa(i))...)
	}
}
