package lookup

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"espalier.dev/crd"
	"espalier.dev/internal/nearest"
)

// Resources are the resources that a user can name: those of CRDs, and the built-in ones.
type Resources struct {
	CRDs []*crd.Definition
	// Builtin returns the built-in resources with a name, described as CRDs would define them, in
	// the order of discovery. Names are all names that it knows.
	Builtin func(name string) ([]*crd.Definition, error)
	Names   iter.Seq[string]
	// Advice is what to do if there is no such resource and no similar one. It may be empty.
	Advice string
}

// Resource is a version of a resource, and the path of a field in it.
type Resource struct {
	*crd.Version
	// Path is "" for the resource itself.
	Path string
	// Also names the built-in resources that the request matches as well.
	Also []string
}

// Find is like [Find], and also finds built-in resources. A CRD takes precedence over a built-in
// resource, and of several built-in ones the first.
func (r *Resources) Find(request, apiVersion string) (*Resource, error) {
	name, _, _ := strings.Cut(request, ".")
	builtin, err := r.Builtin(name)
	if err != nil {
		return nil, err
	}
	f := &Resource{}
	f.Version, f.Path, err = Find(slices.Concat(builtin, r.CRDs), request, apiVersion)
	var ambiguous *AmbiguousResourceError
	if errors.As(err, &ambiguous) {
		isBuiltin := func(d *crd.Definition) bool { return slices.Contains(builtin, d) }
		given := slices.DeleteFunc(slices.Clone(ambiguous.Matches), isBuiltin)
		if len(given) > 1 {
			return nil, err
		}
		chosen := append(given, ambiguous.Matches...)[0]
		for _, d := range ambiguous.Matches {
			if d != chosen {
				f.Also = append(f.Also, fullName(d))
			}
		}
		f.Version, f.Path, err = Find([]*crd.Definition{chosen}, request, apiVersion)
	}
	var unknown *UnknownResourceError
	if errors.As(err, &unknown) {
		return nil, r.unknown(unknown)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// fullName returns a name that no other resource has, such as deployments.apps or pods.v1.
func fullName(d *crd.Definition) string {
	if d.Group() == "" {
		return d.Names().Plural + "." + d.Versions()[0].Name()
	}
	return d.Name()
}

// unknown completes the error for a resource that neither a CRD nor Kubernetes defines.
func (r *Resources) unknown(e *UnknownResourceError) error {
	text := fmt.Sprintf("there is no built-in resource %q", e.Name)
	if len(r.CRDs) > 0 {
		text = fmt.Sprintf("neither the CRDs nor Kubernetes have a resource %q", e.Name)
	}
	if e.Group != "" {
		text += fmt.Sprintf(" in group %q", e.Group)
	}
	known := append(slices.Collect(r.Names), allNames(r.CRDs)...)
	near := nearest.Name(e.Name, slices.Values(known))
	switch {
	case near != "" && !strings.EqualFold(near, e.Name):
		text += nearest.DidYouMean(near)
	case r.Advice != "":
		text += ": " + r.Advice
	}
	return errors.New(text)
}

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
		e := &UnknownResourceError{Name: name, Group: group, Nearest: nearest.Name(name, slices.Values(allNames(definitions))), Known: plurals(definitions)}
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
	starts := func(prefix string) bool { return rest == prefix || strings.HasPrefix(rest, prefix+".") }
	if starts(d.Group()) {
		length = len(d.Group())
	}
	for _, v := range d.Versions() {
		full := v.Name()
		if d.Group() != "" {
			full += "." + d.Group()
		}
		if starts(full) {
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
	served := slices.DeleteFunc(slices.Clone(versions), func(v *crd.Version) bool { return !v.Served() })
	if len(served) > 0 {
		versions = served
	}
	return slices.MaxFunc(versions, func(a, b *crd.Version) int {
		return version.CompareKubeAwareVersionStrings(a.Name(), b.Name())
	}), nil
}

// namesOf returns all names of a resource.
func namesOf(d *crd.Definition) []string {
	n := d.Names()
	singular := cmp.Or(n.Singular, strings.ToLower(n.Kind))
	return append([]string{n.Plural, singular, n.Kind}, n.ShortNames...)
}

func allNames(definitions []*crd.Definition) (names []string) {
	for _, d := range definitions {
		names = append(names, namesOf(d)...)
	}
	return names
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
	return text + nearest.Hint(e.Nearest, e.Known)
}
