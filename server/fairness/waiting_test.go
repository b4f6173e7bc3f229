package fairness

import "testing"

// TestWaiting tests that the requests of a priority level can wait although others have filled all queues.
func TestWaiting(t *testing.T) {
	var w waiting
	levels := func() int { return 10 }
	low, high := w.of("low"), w.of("high")
	if w.of("low") != low {
		t.Fatal("the requests of a priority level are counted twice")
	}
	w.add(low, maxWaiting)
	if w.hasRoom(low, levels) {
		t.Error("there is no limit")
	}
	for range maxWaiting / 10 {
		if !w.hasRoom(high, levels) {
			t.Fatal("a priority level has less than its share")
		}
		w.add(high, 1)
	}
	if w.hasRoom(high, levels) {
		t.Error("a priority level has more than its share, although all queues together are full")
	}
	w.add(low, -maxWaiting)
	if !w.hasRoom(high, levels) || !w.hasRoom(low, levels) {
		t.Error("there is no room after requests have left the queues")
	}
}
