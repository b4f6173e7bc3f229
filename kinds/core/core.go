// Package core has the rules of the kinds of the core group, except pods and the kinds with pod
// templates.
package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/events"
	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/services"
	"espalier.dev/kinds/volumes"
)

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	all := map[string]kind.Rules{
		"namespaces":      namespaces(),
		"configmaps":      configMaps(),
		"secrets":         secrets(),
		"serviceaccounts": serviceAccounts(),
		"events":          events.CoreRules(),
		"services":        services.Rules(),
		"nodes":           nodes(),
		"endpoints":       endpoints(),
		"resourcequotas":  resourceQuotas(),
		"limitranges":     limitRanges(),
	}
	maps.Copy(all, volumes.Rules())
	return all
}

// metadata is the path of an object's metadata.
func metadata() *field.Path { return field.NewPath("metadata") }

// immutableData rejects changes of a config map or secret whose data is immutable.
func immutableData(path *field.Path) *field.Error {
	return field.Forbidden(path, "field is immutable when `immutable` is set")
}

// maxData is the limit of the data of a config map or secret.
const maxData = corev1.MaxSecretSize
