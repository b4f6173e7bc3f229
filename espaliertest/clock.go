package espaliertest

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// inBubble reports whether the caller is in a bubble of testing/synctest, which has no function for
// that. The stack trace of a goroutine begins with its state, which names the bubble.
func inBubble() bool {
	header := make([]byte, 256)
	header, _, _ = bytes.Cut(header[:runtime.Stack(header, false)], []byte("]"))
	return bytes.Contains(header, []byte("synctest bubble"))
}

// checkBubble fails the test if the caller is in a bubble, and t is not that of the bubble: its
// cleanups would run outside, and the clock of the bubble would wait for its context.
func checkBubble(t testing.TB) {
	t.Helper()
	test, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return
	}
	ofBubble := func() (panics bool) {
		defer func() { panics = recover() != nil }()
		test.Deadline() // is not allowed in a bubble
		return false
	}
	switch inside := ofBubble(); {
	case inside && !inBubble():
		t.Fatalf("start a server: t is that of a bubble of testing/synctest, but the caller is not in it, or this version of Go describes it in another way")
	case !inside && inBubble():
		t.Fatalf("start a server: it would run in a bubble of testing/synctest, but t is that of a test outside: pass the t of the function that synctest.Test calls")
	}
}

// Clients may be at work when a test ends, for example to record the event that a leader has stopped. In
// a bubble they must end before the test does, and time is cheap. The recorder of client-go gives up
// after 2 minutes.
const beforeStop, afterStop = 2 * time.Second, 3 * time.Minute

// linger waits for clients in a bubble.
func linger(d time.Duration) {
	if inBubble() {
		time.Sleep(d)
	}
}

// checkSide fails if the server and the caller are not in the same bubble, or both outside: one would
// wait for the other, and the clock of the bubble with it.
func (s *Server) checkSide(fail func(string)) {
	switch inside := inBubble(); {
	case inside && s.config.Dial == nil:
		fail("the server was started outside of this bubble of testing/synctest, whose clock would stop while a client waits for it: start it in the bubble, or fork it there")
	case !inside && s.config.Dial != nil:
		fail("the server runs in a bubble of testing/synctest: use it there")
	}
}

// fails returns a function that ends a test.
func fails(t testing.TB) func(string) {
	t.Helper()
	return func(message string) { t.Helper(); t.Fatal(message) }
}

// The errors that k8s.io/apimachinery handles are logged, and then it waits until a millisecond has passed
// since the error before it. All servers and clients in the process share that time, so after an
// error in a bubble, which has another clock, it would wait for years. So it does not wait in bubbles. This
// happens before anything runs that could handle an error.
var _ = func() struct{} {
	const logger, backoff = 1, 2
	if handlers := utilruntime.ErrorHandlers; len(handlers) == backoff {
		wait := handlers[logger]
		utilruntime.ErrorHandlers = append(handlers[:logger:logger], func(ctx context.Context, err error, message string, values ...any) {
			if !inBubble() {
				wait(ctx, err, message, values...)
			}
		})
	}
	return struct{}{}
}()
