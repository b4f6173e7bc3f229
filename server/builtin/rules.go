package builtin

import (
	"reflect"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/server/builtin/kind"
)

// byGroup are the rules of kinds, by group. Each is made when it is first used.
var byGroup = map[string]func() map[string]kind.Rules{}

// Rules returns the rules of a stored kind.
func Rules() func(runtimeschema.GroupVersionKind) kind.Rules {
	made := map[string]func() map[string]kind.Rules{}
	for group, f := range byGroup {
		made[group] = sync.OnceValue(f)
	}
	byKind := map[runtimeschema.GroupVersionKind]*Resource{}
	for _, r := range Resources() {
		byKind[r.GroupVersionKind()] = r
	}
	return func(gvk runtimeschema.GroupVersionKind) kind.Rules {
		r := byKind[gvk]
		if r == nil {
			return kind.Rules{}
		}
		if f := made[r.Group]; f != nil {
			if rules, ok := f()[r.Plural]; ok {
				return rules
			}
		}
		return plain(r)
	}
}

// conversions returns the conversions between kinds that are stored and others.
func conversions() map[reflect.Type]conversion { return map[reflect.Type]conversion{} }
