package builtin

// Scenarios returns the cases for admission plugins.
func Scenarios() []*Scenario {
	const (
		namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: default}}`
		cpu       = "spec/containers/0/resources/requests/cpu"
		memory    = "spec/containers/0/resources/limits/memory"
	)
	update := []string{"", "", "status"}
	pods := func(plugin string, s Scenario) *Scenario {
		s.Plugin, s.Kind = plugin, "pods"
		s.Creates = s.Creates || len(s.Subresources) == 0
		return &s
	}
	resources := map[string][]string{
		cpu: {"", "1", "100m", "3", "1500m"}, "spec/containers/0/resources/limits/cpu": {"", "2", "100m", "4"},
		"spec/containers/0/resources/requests/memory": {"", "1Gi", "64Mi"}, memory: {"", "2Gi", "64Mi"},
		"spec/containers/0/resources/requests/ephemeral-storage": {"1Gi"}, "spec/containers/0/resources/requests/example.com~gpu": {"2"},
		"spec/initContainers": {"", `[{name: i, image: i}]`, `[{name: i, image: i, resources: {requests: {cpu: 5, memory: 1Mi}, limits: {cpu: 6}}}]`,
			`[{name: i, image: i, restartPolicy: Always, resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}}, {name: j, image: i, resources: {requests: {cpu: 2}}}]`},
		"spec/resources": {"", "{requests: {cpu: 2}}", "{limits: {cpu: 3, memory: 1Gi}, requests: {memory: 1Gi}}"},
		"spec/overhead":  {"", "{cpu: 250m}"}, "spec/activeDeadlineSeconds": {"", "5", "0"}, "spec/priorityClassName": {"", "high", "low"},
		"status": {"", "{phase: Succeeded}", "{phase: Running, qosClass: BestEffort}", "{qosClass: Burstable, containerStatuses: [{name: c, resources: {requests: {cpu: 7}}, allocatedResources: {cpu: 3}}]}"},
	}
	return []*Scenario{
		pods("Priority", Scenario{Creates: true, Subresources: update, Existing: []string{
			`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 10, preemptionPolicy: Never}`,
			`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 5, globalDefault: true}`,
			`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: other}, value: 7, globalDefault: true}`,
		}, Fields: map[string][]string{
			"spec/priorityClassName": {"", "high", "usual", "missing", "system-node-critical"}, "spec/priority": {"", "0", "5", "10"},
			"spec/preemptionPolicy": {"", "Never", "PreemptLowerPriority"},
		}}),
		{Plugin: "Priority", Kind: "priorityclasses", Creates: true, Subresources: []string{""}, Existing: []string{
			`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 5, globalDefault: true}`,
		}, Fields: map[string][]string{"globalDefault": {"", "true", "false"}, "metadata/name": {"usual", "other"}}},
		pods("DefaultTolerationSeconds", Scenario{Creates: true, Subresources: update, Fields: map[string][]string{
			"spec/tolerations": {"", "[{operator: Exists}]", "[{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}]", "[{key: node.kubernetes.io/unreachable, operator: Equal, value: x}]", "[{operator: Exists, effect: NoSchedule}]"},
		}}),
		{Plugin: "DefaultStorageClass", Kind: "persistentvolumeclaims", Creates: true, Subresources: update, Existing: []string{
			`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: old, creationTimestamp: "2020-01-01T00:00:00Z", annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}`,
			`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: z, creationTimestamp: "2021-01-01T00:00:00Z", annotations: {storageclass.beta.kubernetes.io/is-default-class: "true"}}, provisioner: p}`,
			`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: x, creationTimestamp: "2021-01-01T00:00:00Z", annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}`,
		}, Fields: map[string][]string{"spec/storageClassName": {"", `""`, "gold"}, "metadata/annotations": {"", "{volume.beta.kubernetes.io/storage-class: gold}"}}},
		{Plugin: "DefaultIngressClass", Kind: "ingresses", Creates: true, Subresources: update, Existing: []string{
			`{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: a, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: x.y/z}}`,
			`{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: b, creationTimestamp: "2021-01-01T00:00:00Z", annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: x.y/z}}`,
		}, Fields: map[string][]string{"spec/ingressClassName": {"", "b"}, "metadata/annotations": {"", "{kubernetes.io/ingress.class: a}"}}},
		{Plugin: "StorageObjectInUseProtection", Kind: "persistentvolumeclaims", Creates: true, Subresources: update, Fields: map[string][]string{"metadata/finalizers": {"", "[kubernetes.io/pvc-protection]", "[a/b]"}}},
		{Plugin: "StorageObjectInUseProtection", Kind: "persistentvolumes", Creates: true, Subresources: update, Fields: map[string][]string{"metadata/finalizers": {"", "[kubernetes.io/pv-protection]", "[a/b]"}}},
		{Plugin: "StorageObjectInUseProtection", Kind: "volumeattributesclasses", Creates: true, Subresources: []string{""}, Fields: map[string][]string{"metadata/finalizers": {"", "[kubernetes.io/vac-protection]"}}},
		{Plugin: "TaintNodesByCondition", Kind: "nodes", Creates: true, Subresources: update, Fields: map[string][]string{
			"spec/taints": {"", "[{key: node.kubernetes.io/not-ready, effect: NoSchedule}]", "[{key: node.kubernetes.io/not-ready, effect: NoExecute}]", "[{key: a, value: b, effect: NoSchedule}]"},
		}},
		pods("LimitRanger", Scenario{Creates: true, Subresources: []string{"", "resize"}, Existing: []string{
			`{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: default}, spec: {limits: [{type: Container, default: {cpu: 2}, defaultRequest: {cpu: 1}, min: {cpu: 200m}, max: {cpu: 3}, maxLimitRequestRatio: {cpu: 4}}]}}`,
			`{apiVersion: v1, kind: LimitRange, metadata: {name: b, namespace: default}, spec: {limits: [{type: Pod, max: {cpu: 5, memory: 2Gi}, min: {memory: 1Mi}, maxLimitRequestRatio: {memory: 2}}]}}`,
			`{apiVersion: v1, kind: LimitRange, metadata: {name: c, namespace: other}, spec: {limits: [{type: Pod, max: {cpu: 0}}]}}`,
		}, Fields: resources}),
		{Plugin: "LimitRanger", Kind: "persistentvolumeclaims", Creates: true, Subresources: update, Existing: []string{
			`{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: default}, spec: {limits: [{type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 5Gi}}]}}`,
		}, Fields: map[string][]string{"spec/resources/requests/storage": {"", "1Mi", "2Gi", "9Gi"}, "metadata/deletionTimestamp": {"", "2020-01-01T00:00:00Z"}}},
		pods("RuntimeClass", Scenario{Creates: true, Subresources: update, Existing: []string{
			`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: h, overhead: {podFixed: {cpu: 1, memory: 1Mi}}, scheduling: {nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}, {key: b, operator: Equal, value: c}]}}`,
			`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: plain}, handler: h}`,
		}, Fields: map[string][]string{
			"spec/runtimeClassName": {"", "r", "plain", "missing"}, "spec/overhead": {"", "{cpu: 1, memory: 1Mi}", "{cpu: 2}"},
			"spec/nodeSelector": {"", "{a: b}", "{a: x}", "{c: d}"}, "spec/tolerations": {"", "[{key: a, operator: Equal, value: x}]", "[{key: b, operator: Exists, effect: NoExecute}]"},
		}}),
		{Plugin: "PersistentVolumeClaimResize", Kind: "persistentvolumeclaims", Subresources: update, Existing: []string{
			`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: gold}, provisioner: p, allowVolumeExpansion: true}`,
			`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fixed}, provisioner: p}`,
		}, Fields: map[string][]string{
			"spec/resources/requests/storage": {"1Gi", "2Gi", "3Gi"}, "spec/storageClassName": {"", "gold", "fixed", "missing"}, "status": {"", "{phase: Bound}", "{phase: Pending}"},
		}},
		pods("PodSecurity", Scenario{Creates: true, Subresources: []string{"", "", "status", "ephemeralcontainers"}, Existing: podSecurityNamespaces(), Fields: podSecurityFields("spec")}),
		{Plugin: "PodSecurity", Kind: "deployments", Creates: true, Subresources: update, Existing: podSecurityNamespaces(), Fields: podSecurityFields("spec/template/spec")},
		{Plugin: "PodSecurity", Kind: "cronjobs", Creates: true, Subresources: update, Existing: podSecurityNamespaces(), Fields: podSecurityFields("spec/jobTemplate/spec/template/spec")},
		{Plugin: "PodSecurity", Kind: "namespaces", Creates: true, Subresources: update, Fields: map[string][]string{
			"metadata/labels": {"", "{pod-security.kubernetes.io/enforce: baseline}", "{pod-security.kubernetes.io/enforce: wrong}", "{pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: v1.20}", "{pod-security.kubernetes.io/warn-version: x}"},
			"metadata/name":   {"default"},
		}, Existing: []string{
			`{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}, spec: {hostNetwork: true, containers: [{name: a, image: i}]}}`,
			`{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: default}, spec: {containers: [{name: a, image: i}]}}`,
		}},
		pods("AlwaysPullImages", Scenario{Creates: true, Subresources: update, Fields: map[string][]string{
			"spec/containers/0/image": {"a", "b"}, "spec/containers/0/imagePullPolicy": {"Never", "IfNotPresent"}, "spec/volumes": {"", "[{name: v, image: {reference: x, pullPolicy: Never}}]"},
		}}),
		pods("LimitPodHardAntiAffinityTopology", Scenario{Creates: true, Subresources: update, Fields: map[string][]string{
			"spec/affinity": {"", "{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}", "{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}"},
		}}),
		pods("ExtendedResourceToleration", Scenario{Creates: true, Subresources: update, Fields: map[string][]string{
			"spec/containers/0/resources/requests": {"{example.com/b: 1, example.com/a: 2, cpu: 1}", "{requests.example.com/a: 1}", "{kubernetes.io/x: 1}"},
			"spec/tolerations":                     {"", "[{key: example.com/a, operator: Exists, effect: NoSchedule, tolerationSeconds: 3}]", "[{key: example.com/a, operator: Exists, effect: NoSchedule}]"},
		}}),
		{Plugin: "DenyServiceExternalIPs", Kind: "services", Creates: true, Subresources: update, Fields: map[string][]string{"spec/externalIPs": {"", "[1.2.3.4]", "[1.2.3.4, 1.2.3.5]"}}},
		pods("PodNodeSelector", Scenario{Creates: true, Subresources: update, Existing: []string{namespace},
			Configurations: []string{"", "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b, default: \"a=b,c=d\"}"},
			Fields:         map[string][]string{"spec/nodeSelector": {"", "{a: b}", "{a: x}", "{c: d}", "{e: f}"}}}),
		pods("PodTolerationRestriction", Scenario{Creates: true, Subresources: update, Existing: []string{
			`{apiVersion: v1, kind: Namespace, metadata: {name: default, annotations: {scheduler.alpha.kubernetes.io/defaultTolerations: '[{"key":"k","operator":"Exists"}]', scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[{"key":"k","operator":"Exists"},{"key":"node.kubernetes.io/memory-pressure","operator":"Exists"}]'}}}`,
		}, Fields: map[string][]string{
			"spec/tolerations": {"", "[{key: k, operator: Equal, value: x}]", "[{key: x, operator: Exists}]"}, cpu: {"", "1"},
		}}),
		pods("PodTopologyLabels", Scenario{Creates: true, Subresources: update, Existing: []string{
			`{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r, other: x}}}`,
			`{apiVersion: v1, kind: Node, metadata: {name: n2}}`,
		}, Fields: map[string][]string{"spec/nodeName": {"", "n1", "n2", "n3"}, "metadata/labels": {"", "{topology.kubernetes.io/zone: other}"}}}),
		pods("PodResizeValidator", Scenario{Subresources: []string{"resize", "resize", ""}, Existing: []string{
			`{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/os: linux}}, status: {allocatable: {cpu: 2, memory: 1Gi}}}`,
			`{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {kubernetes.io/os: windows}}}`,
		}, Fields: map[string][]string{
			"spec/nodeName": {"n1", "n1", "n2", "n3"}, "metadata/generation": {"1", "2", "3"}, cpu: {"1", "3"}, "spec/containers/0/resources/requests/memory": {"1Mi", "2Gi"}, "spec/overhead": {"", "{cpu: 1500m}"},
		}}),
		pods("ServiceAccount", Scenario{Creates: true, Subresources: []string{"", "status", "ephemeralcontainers"}, Existing: []string{
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}`,
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: builder, namespace: default}, automountServiceAccountToken: false, imagePullSecrets: [{name: registry}]}`,
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: strict, namespace: default, annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}, secrets: [{name: allowed}]}`,
		}, Fields: map[string][]string{
			"spec/serviceAccountName": {"", "default", "builder", "strict", "missing"}, "spec/automountServiceAccountToken": {"", "true", "false"},
			"spec/volumes": {"", "[{name: s, secret: {secretName: allowed}}]", "[{name: s, secret: {secretName: other}}]"}, "metadata/annotations": {"", "{kubernetes.io/config.mirror: x}"},
			"spec/imagePullSecrets": {"", "[{name: registry}]", "[{name: other}]"},
			"spec/containers/0/env": {"", "[{name: E, valueFrom: {secretKeyRef: {name: other, key: k}}}]"},
			"spec/serviceAccount":   {""},
		}}),

		pods("quota", Scenario{Creates: true, Subresources: []string{"", "resize", "status"}, Existing: append(quotas(), existingPods()...), Fields: resources}),
		{Plugin: "quota", Kind: "services", Creates: true, Subresources: []string{"", "status"}, Existing: append(quotas(),
			`{apiVersion: v1, kind: Service, metadata: {name: a, namespace: default}, spec: {type: NodePort, ports: [{port: 1}, {port: 2}]}}`,
			`{apiVersion: v1, kind: Service, metadata: {name: b, namespace: default}, spec: {type: LoadBalancer, ports: [{port: 1}]}}`,
		), Fields: map[string][]string{
			"spec/type": {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}, "spec/allocateLoadBalancerNodePorts": {"", "false", "true"}, "spec/ports": {"[{port: 1}]", "[{name: a, port: 1, nodePort: 30000}, {name: b, port: 2}]"},
		}},
		{Plugin: "quota", Kind: "persistentvolumeclaims", Creates: true, Subresources: []string{"", "status"}, Existing: append(quotas(),
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, namespace: default}, spec: {storageClassName: gold, resources: {requests: {storage: 1Gi}}}, status: {allocatedResources: {storage: 2Gi}}}`,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: b, namespace: default}, spec: {volumeAttributesClassName: fast, resources: {requests: {storage: 1500m}}}}`,
		), Fields: map[string][]string{
			"spec/resources/requests/storage": {"", "1Gi", "3Gi", "1500m"}, "spec/storageClassName": {"", "gold", "silver"}, "spec/volumeAttributesClassName": {"", "fast", "slow"},
			"status": {"", "{allocatedResources: {storage: 4Gi}}", "{currentVolumeAttributesClassName: fast}", "{modifyVolumeStatus: {targetVolumeAttributesClassName: fast, status: Pending}}"},
		}},
		{Plugin: "quota", Kind: "configmaps", Creates: true, Subresources: []string{""}, Existing: append(quotas(), `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}`, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}`)},
		{Plugin: "quota", Kind: "deployments", Creates: true, Subresources: []string{""}, Existing: append(quotas(), `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: default}, spec: {selector: {}, template: {}}}`)},
	}
}

