package server_test

import (
	"context"
	"flag"
	"runtime"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

var benchCRDs = flag.Int("crds", 200, "number of CRDs that BenchmarkStartLoaded starts with")

// BenchmarkStart measures a start without data: certificates, database, server.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		o := servertest.EtcdOptions(b)
		o.Ephemeral = false
		b.StartTimer()
		s, err := servertest.TryStart(b, o)
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

// BenchmarkStartLoaded measures a start with many large CRDs: the CPU time until the server
// is ready, and the live heap then, relative to the size of the CRDs.
func BenchmarkStartLoaded(b *testing.B) {
	o := servertest.EtcdOptions(b)
	heap := func() float64 {
		runtime.GC() // twice, because of what pools keep
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	empty := heap()
	raw := fill(b, o, *benchCRDs)
	var cpu time.Duration
	var live float64
	for b.Loop() {
		began := cpuTime(b)
		s, err := server.Start(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime(b) - began
		live = max(live, heap()-empty)
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(raw)/(1<<20), "raw-MB")
	b.ReportMetric(live/(1<<20), "heap-MB")
	b.ReportMetric(live/float64(raw), "heap/raw")
}
