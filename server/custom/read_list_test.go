package custom

import (
	"context"
	"errors"
	"testing"

	"espalier.dev/store"
)

// TestAbandonedList checks that a list ends when its request does.
func TestAbandonedList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &page{}
	if err := (&reader{}).add(ctx, p, &query{}, &store.Entry{}); !errors.Is(err, context.Canceled) || len(p.items) != 0 {
		t.Errorf("got %v", err)
	}
}
