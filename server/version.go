package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
)

// KubernetesVersion is the version of the Kubernetes API that the server implements: that of
// its k8s.io modules.
const KubernetesVersion = "1.37.2"

// emulationDepth is the number of previous minor versions that can be emulated, as in
// kube-apiserver.
const emulationDepth = 3

// Build describes how a program was built. What is not known is empty.
type Build struct {
	// Commit is the commit of the source, and Date is when it was made, as RFC 3339 says.
	Commit, Date string
	// Modified reports whether the source differed from the commit.
	Modified bool
}

// effectiveVersion is a version with the version information of this server.
type effectiveVersion struct {
	basecompatibility.MutableEffectiveVersion
	build Build
}

// newEffectiveVersion returns the effective version for an emulated version.
func newEffectiveVersion(emulated *version.Version) effectiveVersion {
	binary := version.MustParse(KubernetesVersion)
	floor := binary.WithPatch(0).SubtractMinor(emulationDepth)
	v := effectiveVersion{MutableEffectiveVersion: basecompatibility.NewEffectiveVersion(binary, false, floor, floor)}
	if emulated != nil {
		v.SetEmulationVersion(emulated) // and the minimum of compatibility, one below it if that is allowed
	}
	return v
}

// Info returns the response of /version.
func (v effectiveVersion) Info() *apimachineryversion.Info {
	info := v.MutableEffectiveVersion.Info()
	info.GitVersion = "v" + KubernetesVersion + "+espalier"
	// What the go command records is about the program, which may be that of another project.
	info.GitCommit, info.GitTreeState, info.BuildDate = v.build.Commit, "", v.build.Date
	if v.build.Commit != "" {
		info.GitTreeState = "clean"
		if v.build.Modified {
			info.GitTreeState = "dirty"
		}
	}
	return info
}

// kubeComponent is the component name that kube-apiserver's flags allow as a prefix.
const kubeComponent = basecompatibility.DefaultKubeComponent

// emulated returns the version to emulate, or nil.
func (o *Options) emulated() (*version.Version, error) {
	text := strings.TrimPrefix(o.EmulatedVersion, kubeComponent+"=")
	if text == "" {
		return nil, nil
	}
	v, err := version.ParseMajorMinor(text)
	if err != nil {
		return nil, fmt.Errorf("--emulated-version %q is not a version such as 1.36", o.EmulatedVersion)
	}
	if errs := newEffectiveVersion(v).Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("--emulated-version %s: %w", text, errors.Join(errs...))
	}
	return v, nil
}

// alwaysOn reports whether a kube-apiserver feature for custom resources is always enabled in
// this server.
func alwaysOn(name string) bool {
	switch name {
	case "CRDObservedGenerationTracking", "CRDValidationRatcheting", "CustomResourceFieldSelectors":
		return true
	}
	return false
}

// gates returns the feature gates to set.
func (o *Options) gates() (map[string]bool, error) {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	gates := map[string]bool{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(o.FeatureGates)) {
		value, err := strconv.ParseBool(o.FeatureGates[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("--feature-gates: %s is %q: must be true or false", name, o.FeatureGates[name]))
			continue
		}
		name = strings.TrimPrefix(name, kubeComponent+":")
		if alwaysOn(name) {
			if !value {
				errs = append(errs, fmt.Errorf("--feature-gates: %s cannot be disabled", name))
			}
			continue
		}
		if _, ok := known[featuregate.Feature(name)]; !ok {
			errs = append(errs, fmt.Errorf("--feature-gates: unknown feature %q", name))
			continue
		}
		gates[name] = value
	}
	return gates, errors.Join(errs...)
}

// validateFeatures returns the errors in the feature options.
func (o *Options) validateFeatures() error {
	_, err := o.emulated()
	_, gateErr := o.gates()
	return errors.Join(err, gateErr)
}

// applyFeatures sets process-global state: k8s.io/apiserver keeps its feature gates and the
// version of its CEL environment in variables.
func (o *Options) applyFeatures() (effectiveVersion, error) {
	emulated, err := o.emulated()
	if err != nil {
		return effectiveVersion{}, err
	}
	gates, err := o.gates()
	if err != nil {
		return effectiveVersion{}, err
	}
	gate := utilfeature.DefaultMutableFeatureGate
	if emulated != nil {
		global := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(kubeComponent)
		if m, ok := global.(basecompatibility.MutableEffectiveVersion); ok {
			m.SetEmulationVersion(emulated)
		}
		if err := gate.SetEmulationVersion(emulated); err != nil {
			return effectiveVersion{}, fmt.Errorf("--emulated-version: %w", err)
		}
	}
	if len(gates) > 0 {
		if err := gate.SetFromMap(gates); err != nil {
			return effectiveVersion{}, fmt.Errorf("--feature-gates: %w", err)
		}
	}
	v := newEffectiveVersion(emulated)
	v.build = o.Build
	return v, nil
}
