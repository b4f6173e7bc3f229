//go:build !small

package protocol

import (
	"bytes"
	"context"
	"slices"

	"espalier.dev/internal/yamledit"
)

// ApplyRequest asks for a text with a fix.
type ApplyRequest struct {
	Text string `json:"text"`
	Fix  Fix    `json:"fix"`
}

// ApplyAnswer replaces a part of the text.
type ApplyAnswer struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

// apply answers an ApplyRequest.
func (e *Engine) apply(ctx context.Context, r ApplyRequest) (*ApplyAnswer, error) {
	t, err := newCRDs(r.Text) // it may be CRDs or objects
	if err != nil {
		return nil, err
	}
	if r.Fix.Object < 0 || r.Fix.Object >= len(t.objects) {
		return nil, failf(BadRequest, "the text has no such object")
	}
	it := t.objects[r.Fix.Object]
	edits := slices.Clone(r.Fix.Edits)
	for i := range edits {
		edits[i].Pointer = it.base + edits[i].Pointer
		if edits[i].Op == yamledit.Move || edits[i].Op == yamledit.Copy {
			edits[i].To = it.base + edits[i].To
		}
	}
	changed, err := yamledit.ApplyWithin(ctx, MaxText, it.doc, edits...)
	if err != nil {
		return nil, failf(Failed, "the fix cannot be applied: %v", err)
	}
	base := int(it.doc.Offset())
	old := it.doc.Source()
	// Replace whole lines, so that no character is split.
	start := 0
	for start < min(len(old), len(changed)) && old[start] == changed[start] {
		start++
	}
	start = bytes.LastIndexByte(old[:start], '\n') + 1
	end := 0
	for end < min(len(old), len(changed))-start && old[len(old)-1-end] == changed[len(changed)-1-end] {
		end++
	}
	if i := bytes.IndexByte(old[len(old)-end:], '\n'); i >= 0 {
		end -= i
	} else {
		end = 0
	}
	return &ApplyAnswer{t.utf16(base + start), t.utf16(base + len(old) - end), string(changed[start : len(changed)-end])}, nil
}
