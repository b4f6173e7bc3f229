package policies_test

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/policies"
)

// objects returns the documents of YAML.
func objects(t *testing.T, text string) (list []policies.Object) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(doc) != "" {
			list = append(list, policies.Object{JSON: toJSON(t, doc)})
		}
	}
	return list
}

func toJSON(t *testing.T, text string) []byte {
	t.Helper()
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err, text)
	}
	return out
}

func TestEvaluator(t *testing.T) {
	e, problems, err := policies.New(context.Background(), policies.Config{Objects: objects(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]}
  validations: [{expression: object.spec.replicas <= 5}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]}
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label}
spec: {policyName: label}
`)})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	r, err := e.Evaluate(context.Background(), policies.Request{Object: toJSON(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {replicas: 6, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rejected == nil || r.Rejected.Error() != `deployments.apps "a" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: failed expression: object.spec.replicas <= 5` {
		t.Error(r.Rejected)
	}
	if len(r.Mutations) != 1 || r.Mutations[0].Paths[0].String() != "metadata.labels" || r.Decisions[0].Fields[0] != "spec.replicas" || r.Decisions[0].Cost == 0 {
		t.Errorf("%+v", r)
	}
}
