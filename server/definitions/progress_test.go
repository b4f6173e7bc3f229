package definitions

import (
	"context"
	"errors"
	"testing"
)

// TestProgressGoesBack waits again for a revision that older data has not reached.
func TestProgressGoesBack(t *testing.T) {
	p := newProgress()
	p.reach(100)
	if err := p.wait(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	p.reach(10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.wait(ctx, 50); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
