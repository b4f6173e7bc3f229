package report

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/spool"
	"espalier.dev/internal/yamlx"
)

// TestManyFindings writes 100,000 findings in each format. Memory use must not grow with their
// number, and with a limit the counts stay right.
func TestManyFindings(t *testing.T) {
	for _, format := range Formats() {
		for _, most := range []int{0, 10} {
			t.Run(fmt.Sprintf("%s %d", format, most), func(t *testing.T) {
				n := 100_000
				if testing.Short() || format == "yaml" {
					n = 5_000 // YAML takes long to write
				}
				r, err := New(Options{Outputs: []string{format}, Stdout: io.Discard, MaxFindings: most, Semantics: "kep"})
				if err != nil {
					t.Fatal(err)
				}
				var live []uint64
				for i := range n {
					r.Add(Finding{
						Finding: analysis.Finding{Rule: "rule", Severity: analysis.Warning, Path: "spec.field", Pointer: "/spec/field", Message: fmt.Sprintf("finding %d", i), Detail: []string{"more"}},
						Object:  input.Identity{APIVersion: "example.com/v1", Kind: "CronTab", Namespace: "default", Name: fmt.Sprint(i)},
						File:    "objects.yaml", Span: yamlx.Position{Line: i + 1, Column: 3, EndLine: i + 1, EndColumn: 8}, Source: input.Excerpt{Text: "  field: value"},
					})
					if (i+1)%(n/10) == 0 {
						runtime.GC()
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						live = append(live, m.HeapAlloc)
					}
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				// The findings take more than 100 bytes each.
				if first, last := live[0], slices.Max(live); last > first+2*spool.Memory+uint64(n)*20 {
					t.Errorf("%d KB in use after all findings, %d KB after a tenth of them: %v", last>>10, first>>10, live)
				}
				want := 0
				if most > 0 {
					want = n - most
				}
				if s, omitted := r.Summary(), r.sinks[0].omitted; s.Warnings != n || omitted != want {
					t.Errorf("got %+v, omitted %d", s, omitted)
				}
			})
		}
	}
}
