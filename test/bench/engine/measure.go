package main

import (
	"cmp"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// cost is what one call takes.
type cost struct {
	NS     float64 `json:"ns"`
	Bytes  float64 `json:"bytes"`
	Allocs float64 `json:"allocs"`
}

// clock is a way to tell how much time has passed.
type clock struct {
	name string
	now  func() time.Duration
}

func elapsedClock() clock {
	start := time.Now()
	return clock{"elapsed", func() time.Duration { return time.Since(start) }}
}

// processorClock counts what this process computes, in all threads. It does not
// notice what else the machine is doing.
func processorClock() clock {
	return clock{"processor", func() time.Duration {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			panic(err) // not for this argument
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}}
}

// meter says how long to measure, and by which clock.
type meter struct {
	rounds int
	round  time.Duration
	clock  clock
}

// measure runs the functions in turns, so that whatever else the machine does
// meets all of them alike, and returns the median round of each.
func (m meter) measure(fns ...func()) []cost {
	calls := make([]int, len(fns))
	for i, fn := range fns {
		calls[i] = m.calibrate(fn)
	}
	rounds := make([][]cost, len(fns))
	for range m.rounds {
		for i, fn := range fns {
			rounds[i] = append(rounds[i], m.call(fn, calls[i]))
		}
	}
	medians := make([]cost, len(fns))
	for i, r := range rounds {
		medians[i] = cost{
			NS:     median(r, func(c cost) float64 { return c.NS }),
			Bytes:  median(r, func(c cost) float64 { return c.Bytes }),
			Allocs: median(r, func(c cost) float64 { return c.Allocs }),
		}
	}
	return medians
}

// calibrate finds the number of calls that fills a round. It also warms up
// caches and pools.
func (m meter) calibrate(fn func()) int {
	for n := 1; ; n *= 4 {
		start := m.clock.now()
		for range n {
			fn()
		}
		if took := m.clock.now() - start; took >= m.round/4 {
			return max(1, int(float64(n)*float64(m.round)/float64(took)))
		}
	}
}

// call calls fn n times, with the garbage of others collected before. Collecting
// empties pools, so that one call more is needed to fill them again.
func (m meter) call(fn func(), n int) cost {
	runtime.GC()
	fn()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := m.clock.now()
	for range n {
		fn()
	}
	took := m.clock.now() - start
	runtime.ReadMemStats(&after)
	return cost{
		NS:     float64(took.Nanoseconds()) / float64(n),
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
	}
}

func median[T any](values []T, of func(T) float64) float64 {
	sorted := slices.SortedFunc(slices.Values(values), func(a, b T) int { return cmp.Compare(of(a), of(b)) })
	return of(sorted[len(sorted)/2])
}
