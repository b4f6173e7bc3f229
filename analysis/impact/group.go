package impact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis"
)

// Equality identifies a change without its place. Changes with the same one are equal: a
// CustomResourceDefinition repeats the same struct in many fields, and a set of them in many
// CRDs. The zero value stands for a finding that is equal to no other.
type Equality struct {
	// Rule is the rule of the finding, so the class of a change.
	Rule string
	// Kind names the difference. Subject is the name of a property that was added or removed,
	// which is part of such a change.
	Kind, Subject string
	// Message describes the change. Values are the values that it shows in full length.
	Message, Values string
	// Objects has the field and the objects that the change affects. Changes that affect objects
	// are equal only in several versions of one field, so that every object is named.
	Objects string
}

// equality returns the identity of a change of a class. Changes of the CRD as a whole that may
// affect stored objects stand alone.
func (c *Change) equality(class Class) Equality {
	if !c.inSchema && class >= Invalid {
		return Equality{}
	}
	e := Equality{Rule: class.ID(), Kind: c.Kind, Message: strings.TrimPrefix(c.Message, c.prefix), Values: c.values}
	if strings.HasPrefix(c.Kind, "property-") {
		e.Subject = FieldPath(c.Path[len(c.Path)-1:])
	}
	return e
}

// Compare returns a negative number if f comes before g, the worst first: by severity, then
// findings with affected objects, then by class.
func (f *Finding) Compare(g *Finding) int {
	unaffected := func(f *Finding) int {
		if f.Affected > 0 {
			return 0
		}
		return 1
	}
	rank := func(f *Finding) Class {
		switch f.Rule {
		case RuleRefused:
			return Loses + 1
		case RuleRevealed:
			return Unknown
		}
		return f.Class
	}
	return cmp.Or(f.Severity.Compare(g.Severity), cmp.Compare(unaffected(f), unaffected(g)), cmp.Compare(rank(g), rank(f)))
}

// Group returns findings in groups of equal ones, the worst first. Findings of the same rank keep
// their order.
func Group(findings []Finding) (groups [][]Finding) {
	findings = slices.Clone(findings)
	slices.SortStableFunc(findings, func(f, g Finding) int { return f.Compare(&g) })
	known := map[Equality]int{}
	for _, f := range findings {
		i, ok := known[f.Equal]
		if !ok || f.Equal == (Equality{}) {
			i = len(groups)
			groups = append(groups, nil)
			known[f.Equal] = i
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// Place is a field of a CRD, or a CRD as a whole, with the versions in which it changes alike.
type Place struct {
	CRD, Field string
	Versions   []string
	// First is the first finding about the field, if possible one about a single version.
	First Finding
}

// String returns the versions and the field.
func (p *Place) String() string { return placeOf(strings.Join(p.Versions, ", "), p.Field) }

// Places returns the places of equal findings, each once.
func Places(findings []Finding) (places []Place) {
	index := map[[2]string]int{}
	for _, f := range findings {
		key := [2]string{f.CRD, f.Field}
		i, ok := index[key]
		if !ok {
			i = len(places)
			index[key] = i
			places = append(places, Place{CRD: f.CRD, Field: f.Field, First: f})
		}
		p := &places[i]
		if f.Version != "" {
			p.Versions = append(p.Versions, f.Version)
		}
		if p.First.moves && !f.moves {
			p.First = f
		}
	}
	for i := range places {
		// A version comes before the step from it to another one, which starts with its name.
		slices.Sort(places[i].Versions)
		places[i].Versions = slices.Compact(places[i].Versions)
	}
	return places
}

// Merge returns one finding that stands for equal ones, of which there must be at least one. It
// has the pointers of the first place.
func Merge(findings []Finding) Finding {
	places := Places(findings)
	f := places[0].First
	if len(findings) == 1 {
		return f
	}
	crds, sameField, sameVersions := map[string]bool{}, true, true
	for i := range places {
		crds[places[i].CRD] = true
		sameField = sameField && places[i].Field == f.Field
		sameVersions = sameVersions && slices.Equal(places[i].Versions, places[0].Versions)
	}
	f.Path = ""
	if sameField {
		f.Path = f.Field
		if sameVersions {
			f.Path = places[0].String()
		}
	}
	if len(places) == 1 {
		// What differs between versions is worth reading.
		for _, g := range findings {
			for _, line := range g.Detail {
				if !slices.Contains(f.Detail, line) {
					f.Detail = append(slices.Clip(f.Detail), line)
				}
			}
		}
		return f
	}
	f.Detail = commonDetails(findings)
	what := f.Equal.Message
	if f.Equal.Subject != "" && !sameField {
		what = f.Equal.Subject + " " + what
	}
	of := analysis.Plural(len(crds), "CRD")
	switch {
	case sameField:
		what += ", in " + of
	case len(crds) == 1:
		what += ", in " + analysis.Plural(len(places), "field")
	default:
		what += fmt.Sprintf(", in %s of %s", analysis.Plural(len(places), "field"), of)
	}
	f.Message = f.head + what
	return f
}

// commonDetails returns the details that all findings have. What is said about updates of objects
// names the field, so it differs.
func commonDetails(findings []Finding) (lines []string) {
	lenient := 0
	for _, f := range findings {
		for _, line := range f.Detail {
			if strings.HasPrefix(line, unlessChanged) {
				lenient++
			}
		}
	}
	for _, line := range findings[0].Detail {
		if strings.HasPrefix(line, unlessChanged) && lenient == len(findings) {
			line = unlessChanged + "the field, or a list that it is in"
		} else if slices.ContainsFunc(findings, func(f Finding) bool { return !slices.Contains(f.Detail, line) }) {
			continue
		}
		lines = append(lines, line)
	}
	return lines
}
