package builtin

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
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
	var all []*Kind
	for _, r := range a.Resources {
		k := &Kind{Resource: r, Name: r.Resource}
		k.Stored = k.requested()
		all = append(all, k)
		switch r.Resource {
		case "events":
			other := *k
			other.Name, other.Group = "events.events.k8s.io", "events.k8s.io"
			other.converted = true
			all = append(all, &other)
		case "horizontalpodautoscalers":
			other := *k
			other.Name, other.Version = "horizontalpodautoscalers.v1", "v1"
			other.converted = true
			all = append(all, &other)
		}
	}
	rules := kinds.Rules(cel.New())
	for _, k := range all {
		r := kinds.ByKind(k.requested())
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
	slices.SortFunc(all, func(a, b *Kind) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