// quotas returns quotas of what is used little or almost used up.
func quotas() []string {
	quota := func(name, hard, used, more string) string {
		return `{apiVersion: v1, kind: ResourceQuota, metadata: {name: ` + name + `, namespace: default}, spec: {hard: {` + hard + `}` + more + `}, status: {hard: {` + hard + `}, used: {` + used + `}}}`
	}
	return []string{
		quota("compute", "pods: 10, requests.cpu: 4, limits.memory: 4Gi", "pods: 2, requests.cpu: 1500m, limits.memory: 1Gi", ""),
		quota("legacy", "cpu: 8, memory: 8Gi, count/pods: 20, requests.example.com/gpu: 3", "cpu: 1, memory: 1Gi, count/pods: 3, requests.example.com/gpu: 1", ""),
		quota("storage", "requests.storage: 5Gi, gold.storageclass.storage.k8s.io/requests.storage: 2Gi, persistentvolumeclaims: 2", "requests.storage: 1Gi, gold.storageclass.storage.k8s.io/requests.storage: 1Gi, persistentvolumeclaims: 1", ""),
		quota("ephemeral", "requests.ephemeral-storage: 2Gi, limits.cpu: 6", "requests.ephemeral-storage: 1Gi, limits.cpu: 1", ""),
		quota("counts", "configmaps: 2, secrets: 1, count/deployments.apps: 1, services: 3, services.nodeports: 3, services.loadbalancers: 1, count/resourceclaims.resource.k8s.io: 3, gpu.deviceclass.resource.k8s.io/devices: 6",
			"configmaps: 1, secrets: 0, count/deployments.apps: 0, services: 1, services.nodeports: 2, services.loadbalancers: 0, count/resourceclaims.resource.k8s.io: 1, gpu.deviceclass.resource.k8s.io/devices: 2", ""),
		quota("terminating", "pods: 1", "pods: 1", ", scopes: [Terminating]"),
		quota("best-effort", "pods: 1", "pods: 0", ", scopes: [BestEffort, NotTerminating]"),
		quota("not-best-effort", "requests.cpu: 2", "requests.cpu: 1", ", scopes: [NotBestEffort]"),
		quota("high", "pods: 1", "pods: 1", ", scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}"),
		quota("not-low", "pods: 1", "pods: 0", ", scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [low]}]}"),
		quota("affinity", "pods: 0", "pods: 0", ", scopes: [CrossNamespacePodAffinity]"),
		quota("fast", "requests.storage: 1Gi, count/persistentvolumeclaims: 3", "requests.storage: 500Mi, count/persistentvolumeclaims: 1", ", scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [fast]}]}"),
		`{apiVersion: v1, kind: ResourceQuota, metadata: {name: unknown, namespace: default}, spec: {hard: {hugepages-2Mi: 1}}, status: {hard: {hugepages-2Mi: 1}}}`,
	}
}

