package main

import (
	"cmp"
	"runtime"
	"slices"
	"time"
)

// cost is the cost of one call.
type cost struct {
	NS     float64 `json:"ns"`
	Bytes  float64 `json:"bytes"`
	Allocs float64 `json:"allocs"`
}

// meter configures a measurement.
type meter struct {
	rounds int
	round  time.Duration
}

// measure runs the functions in turns, so that the load of the machine affects all of them
// equally, and returns the median round of each.
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

// calibrate returns the number of calls that fill a round. It also warms up caches and pools.
func (m meter) calibrate(fn func()) int {
	for n := 1; ; n *= 4 {
		start := time.Now()
		for range n {
			fn()
		}
		if took := time.Since(start); took >= m.round/4 {
			return max(1, int(float64(n)*float64(m.round)/float64(took)))
		}
	}
}

// call calls fn n times after a garbage collection. The collection empties pools, so one
// extra call fills them again.
func (m meter) call(fn func(), n int) cost {
	runtime.GC()
	fn()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range n {
		fn()
	}
	took := time.Since(start)
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
