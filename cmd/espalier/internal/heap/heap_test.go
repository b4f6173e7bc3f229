package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// percent returns the current value of GOGC.
func percent() int {
	p := debug.SetGCPercent(defaultPercent)
	debug.SetGCPercent(p)
	return p
}

func TestPostpone(t *testing.T) {
	if _, set := os.LookupEnv("GOGC"); set {
		t.Skip("GOGC is set")
	}
	if !Postponed {
		t.Fatal("the first collection is not postponed")
	}
	deadline := time.Now().Add(time.Minute)
	for percent() == startPercent {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is still %d after a collection", percent())
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if got := percent(); got != defaultPercent {
		t.Errorf("GOGC is %d after the first collection, want %d", got, defaultPercent)
	}
}

func TestPostponeKeepsSettings(t *testing.T) {
	before := debug.SetGCPercent(50)
	defer debug.SetGCPercent(before)
	if postpone() {
		t.Error("the first collection is postponed although GOGC is set")
	}
	reset()
	if got := percent(); got != 50 {
		t.Errorf("GOGC is %d, want 50", got)
	}
}
