package lookup

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/internal/nearest"
)

// Kinds are Kubernetes' own kinds, which have no CRD.
type Kinds struct {
	served []schema.GroupVersionKind
	byKind map[schema.GroupVersionKind]bool
	known  *runtime.Scheme
	minor  int
}

// NewKinds returns the given kinds, in the order of discovery. known has the Go types of all kinds
// that Kubernetes has or had. minor is the minor version of Kubernetes.
func NewKinds(served []schema.GroupVersionKind, known *runtime.Scheme, minor int) *Kinds {
	k := &Kinds{served: served, byKind: map[schema.GroupVersionKind]bool{}, known: known, minor: minor}
	for _, gvk := range served {
		k.byKind[gvk] = true
	}
	return k
}

// Has reports whether a kind is built in.
func (k *Kinds) Has(apiVersion, kind string) bool {
	return k.byKind[schema.FromAPIVersionAndKind(apiVersion, kind)]
}

// knows reports whether Kubernetes has a kind, or had it.
func (k *Kinds) knows(gk schema.GroupKind) bool { return len(k.known.VersionsForGroupKind(gk)) > 0 }

// isKubernetesGroup reports whether Kubernetes itself has a group, or had it.
func isKubernetesGroup(group string) bool {
	switch group {
	case "", "apps", "autoscaling", "batch", "extensions", "policy",
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
		"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
		"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
		"rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io":
		return true
	}
	return false
}

// missing says why an object of a group of Kubernetes is of no built-in kind. It returns nil if it
// does not know.
func (k *Kinds) missing(apiVersion, kind string) *Missing {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if !isKubernetesGroup(gvk.Group) {
		return nil
	}
	e := &Missing{Field: "apiVersion", Message: fmt.Sprintf("Kubernetes has no %s %s", apiVersion, kind)}
	meant := func(what string) *Missing {
		e.Message += nearest.DidYouMean(what)
		return e
	}
	obj, err := k.known.New(gvk)
	if err == nil {
		if version := k.removedIn(obj); version != "" {
			e.Message = fmt.Sprintf("%s %s has not been served since Kubernetes %s", apiVersion, kind, version)
		} else {
			e.Field, e.Unrelated = "kind", true
			e.Message = fmt.Sprintf("Kubernetes stores no objects of %s %s", apiVersion, kind)
			if strings.Contains(gvk.Version, "alpha") || strings.Contains(gvk.Version, "beta") {
				e.Message = fmt.Sprintf("Kubernetes does not serve %s %s by default", apiVersion, kind)
			}
		}
	} else if kind == "PodSecurityPolicy" {
		e.Field, e.Message = "kind", fmt.Sprintf("%s %s has not been served since Kubernetes 1.25", apiVersion, kind)
		return e
	}
	if gv := k.find(func(other schema.GroupVersionKind) bool { return other.GroupKind() == gvk.GroupKind() }); gv != "" {
		e.Field = "apiVersion"
		return meant(gv)
	}
	if replaced, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok && k.byKind[replaced.APILifecycleReplacement()] {
		return meant(replaced.APILifecycleReplacement().GroupVersion().String())
	}
	if err == nil {
		return e
	}
	if gv := k.find(func(other schema.GroupVersionKind) bool { return other.Kind == kind }); gv != "" {
		return meant(gv)
	}
	e.Field = "kind"
	same := func(other schema.GroupVersionKind) bool { return other.GroupVersion() == gvk.GroupVersion() }
	if near := nearest.Name(kind, k.names(same)); near != "" {
		return meant(near)
	}
	if near := nearest.Name(kind, k.names(func(schema.GroupVersionKind) bool { return true })); near != "" {
		return meant(k.find(func(other schema.GroupVersionKind) bool { return other.Kind == near }) + " " + near)
	}
	return nil
}

// meant returns the apiVersion of the built-in kind that an object of another group is probably of,
// or "".
func (k *Kinds) meant(gk schema.GroupKind) string {
	if gk.Group == "" {
		return ""
	}
	return k.find(func(other schema.GroupVersionKind) bool {
		return other.Kind == gk.Kind &&
			(similarGroups(gk.Group, other.Group) || strings.HasPrefix(other.Group, gk.Group+".") || gk.Group == "core" && other.Group == "")
	})
}

// removedIn returns the version of Kubernetes that has removed a kind, or "".
func (k *Kinds) removedIn(obj any) string {
	removed, ok := obj.(interface {
		APILifecycleRemoved() (major, minor int)
	})
	if !ok {
		return ""
	}
	major, minor := removed.APILifecycleRemoved()
	if major > 1 || minor > k.minor {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// find returns the apiVersion of the first kind that fits, or "".
func (k *Kinds) find(fits func(schema.GroupVersionKind) bool) string {
	if i := slices.IndexFunc(k.served, fits); i >= 0 {
		return k.served[i].GroupVersion().String()
	}
	return ""
}

// names returns the kinds that fit, without their versions.
func (k *Kinds) names(fits func(schema.GroupVersionKind) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, gvk := range k.served {
			if fits(gvk) && !yield(gvk.Kind) {
				return
			}
		}
	}
}
