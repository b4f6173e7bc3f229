//go:build small

package protocol

import (
	"context"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/object"
	"espalier.dev/crd"
)

// The small engine answers requests about custom resources only, until the browser has loaded the
// complete one.

// complete is set for an engine that knows Kubernetes' own kinds.
const complete = false

// KindCEL compiles the expressions in objects of Kubernetes' own kinds.
type KindCEL = any

// kindChecker checks nothing.
type kindChecker struct{}

func newKindChecker(KindCEL) *kindChecker { return &kindChecker{} }

func (*kindChecker) Check(context.Context, []byte, []byte, object.FieldValidation) []analysis.Finding {
	return nil
}

func (*kindChecker) PruneStored([]byte) *object.Pruned { return &object.Pruned{} }

// builtinVersions has no versions.
type builtinVersions struct{}

func newBuiltinVersions() *builtinVersions { return &builtinVersions{} }

func (*builtinVersions) served() []assist.Kind { return nil }

func (*builtinVersions) of(runtimeschema.GroupVersionKind) *crd.Version { return nil }

func (*builtinVersions) named(string) *crd.Definition { return nil }

// moreHandlers returns nothing.
func (*Engine) moreHandlers() map[string]handler { return nil }
