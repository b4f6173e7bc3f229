package namespaces

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestConditionsAreBounded has findings whose texts are too long for an object.
func TestConditionsAreBounded(t *testing.T) {
	t.Parallel()
	f := &findings{remaining: map[string]int{}, finalizers: map[string]int{}}
	for i := range 100_000 {
		f.remaining[fmt.Sprintf("things%d.example.com", i)] = 1
		f.finalizers[fmt.Sprintf("example.com/%d", i)] = 1
	}
	f.failures = []error{errors.New("short \xff"), errors.New(strings.Repeat("é", 1<<20))}
	for _, c := range conditions(f) {
		if len(c.Message) > maxMessage || !utf8.ValidString(c.Message) {
			t.Errorf("%s has a message of %d bytes, valid UTF-8: %t", c.Type, len(c.Message), utf8.ValidString(c.Message))
		}
		if long := c.Status == "True"; long != strings.HasSuffix(c.Message, "...") {
			t.Errorf("%s: the end of the message is %q", c.Type, c.Message[len(c.Message)-10:])
		}
	}
}
