package report

import (
	"slices"

	"espalier.dev/analysis"
)

// AddGroup reports findings of one severity that formats for people show as one. merge returns the
// one that stands for those with some indices: at least two, in ascending order. The others are
// suppressed.
func (r *Reporter) AddGroup(group []Finding, merge func(indices []int) Finding) {
	var indices []int
	for i := range group {
		f := &group[i]
		if r.options.Filter != nil && !f.Failed {
			var ok bool
			if *f, ok = r.options.Filter(*f); !ok {
				r.summary.Suppressed++
				continue
			}
		}
		if r.admit(f) {
			indices = append(indices, i)
		}
	}
	if len(indices) < 2 {
		for _, i := range indices {
			r.write(&group[i], nil)
		}
		return
	}
	first := &group[indices[0]]
	merged := merge(indices)
	merged.Severity, merged.Section = first.Severity, first.Section
	r.groups[first.Severity]++
	r.grouped[first.Severity] += len(indices)
	people, programs := true, false
	r.write(&merged, &people)
	for _, i := range indices {
		r.write(&group[i], &programs)
	}
}

// AddMember reports a finding that is one of many: only formats for programs list it, at once, so
// that it need not be kept. Formats for people list the finding that AddMerged reports for all of
// them. It returns false if the finding is suppressed, or not reported because of its severity.
func (r *Reporter) AddMember(f Finding) bool {
	if r.options.Filter != nil && !f.Failed {
		var ok bool
		if f, ok = r.options.Filter(f); !ok {
			r.summary.Suppressed++
			return false
		}
	}
	if !r.admit(&f) {
		return false
	}
	r.grouped[f.Severity]++
	people := false
	r.write(&f, &people)
	return true
}

// AddMerged reports a finding that stands for members.
func (r *Reporter) AddMerged(f Finding) {
	f.Section = r.section
	r.groups[f.Severity]++
	people := true
	r.write(&f, &people)
}

// ungroup counts each group as one finding, and says so.
func (r *Reporter) ungroup(s *Summary) {
	shown, of := 0, 0
	for severity, count := range map[analysis.Severity]*int{
		analysis.Error: &s.Errors, analysis.Warning: &s.Warnings, analysis.Info: &s.Infos,
	} {
		*count -= r.grouped[severity] - r.groups[severity]
		shown, of = shown+r.groups[severity], of+r.grouped[severity]
	}
	if shown > 0 && r.options.Grouped != nil {
		s.Notes = append(slices.Clip(s.Notes), r.options.Grouped(shown, of))
	}
}
