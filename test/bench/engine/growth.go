package main

import (
	"context"
	"fmt"

	"espalier.dev/internal/testcase"
)

// growthRow is the cost per unit at one size. If the cost is linear, the numbers of a
// dimension are the same in all rows.
type growthRow struct {
	Dimension string `json:"dimension"`
	Factor    int    `json:"factor"`
	// Properties and Bytes are the sizes of the schema and the object.
	Properties int `json:"properties"`
	Bytes      int `json:"bytes"`
	// Unit is the unit of Validate, Units the number of units.
	Unit  string `json:"unit"`
	Units int    `json:"units"`
	// Decode is nanoseconds per byte, Validate per unit, Compile per property.
	Decode   float64 `json:"decodeNS"`
	Validate float64 `json:"validateNS"`
	Compile  float64 `json:"compileNS"`
}

// dimension is a way to grow.
type dimension struct {
	name string
	unit string
	// make returns the case for a factor, and its units; zero means the bytes of the object.
	make func(factor int) (c testcase.Case, units int)
}

const (
	growthBranches = 4
	growthItems    = 16
)

func dimensions() []dimension {
	return []dimension{
		{"object", "byte", func(k int) (testcase.Case, int) {
			return testcase.LogicalOperators(growthBranches, growthItems*k), 0
		}},
		{"schema, same object", "byte", func(k int) (testcase.Case, int) {
			c := testcase.Sections(k, growthItems)
			c.Object = testcase.Sections(1, growthItems).Object
			return c, 0
		}},
		{"schema and object", "byte", func(k int) (testcase.Case, int) {
			return testcase.Sections(k, growthBranches), 0
		}},
		{"logical operator branches", "branch", func(k int) (testcase.Case, int) {
			return testcase.LogicalOperators(growthBranches*k, growthItems), growthBranches * k * growthItems
		}},
	}
}

// measureGrowth measures only ours, at 1 to 64 times the size.
func measureGrowth(m meter) ([]growthRow, error) {
	ctx := context.Background()
	var rows []growthRow
	for _, d := range dimensions() {
		for k := 1; k <= 64; k *= 2 {
			c, units := d.make(k)
			properties, err := testcase.Properties(c.Schema)
			if err != nil {
				return nil, err
			}
			if units == 0 {
				units = len(c.Object)
			}
			s, err := newOurs(c.Schema)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			obj, err := s.decode(c.Object)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			if errs := s.validate(ctx, obj); len(errs) > 0 {
				return nil, fmt.Errorf("%s: the object is not valid: %w", c.Name, errs.ToAggregate())
			}
			costs := m.measure(
				func() { s.decode(c.Object) },
				func() { s.validate(ctx, obj) },
				func() { s.compile() },
			)
			rows = append(rows, growthRow{
				Dimension: d.name, Factor: k, Properties: properties, Bytes: len(c.Object), Unit: d.unit, Units: units,
				Decode:   costs[0].NS / float64(len(c.Object)),
				Validate: costs[1].NS / float64(units),
				Compile:  costs[2].NS / float64(properties),
			})
		}
	}
	return rows, nil
}
