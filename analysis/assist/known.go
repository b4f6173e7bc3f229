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
	if len(names) == 0 {
		return nil
	}
	name, around := names[len(names)-1], ""
	if len(names) > 1 {
		around = names[len(names)-2]
	}
	switch name {
	case "imagePullPolicy":
		return []string{"IfNotPresent", "Always", "Never"}
	case "restartPolicy":
		switch {
		case around == "containers" || around == "initContainers":
			return []string{"Always", "OnFailure", "Never"}
		case kind == "Job" || kind == "CronJob":
			return []string{"OnFailure", "Never"}
		case around == "resizePolicy":
			return []string{"NotRequired", "RestartContainer"}
		}
		return []string{"Always", "OnFailure", "Never"}
	case "dnsPolicy":
		return []string{"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"}
	case "terminationMessagePolicy":
		return []string{"File", "FallbackToLogsOnError"}
	case "protocol":
		return []string{"TCP", "UDP", "SCTP"}
	case "scheme":
		return []string{"HTTP", "HTTPS"}
	case "pathType":
		return []string{"Prefix", "Exact", "ImplementationSpecific"}
	case "externalTrafficPolicy", "internalTrafficPolicy":
		return []string{"Cluster", "Local"}
	case "sessionAffinity":
		return []string{"None", "ClientIP"}
	case "ipFamilyPolicy":
		return []string{"SingleStack", "PreferDualStack", "RequireDualStack"}
	case "accessModes":
		return []string{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}
	case "volumeMode":
		return []string{"Filesystem", "Block"}
	case "persistentVolumeReclaimPolicy", "reclaimPolicy":
		return []string{"Retain", "Delete", "Recycle"}
	case "volumeBindingMode":
		return []string{"Immediate", "WaitForFirstConsumer"}
	case "concurrencyPolicy":
		return []string{"Allow", "Forbid", "Replace"}
	case "completionMode":
		return []string{"NonIndexed", "Indexed"}
	case "podManagementPolicy":
		return []string{"OrderedReady", "Parallel"}
	case "effect":
		return []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	case "whenUnsatisfiable":
		return []string{"DoNotSchedule", "ScheduleAnyway"}
	case "topologyKey":
		return []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"}
	case "policyTypes":
		return []string{"Ingress", "Egress"}
	case "verbs":
		return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"}
	case "failurePolicy":
		return []string{"Fail", "Ignore"}
	case "sideEffects":
		return []string{"None", "NoneOnDryRun"}
	case "preemptionPolicy":
		return []string{"PreemptLowerPriority", "Never"}
	case "validationActions":
		return []string{"Deny", "Warn", "Audit"}
	case "operator":
		switch around {
		case "tolerations":
			return []string{"Equal", "Exists"}
		case "matchExpressions", "matchFields":
			return []string{"In", "NotIn", "Exists", "DoesNotExist"}
		}
	case "kind":
		if around == "subjects" {
			return []string{"ServiceAccount", "User", "Group"}
		}
	case "type":
		return knownTypes(kind, around)
	}
	return nil
}

// knownTypes returns the values of a field that is called type.
func knownTypes(kind, around string) []string {
	switch {
	case kind == "Service" && around == "spec":
		return []string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}
	case kind == "Deployment" && around == "strategy":
		return []string{"RollingUpdate", "Recreate"}
	case around == "updateStrategy":
		return []string{"RollingUpdate", "OnDelete"}
	case kind == "Secret":
		return []string{"Opaque", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth",
			"kubernetes.io/ssh-auth", "kubernetes.io/service-account-token"}
	case around == "seccompProfile" || around == "appArmorProfile":
		return []string{"RuntimeDefault", "Localhost", "Unconfined"}
	case around == "hostPath":
		return []string{"DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}
	case kind == "HorizontalPodAutoscaler" && around == "metrics":
		return []string{"Resource", "Pods", "Object", "External", "ContainerResource"}
	case kind == "HorizontalPodAutoscaler" && around == "target":
		return []string{"Utilization", "AverageValue", "Value"}
	case kind == "LimitRange":
		return []string{"Container", "Pod", "PersistentVolumeClaim"}
	}
	return nil
}
