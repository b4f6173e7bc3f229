//go:build !small

package protocol

import (
	"cmp"
	"context"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/lookup"
)

// KindsRequest asks for Kubernetes' own kinds.
type KindsRequest struct{}

// KindsAnswer is the answer to a KindsRequest: the kinds whose objects are checked without a CRD, by name.
type KindsAnswer struct {
	Kinds []Resource `json:"kinds"`
}

// kindsOwn answers a KindsRequest.
func (e *Engine) kindsOwn(context.Context, KindsRequest) (*KindsAnswer, error) {
	answer := &KindsAnswer{Kinds: []Resource{}}
	for gk, k := range e.builtin.kinds() {
		out := Resource{Name: k.Name(), Group: gk.Group, Kind: gk.Kind, Plural: k.Names.Plural, ShortNames: k.Names.ShortNames, Namespaced: k.Namespaced}
		for _, v := range k.Versions {
			gv := runtimeschema.GroupVersion{Group: gk.Group, Version: v.Name}
			if lookup.IsBuiltin(gv.String(), gk.Kind) {
				out.Versions = append(out.Versions, Version{Name: v.Name, Served: true, Status: v.Status})
			}
		}
		if len(out.Versions) > 0 {
			answer.Kinds = append(answer.Kinds, out)
		}
	}
	slices.SortFunc(answer.Kinds, func(a, b Resource) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group)) })
	return answer, nil
}
