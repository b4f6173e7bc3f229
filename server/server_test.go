package server

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// testOptions returns options for a server in a directory of its own.
func testOptions(t testing.TB) *Options {
	t.Helper()
	o := NewOptions()
	o.DataDir = filepath.Join(t.TempDir(), "data")
	o.SecurePort = 0
	o.UnsafeNoFsync = true
	return o
}

// start starts a server.
func start(t testing.TB, o *Options) (*Server, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Start(ctx, o)
}

// startServer starts a server that is stopped with the test.
func startServer(t testing.TB, o *Options) *Server {
	t.Helper()
	s, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// BenchmarkStart measures from nothing to ready: certificates, database, server.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		o := testOptions(b)
		o.UnsafeNoFsync = false
		b.StartTimer()
		s, err := start(b, o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
