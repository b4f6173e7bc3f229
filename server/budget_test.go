package server

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestBudget checks what lists take of their bytes, and give back.
func TestBudget(t *testing.T) {
	const limit = 10 << 20
	of := newSeats("f", limit)
	spend := func(b *budget, objects, size int) error {
		for range objects {
			if _, err := b.Spend(size); err != nil {
				return err
			}
		}
		return nil
	}
	free := func(n int64) bool {
		giveBack := of.take(n)
		if giveBack != nil {
			giveBack()
		}
		return giveBack != nil
	}
	small, medium, rejected := &budget{of: of}, &budget{of: of}, &budget{of: of}
	if err := spend(small, 10, 100_000); err != nil || !free(limit) {
		t.Error("a small list takes bytes:", err)
	}
	if err := spend(medium, 100, 50_000); err != nil || free(6<<20) || !free(4<<20) {
		t.Error("the bytes of a list:", err)
	}
	if err := spend(rejected, 1_000, 50_000); !apierrors.IsTooManyRequests(err) {
		t.Error("more than there is:", err)
	}
	rejected.giveBack()
	if err := spend(small, 1, 1); err != nil {
		t.Error("a small list while there is little:", err)
	}
	medium.giveBack()
	// Alone, a list can be larger than all.
	large, more := &budget{of: of}, &budget{of: of}
	if err := spend(large, 1_000, 50_000); err != nil || free(1) {
		t.Error("a large list alone:", err)
	}
	if err := spend(more, 1_000, 2_000); !apierrors.IsTooManyRequests(err) {
		t.Error("another one meanwhile:", err)
	}
	large.giveBack()
	// What it needs beside stored objects is limited all the same.
	copies := &budget{of: of}
	if err := copies.SpendCopy(limit + maxCopies); err != nil || free(1) {
		t.Error("copies of a list alone:", err)
	}
	if err := copies.SpendCopy(1); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Error("too many copies:", err)
	}
	copies.giveBack()
	more.giveBack()
	if !free(limit) {
		t.Error("bytes are missing")
	}
	if err := spend(&budget{}, 1_000, 1<<20); err != nil {
		t.Error("without a limit:", err)
	}
}
