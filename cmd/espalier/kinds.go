package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/lookup"
	"espalier.dev/crd"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
)

// found is a resource that the user has named.
type found struct {
	*lookup.Resource
	// builtin is nil for a CRD.
	builtin *schemas.Kind
}

// findResource finds the resource that a request names, among CRDs and the built-in kinds. The
// schemas of other built-in kinds are not made. advice is what to do if there is no such resource
// and no similar one. names are further ones that may have been meant.
func findResource(definitions []*crd.Definition, request, apiVersion, advice string, names ...string) (*found, error) {
	kinds := map[*crd.Definition]*schemas.Kind{}
	known := slices.Values(slices.AppendSeq(names, schemas.Names()))
	all := lookup.Resources{CRDs: definitions, Names: known, Advice: advice,
		Builtin: func(name string) (list []*crd.Definition, err error) {
			called := schemas.Called(name)
			list, err = describe(called)
			for i, d := range list {
				kinds[d] = called[i]
			}
			return list, err
		}}
	r, err := all.Find(request, apiVersion)
	if err != nil {
		return nil, err
	}
	return &found{r, kinds[r.Definition()]}, nil
}

// tellOthers tells the user about other resources with the requested name.
func (a *app) tellOthers(f *found, request string) {
	if len(f.Also) > 0 {
		name, _, _ := strings.Cut(request, ".")
		fmt.Fprintf(a.stderr, "%s: using %s; %q is also a name of %s\n", a.name(), f.Definition().Name(), name, strings.Join(f.Also, ", "))
	}
}

// builtinDefinitions returns all built-in kinds.
func builtinDefinitions() ([]*crd.Definition, error) { return describe(schemas.All()) }

// describe returns the definitions of kinds.
func describe(kinds []*schemas.Kind) (list []*crd.Definition, err error) {
	for _, k := range kinds {
		d, err := k.Definition()
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// builtinVersions are the versions of the built-in kinds, whose schemas are made when they are needed.
type builtinVersions struct {
	kinds func() map[runtimeschema.GroupKind]*schemas.Kind
	mu    sync.Mutex
	made  map[runtimeschema.GroupKind]*crd.Definition
}

func newBuiltinVersions() *builtinVersions {
	return &builtinVersions{made: map[runtimeschema.GroupKind]*crd.Definition{}, kinds: sync.OnceValue(func() map[runtimeschema.GroupKind]*schemas.Kind {
		all := map[runtimeschema.GroupKind]*schemas.Kind{}
		for _, k := range schemas.All() {
			all[runtimeschema.GroupKind{Group: k.Group, Kind: k.Names.Kind}] = k
		}
		return all
	})}
}

// of returns a version, or nil if there is none.
func (b *builtinVersions) of(gvk runtimeschema.GroupVersionKind) *crd.Version {
	k := b.kinds()[gvk.GroupKind()]
	if k == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.made[gvk.GroupKind()]
	if d == nil {
		var err error
		if d, err = k.Definition(); err != nil {
			return nil
		}
		b.made[gvk.GroupKind()] = d
	}
	return d.Version(gvk.Version)
}

// schema returns the schema of a version, or nil if there is none.
func (b *builtinVersions) schema(gvk runtimeschema.GroupVersionKind) *schema.Structural {
	if v := b.of(gvk); v != nil {
		return v.Structural()
	}
	return nil
}
