package protocol

import (
	"cmp"
	"slices"

	"espalier.dev/analysis"
)

// maxFindings is the maximum number of findings about an object or a CRD.
const maxFindings = 500

// Finding is a finding with its position in the text of the request.
type Finding struct {
	Rule     string            `json:"rule"`
	Severity analysis.Severity `json:"severity"`
	Path     string            `json:"path,omitempty"`
	Pointer  string            `json:"pointer,omitempty"`
	Message  string            `json:"message"`
	Detail   []string          `json:"detail,omitempty"`
	// Range is its position. It is nil if it has none.
	Range *Range `json:"range,omitempty"`
	// Schema is the schema that causes a finding about an object, with its position in the CRDs.
	Schema *Place `json:"schema,omitempty"`
	// Fixes are alternative fixes, the best first.
	Fixes []Fix `json:"fixes,omitempty"`
}

// Place is a place in the text of the CRDs.
type Place struct {
	Path  string `json:"path"`
	Range *Range `json:"range,omitempty"`
}

// Fix is a fix for a finding. The request apply makes it.
type Fix struct {
	Message string `json:"message"`
	// Object is the index of the object in the text, and Edits are relative to it.
	Object int             `json:"object"`
	Edits  []analysis.Edit `json:"edits"`
}

// finding converts a finding about an object.
func (it *item) finding(f analysis.Finding) Finding {
	out := Finding{Rule: f.Rule, Severity: f.Severity, Path: f.Path, Pointer: f.Pointer, Message: f.Message, Detail: f.Detail,
		Range: it.at(f.Pointer, f.Part)}
	if f.Schema != nil {
		out.Schema = &Place{Path: f.Schema.Path}
	}
	if f.Fix != nil && len(f.Fix.Edits) > 0 {
		out.Fixes = []Fix{{f.Fix.Message, slices.Index(it.text.objects, it), f.Fix.Edits}}
	}
	return out
}

// sorted sorts findings by position. Those about a document as a whole come last. It returns no more
// than maxFindings.
func sorted(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		whole := func(f *Finding) int {
			if f.Path == "" {
				return 1
			}
			return 0
		}
		line := func(f *Finding) int {
			if f.Range == nil {
				return 0
			}
			return f.Range.Start
		}
		return cmp.Or(cmp.Compare(whole(&a), whole(&b)), cmp.Compare(line(&a), line(&b)))
	})
	return findings[:min(len(findings), maxFindings)]
}
