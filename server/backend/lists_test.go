package backend

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"
)

// purse is a budget that counts.
type purse struct {
	spent, objects, left, copied int
	err                          error
	// free is set if nothing is counted.
	free bool
}

func (p *purse) Spend(n int) (bool, error) {
	p.spent += n
	p.objects++
	return !p.free, p.err
}

func (p *purse) SpendCopy(n int) error {
	p.copied += n
	return p.err
}

func (p *purse) Leave(n int) func() {
	p.left += n
	return func() { p.left -= n }
}

// listTrees lists all trees in one way or another.
func listTrees(ctx context.Context, s *setup, p storage.SelectionPredicate) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	err := s.GetList(ctx, "/trees/", storage.ListOptions{Recursive: true, Predicate: p}, list)
	return list.Items, err
}

// TestLists checks that lists share their objects while they are being answered, that one of them
// pays for an object, and that nothing is left of them.
func TestLists(t *testing.T) {
	t.Parallel()
	s, codec := newTrees(t)
	const count = 10
	for i := range count {
		if err := s.Create(s.ctx, fmt.Sprintf("/trees/%d", i), newTree(fmt.Sprint(i)), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	begin := func() (*purse, func() []unstructured.Unstructured, func()) {
		p := &purse{}
		ctx, done := WithBudget(s.ctx, p)
		return p, func() []unstructured.Unstructured {
			items, err := listTrees(ctx, s, storage.Everything)
			if err != nil || len(items) != count {
				t.Fatal(len(items), err)
			}
			return items
		}, done
	}
	decoded := func(want int64) {
		t.Helper()
		if n := codec.decoded.Swap(0); n != want {
			t.Errorf("%d objects were decoded, want %d", n, want)
		}
	}
	codec.decoded.Store(0)
	a, listA, doneA := begin()
	b, listB, doneB := begin()
	itemsA, itemsB := listA(), listB()
	decoded(count)
	if reflect.ValueOf(itemsA[0].Object).Pointer() != reflect.ValueOf(itemsB[0].Object).Pointer() {
		t.Error("the lists have different objects")
	}
	if a.spent == 0 || b.spent != 0 || a.objects != count || b.objects != count {
		t.Errorf("the first list has spent %+v, the second %+v", a, b)
	}
	doneA()
	c, listC, doneC := begin()
	listC()
	decoded(0)
	if a.left != a.spent || c.spent != 0 {
		t.Errorf("the first list has left %d of %d, the third has spent %d", a.left, a.spent, c.spent)
	}
	doneB()
	doneC()
	if a.left != 0 || len(s.listed.objects) != 0 {
		t.Errorf("%d bytes and %d objects are left", a.left, len(s.listed.objects))
	}

	// The next list decodes them again, and pays alone.
	d, listD, doneD := begin()
	listD()
	decoded(count)
	doneD()
	if d.spent != a.spent || d.left != 0 {
		t.Errorf("a list of its own: %+v", d)
	}

	// A list that is free pays for no other.
	free, listFree, doneFree := begin()
	free.free = true
	listFree()
	e, listE, doneE := begin()
	listE()
	f, listF, doneF := begin()
	listF()
	doneFree()
	doneE()
	if e.spent != a.spent || e.left != a.spent || f.spent != 0 {
		t.Errorf("beside a free list: %+v, and then %+v", e, f)
	}
	doneF()
	if e.left != 0 || len(s.listed.objects) != 0 {
		t.Errorf("%d bytes and %d objects are left", e.left, len(s.listed.objects))
	}
	codec.decoded.Store(0)

	// Without a budget, nothing is shared: the caller may change the objects.
	for range 2 {
		if _, err := listTrees(s.ctx, s, storage.Everything); err != nil {
			t.Fatal(err)
		}
	}
	decoded(2 * count)

	// What is not selected, cannot be decoded or is too much is not kept.
	p := &purse{err: errors.New("too much")}
	ctx, done := WithBudget(s.ctx, p)
	none := storage.SelectionPredicate{Label: labels.Nothing(), Field: fields.Everything(), GetAttrs: storage.DefaultClusterScopedAttr}
	if items, err := listTrees(ctx, s, none); err != nil || len(items) != 0 || p.objects != 0 || len(s.listed.objects) != 0 {
		t.Errorf("%d selected, %v, %+v, %d left", len(items), err, p, len(s.listed.objects))
	}
	if _, err := listTrees(ctx, s, storage.Everything); !errors.Is(err, p.err) {
		t.Error(err)
	}
	done()
	if len(s.listed.objects) != 0 {
		t.Error(len(s.listed.objects), "objects are left")
	}
}

// TestListPanics checks that a panic while an object is decoded fails one list only.
func TestListPanics(t *testing.T) {
	t.Parallel()
	s, codec := newTrees(t)
	if err := s.Create(s.ctx, "/trees/a", newTree("a"), nil, 0); err != nil {
		t.Fatal(err)
	}
	list := func() (items []unstructured.Unstructured, err error) {
		ctx, done := WithBudget(s.ctx, &purse{})
		defer done()
		defer func() {
			if recover() != nil {
				err = errors.New("it panics")
			}
		}()
		return listTrees(ctx, s, storage.Everything)
	}
	codec.panics.Store(true)
	if _, err := list(); err == nil {
		t.Error("it does not panic")
	}
	if items, err := list(); err != nil || len(items) != 1 {
		t.Error(len(items), err)
	}
	if len(s.listed.objects) != 0 {
		t.Error(len(s.listed.objects), "objects are left")
	}
}

// TestListsAtOnce lists the same objects many times at once, while they change.
func TestListsAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := newTrees(t)
	const count = 20
	for i := range count {
		if err := s.Create(s.ctx, fmt.Sprintf("/trees/%d", i), newTree(fmt.Sprint(i)), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	purses := make([]purse, 8)
	for n := range purses {
		wg.Go(func() {
			for range 10 {
				ctx, done := WithBudget(s.ctx, &purses[n])
				items, err := listTrees(ctx, s, storage.Everything)
				if err != nil || len(items) < count {
					t.Error(len(items), err)
				}
				done()
				key := fmt.Sprintf("/trees/new-%d", n)
				if err := s.Create(s.ctx, key, newTree("new"), nil, 0); err != nil {
					t.Error(err)
				}
				if err := s.Delete(s.ctx, key, &unstructured.Unstructured{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, p := range purses {
		if p.left != 0 {
			t.Errorf("%+v", p)
		}
	}
	if len(s.listed.objects) != 0 {
		t.Error(len(s.listed.objects), "objects are left")
	}
}
