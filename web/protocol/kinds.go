//go:build !small

package protocol

import (
	"strings"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/kinds/schemas"
)

// complete is set for an engine that knows Kubernetes' own kinds.
const complete = true

// moreHandlers returns the handlers of all requests but check.
func (e *Engine) moreHandlers() map[string]handler {
	return map[string]handler{
		"resources": handle(e.resources),
		"kinds":     handle(e.kindsOwn),
		"fields":    handle(e.fields),
		"search":    handle(e.search),
		"rules":     handle(e.rules),
		"form":      handle(e.form),
		"sample":    handle(e.sample),
		"generate":  handle(e.generate),
		"complete":  handle(e.complete),
		"hover":     handle(e.hover),
		"lint":      handle(e.lint),
		"rule":      handle(e.rule),
		"apply":     handle(e.apply),
		"compare":   handle(e.compare),
	}
}

// KindCEL compiles the expressions in objects of Kubernetes' own kinds.
type KindCEL = kinds.CEL

// kindChecker checks objects of Kubernetes' own kinds.
type kindChecker = object.KindChecker

func newKindChecker(cel KindCEL) *kindChecker { return object.ForKinds(cel) }

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

// definition returns a kind, or nil if there is none.
func (b *builtinVersions) definition(gk runtimeschema.GroupKind) *crd.Definition {
	k := b.kinds()[gk]
	if k == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.made[gk]
	if d == nil {
		var err error
		if d, err = k.Definition(); err != nil {
			return nil
		}
		b.made[gk] = d
	}
	return d
}

// of returns a version, or nil if there is none.
func (b *builtinVersions) of(gvk runtimeschema.GroupVersionKind) *crd.Version {
	if d := b.definition(gvk.GroupKind()); d != nil {
		return d.Version(gvk.Version)
	}
	return nil
}

// served returns the kinds that a cluster serves.
func (b *builtinVersions) served() (all []assist.Kind) {
	for gk, k := range b.kinds() {
		for _, v := range k.Versions {
			if o := (named{gk.WithVersion(v.Name).GroupVersion().String(), gk.Kind}); lookup.IsBuiltin(o.apiVersion, o.kind) || gk.Kind == "CustomResourceDefinition" {
				all = append(all, assist.Kind{APIVersion: o.apiVersion, Kind: o.kind})
			}
		}
	}
	return all
}

// called returns the kind with a name such as deployments.apps, or nil.
func (b *builtinVersions) called(name string) *schemas.Kind {
	plural, _, _ := strings.Cut(name, ".")
	for _, k := range schemas.Called(plural) {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

// named returns the definition of the kind with a name such as deployments.apps, or nil.
func (b *builtinVersions) named(name string) *crd.Definition {
	if k := b.called(name); k != nil {
		return b.definition(runtimeschema.GroupKind{Group: k.Group, Kind: k.Names.Kind})
	}
	return nil
}
