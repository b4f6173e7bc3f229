// Package lookup finds what an object or a request is about: the CRD or the built-in kind of an
// object ([Index]), the resource that a user names ([Resources]), and the CRD of a test suite
// ([Candidates]). It knows which of several takes precedence, and what was probably meant if there
// is none. The package does no I/O: commands add the CRDs that they have read.
package lookup

import (
	"slices"
	"strings"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds/releases"
)

// Object is what lookup needs to know of an object.
type Object interface {
	// APIVersion and Kind return the fields, or "" if they are missing or no strings.
	APIVersion() string
	Kind() string
	// Field returns the first byte of the JSON value of a top-level field, or 0 if there is no
	// such field.
	Field(name string) byte
}

// KindOf returns the group and kind of an object.
func KindOf(o Object) runtimeschema.GroupKind {
	group, _, ok := strings.Cut(o.APIVersion(), "/")
	if !ok {
		group = ""
	}
	return runtimeschema.GroupKind{Group: group, Kind: o.Kind()}
}

// Definition is a CRD in an [Index].
type Definition interface {
	comparable
	// Defines returns the group and kind of its objects.
	Defines() runtimeschema.GroupKind
	// Base returns the CRD, possibly without its rules, or why it cannot be used. It may be called
	// concurrently.
	Base() (*crd.Definition, error)
	// Place returns the place of the CRD, such as a file.
	Place() string
}

// Index holds CRDs by the kind that they define. It is safe for concurrent use after all of them
// have been added.
//
// Of the CRDs of a kind, an object uses the first one that serves its version. The CRDs of the
// index take precedence over the built-in kinds, and these over the CRDs of [Index.Extend]. Of the
// latter, an object uses one that is not test data and the closest to its own file, see choose.
type Index[D Definition] struct {
	list   []D
	byKind map[runtimeschema.GroupKind][]D
	// extended returns these CRDs and those of Extend. It is nil if there are none.
	extended func() (*Index[D], error)
	// chooses is set if the CRD of an object depends on its file.
	chooses bool
	// groups returns the defined kinds by group, sorted.
	groups func() map[string][]string
}

// New returns an empty Index.
func New[D Definition]() *Index[D] {
	x := &Index[D]{byKind: map[runtimeschema.GroupKind][]D{}}
	x.groups = sync.OnceValue(x.kindsByGroup)
	return x
}

// Add adds a CRD.
func (x *Index[D]) Add(d D) {
	x.list = append(x.list, d)
	x.byKind[d.Defines()] = append(x.byKind[d.Defines()], d)
}

// All returns the CRDs in the order in which they were added.
func (x *Index[D]) All() []D { return x.list }

// Of returns the CRDs of a kind, without those of Extend.
func (x *Index[D]) Of(kind runtimeschema.GroupKind) []D { return x.byKind[kind] }

// Extend adds CRDs for the kinds that no CRD of the index defines. more is called once, when an
// object is of such a kind.
func (x *Index[D]) Extend(more func() ([]D, error)) {
	x.extended = sync.OnceValues(func() (*Index[D], error) {
		found, err := more()
		if err != nil {
			return nil, err
		}
		all := New[D]()
		all.chooses = true
		for _, d := range x.list {
			all.Add(d)
		}
		for _, d := range found {
			if x.byKind[d.Defines()] == nil {
				all.Add(d)
			}
		}
		return all, nil
	})
}

// IsBuiltin reports whether an object is of a built-in kind.
func (x *Index[D]) IsBuiltin(o Object) bool {
	return len(x.byKind[KindOf(o)]) == 0 && IsBuiltin(o.APIVersion(), o.Kind())
}

// WasBuiltin reports whether an object is of a kind that a release of Kubernetes has, and that no CRD
// defines.
func (x *Index[D]) WasBuiltin(o Object) bool {
	return len(x.byKind[KindOf(o)]) == 0 && releases.Find(runtimeschema.FromAPIVersionAndKind(o.APIVersion(), o.Kind())) != nil
}

// Find returns the CRD of an object. If there is none, the error is a [*Missing]. Other errors are
// those of Extend.
func (x *Index[D]) Find(o Object) (found D, err error) {
	all := x
	if x.extended != nil && o.Kind() != "" && len(x.byKind[KindOf(o)]) == 0 {
		if all, err = x.extended(); err != nil {
			return found, err
		}
	}
	return all.find(o)
}

func (x *Index[D]) find(o Object) (found D, err error) {
	gk := KindOf(o)
	version := strings.TrimPrefix(o.APIVersion(), gk.Group+"/")
	var candidates []D
	for _, d := range x.byKind[gk] {
		if !serves(d, version) {
			continue
		}
		if candidates = append(candidates, d); !x.chooses {
			break
		}
	}
	if len(candidates) > 0 {
		found = choose(o, candidates)
	} else {
		err = x.missing(o, gk, version)
	}
	return found, err
}

// Others returns the other CRDs of the kind of one that an object uses.
func (x *Index[D]) Others(used D) []D {
	same := x.byKind[used.Defines()]
	if same == nil && x.extended != nil {
		if all, err := x.extended(); err == nil {
			same = all.byKind[used.Defines()]
		}
	}
	return slices.DeleteFunc(slices.Clone(same), func(d D) bool { return d == used })
}

func (x *Index[D]) kindsByGroup() map[string][]string {
	groups := map[string][]string{}
	for gk := range x.byKind {
		if gk.Group == "" || gk.Kind == "" {
			continue // a part of a CRD, such as a patch
		}
		groups[gk.Group] = append(groups[gk.Group], gk.Kind)
	}
	for _, list := range groups {
		slices.Sort(list)
	}
	return groups
}

// serves reports whether a CRD serves a version. It returns true for a CRD that cannot be used, so
// that the caller finds it and reports why.
func serves[D Definition](d D, version string) bool {
	base, err := d.Base()
	if err != nil {
		return true
	}
	v := base.Version(version)
	return v != nil && v.Served()
}

// served returns the names of the versions that a CRD serves.
func served[D Definition](d D) (names []string) {
	base, err := d.Base()
	if err != nil {
		return nil
	}
	for _, v := range base.Versions() {
		if v.Served() {
			names = append(names, v.Name())
		}
	}
	return names
}

// Defined returns the group and kind that a CRD in JSON defines, without decoding the rest.
func Defined(src []byte) (gk runtimeschema.GroupKind) {
	var r jsonx.Reader
	r.Borrow(src)
	text := func(into *string) error {
		if r.Peek() != '"' {
			return r.Skip()
		}
		s, err := r.String()
		*into = strings.Clone(s)
		return err
	}
	// Other errors are reported when the CRD is used.
	_ = members(&r, func(key string) error {
		if key != "spec" {
			return r.Skip()
		}
		return members(&r, func(key string) error {
			switch key {
			case "group":
				return text(&gk.Group)
			case "names":
				return members(&r, func(key string) error {
					if key != "kind" {
						return r.Skip()
					}
					return text(&gk.Kind)
				})
			}
			return r.Skip()
		})
	})
	return gk
}

// members calls visit for each member of the next value, which it skips if it is not an
// object. visit must consume the member's value.
func members(r *jsonx.Reader, visit func(key string) error) error {
	if r.Peek() != '{' {
		return r.Skip()
	}
	return r.Members(visit)
}
