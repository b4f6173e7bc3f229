package server

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"espalier.dev/server/plugins"
)

// HasFeatureGate reports whether the server has a feature gate.
func HasFeatureGate(name string) bool {
	_, ok := utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(name)]
	return ok || alwaysOn(name)
}

// KnowsAdmissionPlugin reports whether kube-apiserver has an admission plugin.
func KnowsAdmissionPlugin(name string) bool { return plugins.Find(name).Name != "" }

// HasAdmissionPlugin reports whether the server has an admission plugin.
func HasAdmissionPlugin(name string) bool { return plugins.Find(name).New != nil }
