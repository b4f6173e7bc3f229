package namespaces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions returns the conditions of a namespace that is being deleted, in the words of
// Kubernetes.
func conditions(f *findings) []corev1.NamespaceCondition {
	good := func(t corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	bad := func(t corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: bounded(message)}
	}
	all := []corev1.NamespaceCondition{
		good(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered"),
		good(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions", "All legacy kube types successfully parsed"),
		good(corev1.NamespaceDeletionContentFailure, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		good(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed"),
		good(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
	if n := len(f.undiscovered); n > 0 {
		var texts []string
		for _, gv := range f.undiscovered {
			texts = append(texts, fmt.Sprintf("%s: stale GroupVersion discovery: %[1]s", gv))
		}
		all[0] = bad(corev1.NamespaceDeletionDiscoveryFailure, "DiscoveryFailed",
			fmt.Sprintf("Discovery failed for some groups, %d failing: unable to retrieve the complete list of server APIs: %s", n, strings.Join(texts, ", ")))
	}
	if len(f.failures) > 0 {
		var texts []string
		for _, err := range f.failures {
			texts = append(texts, err.Error())
		}
		slices.Sort(texts)
		all[2] = bad(corev1.NamespaceDeletionContentFailure, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(texts), strings.Join(texts, ", ")))
	}
	if len(f.remaining) > 0 {
		all[3] = bad(corev1.NamespaceContentRemaining, "SomeResourcesRemain",
			"Some resources are remaining: "+counts(f.remaining, "%s has %d resource instances"))
	}
	if len(f.finalizers) > 0 {
		all[4] = bad(corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+counts(f.finalizers, "%s in %d resource instances"))
	}
	return all
}

// maxMessage limits the size of a message, as Kubernetes does for most conditions: other servers can have any
// number of resources, and errors of any length.
const maxMessage = 32 << 10

// bounded returns the beginning of a message.
func bounded(message string) string {
	const more = "..."
	if len(message) > maxMessage {
		message = message[:maxMessage-len(more)] + more
	}
	return strings.ToValidUTF8(message, "")
}

// counts renders numbers in the order of their names.
func counts(m map[string]int, format string) string {
	var texts []string
	for name, n := range m {
		texts = append(texts, fmt.Sprintf(format, name, n))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// merge sets conditions, and reports whether one has changed.
func merge(old, set []corev1.NamespaceCondition) (merged []corev1.NamespaceCondition, changed bool) {
	merged = slices.Clone(old)
	for _, c := range set {
		i := slices.IndexFunc(merged, func(have corev1.NamespaceCondition) bool { return have.Type == c.Type })
		if i < 0 {
			c.LastTransitionTime = metav1.Now()
			merged, changed = append(merged, c), true
			continue
		}
		have := merged[i]
		c.LastTransitionTime = have.LastTransitionTime
		if have.Status != c.Status {
			c.LastTransitionTime = metav1.Now()
		}
		if have.Status != c.Status || have.Reason != c.Reason || have.Message != c.Message {
			merged[i], changed = c, true
		}
	}
	return merged, changed
}

// report writes the findings into the status of a namespace.
func (l *Lifecycle) report(ctx context.Context, ns *corev1.Namespace, f *findings) error {
	set := conditions(f)
	if _, changed := merge(ns.Status.Conditions, set); !changed {
		return nil
	}
	return l.update(ctx, ns, "status", func(ns *corev1.Namespace) {
		ns.Status.Conditions, _ = merge(ns.Status.Conditions, set)
	})
}
