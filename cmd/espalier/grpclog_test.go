//go:build !noserver

package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestGRPCLog checks that a command which fails soon logs no warning of gRPC, and that a server logs some.
func TestGRPCLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		g := newGRPCLog(func(text string) { got = append(got, text) })
		g.Warningf("at %s", "once")
		time.Sleep(grpcInterval - time.Second)
		g.Warning("too early")
		time.Sleep(time.Second)
		g.Warningf("member %d", 1)
		g.Warning("member ", 2)
		time.Sleep(grpcInterval)
		g.Warningln("member", 3)
		if want := []string{"member 1", "member 3"}; !slices.Equal(got, want) {
			t.Errorf("logged are %q, not %q", got, want)
		}
	})
}
