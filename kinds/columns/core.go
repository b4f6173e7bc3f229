package columns

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/labels"

	"espalier.dev/kinds/kind"
)

func podTemplateColumns() []column {
	names, images := containers(func(t *corev1.PodTemplate) []corev1.Container { return t.Template.Spec.Containers })
	return []column{
		name(), names, images,
		text("Pod Labels", "The labels for the pod template.",
			func(t *corev1.PodTemplate) any { return labels.FormatLabels(t.Template.Labels) }),
	}
}

func serviceColumns() []column {
	spec := corev1.ServiceSpec{}.SwaggerDoc()
	return []column{
		name(),
		text("Type", spec["type"], func(s *corev1.Service) any { return string(s.Spec.Type) }),
		text("Cluster-IP", spec["clusterIP"], func(s *corev1.Service) any {
			if len(s.Spec.ClusterIPs) == 0 {
				return none
			}
			return s.Spec.ClusterIPs[0]
		}),
		text("External-IP", spec["externalIPs"], func(s *corev1.Service) any { return externalIP(s) }),
		text("Port(s)", spec["ports"], func(s *corev1.Service) any {
			return or(joined(s.Spec.Ports, ",", func(p corev1.ServicePort) string {
				if p.NodePort > 0 {
					return fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
				}
				return fmt.Sprintf("%d/%s", p.Port, p.Protocol)
			}), none)
		}),
		age(),
		wide(text("Selector", spec["selector"], func(s *corev1.Service) any { return labels.FormatLabels(s.Spec.Selector) })),
	}
}

func externalIP(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return or(strings.Join(s.Spec.ExternalIPs, ","), none)
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		ips := balancers(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) (string, string) { return i.IP, i.Hostname })
		return or(strings.Join(append(ips, s.Spec.ExternalIPs...), ","), "<pending>")
	}
	return unknown
}