func existingPods() []string {
	return []string{
		`{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}, spec: {containers: [{name: a, image: i, resources: {requests: {cpu: 1500m, memory: 1Gi, example.com/gpu: 1}, limits: {cpu: 2}}}]}, status: {phase: Running}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: default}, spec: {activeDeadlineSeconds: 5, priorityClassName: high, containers: [{name: a, image: i}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: c, namespace: default}, spec: {containers: [{name: a, image: i, resources: {requests: {cpu: 1}}}]}, status: {phase: Failed}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: d, namespace: default, deletionTimestamp: "2020-01-01T00:00:00Z", deletionGracePeriodSeconds: 30}, spec: {containers: [{name: a, image: i, resources: {requests: {cpu: 1}}}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: e, namespace: other}, spec: {containers: [{name: a, image: i}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: f, namespace: default}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaces: [x]}]}}, containers: [{name: a, image: i, resources: {limits: {memory: 1Gi}}}]}}`,
	}
}

func podSecurityNamespaces() []string {
	return []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {pod-security.kubernetes.io/enforce: baseline, pod-security.kubernetes.io/warn: restricted, pod-security.kubernetes.io/warn-version: v1.25}}}`,
	}
}

// podSecurityFields are fields of pods that the standards restrict.
func podSecurityFields(spec string) map[string][]string {
	return map[string][]string{
		spec + "/hostNetwork": {"", "true"}, spec + "/hostPID": {"", "true"}, spec + "/hostUsers": {"", "false"},
		spec + "/volumes":                      {"", "[{name: h, hostPath: {path: /x}}]", "[{name: shared, nfs: {server: s, path: /p}}]", "[{name: e, emptyDir: {}}]"},
		spec + "/securityContext":              {"", "{runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}", "{sysctls: [{name: kernel.msgmax, value: a}]}", "{runAsUser: 0}", "{seccompProfile: {type: Unconfined}}"},
		spec + "/containers/0/securityContext": {"", "{privileged: true}", "{capabilities: {add: [SYS_ADMIN]}}", "{allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}}", "{procMount: Unmasked}", "{seLinuxOptions: {type: x}}"},
		spec + "/containers/0/ports":           {"", "[{containerPort: 1, hostPort: 1}]"},
	}
}
