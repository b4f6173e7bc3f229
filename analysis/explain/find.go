package explain

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"espalier.dev/crd"
	"espalier.dev/internal/nearest"
)

// Find finds the resource that request names: its plural, singular, kind or a short name, in
// any case, optionally followed by its group and by fields. It returns the version to
// explain and the path of the field, which is "" for the resource itself.
//
// apiVersion selects the version, as group/version or as the version alone. If it is empty,
// Find selects the version that clients prefer: the most mature served one.
//
// Of two CRDs with the same name the later one applies, as in a crd.Catalog.
func Find(definitions []*crd.Definition, request, apiVersion string) (v *crd.Version, path string, err error) {
	name, rest, _ := strings.Cut(request, ".")
	group, wanted, hasGroup := strings.Cut(apiVersion, "/")
	if !hasGroup {
		group, wanted = "", apiVersion
	}
	var found []*crd.Definition
	inGroup := -1
	for _, d := range definitions {
		if !slices.ContainsFunc(namesOf(d), func(n string) bool { return strings.EqualFold(n, name) }) || group != "" && d.Group() != group {
			continue
		}
		// A field may have the name of the first label of a group, so the longest group wins.
		n := 0
		if rest == d.Group() || strings.HasPrefix(rest, d.Group()+".") {
			n = len(d.Group())
		}
		if n > inGroup {
			found, inGroup = nil, n
		}
		if n == inGroup {
			found = slices.DeleteFunc(found, func(other *crd.Definition) bool { return other.Name() == d.Name() })
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		e := &UnknownResourceError{Name: name, Group: group, Nearest: nearest.Name(name, allNames(definitions)), Known: plurals(definitions)}
		if strings.EqualFold(e.Nearest, name) {
			// The group is wrong, not the name.
			e.Nearest = ""
		}
		return nil, "", e
	case 1:
	default:
		return nil, "", fmt.Errorf("%q matches several resources: use one of %s", name, strings.Join(plurals(found), ", "))
	}
	if inGroup > 0 {
		rest = strings.TrimPrefix(rest[inGroup:], ".")
	}
	v, err = versionOf(found[0], wanted)
	return v, rest, err
}

// versionOf returns the named version, or the preferred one if name is empty.
func versionOf(d *crd.Definition, name string) (*crd.Version, error) {
	versions := d.Versions()
	if name != "" {
		if v := d.Version(name); v != nil {
			return v, nil
		}
		var known []string
		for _, v := range versions {
			known = append(known, v.Name())
		}
		return nil, fmt.Errorf("%s has no version %q: it has %s", d.Name(), name, strings.Join(known, ", "))
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("%s has no versions", d.Name())
	}
	return slices.MaxFunc(versions, func(a, b *crd.Version) int {
		if a.Served() != b.Served() {
			if a.Served() {
				return 1
			}
			return -1
		}
		return version.CompareKubeAwareVersionStrings(a.Name(), b.Name())
	}), nil
}

// namesOf returns all names of a resource.
func namesOf(d *crd.Definition) []string {
	n := d.Names()
	names := []string{n.Plural, n.Kind, strings.ToLower(n.Kind)}
	if n.Singular != "" {
		names = append(names, n.Singular)
	}
	return append(names, n.ShortNames...)
}

func allNames(definitions []*crd.Definition) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range definitions {
			for _, n := range namesOf(d) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

func plurals(definitions []*crd.Definition) (names []string) {
	for _, d := range definitions {
		names = append(names, d.GroupResource().String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// UnknownResourceError is returned if no CRD defines the requested resource.
type UnknownResourceError struct {
	Name string
	// Group is the requested group, or "".
	Group string
	// Nearest is the most similar name, or "".
	Nearest string
	// Known are the existing resources with their groups.
	Known []string
}

// Error names the unknown resource and the nearest known one.
func (e *UnknownResourceError) Error() string {
	text := fmt.Sprintf("no CRD defines a resource %q", e.Name)
	if e.Group != "" {
		text += fmt.Sprintf(" in group %q", e.Group)
	}
	return text + hint(e.Nearest, e.Known)
}

// hint completes an error about an unknown name.
func hint(nearest string, known []string) string {
	const most = 12
	switch {
	case nearest != "":
		return fmt.Sprintf(": did you mean %q?", nearest)
	case len(known) == 0:
		return ""
	case len(known) > most:
		return fmt.Sprintf(": there are %s and %d more", strings.Join(known[:most], ", "), len(known)-most)
	}
	return ": there are " + strings.Join(known, ", ")
}
