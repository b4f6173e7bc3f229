package progress

import (
	"context"
	"errors"
	"testing"
)

// TestProgressGoesBack waits again for a revision that older data has not reached.
func TestProgressGoesBack(t *testing.T) {
	p := New()
	p.Reach(100)
	if err := p.Wait(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	p.Reach(10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx, 50); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
