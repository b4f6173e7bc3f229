package policies_test

import "fmt"

// customResources are the CRDs of the examples: parameters of policies, and what they are about.
const customResources = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: replicalimits.rules.example.com}
spec:
  group: rules.example.com
  scope: Namespaced
  names: {plural: replicalimits, kind: ReplicaLimit}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {maxReplicas: {type: integer}, nice: {type: string, default: please}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sidecars.mutations.example.com}
spec:
  group: mutations.example.com
  scope: Cluster
  names: {plural: sidecars, kind: Sidecar}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {name: {type: string}, image: {type: string}, restartPolicy: {type: string}}}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardens.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gardens, kind: Garden}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {beds: {type: integer, maximum: 100}, soil: {type: string, default: loam}, owner: {type: string},
        tools: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, count: {type: integer, default: 1}}}},
        tags: {type: object, additionalProperties: {type: string}}, count: {type: integer}}},
      status: {type: object, properties: {phase: {type: string}}}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {beds: {type: integer, maximum: 100}, soil: {type: string, default: loam}, owner: {type: string},
        tools: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, count: {type: integer, default: 1}}}},
        tags: {type: object, additionalProperties: {type: string}}, count: {type: integer}, sunny: {type: boolean}}},
      status: {type: object, properties: {phase: {type: string}}}}}}
`

const (
	deployments = `matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}`
	gardens     = `matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [gardens]}]}`
	pods        = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`
	configMaps  = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}`
	only        = `matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}}`
)

// validatingPolicy returns a policy and, if there is one, its binding. spec and binding are YAML
// without braces.
func validatingPolicy(name, spec, binding string) string {
	return policy("Validating", name, spec, binding)
}

func mutatingPolicy(name, spec, binding string) string {
	return policy("Mutating", name, spec, binding)
}

func policy(kind, name, spec, binding string) string {
	text := fmt.Sprintf("\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: %sAdmissionPolicy, metadata: {name: %s}, spec: {%s}}", kind, name, spec)
	if binding != "" {
		text += fmt.Sprintf("\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: %sAdmissionPolicyBinding, metadata: {name: %s-binding}, spec: {policyName: %s, %s}}",
			kind, name, name, binding)
	}
	return text
}

func binding(kind, name, policy, spec string) string {
	return fmt.Sprintf("\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: %sAdmissionPolicyBinding, metadata: {name: %s}, spec: {policyName: %s, %s}}",
		kind, name, policy, spec)
}

func namespace(labels string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: NS, labels: %s}}", labels)
}

func deployment(replicas int, image string) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: %d, selector: {matchLabels: {app: web}},
		template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "%s"}]}}}}`, replicas, image)
}

func garden(version, spec string) string {
	return fmt.Sprintf(`{apiVersion: example.com/%s, kind: Garden, metadata: {name: garden}, spec: %s}`, version, spec)
}

func replicaLimit(name, namespace string, limit int) string {
	in := ""
	if namespace != "" {
		in = ", namespace: " + namespace
	}
	return fmt.Sprintf("\n---\n{apiVersion: rules.example.com/v1, kind: ReplicaLimit, metadata: {name: %s%s, labels: {limit: \"yes\"}}, maxReplicas: %d}", name, in, limit)
}

