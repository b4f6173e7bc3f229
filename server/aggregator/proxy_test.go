package aggregator

import (
	"context"
	"errors"
	"testing"
	"time"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// stopping is the signal of a server that stops when it is closed.
type stopping chan struct{}

func (s stopping) ShuttingDown() <-chan struct{} { return s }

// TestStopsWatches checks that a proxied watch ends when the server stops, and not before.
func TestStopsWatches(t *testing.T) {
	t.Parallel()
	signal := make(stopping)
	a := &Aggregator{config: Config{Timeout: time.Hour}}
	ctx, _, end := a.limit(apirequest.WithServerShutdownSignal(t.Context(), signal))
	defer end()
	if err := ctx.Err(); err != nil {
		t.Fatal("before the server stops:", err)
	}
	close(signal)
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the watch goes on")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errStopping) {
		t.Error(cause)
	}
}
