package builtin

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/internal/nearest"
	"espalier.dev/server/builtin"
)

// Unknown says why an object is of no built-in kind, although it probably should be.
type Unknown struct {
	// Field is the field that is probably wrong: apiVersion or kind.
	Field string
	// Message is what is wrong, and Meant what was probably meant, or empty.
	Message, Meant string
	// Exists is set if Kubernetes has the kind, but does not serve it by default.
	Exists bool
}

// Group reports whether Kubernetes itself has a group, or had it.
func Group(group string) bool {
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

// Explain says why an object of a group of Kubernetes is of no built-in kind. It returns nil if it
// does not know.
func (c *Checker) Explain(apiVersion, kind string) *Unknown {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if !Group(gvk.Group) {
		return nil
	}
	u := &Unknown{Field: "apiVersion", Message: fmt.Sprintf("Kubernetes has no %s %s", apiVersion, kind)}
	obj, err := scheme.Scheme.New(gvk)
	if err == nil {
		if version := removedIn(obj); version != "" {
			u.Message = fmt.Sprintf("%s %s has not been served since Kubernetes %s", apiVersion, kind, version)
		} else {
			u.Field, u.Exists = "kind", true
			u.Message = fmt.Sprintf("Kubernetes stores no objects of %s %s", apiVersion, kind)
			if strings.Contains(gvk.Version, "alpha") || strings.Contains(gvk.Version, "beta") {
				u.Message = fmt.Sprintf("Kubernetes does not serve %s %s by default", apiVersion, kind)
			}
		}
	} else if kind == "PodSecurityPolicy" {
		u.Field, u.Message = "kind", fmt.Sprintf("%s %s has not been served since Kubernetes 1.25", apiVersion, kind)
		return u
	}
	if r := c.find(func(r *builtin.Resource) bool { return r.Kind == kind && r.Group == gvk.Group }); r != nil {
		u.Field, u.Meant = "apiVersion", r.GroupVersionKind().GroupVersion().String()
		return u
	}
	if replaced, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok && c.kinds()[replaced.APILifecycleReplacement()] != nil {
		u.Meant = replaced.APILifecycleReplacement().GroupVersion().String()
		return u
	}
	if err == nil {
		return u
	}
	if r := c.find(func(r *builtin.Resource) bool { return r.Kind == kind }); r != nil {
		u.Meant = r.GroupVersionKind().GroupVersion().String()
		return u
	}
	u.Field = "kind"
	gv := gvk.GroupVersion()
	if u.Meant = nearest.Name(kind, c.names(func(r *builtin.Resource) bool { return r.GroupVersionKind().GroupVersion() == gv })); u.Meant != "" {
		return u
	}
	if meant := nearest.Name(kind, c.names(func(*builtin.Resource) bool { return true })); meant != "" {
		r := c.find(func(r *builtin.Resource) bool { return r.Kind == meant })
		u.Meant = r.GroupVersionKind().GroupVersion().String() + " " + meant
		return u
	}
	return nil
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
	if major > 1 || minor > KubernetesMinor {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// KubernetesMinor is the minor version of Kubernetes whose kinds are built in.
const KubernetesMinor = 37

// Versions returns the apiVersions of a built-in kind, without its group.
func (c *Checker) Versions(kind string) (all []schema.GroupVersion) {
	for _, r := range c.all() {
		if r.Kind == kind {
			all = append(all, r.GroupVersionKind().GroupVersion())
		}
	}
	return all
}

func (c *Checker) all() []*builtin.Resource {
	c.kinds()
	return c.resources
}

// find returns the first built-in resource that fits, or nil.
func (c *Checker) find(fits func(*builtin.Resource) bool) *builtin.Resource {
	all := c.all()
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i]
	}
	return nil
}

// names returns the kinds of the built-in resources that fit.
func (c *Checker) names(fits func(*builtin.Resource) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, r := range c.all() {
			if fits(r) && !yield(r.Kind) {
				return
			}
		}
	}
}
