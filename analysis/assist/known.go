package assist

import "espalier.dev/schema"

// knownValues returns the values of a field of a built-in kind whose published schema does not list
// them.
func knownValues(kind string, path schema.Path) []string {
	var names []string
	for _, step := range path {
		if step.Kind != schema.Index {
			names = append(names, step.Key)
		}
	}
	name, around := "", ""
	if n := len(names); n > 0 {
		name = names[n-1]
		if n > 1 {
			around = names[n-2]
		}
	}
	switch {
	case name == "operator" && around == "matchExpressions":
		return []string{"In", "NotIn", "Exists", "DoesNotExist"}
	case name == "restartPolicy" && around == "resizePolicy":
		return []string{"NotRequired", "RestartContainer"}
	case name == "restartPolicy" && (around == "containers" || around == "initContainers"):
		return []string{"Always", "OnFailure", "Never"}
	case name == "topologyKey":
		return []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"}
	case name == "verbs":
		return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"}
	case name == "kind" && around == "subjects":
		return []string{"ServiceAccount", "User", "Group"}
	case name == "type" && kind == "Secret":
		return []string{"Opaque", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth",
			"kubernetes.io/ssh-auth", "kubernetes.io/service-account-token"}
	case name == "type" && kind == "HorizontalPodAutoscaler" && around == "metrics":
		return []string{"Resource", "Pods", "Object", "External", "ContainerResource"}
	case name == "type" && kind == "HorizontalPodAutoscaler":
		return []string{"Utilization", "AverageValue", "Value"}
	case name == "type" && kind == "LimitRange":
		return []string{"Container", "Pod", "PersistentVolumeClaim"}
	}
	return nil
}
