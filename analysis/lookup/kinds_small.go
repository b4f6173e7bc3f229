//go:build small

package lookup

import "k8s.io/apimachinery/pkg/runtime/schema"

// With the build tag small, Kubernetes' own kinds are unknown: the web page starts with a small engine
// for custom resources, and asks the complete one about everything else.

// IsBuiltin reports whether a kind is one of Kubernetes' own kinds, which have no CRD.
func IsBuiltin(string, string) bool { return false }

func missingBuiltin(string, string) *Missing { return nil }

func meantBuiltin(schema.GroupKind) string { return "" }

func isUpstream(schema.GroupKind) bool { return false }
