package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis/explain"
	"espalier.dev/cmd/espalier/internal/builtin/schemas"
	"espalier.dev/crd"
	"espalier.dev/internal/nearest"
)

// found is a version of a resource, and the path of a field in it.
type found struct {
	*crd.Version
	path string
	// builtin is nil for a CRD.
	builtin *schemas.Kind
	// also names other resources that the request matches.
	also []string
}

// findResource finds the resource that a request names, among CRDs and the built-in kinds. A CRD
// takes precedence over a built-in kind, and of several built-in kinds the first one in
// discovery. The schemas of other built-in kinds are not made. advice is what to do if there is no
// such resource and no similar one.
func findResource(definitions []*crd.Definition, request, apiVersion, advice string) (*found, error) {
	name, _, _ := strings.Cut(request, ".")
	var all []*crd.Definition
	kinds := map[*crd.Definition]*schemas.Kind{}
	for _, k := range schemas.Called(name) {
		d, err := k.Definition()
		if err != nil {
			return nil, err
		}
		all = append(all, d)
		kinds[d] = k
	}
	all = append(all, definitions...)
	v, path, err := explain.Find(all, request, apiVersion)
	f := &found{}
	var ambiguous *explain.AmbiguousResourceError
	if errors.As(err, &ambiguous) {
		given := slices.DeleteFunc(slices.Clone(ambiguous.Matches), func(d *crd.Definition) bool { return kinds[d] != nil })
		if len(given) > 1 {
			return nil, err
		}
		chosen := append(given, ambiguous.Matches...)[0]
		for _, d := range ambiguous.Matches {
			if d != chosen && kinds[d] != nil {
				f.also = append(f.also, kinds[d].FullName())
			}
		}
		v, path, err = explain.Find([]*crd.Definition{chosen}, request, apiVersion)
	}
	var unknown *explain.UnknownResourceError
	if errors.As(err, &unknown) {
		return nil, unknownResource(unknown, definitions, advice)
	}
	if err != nil {
		return nil, err
	}
	f.Version, f.path, f.builtin = v, path, kinds[v.Definition()]
	return f, nil
}

// unknownResource completes the error for a resource that neither a CRD nor Kubernetes defines.
func unknownResource(e *explain.UnknownResourceError, definitions []*crd.Definition, advice string) error {
	text := fmt.Sprintf("there is no built-in resource %q", e.Name)
	if len(definitions) > 0 {
		text = fmt.Sprintf("neither the CRDs nor Kubernetes have a resource %q", e.Name)
	}
	if e.Group != "" {
		text += fmt.Sprintf(" in group %q", e.Group)
	}
	known := slices.Collect(schemas.Names())
	for _, d := range definitions {
		n := d.Names()
		known = append(append(known, n.Plural, n.Singular, n.Kind), n.ShortNames...)
	}
	near := nearest.Name(e.Name, slices.Values(known))
	switch {
	case near != "" && !strings.EqualFold(near, e.Name):
		text += didYouMean("", near)
	case advice != "":
		text += ": " + advice
	}
	return errors.New(text)
}

// tellOthers tells the user about other resources with the requested name.
func (a *app) tellOthers(f *found, request string) {
	if len(f.also) > 0 {
		name, _, _ := strings.Cut(request, ".")
		fmt.Fprintf(a.stderr, "%s: using %s; %q is also a name of %s\n", a.name(), f.Definition().Name(), name, strings.Join(f.also, ", "))
	}
}

// builtinDefinitions returns all built-in kinds.
func builtinDefinitions() ([]*crd.Definition, error) {
	var out []*crd.Definition
	for _, k := range schemas.All() {
		d, err := k.Definition()
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}
