package custom

import (
	"iter"
	"slices"

	"k8s.io/client-go/util/jsonpath"
)

const (
	// maxVisits is the number of values that the JSONPath of a column may look at in one object, if the
	// number does not follow from the size of the object: each ".." looks at all descendants of all values
	// that were found before it, and a union finds a value more than once.
	maxVisits = 100_000
	// tooExpensive is the cell of a column that would look at more.
	tooExpensive = "<too expensive>"
)

// column is a column of a table.
type column struct {
	text string
	path *jsonpath.JSONPath
	// actions are what the path consists of. Usually it is one.
	actions []jsonpath.Node
	// counted is set if the number of values that the path looks at is to be limited.
	counted bool
	// ranged is set if the path has a range: an evaluation then changes the path.
	ranged bool
}

func newColumn(name, path string) (*column, error) {
	c := &column{text: "{" + path + "}"}
	parsed, err := jsonpath.Parse(name, c.text)
	if err != nil {
		return nil, err
	}
	c.actions = parsed.Root.Nodes
	c.ranged = slices.ContainsFunc(c.actions, isRange)
	c.counted = len(c.actions) > 1 || branches(c.actions) > 1
	c.path, err = c.parse()
	return c, err
}

func (c *column) parse() (*jsonpath.JSONPath, error) {
	path := jsonpath.New("").AllowMissingKeys(true)
	return path, path.Parse(c.text)
}

// evaluation returns the path for one evaluation. A JSONPath has state while it is evaluated, and concurrent
// requests share columns.
func (c *column) evaluation() (*jsonpath.JSONPath, error) {
	if c.ranged {
		return c.parse()
	}
	path := *c.path
	return &path, nil
}

// cheap reports whether the evaluation for an object looks at no more than maxVisits values.
func (c *column) cheap(fields map[string]any) bool {
	if !c.counted {
		return true
	}
	v := visits{left: maxVisits}
	v.actions(fields, c.actions)
	return v.left >= 0
}

// branches returns the number of steps that can lead from a value to several, and twice that for those that
// can lead to one value in several ways.
func branches(nodes []jsonpath.Node) (n int) {
	for _, node := range nodes {
		switch node := node.(type) {
		case *jsonpath.ListNode:
			n += branches(node.Nodes)
		case *jsonpath.FilterNode:
			n += 1 + branches(node.Left.Nodes) + branches(node.Right.Nodes)
		case *jsonpath.WildcardNode, *jsonpath.RecursiveNode:
			n++
		case *jsonpath.UnionNode:
			n += 2
		}
	}
	return n
}

// isRange reports whether the actions after this one are evaluated for each of its results.
func isRange(action jsonpath.Node) bool {
	list, ok := action.(*jsonpath.ListNode)
	return ok && slices.ContainsFunc(list.Nodes, func(n jsonpath.Node) bool {
		identifier, ok := n.(*jsonpath.IdentifierNode)
		return ok && identifier.Name == "range"
	})
}

// visits counts the values that a path looks at. It finds the values that the path finds, or more: it
// takes all items for those that pass a filter.
type visits struct{ left int }

func (v *visits) actions(value any, actions []jsonpath.Node) {
	for i, action := range actions {
		v.steps(value, []jsonpath.Node{action}, func(found any) {
			if isRange(action) {
				v.actions(found, actions[i+1:])
			}
		})
	}
}

// steps calls then for the values that steps lead to.
func (v *visits) steps(value any, steps []jsonpath.Node, then func(any)) {
	if v.left--; v.left < 0 {
		return
	}
	if len(steps) == 0 {
		then(value)
		return
	}
	next := func(found any) { v.steps(found, steps[1:], then) }
	switch step := steps[0].(type) {
	case *jsonpath.ListNode:
		v.steps(value, step.Nodes, next)
	case *jsonpath.FieldNode:
		if fields, ok := value.(map[string]any); ok {
			if field, ok := fields[step.Value]; ok {
				next(field)
			}
		}
	case *jsonpath.ArrayNode:
		v.items(value, step, next)
	case *jsonpath.WildcardNode:
		for child := range v.children(value) {
			next(child)
		}
	case *jsonpath.FilterNode:
		for child := range v.children(value) {
			v.steps(child, step.Left.Nodes, func(any) {})
			v.steps(child, step.Right.Nodes, func(any) {})
			next(child)
		}
	case *jsonpath.RecursiveNode:
		v.descend(value, next)
	case *jsonpath.UnionNode:
		for _, member := range step.Nodes {
			v.steps(value, member.Nodes, next)
		}
	default: // a constant, or the beginning of a range
		next(value)
	}
}

// items calls next for the items of an index or a slice.
func (v *visits) items(value any, of *jsonpath.ArrayNode, next func(any)) {
	items, _ := value.([]any)
	if from := of.Params[0].Value; of.Params[1].Derived { // one item
		if from < 0 {
			from += len(items)
		}
		items = items[min(max(from, 0), len(items)):]
		items = items[:min(1, len(items))]
	}
	for _, item := range items {
		next(item)
	}
}

// descend calls next for a value and its descendants.
func (v *visits) descend(value any, next func(any)) {
	if v.left--; v.left < 0 {
		return
	}
	next(value)
	for child := range v.children(value) {
		v.descend(child, next)
	}
}

// children returns the values in a value until too many were visited. The bytes of a text are counted:
// ".." looks at them, too.
func (v *visits) children(value any) iter.Seq[any] {
	return func(yield func(any) bool) {
		switch value := value.(type) {
		case string:
			v.left -= len(value)
		case map[string]any:
			for _, child := range value {
				if v.left < 0 || !yield(child) {
					return
				}
			}
		case []any:
			for _, child := range value {
				if v.left < 0 || !yield(child) {
					return
				}
			}
		}
	}
}
