package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/jsonx"
)

// reportOthers reports the CRDs that define the same kind as the one in use and differ from it,
// once for each kind. It is not safe for concurrent use.
func (ds *definitions) reportOthers(r *report.Reporter, used *definition) {
	if ds.told[used.kind] {
		return
	}
	ds.told[used.kind] = true
	others := ds.Others(used)
	if len(others) == 0 {
		return
	}
	which := "each object uses the CRD closest to its file, test data last; select one with --crd"
	if len(ds.Of(used.kind)) > 0 {
		which = "each object uses the first CRD of --crd that serves its version"
	}
	for _, d := range others {
		if d.shape() == used.shape() {
			continue
		}
		it := d.item()
		d.using.Lock()
		f := severalFinding(used, ", and differs: "+which)
		f.Severity = analysis.Warning
		r.Report(it, f)
		d.using.Unlock()
	}
}

// newShape returns a checksum of what decides about objects of the CRD, or zero if it cannot be
// read: its specification without descriptions and conversion.
func (d *definition) newShape() (sum [sha256.Size]byte) {
	hub, err := d.hub()
	if err != nil {
		return sum
	}
	hub.Spec.Conversion = nil
	text, err := json.Marshal(hub.Spec)
	if err != nil {
		return sum
	}
	spec, err := jsonx.Parse(text)
	if err != nil {
		return sum
	}
	dropDescriptions(spec)
	shape, err := jsonx.Append(nil, spec)
	if err != nil {
		return sum
	}
	return sha256.Sum256(shape)
}

// dropDescriptions removes the descriptions of schemas. The value of a property with this name is
// no string.
func dropDescriptions(value any) {
	switch value := value.(type) {
	case map[string]any:
		if _, ok := value["description"].(string); ok {
			delete(value, "description")
		}
		for _, member := range value {
			dropDescriptions(member)
		}
	case []any:
		for _, item := range value {
			dropDescriptions(item)
		}
	}
}

// overridden returns the finding about a CRD in the input that is not used, because --crd
// names one for the same kind.
func (ds *definitions) overridden(it *input.Item) []analysis.Finding {
	used := ds.Of(lookup.Defined(it.JSON))
	if len(used) == 0 || slices.ContainsFunc(used, func(d *definition) bool { return d.sum == it.Sum() }) {
		return nil
	}
	return []analysis.Finding{severalFinding(used[0], ": CRDs of --crd take precedence over those in the input")}
}

// severalFinding returns the finding for a CRD of the same kind as the one in use.
func severalFinding(used *definition, which string) analysis.Finding {
	definition := used.item()
	used.using.Lock()
	at := report.At(definition, analysis.Finding{})
	used.using.Unlock()
	return analysis.Finding{
		Rule: ruleSeveral, Severity: analysis.Info, Path: "spec.names.kind", Pointer: "/spec/names/kind",
		Message: fmt.Sprintf("%s in group %s is also defined by the CRD in %s, line %d%s",
			used.kind.Kind, used.kind.Group, at.File, at.Span.Line, which),
	}
}
