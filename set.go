package espalier

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api/manifest"
	"espalier.dev/internal/nearest"
)

// Set admits objects of several CRDs and, in programs that import package kinds, of all
// built-in kinds; see [Kind]. It finds the CRD or kind of an object by its apiVersion and
// kind. A CRD takes precedence over a built-in kind. A Set is safe for concurrent use.
type Set struct {
	admitters []*Admitter
	byKind    map[runtimeschema.GroupKind]*Admitter
	// options are those of built-in kinds.
	options *options
}

// Load returns a Set of the CRDs in a file system, such as os.DirFS("config/crd") or an
// embed.FS. It reads all files whose names end in .yaml, .yml or .json, except in
// directories whose names start with a dot, and skips objects that are not CRDs. It
// returns an error if there is no CRD, if two CRDs define the same resource or kind, or
// if a CRD is invalid, see [New].
func Load(ctx context.Context, fsys fs.FS, opts ...Option) (*Set, error) {
	found, err := manifest.ReadFS(fsys)
	if err != nil {
		return nil, err
	}
	if err := found.Check(); err != nil {
		return nil, err
	}
	o := newOptions(opts)
	sources := map[string]manifest.CRD{}
	admitters := make([]*Admitter, len(found.CRDs))
	for i, c := range found.CRDs {
		if other, ok := sources[c.Name]; ok && c.Name != "" {
			return nil, fmt.Errorf("%s: %s defines %s too", c.Source, other.Source, c.Name)
		}
		sources[c.Name] = c
		if admitters[i], err = o.fromManifest(ctx, c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Source, err)
		}
	}
	s, err := NewSet(admitters...)
	if err != nil {
		return nil, err
	}
	s.options = o
	return s, nil
}

// NewSet returns a Set of Admitters. It returns an error if two of them define the same
// resource or kind. Without Admitters, the Set admits built-in kinds only.
func NewSet(admitters ...*Admitter) (*Set, error) {
	s := &Set{admitters: slices.Clone(admitters), byKind: map[runtimeschema.GroupKind]*Admitter{}, options: &options{}}
	slices.SortStableFunc(s.admitters, func(a, b *Admitter) int { return strings.Compare(a.name(), b.name()) })
	for i, a := range s.admitters {
		name, gk := a.name(), a.kind
		if i > 0 && s.admitters[i-1].name() == name {
			return nil, fmt.Errorf("there are two CRDs %s", name)
		}
		if other := s.byKind[gk]; other != nil {
			return nil, fmt.Errorf("%s and %s both define the kind %s", other.name(), name, gk)
		}
		s.byKind[gk] = a
	}
	return s, nil
}

// name returns the name of the CRD, or the built-in kind.
func (a *Admitter) name() string {
	if a.isBuiltin() {
		return a.kind.String()
	}
	return a.definition.Name()
}

// Admitters returns the Admitters that the Set was made of, sorted by the names of their CRDs.
func (s *Set) Admitters() []*Admitter { return slices.Clone(s.admitters) }

// Admitter returns the Admitter for objects of an apiVersion and kind. The error is an
// [*UnknownKindError].
func (s *Set) Admitter(apiVersion, kind string) (*Admitter, error) {
	return s.find(given{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}})
}

func (s *Set) find(g given) (*Admitter, error) {
	gvk := g.GroupVersionKind()
	a := s.byKind[gvk.GroupKind()]
	if a == nil {
		a = s.options.builtin(gvk.GroupKind())
	}
	if _, ok := a.versions[g.APIVersion]; ok {
		return a, nil
	}
	return nil, unknownKind(g.TypeMeta, s.admitters...)
}

// Create is [Admitter.Create] of the object's CRD. The error is an [*UnknownKindError]
// if the Set has no CRD for the object.
func (s *Set) Create(ctx context.Context, obj Object) (*Result, error) {
	g := givenObject(obj)
	a, err := s.find(g)
	if err != nil {
		return nil, err
	}
	return a.create(ctx, g)
}

// CreateJSON is [Admitter.CreateJSON] of the object's CRD.
func (s *Set) CreateJSON(ctx context.Context, src []byte) (*Result, error) {
	a, g, err := s.findJSON(src)
	if err != nil {
		return nil, err
	}
	return a.create(ctx, g)
}

// Update is [Admitter.Update] of the object's CRD.
func (s *Set) Update(ctx context.Context, obj, old Object) (*Result, error) {
	g := givenObject(obj)
	a, err := s.find(g)
	if err != nil {
		return nil, err
	}
	return a.replace(ctx, g, old)
}

