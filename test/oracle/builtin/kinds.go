package builtin

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/server/builtin"
	"espalier.dev/server/builtin/kind"
)

// Kind is a resource that both sides know.
type Kind struct {
	Resource
	// Name names the kind in tests: the resource, with the group or version of those that are
	// not the first of their name.
	Name string
	// Stored is the kind that is stored.
	Stored schema.GroupVersionKind

	rules kind.Rules
	// converted is set if objects are stored as another kind.
	converted bool
	goType    reflect.Type
}

// stored returns the kind that is stored.
func (k *Kind) stored() schema.GroupVersionKind { return k.Stored }

// requested returns the kind of requests.
func (k *Kind) requested() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Resource.Kind}
}

// Kinds returns the kinds that the reference knows, sorted by name.
func Kinds(ref *Reference) ([]*Kind, error) {
	a, err := ref.Ask(&Request{Op: "resources"})
	if err != nil {
		return nil, err
	}
	var kinds []*Kind
	for _, r := range a.Resources {
		k := &Kind{Resource: r, Name: r.Resource}
		k.Stored = k.requested()
		kinds = append(kinds, k)
		switch r.Resource {
		case "events":
			other := *k
			other.Name, other.Group = "events.events.k8s.io", "events.k8s.io"
			other.converted = true
			kinds = append(kinds, &other)
		case "horizontalpodautoscalers":
			other := *k
			other.Name, other.Version = "horizontalpodautoscalers.v1", "v1"
			other.converted = true
			kinds = append(kinds, &other)
		}
	}
	rules, ours := builtin.Rules(), map[schema.GroupVersionKind]*builtin.Resource{}
	for _, r := range builtin.Resources() {
		ours[r.GroupVersionKind()] = r
	}
	for _, k := range kinds {
		r := ours[k.requested()]
		if r == nil {
			return nil, fmt.Errorf("there is no resource for %s", k.requested())
		}
		k.rules = rules(r)
		obj, err := Scheme.New(k.requested())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		k.goType = reflect.TypeOf(obj).Elem()
	}
	slices.SortFunc(kinds, func(a, b *Kind) int { return strings.Compare(a.Name, b.Name) })
	return kinds, nil
}