// documented has examples in the manner of Kubernetes' documentation of validating policies and of its
// end-to-end tests.
func documented() []example {
	const deny = "validationActions: [Deny], " + only
	limit := "paramKind: {apiVersion: rules.example.com/v1, kind: ReplicaLimit}, failurePolicy: Fail, " + deployments
	return []example{
		{"at most five replicas in a test environment",
			namespace("{environment: test}") + validatingPolicy("demo", "failurePolicy: Fail, "+deployments+`, validations: [{expression: "object.spec.replicas <= 5"}]`,
				"validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {environment: test}}}"),
			[]write{{object: deployment(6, "a"), denied: "denied request: failed expression: object.spec.replicas <= 5"}, {object: deployment(5, "a")}}},
		{"another environment",
			namespace("{environment: production}") + validatingPolicy("demo", deployments+`, validations: [{expression: "object.spec.replicas <= 5"}]`,
				"validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {environment: test}}}"),
			[]write{{object: deployment(6, "a")}}},
		{"parameters of an environment",
			namespace("{environment: test}") + replicaLimit("test-limit", "NS", 3) +
				validatingPolicy("limit", limit+`, validations: [{expression: "object.spec.replicas <= params.maxReplicas", reason: Invalid}]`,
					"validationActions: [Deny], paramRef: {name: test-limit, namespace: NS, parameterNotFoundAction: Deny}, matchResources: {namespaceSelector: {matchLabels: {environment: test}}}"),
			[]write{{object: deployment(4, "a"), denied: "params.maxReplicas"}, {object: deployment(3, "a")}}},
		{"two bindings with parameters of their own",
			namespace("{environment: test}") + replicaLimit("small", "NS", 3) + replicaLimit("large", "NS", 100) +
				validatingPolicy("limit", limit+`, validations: [{expression: "object.spec.replicas <= params.maxReplicas", messageExpression: "'at most ' + string(params.maxReplicas) + ' ' + params.nice"}]`, "") +
				binding("Validating", "b-large", "limit", "validationActions: [Deny], paramRef: {name: large, namespace: NS, parameterNotFoundAction: Deny}, matchResources: {namespaceSelector: {matchExpressions: [{key: environment, operator: NotIn, values: [test]}]}}") +
				binding("Validating", "a-small", "limit", "validationActions: [Deny], paramRef: {name: small, namespace: NS, parameterNotFoundAction: Deny}, matchResources: {namespaceSelector: {matchLabels: {environment: test}}}"),
			[]write{{object: deployment(50, "a"), denied: "'limit' with binding 'a-small' denied request: at most 3 please"}}},
		{"parameters in the namespace of the request",
			replicaLimit("limits", "NS", 1) + validatingPolicy("limit", limit+`, validations: [{expression: "object.spec.replicas <= params.maxReplicas"}]`,
				"validationActions: [Deny], paramRef: {name: limits, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: deployment(2, "a"), denied: "failed expression"}, {object: deployment(1, "a")}}},
		{"all parameters with a label",
			replicaLimit("first", "NS", 5) + replicaLimit("second", "NS", 2) + validatingPolicy("limit", limit+`, validations: [{expression: "object.spec.replicas <= params.maxReplicas", messageExpression: "'more than ' + params.metadata.name"}]`,
				"validationActions: [Deny], paramRef: {selector: {matchLabels: {limit: \"yes\"}}, namespace: NS, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: deployment(3, "a"), denied: "more than second"}, {object: deployment(6, "a"), denied: "more than first"}, {object: deployment(1, "a")}}},
		{"parameters that are missing",
			validatingPolicy("limit", limit+`, validations: [{expression: "object.spec.replicas <= params.maxReplicas"}]`,
				"validationActions: [Deny], paramRef: {name: limits, namespace: NS, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: deployment(1, "a"), denied: "no params found for policy binding with `Deny` parameterNotFoundAction"}}},
		{"parameters that may be missing",
			validatingPolicy("limit", limit+`, validations: [{expression: "object.spec.replicas <= params.maxReplicas"}]`,
				"validationActions: [Deny], paramRef: {name: limits, namespace: NS, parameterNotFoundAction: Allow}, "+only),
			[]write{{object: deployment(100, "a")}}},
		{"parameters from a config map",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: limits}, data: {max: \"3\"}}" + validatingPolicy("limit", "paramKind: {apiVersion: v1, kind: ConfigMap}, "+deployments+
				`, validations: [{expression: "params.kind == 'ConfigMap' && object.spec.replicas <= int(params.data.max)", messageExpression: "params.data.max + ' at most'"}]`,
				"validationActions: [Deny], paramRef: {name: limits, namespace: NS, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: deployment(4, "a"), denied: "3 at most"}, {object: deployment(3, "a")}}},
		{"no parameters for a policy that has a kind of them",
			validatingPolicy("limit", limit+`, validations: [{expression: "params == null || object.spec.replicas <= params.maxReplicas"}]`, deny),
			[]write{{object: deployment(10, "a")}}},
		{"an immutable field",
			validatingPolicy("immutable", gardens+`, validations: [{expression: "oldObject == null || object.spec.owner == oldObject.spec.owner", message: the owner cannot change, reason: Forbidden}]`, deny),
			[]write{{old: garden("v1", "{owner: ann}"), object: garden("v1", "{owner: bob}"), denied: "denied request: the owner cannot change"}}},
		{"an update that keeps the field",
			validatingPolicy("immutable", gardens+`, validations: [{expression: "object.spec.owner == oldObject.spec.owner"}]`, deny),
			[]write{{old: garden("v1", "{owner: ann, beds: 1}"), object: garden("v1", "{owner: ann, beds: 2}"), has: []string{`"beds":2`}}}},
		{"failure policies",
			validatingPolicy("fails", gardens+`, failurePolicy: Fail, validations: [{expression: "object.spec.owner == 'ann'"}]`, deny) +
				validatingPolicy("ignores", gardens+`, failurePolicy: Ignore, validations: [{expression: "object.spec.tags.a == 'b'"}]`, deny),
			[]write{{object: garden("v1", "{owner: ann}")}, {object: garden("v1", "{beds: 1}"), denied: "resulted in error: no such key: owner"}}},
		{"match conditions",
			validatingPolicy("conditions", gardens+`, matchConditions: [
				{name: exclude-leases, expression: "!(request.resource.group == 'coordination.k8s.io' && request.resource.resource == 'leases')"},
				{name: exclude-kubelets, expression: "!('system:nodes' in request.userInfo.groups)"},
				{name: large, expression: "object.spec.beds > 10"}], validations: [{expression: "false", message: large gardens are forbidden}]`, deny),
			[]write{{object: garden("v1", "{beds: 11}"), denied: "large gardens are forbidden"}, {object: garden("v1", "{beds: 10}")}}},
		{"a match condition that fails",
			validatingPolicy("conditions", gardens+`, matchConditions: [{name: owned, expression: "object.spec.owner == 'ann'"}], validations: [{expression: "false"}]`, deny),
			[]write{{object: garden("v1", "{beds: 11}"), denied: "expression 'object.spec.owner == 'ann'' resulted in error"}, {object: garden("v1", "{owner: ann}"), denied: "failed expression: false"}, {object: garden("v1", "{owner: bob}")}}},
		{"warnings",
			validatingPolicy("warns", deployments+`, validations: [{expression: "object.spec.replicas <= 5", message: that is a lot}]`, "validationActions: [Warn, Audit], "+only),
			[]write{{object: deployment(6, "a"), warned: "Validation failed for ValidatingAdmissionPolicy 'warns' with binding 'warns-binding': that is a lot"}}},
		{"a warning for two parameters",
			replicaLimit("first", "NS", 1) + replicaLimit("second", "NS", 2) + validatingPolicy("warns", limit+`, validations: [{expression: "object.spec.replicas <= params.maxReplicas", message: that is a lot}]`,
				"validationActions: [Warn], paramRef: {selector: {matchLabels: {limit: \"yes\"}}, namespace: NS, parameterNotFoundAction: Deny}, "+only),
			[]write{{object: deployment(6, "a"), warned: "that is a lot"}}},
		{"audit annotations",
			validatingPolicy("audits", "failurePolicy: Fail, "+deployments+`, validations: [{expression: "object.spec.replicas > 50", messageExpression: "'Deployment spec.replicas set to ' + string(object.spec.replicas)"}],
				auditAnnotations: [{key: high-replica-count, valueExpression: "'Deployment spec.replicas set to ' + string(object.spec.replicas)"}]`, deny),
			[]write{{object: deployment(10, "a"), denied: "Deployment spec.replicas set to 10"}, {object: deployment(51, "a")}}},
		{"an audit annotation that fails",
			validatingPolicy("audits", gardens+`, auditAnnotations: [{key: owner, valueExpression: "string(object.spec.owner)"}]`, deny),
			[]write{{object: garden("v1", "{}"), denied: "no such key: owner"}, {object: garden("v1", "{owner: ann}")}}},
		{"variables",
			namespace("{environment: staging}") + validatingPolicy("images", deployments+`, variables: [
				{name: environment, expression: "'environment' in namespaceObject.metadata.labels ? namespaceObject.metadata.labels['environment'] : 'prod'"},
				{name: exempt, expression: "has(object.metadata.labels) && 'exempt' in object.metadata.labels && object.metadata.labels['exempt'] == 'true'"},
				{name: containers, expression: "object.spec.template.spec.containers"},
				{name: containersToCheck, expression: "variables.containers.filter(c, c.image.contains('example.com/'))"}],
				validations: [{expression: "variables.exempt || variables.containersToCheck.all(c, c.image.startsWith(variables.environment + '.'))",
					messageExpression: "'only ' + variables.environment + ' images are allowed in namespace ' + namespaceObject.metadata.name"}]`, deny),
			[]write{{object: deployment(1, "prod.example.com/nginx"), denied: "only staging images are allowed in namespace"}, {object: deployment(1, "staging.example.com/nginx")}, {object: deployment(1, "prod.example.org/nginx")}}},
		{"variables of variables, as in the end-to-end tests",
			validatingPolicy("odd", deployments+`, variables: [{name: replicas, expression: "object.spec.replicas"}, {name: oddReplicas, expression: "variables.replicas % 2 == 1"}],
				validations: [{expression: "variables.replicas > 1"}, {expression: "variables.oddReplicas"}]`, deny),
			[]write{{object: deployment(1, "a"), denied: "failed expression: variables.replicas > 1"}, {object: deployment(2, "a"), denied: "failed expression: variables.oddReplicas"}, {object: deployment(3, "a")}}},
		{"a message that is not a message",
			validatingPolicy("messages", gardens+`, validations: [{expression: "object.spec.beds > 1", message: fallback, messageExpression: "string(object.spec.owner)"}, {expression: "object.spec.beds > 2", messageExpression: "'two\\nlines'"}]`, deny),
			[]write{{object: garden("v1", "{beds: 1}"), denied: "denied request: fallback"}, {object: garden("v1", "{beds: 1, owner: ' '}"), denied: "denied request: fallback"},
				{object: garden("v1", "{beds: 1, owner: ann}"), denied: "denied request: ann"}, {object: garden("v1", "{beds: 2, owner: ann}"), denied: "failed expression: object.spec.beds > 2"}}},
		{"excluded resources",
			validatingPolicy("all", `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}], excludeResourceRules: [{apiGroups: [apps], apiVersions: ["*"], operations: ["*"], resources: [deployments]}]},
				validations: [{expression: "!has(object.metadata.labels) || !('forbidden' in object.metadata.labels)", message: forbidden label}]`, deny),
			[]write{{object: deployment(1, "a")}, {object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {forbidden: x}}}", denied: "forbidden label"}}},
		{"names of resources",
			validatingPolicy("named", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [a]}]}, validations: [{expression: "false"}]`, deny),
			[]write{{object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", denied: "failed expression: false"}, {object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"}}},
		{"selectors of objects",
			validatingPolicy("selected", `matchConstraints: {objectSelector: {matchLabels: {a: b}}, resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, validations: [{expression: "false"}]`, deny),
			[]write{{object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}}}", denied: "failed expression: false"}, {object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"}}},
		{"a selector in the binding",
			validatingPolicy("selected", configMaps+`, validations: [{expression: "false"}]`, "validationActions: [Deny], matchResources: {objectSelector: {matchExpressions: [{key: a, operator: Exists}]}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}}"),
			[]write{{object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}}}", denied: "failed expression: false"}, {object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"}}},
		{"an equivalent version",
			validatingPolicy("equivalent", gardens+`, validations: [{expression: "object.apiVersion == 'example.com/v1' && object.spec.beds < 5 && request.kind.version == 'v1' && request.requestKind.version == 'v2'", messageExpression: "string(object.apiVersion)"}]`, deny),
			[]write{{object: garden("v2", "{beds: 6}"), denied: "denied request: example.com/v1"}, {object: garden("v2", "{beds: 4}")}}},
		{"an exact version",
			validatingPolicy("exact", `matchConstraints: {matchPolicy: Exact, resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [gardens]}]}, validations: [{expression: "false"}]`, deny),
			[]write{{object: garden("v2", "{beds: 6}")}, {object: garden("v1", "{beds: 6}"), denied: "failed expression: false"}}},
		{"policies in the order of their names",
			validatingPolicy("b", gardens+`, validations: [{expression: "false", message: second}]`, deny) + validatingPolicy("a", gardens+`, validations: [{expression: "false", message: first, reason: RequestEntityTooLarge}]`, deny),
			[]write{{object: garden("v1", "{}"), denied: "denied request: first"}}},
		{"a policy without a binding",
			validatingPolicy("unbound", gardens+`, validations: [{expression: "false"}]`, ""), []write{{object: garden("v1", "{}")}}},
		{"defaults are there before policies",
			validatingPolicy("defaults", gardens+`, validations: [{expression: "object.spec.soil == 'loam' && !has(object.status)"}]`, deny) +
				validatingPolicy("defaults-of-deployments", deployments+`, validations: [{expression: "object.spec.strategy.type == 'RollingUpdate' && object.metadata.generation == 1"}]`, deny),
			[]write{{object: `{apiVersion: example.com/v1, kind: Garden, metadata: {name: garden}, spec: {}, status: {phase: x}}`}, {object: deployment(1, "a")}}},
		{"the request",
			validatingPolicy("request", gardens+`, validations: [{expression: "request.operation == 'CREATE' && request.name == 'garden' && request.namespace == 'NS' && request.resource.resource == 'gardens' && request.userInfo.username == 'espalier-admin' && 'system:masters' in request.userInfo.groups && !request.dryRun",
				messageExpression: "request.userInfo.username + ' ' + request.name + ' ' + request.namespace"}]`, deny),
			[]write{{object: garden("v1", "{}")}}},
		{"kubernetes' functions",
			validatingPolicy("functions", gardens+`, validations: [{expression: "quantity('2Gi').isGreaterThan(quantity('1Gi')) && url('https://a.example.com').getHost() == 'a.example.com' && object.spec.owner.find('[a-z]+') == object.spec.owner && ['a'].indexOf('a') == 0 && format.dns1123Label().validate(object.spec.owner).orValue([]).size() == 0", message: not a label}]`, deny),
			[]write{{object: garden("v1", "{owner: ann}")}, {object: garden("v1", "{owner: Ann}"), denied: "not a label"}}},
		{"a namespace",
			validatingPolicy("namespaces", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [namespaces]}]}, validations: [{expression: "'team' in object.metadata.labels", message: every namespace has a team}]`,
				"validationActions: [Deny]"),
			[]write{{object: "{apiVersion: v1, kind: Namespace, metadata: {name: x-NS}}", denied: "every namespace has a team"}, {object: "{apiVersion: v1, kind: Namespace, metadata: {name: y-NS, labels: {team: a}}}"}}},
	}
}
