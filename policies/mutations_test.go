package policies_test

import "strings"

func pod(spec string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: pod, labels: {app: a}}, spec: " + spec + "}"
}

const plainPod = "{containers: [{name: a, image: a}]}"

// mutations has examples in the manner of Kubernetes' documentation of mutating policies and of its
// end-to-end tests.
func mutations() []example {
	sidecar := "\n---\n{apiVersion: mutations.example.com/v1, kind: Sidecar, metadata: {name: meshproxy-NS}, spec: {name: mesh-proxy, image: mesh/proxy:v1.0.0, restartPolicy: Always}}"
	return []example{
		{"a sidecar",
			mutatingPolicy("sidecar", pods+`, matchConditions: [{name: does-not-already-have-sidecar, expression: "!object.spec.?initContainers.orValue([]).exists(ic, ic.name == 'mesh-proxy')"}],
				failurePolicy: Fail, reinvocationPolicy: IfNeeded,
				mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'mesh-proxy', image: 'mesh/proxy:v1.0.0', restartPolicy: 'Always'}]}}"}}]`, only),
			[]write{{object: pod(plainPod), has: []string{`"mesh-proxy"`}},
				{object: `{apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {initContainers: [{name: mesh-proxy, image: own}, {name: x, image: x}], containers: [{name: a, image: a}]}}`, has: []string{`"own"`}, not: []string{"v1.0.0"}}}},
		{"a sidecar with parameters",
			sidecar + mutatingPolicy("sidecar", "paramKind: {apiVersion: mutations.example.com/v1, kind: Sidecar}, "+pods+`, reinvocationPolicy: IfNeeded, failurePolicy: Fail,
				matchConditions: [{name: new, expression: "!has(object.spec.initContainers) || !object.spec.initContainers.exists(ic, ic.name == params.spec.name)"}],
				mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: params.spec.name, image: params.spec.image, restartPolicy: params.spec.restartPolicy}]}}"}}]`,
				"paramRef: {name: meshproxy-NS, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: pod(plainPod), has: []string{`"mesh/proxy:v1.0.0"`}}}},
		{"a sidecar by JSON patch",
			mutatingPolicy("sidecar", pods+`, failurePolicy: Fail, reinvocationPolicy: IfNeeded,
				matchConditions: [{name: new, expression: "!object.spec.?initContainers.orValue([]).exists(ic, ic.name == 'mesh-proxy')"}],
				mutations: [{patchType: JSONPatch, jsonPatch: {expression: "has(object.spec.initContainers) ? [JSONPatch{op: 'add', path: '/spec/initContainers/-', value: Object.spec.initContainers{name: 'mesh-proxy', image: 'mesh-proxy/v1.0.0', restartPolicy: 'Always'}}] : [JSONPatch{op: 'add', path: '/spec/initContainers', value: [Object.spec.initContainers{name: 'mesh-proxy', image: 'mesh-proxy/v1.0.0', restartPolicy: 'Always'}]}]"}}]`, only),
			[]write{{object: pod(plainPod), has: []string{`"mesh-proxy"`}},
				{object: `{apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {initContainers: [{name: x, image: x}], containers: [{name: a, image: a}]}}`, has: []string{`"mesh-proxy"`, `"x"`}}}},
		{"tests and escaped keys",
			mutatingPolicy("escape", pods+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'test', path: '/metadata/labels/app', value: 'a'}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/environment'), value: 'test'}, JSONPatch{op: 'replace', path: '/metadata/labels/app', value: 'b'}]"}}]`, only),
			[]write{{object: pod(plainPod), has: []string{`"example.com/environment":"test"`, `"app":"b"`}},
				{object: `{apiVersion: v1, kind: Pod, metadata: {name: other, labels: {app: c}}, spec: {containers: [{name: a, image: a}]}}`, has: []string{`"app":"c"`}, not: []string{"environment"}}}},
		{"a patch that cannot be applied",
			mutatingPolicy("broken", pods+`, failurePolicy: Fail, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/metadata/annotations/none'}]"}}]`, only),
			[]write{{object: pod(plainPod), denied: "policy 'broken' with binding 'broken-binding' denied request: JSON Patch: "}}},
		{"a failure that is ignored",
			mutatingPolicy("broken", pods+`, failurePolicy: Ignore, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/metadata/annotations/none'}]"}}]`, only),
			[]write{{object: pod(plainPod)}}},
		{"a field that is removed",
			mutatingPolicy("remove", deployments+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{?annotations: optional.of({'keep': 'x'}), labels: {'new': string(object.spec.replicas)}}, spec: Object.spec{?paused: optional.none()}}"}}]`, only),
			[]write{{object: deployment(2, "a"), has: []string{`"new":"2"`}}}},
		{"atomic values cannot be applied",
			mutatingPolicy("atomic", pods+`, failurePolicy: Fail, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}"}}]`, only),
			[]write{{object: pod(plainPod), denied: "may not mutate atomic arrays, maps or structs"}}},
		{"containers are merged by name",
			mutatingPolicy("containers", deployments+`, reinvocationPolicy: Never, variables: [{name: first, expression: "object.spec.template.spec.containers[0].name"}],
				mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: variables.first, imagePullPolicy: 'Never'}, Object.spec.template.spec.containers{name: 'added', image: 'b'}]}}}}"}}]`, only),
			[]write{{object: deployment(1, "a"), has: []string{`"imagePullPolicy":"Never"`, `"added"`}}}},
		{"mutation before validation",
			mutatingPolicy("lower", deployments+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{replicas: object.spec.replicas > 5 ? 5 : object.spec.replicas}}"}}]`, only) +
				validatingPolicy("limit", deployments+`, validations: [{expression: "object.spec.replicas <= 5"}]`, "validationActions: [Deny], "+only),
			[]write{{object: deployment(50, "a"), has: []string{`"replicas":5`}}}},
		{"an invalid result of mutation is validated by policies",
			mutatingPolicy("raise", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'replace', path: '/spec/beds', value: 99}]"}}]`, only) +
				validatingPolicy("limit", gardens+`, validations: [{expression: "object.spec.beds < 50"}]`, "validationActions: [Deny], "+only),
			[]write{{object: garden("v1", "{beds: 5}"), denied: "object.spec.beds < 50"}}},
		{"policies that are applied again",
			mutatingPolicy("a", gardens+`, reinvocationPolicy: IfNeeded, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/owner', value: (has(object.spec.tags) ? object.spec.tags.b : 'none')}]"}}]`, only) +
				mutatingPolicy("b", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/tags', value: {'b': 'later'}}]"}}]`, only),
			[]write{{object: garden("v1", "{beds: 1}"), has: []string{`"owner":"later"`}}}},
		{"policies that are not applied again",
			mutatingPolicy("a", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/owner', value: (has(object.spec.tags) ? object.spec.tags.b : 'none')}]"}}]`, only) +
				mutatingPolicy("b", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/tags', value: {'b': 'later'}}]"}}]`, only),
			[]write{{object: garden("v1", "{beds: 1}"), has: []string{`"owner":"none"`}}}},
		{"policies that match what others have changed",
			mutatingPolicy("a", strings.Replace(gardens, "{resourceRules", "{objectSelector: {matchLabels: {late: x}}, resourceRules", 1)+`, reinvocationPolicy: IfNeeded,
				matchConditions: [{name: owned, expression: "object.spec.owner == 'ann'"}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/beds', value: 3}]"}}]`, only) +
				mutatingPolicy("b", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'late': 'x'}}]"}}]`, only),
			[]write{{object: garden("v1", "{beds: 1}"), denied: "no such key: owner"}}},
		{"mutations that never settle",
			mutatingPolicy("a", gardens+`, reinvocationPolicy: IfNeeded, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{count: object.spec.count + 1}}"}}]`, only) +
				mutatingPolicy("b", gardens+`, reinvocationPolicy: IfNeeded, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{count: object.spec.count + 10}}"}}]`, only),
			[]write{{object: garden("v1", "{count: 0}"), has: []string{`"count":22`}}}},
		{"a change of a list with keys",
			mutatingPolicy("tools", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{tools: [Object.spec.tools{name: 'spade', count: 2}, Object.spec.tools{name: 'rake'}]}}"}}]`, only),
			[]write{{object: garden("v1", "{tools: [{name: hoe}, {name: spade}]}"), has: []string{`{"count":1,"name":"rake"}`, `{"count":2,"name":"spade"}`, `"hoe"`}}}},
		{"an equivalent version is changed",
			mutatingPolicy("equivalent", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{owner: object.apiVersion}}"}}]`, only),
			[]write{{object: garden("v2", "{beds: 1}"), has: []string{`"owner":"example.com/v1"`, `"apiVersion":"example.com/v2"`}}}},
		{"updates are changed",
			mutatingPolicy("update", gardens+`, reinvocationPolicy: Never, matchConditions: [{name: update, expression: "request.operation == 'UPDATE'"}], mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{owner: oldObject.spec.owner}}"}}]`, only),
			[]write{{old: garden("v1", "{owner: ann}"), object: garden("v1", "{owner: bob}"), has: []string{`"owner":"ann"`}}}},
		{"an update of a deployment",
			mutatingPolicy("update", deployments+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {'before': oldObject == null ? 'none' : string(oldObject.spec.replicas)}}}"}}]`, only) +
				validatingPolicy("steps", deployments+`, validations: [{expression: "oldObject == null || object.spec.replicas - oldObject.spec.replicas <= 1", message: one by one}]`, "validationActions: [Deny], "+only),
			[]write{{old: deployment(1, "a"), object: deployment(3, "a"), denied: "one by one"}}},
		{"an update of a deployment by one",
			mutatingPolicy("update", deployments+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {'before': oldObject == null ? 'none' : string(oldObject.spec.replicas)}}}"}}]`, only),
			[]write{{old: deployment(1, "a"), object: deployment(2, "a"), has: []string{`"before":"1"`}}}},
		{"config maps",
			mutatingPolicy("data", configMaps+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data', value: {'a': object.metadata.name}}, JSONPatch{op: 'add', path: '/immutable', value: true}]"}}]`, only),
			[]write{{object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", has: []string{`"data":{"a":"a"}`, `"immutable":true`}}}},
		{"the object is untouched if nothing matches",
			mutatingPolicy("data", configMaps+`, reinvocationPolicy: Never, matchConditions: [{name: never, expression: "false"}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"}}]`, only),
			[]write{{object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", not: []string{`"data"`}}}},
		{"a missing parameter of a mutation",
			mutatingPolicy("sidecar", "paramKind: {apiVersion: mutations.example.com/v1, kind: Sidecar}, "+pods+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': params.spec.name}}}"}}]`,
				"paramRef: {name: none-NS, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: pod(plainPod), denied: "no params found for policy binding with `Deny` parameterNotFoundAction"}}},
	}
}

// edges has wrong policies that the server stores.
func edges() []example {
	const deny = "validationActions: [Deny], " + only
	return []example{
		{"an unknown kind of parameters",
			validatingPolicy("unknown", "paramKind: {apiVersion: nowhere.example.com/v1, kind: Limit}, "+gardens+`, validations: [{expression: "params.x == 1"}]`, "paramRef: {name: a, parameterNotFoundAction: Deny}, "+deny),
			[]write{{object: garden("v1", "{}"), denied: "failed to find resource referenced by paramKind"}}},
		{"an unknown kind of parameters of a mutation",
			mutatingPolicy("unknown", "paramKind: {apiVersion: nowhere.example.com/v1, kind: Limit}, "+gardens+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/spec'}]"}}]`, "paramRef: {name: a, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: garden("v1", "{}"), denied: "failed to find resource referenced by paramKind"}}},
		{"an expression over its cost",
			validatingPolicy("costly", gardens+`, validations: [{expression: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))"}]`, deny),
			[]write{{object: garden("v1", "{}"), denied: "cost limit exceeded"}}},
		{"a mutation over its cost",
			mutatingPolicy("costly", gardens+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0)))))) ? [JSONPatch{op: 'add', path: '/spec/owner', value: 'x'}] : []"}}]`, only),
			[]write{{object: garden("v1", "{}"), denied: "cost limit exceeded"}}},
		{"a binding to a missing policy",
			binding("Validating", "lost", "none", deny), []write{{object: garden("v1", "{}")}}},
		{"a binding to a missing namespace",
			validatingPolicy("elsewhere", gardens+`, validations: [{expression: "false"}]`, "validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: missing}}}"),
			[]write{{object: garden("v1", "{}")}}},
		{"parameters in a missing namespace",
			validatingPolicy("elsewhere", "paramKind: {apiVersion: v1, kind: ConfigMap}, "+gardens+`, validations: [{expression: "false"}]`, "paramRef: {name: a, namespace: missing, parameterNotFoundAction: Deny}, "+deny),
			[]write{{object: garden("v1", "{}"), denied: "no params found"}}},
		{"parameters of a namespace for an object without one",
			validatingPolicy("namespaced", "paramKind: {apiVersion: v1, kind: ConfigMap}, "+`matchConstraints: {resourceRules: [{apiGroups: [mutations.example.com], apiVersions: [v1], operations: [CREATE], resources: [sidecars]}]}, validations: [{expression: "false"}]`, "paramRef: {name: a, parameterNotFoundAction: Deny}, validationActions: [Deny]"),
			[]write{{object: "{apiVersion: mutations.example.com/v1, kind: Sidecar, metadata: {name: x-NS}, spec: {name: a}}", denied: "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"}}},
		{"a namespace for parameters without one",
			validatingPolicy("cluster", "paramKind: {apiVersion: mutations.example.com/v1, kind: Sidecar}, "+gardens+`, validations: [{expression: "false"}]`, "paramRef: {name: a, namespace: NS, parameterNotFoundAction: Deny}, "+deny),
			[]write{{object: garden("v1", "{}"), denied: "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"}}},
		{"a mutation to the wrong type",
			mutatingPolicy("typed", configMaps+`, failurePolicy: Fail, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data', value: 'text'}]"}}]`, only),
			[]write{{object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", denied: "cannot unmarshal string"}}},
		{"a mutation with an unknown field",
			mutatingPolicy("unknown", configMaps+`, failurePolicy: Fail, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{datum: 'x'}"}}]`, only),
			[]write{{object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", denied: "datum"}}},
		{"an unknown field of a custom resource",
			mutatingPolicy("unknown", gardens+`, failurePolicy: Fail, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{unknown: 'x'}}"}}]`, only),
			[]write{{object: garden("v1", "{}"), denied: "unknown"}}},
	}
}
