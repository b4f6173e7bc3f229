package flowcontrol_test

import (
	"testing"

	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds/flowcontrol"
	"espalier.dev/kinds/kind/kindtest"
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestFlowSchemas(t *testing.T) {
	t.Parallel()
	rules := flowcontrol.Rules()["flowschemas"]
	valid := decode[v1.FlowSchema](t, `
metadata: {name: a}
spec:
  priorityLevelConfiguration: {name: b}
  distinguisherMethod: {type: ByUser}
  rules:
  - subjects: [{kind: User, user: {name: u}}, {kind: Group, group: {name: g}}, {kind: ServiceAccount, serviceAccount: {namespace: c, name: "*"}}]
    resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true}, {verbs: [get], apiGroups: [""], resources: [pods], namespaces: [x]}]
    nonResourceRules: [{verbs: [get], nonResourceURLs: [/, /healthz, "/a/*"]}]
`)
	create := kindtest.Create(t, rules, valid)
	if got := create(func(s *v1.FlowSchema) { s.Status.Conditions = make([]v1.FlowSchemaCondition, 1) }); got.Generation != 1 || got.Spec.MatchingPrecedence != 1000 || len(got.Status.Conditions) != 0 {
		t.Errorf("got %+v", got)
	}
	create(func(s *v1.FlowSchema) {
		s.Spec = v1.FlowSchemaSpec{MatchingPrecedence: -1, DistinguisherMethod: &v1.FlowDistinguisherMethod{Type: "X"}, Rules: make([]v1.PolicyRulesWithSubjects, 1)}
	},
		`spec.matchingPrecedence: Invalid value: -1: must be a positive value`,
		`spec.distinguisherMethod.type: Unsupported value: {"Type":"X"}: supported values: "ByNamespace", "ByUser"`,
		`spec.priorityLevelConfiguration.name: Required value: must reference a priority level`,
		`spec.rules[0].subjects: Required value: subjects must contain at least one value`,
		`spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty`)
	create(func(s *v1.FlowSchema) { s.Spec.MatchingPrecedence = 1 }, `spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1`)
	create(func(s *v1.FlowSchema) { s.Spec.MatchingPrecedence = 10001 }, `spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000`)
	create(func(s *v1.FlowSchema) {
		s.Spec.Rules[0] = *decode[v1.PolicyRulesWithSubjects](t, `
subjects: [{kind: User}, {kind: Group, group: {name: ""}, user: {name: a}}, {kind: ServiceAccount, serviceAccount: {namespace: "", name: ""}, group: {name: g}}, {kind: X}, {kind: ServiceAccount, serviceAccount: {namespace: A, name: c}}]
resourceRules: [{verbs: [], apiGroups: [], resources: []}, {verbs: [x], apiGroups: ["*", a], resources: ["*", b], namespaces: ["*", c]}, {verbs: ["*", get], apiGroups: [a], resources: [b], namespaces: [C]}]
nonResourceRules: [{verbs: [], nonResourceURLs: []}, {verbs: ["*"], nonResourceURLs: ["*", /]}, {verbs: ["*"], nonResourceURLs: ["", a, "/a b", /a//b, "/a*", "/*/b"]}]
`)
	},
		`spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'`,
		`spec.rules[0].subjects[1].group.name: Required value`,
		`spec.rules[0].subjects[1].user: Forbidden: user is forbidden when subject kind is not 'User'`,
		`spec.rules[0].subjects[2].serviceAccount.name: Required value`,
		`spec.rules[0].subjects[2].serviceAccount.namespace: Required value: must specify namespace for service account`,
		`spec.rules[0].subjects[2].group: Forbidden: group is forbidden when subject kind is not 'Group'`,
		`spec.rules[0].subjects[3].kind: Unsupported value: "X": supported values: "Group", "ServiceAccount", "User"`,
		`spec.rules[0].subjects[4].serviceAccount.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		`spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value`,
		`spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group`,
		`spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource`,
		`spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace`,
		`spec.rules[0].resourceRules[1].verbs: Unsupported value: ["x"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"`,
		`spec.rules[0].resourceRules[1].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other api groups`,
		`spec.rules[0].resourceRules[1].resources: Invalid value: ["*","b"]: if '*' is present, must not specify other resources`,
		`spec.rules[0].resourceRules[1].namespaces: Invalid value: ["*","c"]: if '*' is present, must not specify other namespaces`,
		`spec.rules[0].resourceRules[2].verbs: Invalid value: ["*","get"]: if '*' is present, must not specify other verbs`,
		`spec.rules[0].resourceRules[2].namespaces[0]: Invalid value: "C": each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		`spec.rules[0].nonResourceRules[0].verbs: Required value: verbs must contain at least one value`,
		`spec.rules[0].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value`,
		`spec.rules[0].nonResourceRules[1].nonResourceURLs: Invalid value: ["*","/"]: if '*' is present, must not specify other non-resource URLs`,
		`spec.rules[0].nonResourceRules[2].nonResourceURLs[0]: Invalid value: "": must not be empty`,
		`spec.rules[0].nonResourceRules[2].nonResourceURLs[1]: Invalid value: "a": must start with slash`,
		`spec.rules[0].nonResourceRules[2].nonResourceURLs[2]: Invalid value: "/a b": must not contain white-space`,
		`spec.rules[0].nonResourceRules[2].nonResourceURLs[3]: Invalid value: "/a//b": must not contain double slash`,
		`spec.rules[0].nonResourceRules[2].nonResourceURLs[4]: Invalid value: "/a*": wildcard can only do suffix matching`,
		`spec.rules[0].nonResourceRules[2].nonResourceURLs[5]: Invalid value: "/*/b": wildcard can only do suffix matching`)
	kindtest.Create(t, rules, bootstrap.MandatoryFlowSchemaExempt)(func(*v1.FlowSchema) {})
	create(func(s *v1.FlowSchema) { s.Name, s.Spec.Rules, s.Spec.DistinguisherMethod = "catch-all", nil, nil },
		`spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"b"},"MatchingPrecedence":1000,"DistinguisherMethod":null,"Rules":null}: spec of 'catch-all' must equal the fixed value`)

	update := kindtest.Update(t, rules, "", valid)
	if got := update(func(s *v1.FlowSchema) { s.Spec.MatchingPrecedence = 5 }); got.Generation != 2 {
		t.Errorf("got %+v", got)
	}
	status := kindtest.Update(t, rules, "status", valid)
	if got := status(func(s *v1.FlowSchema) { s.Labels, s.Spec.Rules = map[string]string{"a": "b"}, nil }); len(got.Labels) != 0 || len(got.Spec.Rules) != 1 {
		t.Errorf("got %+v", got)
	}
	status(func(s *v1.FlowSchema) { s.Status.Conditions = []v1.FlowSchemaCondition{{}, {Type: "a"}, {Type: "a"}} },
		`status.conditions[0].type: Required value`, `status.conditions[2].type: Duplicate value: "a"`)
}

func TestPriorityLevels(t *testing.T) {
	t.Parallel()
	type level = v1.PriorityLevelConfiguration
	rules := flowcontrol.Rules()["prioritylevelconfigurations"]
	valid := decode[level](t, `{metadata: {name: a}, spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}}`)
	create := kindtest.Create(t, rules, valid)
	l := create(func(*level) {}).Spec.Limited
	if q := l.LimitResponse.Queuing; *l.NominalConcurrencyShares != 30 || *l.LendablePercent != 0 || q.HandSize != 8 || q.Queues != 64 || q.QueueLengthLimit != 50 {
		t.Errorf("got %+v", l)
	}
	spec := func(text string) func(*level) {
		return func(l *level) { l.Spec = *decode[v1.PriorityLevelConfigurationSpec](t, text) }
	}
	create(spec(`{type: ""}`), `spec.type: Required value`)
	create(spec(`{type: X}`), `spec.type: Unsupported value: "X": supported values: "Exempt", "Limited"`)
	create(spec(`{type: Exempt, limited: {}, exempt: {nominalConcurrencyShares: -1, lendablePercent: 101}}`),
		"spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'",
		`spec.limited: Forbidden: must be nil if the type is not Limited`,
		`spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer`,
		`spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive`)
	create(spec(`{type: Limited, exempt: {}}`), `spec.exempt: Forbidden: must be nil if the type is Limited`, `spec.limited: Required value: must not be empty when type is Limited`)
	create(spec(`{type: Limited, limited: {nominalConcurrencyShares: -1, lendablePercent: -1, borrowingLimitPercent: -1, limitResponse: {type: ""}}}`),
		`spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer`,
		`spec.limited.limitResponse.type: Required value`,
		`spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive`,
		`spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer`)
	create(spec(`{type: Limited, limited: {limitResponse: {type: Reject, queuing: {}}}}`), `spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited`)
	create(spec(`{type: Limited, limited: {limitResponse: {type: Queue}}}`), `spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is Limited`)
	create(spec(`{type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: -1, handSize: -1, queueLengthLimit: -1}}}}`),
		`spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive`,
		`spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive`,
		`spec.limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive`)
	create(spec(`{type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 10000001, handSize: 8}}}}`),
		`spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000`,
		`spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 10000001 and handSize 8 should not be greater than 60`)
	create(spec(`{type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 7}}}}`),
		`spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (7)`)
	create(func(l *level) {
		l.Annotations = map[string]string{"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares": ""}
	}, `metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden`)
	exempt := kindtest.Create(t, rules, bootstrap.MandatoryPriorityLevelConfigurationExempt)
	exempt(func(l *level) { l.Spec.Exempt.LendablePercent = new(int32(5)) })
	kindtest.Create(t, rules, bootstrap.MandatoryPriorityLevelConfigurationCatchAll)(func(l *level) { l.Spec.Limited.LendablePercent = new(int32(5)) },
		`spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":5,"LimitResponse":{"Type":"Reject","Queuing":null},"LendablePercent":5,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'catch-all' must equal the fixed value`)
	status := kindtest.Update(t, rules, "status", valid)
	status(func(l *level) {
		l.Spec.Type, l.Status.Conditions = "", make([]v1.PriorityLevelConfigurationCondition, 1)
	}, `status.conditions[0].type: Required value`)
}
