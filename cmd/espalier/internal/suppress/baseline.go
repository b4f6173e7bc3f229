package suppress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/yamlx"
)

// RuleStale is the rule for a baseline with findings that no longer occur.
const RuleStale = "stale-baseline"

// known compares findings with a baseline.
type known struct {
	baseline *config.Baseline
	command  string
	// counts holds the number of findings that are still expected or, if the baseline is
	// written, the number of findings so far.
	counts map[config.Known]int
	// objects holds the objects of the baseline, and whether they were checked.
	objects map[string]bool
	write   bool
}

func newKnown(b *config.Baseline, command string, write bool) *known {
	k := &known{baseline: b, command: command, counts: map[config.Known]int{}, objects: map[string]bool{"": true}, write: write}
	if write {
		return k
	}
	for _, entry := range b.Commands[command] {
		k.counts[entry.Key()] += entry.Count
		if entry.Object != "" {
			k.objects[entry.Object] = false
		}
	}
	return k
}

// keyOf returns what identifies a finding in a baseline.
func keyOf(f *report.Finding) config.Known {
	// The paths of diff start with the CRD if there are several.
	return config.Known{Rule: f.Rule, Object: objectName(f.Object), Path: strings.TrimPrefix(f.Path, f.Object.Name+": ")}
}

// objectName returns the name of an object without its version, which may change.
func objectName(id input.Identity) string {
	if id == (input.Identity{}) {
		return ""
	}
	group, _, ok := strings.Cut(id.APIVersion, "/")
	if !ok {
		group = ""
	}
	return strings.Trim(id.Kind+"."+group, ".") + " " + id.FullName()
}

// has reports whether a finding is known. Each known finding counts once. doc is the document of
// the finding, or nil.
func (k *known) has(f *report.Finding, doc *yamlx.Document) bool {
	indexed := keyOf(f)
	key := indexed
	key.Path = NameVersion(key.Path, f.Pointer, doc)
	if k.write {
		k.counts[key]++
		return true
	}
	// Baselines had the indexes of versions before.
	for _, key := range []config.Known{key, indexed} {
		if k.counts[key] > 0 {
			k.counts[key]--
			return true
		}
	}
	return false
}

// NameVersion returns the path of a field of a CRD with the name of the version in place of its
// index, which changes when another version is added or removed: spec.versions[v1].schema.
// pointer is the same path as a pointer into the document.
func NameVersion(path, pointer string, doc *yamlx.Document) string {
	const versions = "spec.versions["
	rest, isVersion := strings.CutPrefix(path, versions)
	index, rest, _ := strings.Cut(rest, "]")
	if _, err := strconv.Atoi(index); !isVersion || err != nil || doc == nil {
		return path
	}
	base, _, found := strings.Cut(pointer, "/spec/versions/"+index)
	if !found {
		return path
	}
	at := doc.Find(jsonptr.Child(base, "spec", "versions", index, "name"))
	if !at.Exact {
		return path
	}
	name := strings.Trim(string(doc.Source()[at.Value.Offset:at.Value.EndOffset]), `"'`)
	if name == "" || strings.ContainsAny(name, " *&!\n[]") {
		return path
	}
	return versions + name + "]" + rest
}

func (k *known) saw(id input.Identity) {
	name := objectName(id)
	if _, ok := k.objects[name]; ok {
		k.objects[name] = true
	}
}

// stale returns a finding about known findings of checked objects that did not occur, or
// none. Findings of rules that are off cannot occur.
func (k *known) stale(off func(rule string) bool) []report.Finding {
	if k.write {
		return nil
	}
	var gone []config.Known
	total, at := 0, 0
	for _, entry := range k.baseline.Commands[k.command] {
		key := entry.Key()
		if n := k.counts[key]; n > 0 && k.objects[entry.Object] && !off(entry.Rule) {
			k.counts[key] = 0
			total += n
			gone = append(gone, key)
			if at == 0 {
				at = entry.Line
			}
		}
	}
	if total == 0 {
		return nil
	}
	f := report.Finding{File: k.baseline.Path, Span: yamlx.Position{Line: at, Column: 1}, Finding: analysis.Finding{
		Rule: RuleStale, Severity: analysis.Info,
		Message: analysis.Plural(total, "known finding") + " did not occur: update the baseline with --write-baseline",
	}}
	const most = 3
	for i, key := range gone {
		if i == most {
			f.Detail = append(f.Detail, fmt.Sprintf("and %d more", len(gone)-most))
			break
		}
		f.Detail = append(f.Detail, strings.Join(slices.DeleteFunc([]string{key.Object, key.Path,
			key.Rule}, func(s string) bool { return s == "" }), ": "))
	}
	return []report.Finding{f}
}

// save writes the findings to the baseline. It returns their number.
func (k *known) save() (int, error) {
	entries, total := []config.Known{}, 0
	for key, n := range k.counts {
		key.Count = n
		total += n
		entries = append(entries, key)
	}
	k.baseline.Commands[k.command] = entries
	return total, k.baseline.Write()
}
