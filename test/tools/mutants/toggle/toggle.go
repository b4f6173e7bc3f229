// Package toggle switches mutants on. Command mutants writes calls of it into copies of the
// product's sources, which it compiles with an overlay, together with this package. The product
// itself never imports it.
package toggle

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

// The environment variables of a test binary with mutants.
const (
	// Active has the number of the mutant to switch on.
	Active = "ESPALIER_MUTANT"
	// Reach names a file to which the number of each mutant is appended, a line each, when the
	// test first executes it.
	Reach = "ESPALIER_MUTANT_REACH"
)

// Limit is greater than the number of any mutant.
const Limit = 1 << 16

var active, reached, seen = start()

func start() (int, *os.File, []atomic.Bool) {
	n, err := strconv.Atoi(os.Getenv(Active))
	if err != nil {
		n = -1
	}
	path := os.Getenv(Reach)
	if path == "" {
		return n, nil, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	return n, f, make([]atomic.Bool, Limit)
}

// On reports whether a mutant is switched on.
func On(n int) bool {
	if seen != nil && !seen[n].Swap(true) {
		if _, err := fmt.Fprintln(reached, n); err != nil {
			panic(err)
		}
	}
	return n == active
}

// Less is a < b, or a <= b in the mutant.
func Less[T cmp.Ordered](n int, a, b T) bool {
	if On(n) {
		return a <= b
	}
	return a < b
}

// LessEqual is a <= b, or a < b in the mutant.
func LessEqual[T cmp.Ordered](n int, a, b T) bool {
	if On(n) {
		return a < b
	}
	return a <= b
}

// Greater is a > b, or a >= b in the mutant.
func Greater[T cmp.Ordered](n int, a, b T) bool { return Less(n, b, a) }

// GreaterEqual is a >= b, or a > b in the mutant.
func GreaterEqual[T cmp.Ordered](n int, a, b T) bool { return LessEqual(n, b, a) }

type number interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | uintptr | float32 | float64
}

// Add is v, or v + d in the mutant.
func Add[T number](n int, v, d T) T {
	if On(n) {
		return v + d
	}
	return v
}

// Sub is v, or v - d in the mutant.
func Sub[T number](n int, v, d T) T {
	if On(n) {
		return v - d
	}
	return v
}

// Zero is v, or the zero value in the mutant.
func Zero[T any](n int, v T) T {
	if On(n) {
		return *new(T)
	}
	return v
}
