// Package kindtest has helpers for tests of the rules of kinds.
package kindtest

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
)

// Create returns a function that changes a copy of a valid object, applies the rules of a new
// object, and compares the errors. It returns the object as it would be stored.
func Create[T kind.Object](t *testing.T, rules kind.Rules, valid T) func(change func(T), want ...string) T {
	return func(change func(T), want ...string) T {
		t.Helper()
		obj := valid.DeepCopyObject().(T)
		change(obj)
		if rules.Default != nil {
			rules.Default(obj)
		}
		write(t, rules.Main, obj, nil, want)
		return obj
	}
}

// Update is Create for updates of the valid object, with the rules of a subresource unless its
// name is empty. The object exists as Create stores it.
func Update[T kind.Object](t *testing.T, rules kind.Rules, subresource string, valid T) func(change func(T), want ...string) T {
	t.Helper()
	return Stored(t, rules, subresource, Create(t, rules, valid)(func(T) {}))
}

// Stored is Update of an object that need not be valid: it was stored when other rules applied.
func Stored[T kind.Object](t *testing.T, rules kind.Rules, subresource string, old T) func(change func(T), want ...string) T {
	t.Helper()
	w, ok := rules.Write(subresource)
	if !ok {
		t.Fatalf("there is no subresource %q", subresource)
	}
	old = old.DeepCopyObject().(T)
	old.SetResourceVersion("1")
	return func(change func(T), want ...string) T {
		t.Helper()
		obj := old.DeepCopyObject().(T)
		change(obj)
		if rules.Default != nil {
			rules.Default(obj)
		}
		write(t, w, obj, old.DeepCopyObject().(T), want)
		return obj
	}
}

func write(t *testing.T, w kind.Write, obj, old kind.Object, want []string) {
	t.Helper()
	if w.Prepare != nil {
		w.Prepare(obj, old)
	}
	var errs field.ErrorList
	if w.Validate != nil {
		errs = w.Validate(obj, old)
	}
	Errors(t, errs, want...)
	if w.Canonicalize != nil {
		w.Canonicalize(obj)
	}
}

// Errors compares the texts of errors, in their order.
func Errors(t *testing.T, got field.ErrorList, want ...string) {
	t.Helper()
	for i, err := range got {
		if i >= len(want) {
			t.Errorf("unexpected error: %s", err)
		} else if err.Error() != want[i] {
			t.Errorf("error %d:\n got %s\nwant %s", i, err, want[i])
		}
	}
	if len(got) < len(want) {
		t.Errorf("got %d errors, want also: %q", len(got), want[len(got):])
	}
}
