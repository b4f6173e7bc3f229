//go:build !small

package lookup

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/internal/nearest"
	"espalier.dev/internal/upstream"
	"espalier.dev/kinds"
	"espalier.dev/kinds/releases"
)

// IsBuiltin reports whether a kind is one of Kubernetes' own kinds, which have no CRD.
func IsBuiltin(apiVersion, kind string) bool {
	return kinds.ByKind(schema.FromAPIVersionAndKind(apiVersion, kind)) != nil
}

// missingBuiltin says why an object of a group of Kubernetes is of no built-in kind. It returns nil
// if it does not know.
func missingBuiltin(apiVersion, kind string) *Missing {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if !isKubernetesGroup(gvk.Group) {
		return nil
	}
	e := &Missing{Field: "apiVersion", Message: fmt.Sprintf("Kubernetes has no %s %s", apiVersion, kind)}
	meant := func(what string) *Missing {
		e.Message += nearest.DidYouMean(what)
		return e
	}
	obj, err := upstream.Scheme().New(gvk)
	if err == nil {
		if version := removedIn(obj); version != "" {
			e.Message = fmt.Sprintf("%s %s has not been served since Kubernetes %s", apiVersion, kind, version)
		} else {
			e.Field, e.Unrelated = "kind", true
			e.Message = fmt.Sprintf("Kubernetes stores no objects of %s %s", apiVersion, kind)
			if strings.Contains(gvk.Version, "alpha") || strings.Contains(gvk.Version, "beta") {
				e.Message = fmt.Sprintf("Kubernetes does not serve %s %s by default", apiVersion, kind)
			} else if k := releases.Find(gvk); k != nil && k.In(releases.Last) == releases.Served {
				e.Message = fmt.Sprintf("%s %s of Kubernetes %s is not built in", apiVersion, kind, releases.Last)
			}
		}
	} else if kind == "PodSecurityPolicy" {
		e.Field, e.Message = "kind", fmt.Sprintf("%s %s has not been served since Kubernetes 1.25", apiVersion, kind)
		return e
	}
	if gv := findBuiltin(func(other schema.GroupVersionKind) bool { return other.GroupKind() == gvk.GroupKind() }); gv != "" {
		e.Field = "apiVersion"
		return meant(gv)
	}
	if replaced, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok && kinds.ByKind(replaced.APILifecycleReplacement()) != nil {
		return meant(replaced.APILifecycleReplacement().GroupVersion().String())
	}
	if err == nil {
		return e
	}
	if gv := findBuiltin(func(other schema.GroupVersionKind) bool { return other.Kind == kind }); gv != "" {
		return meant(gv)
	}
	e.Field = "kind"
	same := func(other schema.GroupVersionKind) bool { return other.GroupVersion() == gvk.GroupVersion() }
	if near := nearest.Name(kind, slices.Values(builtinNames(same))); near != "" {
		return meant(near)
	}
	if near := nearest.Name(kind, slices.Values(builtinNames(func(schema.GroupVersionKind) bool { return true }))); near != "" {
		return meant(findBuiltin(func(other schema.GroupVersionKind) bool { return other.Kind == near }) + " " + near)
	}
	return nil
}

// meantBuiltin returns the apiVersion of the built-in kind that an object of another group is
// probably of, or "".
func meantBuiltin(gk schema.GroupKind) string {
	if gk.Group == "" {
		return ""
	}
	return findBuiltin(func(other schema.GroupVersionKind) bool {
		return other.Kind == gk.Kind &&
			(similarGroups(gk.Group, other.Group) || strings.HasPrefix(other.Group, gk.Group+".") || gk.Group == "core" && other.Group == "")
	})
}

// removedIn returns the version of Kubernetes that has removed a kind, or "".
func removedIn(obj any) string {
	removed, ok := obj.(interface {
		APILifecycleRemoved() (major, minor int)
	})
	if !ok {
		return ""
	}
	major, minor := removed.APILifecycleRemoved()
	if minor > KubernetesMinor {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// findBuiltin returns the apiVersion of the first built-in kind that fits, or "".
func findBuiltin(fits func(schema.GroupVersionKind) bool) string {
	for _, r := range kinds.Resources() {
		if fits(r.GroupVersionKind()) {
			return r.GroupVersionKind().GroupVersion().String()
		}
	}
	return ""
}

// builtinNames returns the built-in kinds that fit, without their versions.
func builtinNames(fits func(schema.GroupVersionKind) bool) (names []string) {
	for _, r := range kinds.Resources() {
		if fits(r.GroupVersionKind()) {
			names = append(names, r.Kind)
		}
	}
	return names
}

// isUpstream reports whether Kubernetes' own packages have a kind in any version.
func isUpstream(gk schema.GroupKind) bool { return len(upstream.Scheme().VersionsForGroupKind(gk)) > 0 }
