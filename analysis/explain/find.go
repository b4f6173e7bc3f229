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
// any case, optionally followed by its group, or by a version and its group, and by fields. It
// returns the version to explain and the path of the field, which is "" for the resource itself.
//
// apiVersion selects the version, as group/version or as the version alone. If it is empty,
// Find selects the version that clients prefer: the most mature served one.
//
// Of two CRDs with the same name the later one applies, as in a crd.Catalog. The error is an
// [*AmbiguousResourceError] if several resources have the name.
func Find(definitions []*crd.Definition, request, apiVersion string) (v *crd.Version, path string, err error) {
	name, rest, _ := strings.Cut(request, ".")
	group, wanted, hasGroup := strings.Cut(apiVersion, "/")
	if !hasGroup {
		group, wanted = "", apiVersion
	}
	var found []*crd.Definition
	length, inRequest := -1, ""
	for _, d := range definitions {
		if !slices.ContainsFunc(namesOf(d), func(n string) bool { return strings.EqualFold(n, name) }) || group != "" && d.Group() != group {
			continue
		}
		// A field may have the name of the first label of a group, so the longest group wins.
		n, version := qualifier(d, rest)
		if n > length {
			found, length, inRequest = nil, n, version
		}
		if n == length {
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
		return nil, "", &AmbiguousResourceError{Name: name, Matches: found}
	}
	if length > 0 {
		rest = strings.TrimPrefix(rest[length:], ".")
	}
	switch {
	case wanted == "":
		wanted = inRequest
	case inRequest != "" && inRequest != wanted:
		return nil, "", fmt.Errorf("%q names version %s, and the requested version is %s: use one of them", request, inRequest, apiVersion)
	}
	v, err = versionOf(found[0], wanted)
	return v, rest, err
}

// qualifier returns the length of what identifies a resource after its name, and the version if
// that is a part of it: the group, a version and the group, or a version of the core group.
func qualifier(d *crd.Definition, rest string) (length int, version string) {
	starts := func(prefix string) bool {
		return prefix != "" && (rest == prefix || strings.HasPrefix(rest, prefix+"."))
	}
	if starts(d.Group()) {
		length = len(d.Group())
	}
	for _, v := range d.Versions() {
		full := v.Name()
		if d.Group() != "" {
			full += "." + d.Group()
		}
		if starts(full) && len(full) > length {
			length, version = len(full), v.Name()
		}
	}
	return length, version
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

// AmbiguousResourceError is returned if several resources have the requested name.
type AmbiguousResourceError struct {
	Name    string
	Matches []*crd.Definition
}

// Error names the resources.
func (e *AmbiguousResourceError) Error() string {
	return fmt.Sprintf("%q matches several resources: use one of %s", e.Name, strings.Join(plurals(e.Matches), ", "))
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
