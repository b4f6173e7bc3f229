package main

import "context"

// row is one operation on one case.
type row struct {
	Case      string  `json:"case"`
	Operation string  `json:"operation"`
	Reference cost    `json:"reference"`
	Ours      cost    `json:"ours"`
	Ratio     ratio   `json:"ratio"`
	Target    *target `json:"target,omitempty"`
}

// ratio is the reference's cost divided by ours; absent if ours is zero.
type ratio struct {
	Time   *float64 `json:"time,omitempty"`
	Bytes  *float64 `json:"bytes,omitempty"`
	Allocs *float64 `json:"allocs,omitempty"`
}

// target is the performance goal. Zero means no goal.
type target struct {
	// Time and Bytes are the minimum ratios.
	Time  float64 `json:"time,omitempty"`
	Bytes float64 `json:"bytes,omitempty"`
	// NoAllocs requires zero allocations.
	NoAllocs bool `json:"noAllocs,omitempty"`
}

// metBy reports whether a row reaches the target.
func (t *target) metBy(r row) bool {
	atLeast := func(ratio *float64, least float64) bool { return least == 0 || ratio == nil || *ratio >= least }
	return atLeast(r.Ratio.Time, t.Time) && atLeast(r.Ratio.Bytes, t.Bytes) && (!t.NoAllocs || isNothing(r.Ours.Allocs))
}

// isNothing reports whether n is zero, apart from the few allocations that the runtime makes
// during a measurement.
func isNothing(n float64) bool { return n < 0.5 }

func newRatio(reference, ours cost) ratio {
	divide := func(a, b float64) *float64 {
		if isNothing(b) {
			return nil
		}
		q := a / b
		return &q
	}
	r := ratio{Time: divide(reference.NS, ours.NS), Allocs: divide(reference.Allocs, ours.Allocs)}
	if r.Allocs != nil {
		r.Bytes = divide(reference.Bytes, ours.Bytes)
	}
	return r
}

// operation is an operation that both sides support. A call applies it to all objects of the
// case.
type operation struct {
	name string
	// call binds the operation to a side. trees are the valid objects of the case.
	call func(s side, in *input, trees []map[string]any) func()
	// needsTrees skips the operation if no object is valid.
	needsTrees bool
	// target returns the target for a case, or nil.
	target func(caseName string) *target
}

func always(t target) func(string) *target {
	return func(string) *target { return &t }
}

func never(string) *target { return nil }

// each calls f with every source.
func each(sources [][]byte, f func(src []byte)) func() {
	return func() {
		for _, src := range sources {
			f(src)
		}
	}
}

// operations are the rows of a case. They ignore errors: prepare has checked that both sides
// return the same ones, or none.
func operations() []operation {
	ctx := context.Background()
	return []operation{
		{
			name: "whole chain",
			call: func(s side, in *input, _ []map[string]any) func() {
				return each(in.sources, func(src []byte) {
					obj, _ := s.decode(src)
					s.validate(ctx, obj)
				})
			},
			target: func(name string) *target {
				switch name {
				case "medium":
					return &target{Time: 15, Bytes: 8}
				case "big":
					return &target{Time: 12, Bytes: 8}
				}
				return nil
			},
		},
		{
			name: "create, one call",
			call: func(s side, in *input, _ []map[string]any) func() {
				return func() {
					for _, obj := range in.parsed {
						s.create(ctx, obj)
					}
				}
			},
			target: always(target{Time: 8}),
		},
		{
			name: "decode alone",
			call: func(s side, in *input, _ []map[string]any) func() {
				return each(in.sources, func(src []byte) { s.decode(src) })
			},
			target: never,
		},

		{
			name: "validate, valid",
			call: func(s side, _ *input, trees []map[string]any) func() {
				return func() {
					for _, obj := range trees {
						s.validate(ctx, obj)
					}
				}
			},
			needsTrees: true,
			target:     always(target{Time: 30, NoAllocs: true}),
		},
		{
			name: "prune, clean tree",
			call: func(s side, _ *input, trees []map[string]any) func() {
				return func() {
					for _, obj := range trees {
						s.prune(obj)
					}
				}
			},
			needsTrees: true,
			target:     always(target{Time: 15, NoAllocs: true}),
		},

		{
			name: "schema to program",
			call: func(s side, _ *input, _ []map[string]any) func() {
				return func() { s.compile() }
			},
			target: always(target{Time: 1}),
		},
	}
}

func measureCase(m meter, in *input) []row {
	var rows []row
	for _, op := range operations() {
		if op.needsTrees && len(in.oursTrees) == 0 {
			continue
		}
		costs := m.measure(
			op.call(in.reference, in, in.referenceTrees),
			op.call(in.ours, in, in.oursTrees),
		)
		rows = append(rows, row{
			Case:      in.name,
			Operation: op.name,
			Reference: costs[0],
			Ours:      costs[1],
			Ratio:     newRatio(costs[0], costs[1]),
			Target:    op.target(in.name),
		})
	}
	return rows
}
