package lookup

// KubernetesMinor is the minor version of Kubernetes whose kinds are built in.
const KubernetesMinor = 37

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
