package fields

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

const (
	// maxMoves is the work that structured-merge-diff may have with an object. It keeps fields
	// in sorted slices: an item that does not come last moves those after it. The order of maps
	// is random, so a map with n entries needs about n²/4 moves. A map with 20,000 entries takes
	// 0.1 to 0.5 s of CPU, depending on the operation, one with 50,000 entries 2 to 6 s.
	maxMoves = 220_000_000
	// movesPerItem is how many moves of an entry of a map take as long as one of an item with
	// keys: such an item has fields of its own.
	movesPerItem = 8
	// smallObject is the size up to which no object needs too many moves.
	smallObject = 16 << 10
	// shortList is the number of items from which moves are counted.
	shortList = 500
)

// errTooManyItems is returned for an object whose fields would take too long to track.
var errTooManyItems = errors.New("too many to track their field managers")

// IsTooManyItems reports whether err, or the text of an error that it is part of, is that of an
// object whose fields would take too long to track.
func IsTooManyItems(err error) bool {
	return err != nil && strings.Contains(err.Error(), errTooManyItems.Error())
}

// TooManyItems returns the API error for an err of which IsTooManyItems is true.
func TooManyItems(err error) error { return apierrors.NewRequestEntityTooLargeError(err.Error()) }

// Bounded is a converter that rejects objects for which the stock field manager would need more
// than a few seconds. It is safe for concurrent use.
type Bounded struct {
	managedfields.TypeConverter
	// types are the types (*typ) by their kind.
	types sync.Map
}

// ObjectToTyped returns an object with its type.
func (b *Bounded) ObjectToTyped(obj runtime.Object, o ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if err := b.Check(obj, obj.GetObjectKind().GroupVersionKind()); err != nil {
		return nil, err
	}
	return b.TypeConverter.ObjectToTyped(obj, o...)
}

// Check returns an error if the stock field manager would need too long for an object of a kind.
func (b *Bounded) Check(obj runtime.Object, gvk runtimeschema.GroupVersionKind) error {
	var v value.Value
	if u, ok := obj.(*unstructured.Unstructured); ok {
		v = value.NewValueInterface(u.Object)
	} else {
		if s, ok := obj.(interface{ Size() int }); ok && s.Size() <= smallObject {
			return nil
		}
		var err error
		if v, err = value.NewValueReflect(obj); err != nil {
			return nil //nolint:nilerr // the converter reports it
		}
	}
	var m moves
	m.count(b.typeOf(obj, gvk), v) // nothing without a type: the converter reports it
	if m.total <= maxMoves {
		return nil
	}
	if m.largestMap {
		return fmt.Errorf("%s has %d entries, %w: use fewer", m.largestPath, m.largestSize, errTooManyItems)
	}
	return fmt.Errorf("%s has %d items, %w: sort them by their keys, use fewer, or make the list atomic", m.largestPath, m.largestSize,
		errTooManyItems)
}

// typeOf returns the type of an object, or nil if it has none.
func (b *Bounded) typeOf(obj runtime.Object, gvk runtimeschema.GroupVersionKind) *typ {
	if t, ok := b.types.Load(gvk); ok {
		return t.(*typ)
	}
	var empty runtime.Object = &unstructured.Unstructured{Object: map[string]any{}}
	if _, ok := obj.(*unstructured.Unstructured); !ok {
		empty, _ = reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
	}
	empty.GetObjectKind().SetGroupVersionKind(gvk)
	v, err := b.TypeConverter.ObjectToTyped(empty)
	if err != nil {
		return nil
	}
	c := &compiler{schema: v.Schema(), named: map[string]*typ{}, scalars: map[smd.Scalar]*typ{}}
	t := c.compile(v.TypeRef())
	b.types.Store(gvk, t)
	return t
}

// moves counts what structured-merge-diff moves when it makes a set of the fields of an object.
type moves struct {
	total int
	path  []string
	// The map or list with the most moves.
	largest, largestSize int
	largestPath          string
	largestMap           bool
}

func (m *moves) count(t *typ, v value.Value) {
	switch {
	case t == nil || v.IsNull() || m.total > maxMoves:
	case v.IsMap() && t.fields != nil && !t.fields.atomic:
		entries := v.AsMap()
		if n := entries.Length(); n >= shortList {
			m.add(n*n/4, n, true)
		}
		entries.Iterate(func(name string, child value.Value) bool {
			m.path = append(m.path, "."+name)
			m.count(t.fields.field(name), child)
			m.path = m.path[:len(m.path)-1]
			return true
		})
	case v.IsList() && t.items != nil && !t.items.atomic:
		items := v.AsList()
		n := items.Length()
		if n >= shortList {
			m.add(t.items.movesOf(items), n, false)
		}
		if len(t.items.keys) == 0 {
			return
		}
		m.path = append(m.path, "[]")
		for i := range n {
			m.count(t.items.element, items.At(i))
		}
		m.path = m.path[:len(m.path)-1]
	}
}

func (m *moves) add(n, size int, isMap bool) {
	m.total += n
	if n > m.largest {
		m.largest, m.largestSize, m.largestPath, m.largestMap = n, size, strings.Join(m.path, ""), isMap
	}
}

// movesOf returns the moves for the items of a set or a list of maps.
func (l *typList) movesOf(items value.List) int {
	keys := make([][]value.Value, items.Length())
	for i := range keys {
		item := items.At(i)
		if len(l.keys) == 0 {
			keys[i] = []value.Value{item}
			continue
		}
		if !item.IsMap() {
			continue // not valid
		}
		m := item.AsMap()
		for j, name := range l.keys {
			k, ok := m.Get(name)
			if !ok {
				k = value.NewValueInterface(l.defaults[j])
			}
			keys[i] = append(keys[i], k)
		}
	}
	n := inversions(keys)
	if len(l.keys) > 0 {
		n *= movesPerItem
	}
	return n
}

// inversions returns how many pairs of keys are not in their order.
func inversions(keys [][]value.Value) (n int) {
	compare := func(a, b int) int { return slices.CompareFunc(keys[a], keys[b], value.Compare) }
	order, buffer := make([]int, len(keys)), make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	// A merge sort: an item that is taken from the right side passes all that are left on the
	// left.
	for width := 1; width < len(order); width *= 2 {
		for start := 0; start < len(order); start += 2 * width {
			middle, end := min(start+width, len(order)), min(start+2*width, len(order))
			left, right := order[start:middle], order[middle:end]
			for at := start; at < end; at++ {
				if len(right) == 0 || len(left) > 0 && compare(left[0], right[0]) <= 0 {
					buffer[at], left = left[0], left[1:]
				} else {
					buffer[at], right = right[0], right[1:]
					n += len(left)
				}
			}
		}
		order, buffer = buffer, order
	}
	return n
}