// UpdateJSON is [Admitter.UpdateJSON] of the object's CRD.
func (s *Set) UpdateJSON(ctx context.Context, src []byte, old Object) (*Result, error) {
	a, g, err := s.findJSON(src)
	if err != nil {
		return nil, err
	}
	return a.replace(ctx, g, old)
}

// UpdateStatus is [Admitter.UpdateStatus] of the object's CRD.
func (s *Set) UpdateStatus(ctx context.Context, obj, old Object) (*Result, error) {
	g := givenObject(obj)
	a, err := s.find(g)
	if err != nil {
		return nil, err
	}
	return a.replaceStatus(ctx, g, old)
}

// UpdateStatusJSON is [Admitter.UpdateStatusJSON] of the object's CRD.
func (s *Set) UpdateStatusJSON(ctx context.Context, src []byte, old Object) (*Result, error) {
	a, g, err := s.findJSON(src)
	if err != nil {
		return nil, err
	}
	return a.replaceStatus(ctx, g, old)
}

func (s *Set) findJSON(src []byte) (*Admitter, given, error) {
	g, err := givenJSON(src)
	if err != nil {
		return nil, g, err
	}
	a, err := s.find(g)
	return a, g, err
}

// UnknownKindError is returned for an object that an Admitter or Set does not admit.
type UnknownKindError struct {
	// APIVersion and Kind are those of the object.
	APIVersion, Kind string
	// Known lists the kinds that the CRDs define.
	Known []runtimeschema.GroupKind
	// Served lists the apiVersions in which the kind is served, if it is known.
	Served []string
	// Nearest is the known kind that was probably meant, if one is similar.
	Nearest runtimeschema.GroupKind
	// only is the built-in kind that the Admitter admits.
	only runtimeschema.GroupKind
}

// Error returns the kind and, if possible, the one that was probably meant.
func (e *UnknownKindError) Error() string {
	if e.APIVersion == "" || e.Kind == "" {
		return "apiVersion and kind are required"
	}
	text := fmt.Sprintf("no CRD serves %s %s", e.APIVersion, e.Kind)
	switch group, _, _ := strings.Cut(e.APIVersion, "/"); {
	case !e.only.Empty():
		return fmt.Sprintf("the Admitter of %s does not admit %s %s", e.only, e.APIVersion, e.Kind)
	case kinds == nil && !strings.Contains(group, "."): // the group of no CRD
		return text + ": " + errNoKinds.Error()
	case kinds != nil && len(e.Known) == 0:
		text = fmt.Sprintf("there is no built-in kind %s %s", e.APIVersion, e.Kind)
	}
	const few = 3
	switch {
	case len(e.Served) > 0:
		text += ": the kind is served as " + strings.Join(e.Served, ", ")
	case !e.Nearest.Empty():
		text += fmt.Sprintf(": did you mean %s?", e.Nearest)
	case len(e.Known) > 0 && len(e.Known) <= few:
		names := make([]string, len(e.Known))
		for i, gk := range e.Known {
			names[i] = gk.String()
		}
		text += ": the CRDs define " + strings.Join(names, ", ")
	}
	return text
}

func unknownKind(id metav1.TypeMeta, among ...*Admitter) error {
	e := &UnknownKindError{APIVersion: id.APIVersion, Kind: id.Kind}
	want := id.GroupVersionKind().GroupKind()
	var similar, groups []string
	add := func(gk runtimeschema.GroupKind, served ...string) {
		switch {
		case gk == want:
			e.Served = append(e.Served, served...)
		case gk.Group == want.Group:
			similar = append(similar, gk.Kind)
		case gk.Kind == want.Kind:
			groups = append(groups, gk.Group)
		}
	}
	for _, a := range among {
		if !a.isBuiltin() {
			e.Known = append(e.Known, a.kind)
			add(a.kind, slices.Sorted(maps.Keys(a.versions))...)
		} else if len(among) == 1 && a.kind != want {
			e.only = a.kind
		}
	}
	if slices.Contains(e.Known, want) {
		return e
	}
	if kinds != nil {
		for _, gvk := range kinds.All() {
			add(gvk.GroupKind(), gvk.GroupVersion().String())
		}
	}
	if kind := nearest.Name(want.Kind, slices.Values(similar)); kind != "" {
		e.Nearest = runtimeschema.GroupKind{Group: want.Group, Kind: kind}
	} else if group := nearest.Name(want.Group, slices.Values(groups)); group != "" {
		e.Nearest = runtimeschema.GroupKind{Group: group, Kind: want.Kind}
	}
	return e
}
