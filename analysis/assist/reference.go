package assist

import (
	"strings"

	"espalier.dev/schema"
)

// target is a kind that a field refers to by name.
type target struct {
	group, kind string
	// cluster is set for kinds that have no namespace.
	cluster bool
}

// fieldTargets has the fields that are names of objects.
func fieldTargets() map[string]target {
	return map[string]target{
		"serviceAccountName":  {kind: "ServiceAccount"},
		"serviceAccount":      {kind: "ServiceAccount"},
		"claimName":           {kind: "PersistentVolumeClaim"},
		"storageClassName":    {group: "storage.k8s.io", kind: "StorageClass", cluster: true},
		"storageClass":        {group: "storage.k8s.io", kind: "StorageClass", cluster: true},
		"priorityClassName":   {group: "scheduling.k8s.io", kind: "PriorityClass", cluster: true},
		"runtimeClassName":    {group: "node.k8s.io", kind: "RuntimeClass", cluster: true},
		"ingressClassName":    {group: "networking.k8s.io", kind: "IngressClass", cluster: true},
		"gatewayClassName":    {group: "gateway.networking.k8s.io", kind: "GatewayClass", cluster: true},
		"volumeName":          {kind: "PersistentVolume", cluster: true},
		"secretName":          {kind: "Secret"},
		"configMapName":       {kind: "ConfigMap"},
		"nodeName":            {kind: "Node", cluster: true},
		"namespace":           {kind: "Namespace", cluster: true},
		"policyName":          {group: "admissionregistration.k8s.io", kind: "ValidatingAdmissionPolicy", cluster: true},
		"resourceClassName":   {group: "resource.k8s.io", kind: "DeviceClass", cluster: true},
		"deviceClassName":     {group: "resource.k8s.io", kind: "DeviceClass", cluster: true},
		"resourceClaimName":   {group: "resource.k8s.io", kind: "ResourceClaim"},
		"volumeSnapshotClass": {group: "snapshot.storage.k8s.io", kind: "VolumeSnapshotClass", cluster: true},
	}
}

// objectTargets has the fields that are objects, or lists of objects, with the name of another object.
func objectTargets() map[string]target {
	return map[string]target{
		"secretKeyRef":     {kind: "Secret"},
		"secretRef":        {kind: "Secret"},
		"configMapKeyRef":  {kind: "ConfigMap"},
		"configMapRef":     {kind: "ConfigMap"},
		"configMap":        {kind: "ConfigMap"},
		"imagePullSecrets": {kind: "Secret"},
		"secrets":          {kind: "Secret"},
		"service":          {kind: "Service"},
		"scaleTargetRef":   {group: "apps", kind: "Deployment"},
		"roleRef":          {group: "rbac.authorization.k8s.io", kind: "Role"},
		"clusterRoleRef":   {group: "rbac.authorization.k8s.io", kind: "ClusterRole", cluster: true},
		"issuerRef":        {group: "cert-manager.io", kind: "Issuer"},
	}
}

// reference returns what the value at the place refers to.
func (c *completion) reference() (Reference, bool) {
	p := c.place
	path := p.Path
	for len(path) > 0 && path[len(path)-1].Kind == schema.Index {
		path = path[:len(path)-1]
	}
	n := len(path)
	if n == 0 {
		return Reference{}, false
	}
	namespace := ""
	if meta := p.tree.root.entry("metadata"); meta != nil {
		namespace = p.tree.scalars(meta)["namespace"]
	}
	name, around := path[n-1].Key, ""
	for i := n - 2; i >= 0 && around == ""; i-- {
		around = path[i].Key
	}
	if name == "namespace" && around == "metadata" && n == 2 {
		return Reference{Kind: "Namespace"}, true
	}
	if t, ok := fieldTargets()[name]; ok && c.isString() {
		return t.reference(namespace), true
	}
	if name != "name" || n < 2 {
		return Reference{}, false
	}
	if ns := p.Siblings["namespace"]; ns != "" {
		namespace = ns
	}
	t, known := objectTargets()[around]
	if !known {
		lower := strings.ToLower(around)
		stem := strings.TrimSuffix(strings.TrimSuffix(lower, "s"), "ref")
		switch {
		case p.Siblings["kind"] != "" && (around == "subjects" || stem != strings.TrimSuffix(lower, "s") || p.Siblings["apiVersion"] != "" || p.Siblings["apiGroup"] != ""):
		case stem == strings.TrimSuffix(lower, "s"):
			return Reference{}, false
		default:
			if t = c.kindCalled(stem); t.kind == "" {
				return Reference{}, false
			}
		}
	}
	ref := t.reference(namespace)
	if kind := p.Siblings["kind"]; kind != "" {
		ref.Kind, ref.AnyGroup = kind, true
		for _, key := range []string{"apiGroup", "group", "apiVersion"} {
			if text, given := p.Siblings[key]; given {
				ref.Group, ref.AnyGroup = groupOf(key, text), false
			}
		}
		if strings.HasPrefix(kind, "Cluster") || kind == "Namespace" || kind == "Node" {
			ref.Namespace = ""
		}
	}
	return ref, true
}

// groupOf returns the group in the text of a field.
func groupOf(key, text string) string {
	if key != "apiVersion" {
		return text
	}
	group, _, found := strings.Cut(text, "/")
	if !found {
		return ""
	}
	return group
}

func (t target) reference(namespace string) Reference {
	if t.cluster {
		namespace = ""
	}
	return Reference{Group: t.group, Kind: t.kind, Namespace: namespace}
}

// kindCalled returns the kind whose name in lower case is given.
func (c *completion) kindCalled(lower string) (t target) {
	if c.env.Kinds == nil || lower == "" {
		return t
	}
	for _, k := range c.env.Kinds() {
		if strings.ToLower(k.Kind) == lower {
			return target{group: groupOf("apiVersion", k.APIVersion), kind: k.Kind}
		}
	}
	return t
}

// isString reports whether the value at the place is a string, as far as it is known.
func (c *completion) isString() bool {
	at, ok := c.env.cursor(c.place, c.place.Path)
	return !ok || at.Schema().Type == "string"
}