// balancers returns the addresses of load balancers in order: IP addresses if they have one,
// host names otherwise.
func balancers[I any](ingress []I, address func(I) (ip, hostname string)) []string {
	var out []string
	for _, i := range ingress {
		ip, hostname := address(i)
		if a := or(ip, hostname); a != "" {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func endpointsColumns() []column {
	return []column{
		name(),
		text("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"], func(e *corev1.Endpoints) any {
			if len(e.Subsets) == 0 {
				return none
			}
			var all []string
			for _, s := range e.Subsets {
				for _, a := range s.Addresses {
					if len(s.Ports) == 0 {
						all = append(all, a.IP)
					}
				}
				for _, p := range s.Ports {
					for _, a := range s.Addresses {
						all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
					}
				}
			}
			return few(all, ",", 3, len(all))
		}),
		age(),
	}
}

func nodeColumns() []column {
	info, addresses := corev1.NodeSystemInfo{}.SwaggerDoc(), corev1.NodeStatus{}.SwaggerDoc()["addresses"]
	address := func(addressType corev1.NodeAddressType) func(*corev1.Node) any {
		return func(n *corev1.Node) any {
			i := slices.IndexFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == addressType })
			if i < 0 {
				return none
			}
			return n.Status.Addresses[i].Address
		}
	}
	return []column{
		name(),
		text("Status", "The status of the node", func(n *corev1.Node) any { return nodeStatus(n) }),
		text("Roles", "The roles of the node", func(n *corev1.Node) any { return or(strings.Join(nodeRoles(n), ","), none) }),
		age(),
		text("Version", info["kubeletVersion"], func(n *corev1.Node) any { return n.Status.NodeInfo.KubeletVersion }),
		wide(text("Internal-IP", addresses, address(corev1.NodeInternalIP))),
		wide(text("External-IP", addresses, address(corev1.NodeExternalIP))),
		wide(text("OS-Image", info["osImage"], func(n *corev1.Node) any { return or(n.Status.NodeInfo.OSImage, unknown) })),
		wide(text("Kernel-Version", info["kernelVersion"], func(n *corev1.Node) any {
			kernel := or(n.Status.NodeInfo.KernelVersion, unknown)
			if a := n.Status.NodeInfo.Architecture; a != "" {
				return kernel + " (" + a + ")"
			}
			return kernel
		})),
		wide(text("Container-Runtime", info["containerRuntimeVersion"], func(n *corev1.Node) any {
			return or(n.Status.NodeInfo.ContainerRuntimeVersion, unknown)
		})),
	}
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions { // the last one of a type counts
		if c.Type != corev1.NodeReady {
			continue
		}
		if status = "NotReady"; c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// nodeRoles returns the roles that the labels of a node name, sorted.
func nodeRoles(n *corev1.Node) []string {
	var roles []string
	for label, value := range n.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if label == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// eventColumns returns the columns of events of both groups, which core converts to the old
// one.
func eventColumns[T kind.Object](core func(T) *corev1.Event) []column {
	doc := corev1.Event{}.SwaggerDoc()
	cell := func(of func(*corev1.Event) any) func(T) any { return func(e T) any { return of(core(e)) } }
	first := func(e *corev1.Event) string {
		if e.FirstTimestamp.IsZero() {
			return since(e.EventTime.Time)
		}
		return since(e.FirstTimestamp.Time)
	}
	return []column{
		text("Last Seen", doc["lastTimestamp"], cell(func(e *corev1.Event) any {
			switch {
			case e.Series != nil:
				return since(e.Series.LastObservedTime.Time)
			case e.LastTimestamp.IsZero():
				return first(e)
			}
			return since(e.LastTimestamp.Time)
		})),
		text("Type", doc["type"], cell(func(e *corev1.Event) any { return e.Type })),
		text("Reason", doc["reason"], cell(func(e *corev1.Event) any { return e.Reason })),
		text("Object", doc["involvedObject"], cell(func(e *corev1.Event) any {
			target := strings.ToLower(e.InvolvedObject.Kind)
			if e.InvolvedObject.Name == "" {
				return target
			}
			return target + "/" + e.InvolvedObject.Name
		})),
		wide(text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"],
			cell(func(e *corev1.Event) any { return e.InvolvedObject.FieldPath }))),
		wide(text("Source", doc["source"], cell(func(e *corev1.Event) any {
			source := or(e.Source.Component, e.ReportingController)
			if host := or(e.Source.Host, e.ReportingInstance); host != "" {
				return source + ", " + host
			}
			return source
		}))),
		text("Message", doc["message"], cell(func(e *corev1.Event) any { return strings.TrimSpace(e.Message) })),
		wide(text("First Seen", doc["firstTimestamp"], cell(func(e *corev1.Event) any { return first(e) }))),
		wide(text("Count", doc["count"], cell(func(e *corev1.Event) any {
			switch {
			case e.Series != nil:
				return int64(e.Series.Count)
			case e.Count == 0: // the new group has no count for single events
				return int64(1)
			}
			return int64(e.Count)
		}))),
		wide(name()),
	}
}

// coreEvent returns what tables show of an event as an event of the core group.
func coreEvent(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Type: e.Type, Reason: e.Reason, Message: e.Note, EventTime: e.EventTime,
		FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp,
		Count: e.DeprecatedCount, Source: e.DeprecatedSource,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

func namespaceColumns() []column {
	return []column{
		name(),
		text("Status", "The status of the namespace", func(n *corev1.Namespace) any { return string(n.Status.Phase) }),
		age(),
	}
}

func secretColumns() []column {
	doc := corev1.Secret{}.SwaggerDoc()
	return []column{
		name(),
		text("Type", doc["type"], func(s *corev1.Secret) any { return string(s.Type) }),
		text("Data", doc["data"], func(s *corev1.Secret) any { return int64(len(s.Data)) }),
		age(),
	}
}

func configMapColumns() []column {
	return []column{
		name(),
		text("Data", corev1.ConfigMap{}.SwaggerDoc()["data"],
			func(c *corev1.ConfigMap) any { return int64(len(c.Data) + len(c.BinaryData)) }),
		age(),
	}
}

func persistentVolumeColumns() []column {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return []column{
		name(),
		text("Capacity", spec["capacity"], func(v *corev1.PersistentVolume) any { return v.Spec.Capacity.Storage().String() }),
		text("Access Modes", spec["accessModes"], func(v *corev1.PersistentVolume) any { return accessModes(v.Spec.AccessModes) }),
		text("Reclaim Policy", spec["persistentVolumeReclaimPolicy"], func(v *corev1.PersistentVolume) any {
			return string(v.Spec.PersistentVolumeReclaimPolicy)
		}),
		text("Status", status["phase"], func(v *corev1.PersistentVolume) any { return phase(v, v.Status.Phase) }),
		text("Claim", spec["claimRef"], func(v *corev1.PersistentVolume) any {
			if v.Spec.ClaimRef == nil {
				return ""
			}
			return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
		}),
		text("StorageClass", "StorageClass of the pv",
			func(v *corev1.PersistentVolume) any { return storageClass(v, v.Spec.StorageClassName) }),
		text("VolumeAttributesClass", "VolumeAttributesClass of the pv", func(v *corev1.PersistentVolume) any {
			return orElse(v.Spec.VolumeAttributesClassName, unset)
		}),
		text("Reason", status["reason"], func(v *corev1.PersistentVolume) any { return v.Status.Reason }),
		age(),
		wide(text("VolumeMode", spec["volumeMode"], func(v *corev1.PersistentVolume) any { return orElse(v.Spec.VolumeMode, unset) })),
	}
}

func persistentVolumeClaimColumns() []column {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	// What a volume provides is shown as soon as there is one.
	bound := func(cell func(*corev1.PersistentVolumeClaim) string) func(*corev1.PersistentVolumeClaim) any {
		return func(c *corev1.PersistentVolumeClaim) any {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return cell(c)
		}
	}
	return []column{
		name(),
		text("Status", status["phase"], func(c *corev1.PersistentVolumeClaim) any { return phase(c, c.Status.Phase) }),
		text("Volume", spec["volumeName"], func(c *corev1.PersistentVolumeClaim) any { return c.Spec.VolumeName }),
		text("Capacity", status["capacity"],
			bound(func(c *corev1.PersistentVolumeClaim) string { return c.Status.Capacity.Storage().String() })),
		text("Access Modes", status["accessModes"],
			bound(func(c *corev1.PersistentVolumeClaim) string { return accessModes(c.Status.AccessModes) })),
		text("StorageClass", "StorageClass of the pvc", func(c *corev1.PersistentVolumeClaim) any {
			return storageClass(c, orElse(c.Spec.StorageClassName, ""))
		}),
		text("VolumeAttributesClass", "VolumeAttributesClass of the pvc", func(c *corev1.PersistentVolumeClaim) any {
			return orElse(c.Spec.VolumeAttributesClassName, unset)
		}),
		age(),
		wide(text("VolumeMode", spec["volumeMode"], func(c *corev1.PersistentVolumeClaim) any { return orElse(c.Spec.VolumeMode, unset) })),
	}
}

// phase returns the phase of an object, unless it is being deleted.
func phase[P ~string](obj kind.Object, phase P) string {
	if obj.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	return string(phase)
}

// storageClass returns the class that the old annotation names, or the one in the spec.
func storageClass(obj kind.Object, class string) string {
	if old, ok := obj.GetAnnotations()[corev1.BetaStorageClassAnnotation]; ok {
		return old
	}
	return class
}

func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"},
		{corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}

func resourceQuotaColumns() []column {
	used := func(limits bool) func(*corev1.ResourceQuota) any {
		return func(q *corev1.ResourceQuota) any {
			var out []string
			for _, resource := range slices.Sorted(maps.Keys(q.Status.Hard)) {
				if strings.HasPrefix(string(resource), "limits.") == limits {
					used, hard := q.Status.Used[resource], q.Status.Hard[resource]
					out = append(out, fmt.Sprintf("%s: %s/%s", resource, used.String(), hard.String()))
				}
			}
			return strings.Join(out, ", ")
		}
	}
	return []column{
		name(),
		text("Request", "Request represents a minimum amount of cpu/memory that a container may consume.", used(false)),
		text("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
			used(true)),
		age(),
	}
}

func componentStatusColumns() []column {
	health := func(s *corev1.ComponentStatus) corev1.ComponentCondition {
		i := slices.IndexFunc(s.Conditions, func(c corev1.ComponentCondition) bool { return c.Type == corev1.ComponentHealthy })
		if i < 0 {
			return corev1.ComponentCondition{}
		}
		return s.Conditions[i]
	}
	return []column{
		name(),
		text("Status", "Status of the component conditions", func(s *corev1.ComponentStatus) any {
			switch c := health(s); {
			case c.Type == "":
				return "Unknown"
			case c.Status == corev1.ConditionTrue:
				return "Healthy"
			}
			return "Unhealthy"
		}),
		text("Message", "Message of the component conditions", func(s *corev1.ComponentStatus) any { return health(s).Message }),
		text("Error", "Error of the component conditions", func(s *corev1.ComponentStatus) any { return health(s).Error }),
	}
}
