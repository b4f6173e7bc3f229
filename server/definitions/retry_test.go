package definitions

import (
	"testing"
	"time"
)

// TestRetry checks that the pauses between failing writes of a status grow, and that only the
// last retry is pending.
func TestRetry(t *testing.T) {
	d := &Definitions{again: make(chan string), retries: map[string]*retry{}}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		last := d.retries["a"]
		if got := d.retry(t.Context(), "a", lastRetry); got != want*time.Second {
			t.Errorf("pause %d is %v, want %v", i, got, want*time.Second)
		}
		if last != nil && last.timer.Stop() {
			t.Error("an earlier retry is pending")
		}
	}
	if got := d.retry(t.Context(), "b", lastRetry); got != time.Second {
		t.Errorf("another CRD waits for %v", got)
	}
	for _, r := range d.retries {
		r.timer.Stop()
	}
}
