package admission_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"espalier.dev/schema"
)

// policy stores a policy for the namespace of the test with a binding, and deletes both with the
// test. kind is Mutating or Validating; spec and binding are YAML without braces.
func (e *env) policy(kind, name, spec, binding string) {
	e.Helper()
	path := "/apis/admissionregistration.k8s.io/v1/" + strings.ToLower(kind) + "admissionpolic"
	full := e.namespace + "-" + name
	if !strings.Contains(spec, "matchConstraints") {
		spec += `, matchConstraints: {resourceRules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets], operations: [CREATE, UPDATE]}]}`
	}
	if kind == "Mutating" && !strings.Contains(spec, "reinvocationPolicy") {
		spec += `, reinvocationPolicy: Never`
	}
	if kind == "Validating" && !strings.Contains(binding, "validationActions") {
		binding += `, validationActions: [Deny]`
	}
	e.must("POST", path+"ies", fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %sAdmissionPolicy, metadata: {name: %s}, spec: {%s}}`, kind, full, spec))
	e.Cleanup(func() { e.delete(path + "ies/" + full) })
	e.must("POST", path+"ybindings", fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %sAdmissionPolicyBinding, metadata: {name: %s},
		spec: {policyName: %s, matchResources: {namespaceSelector: {matchLabels: {test: %s}}}%s}}`, kind, full, full, e.namespace, binding))
	e.Cleanup(func() { e.delete(path + "ybindings/" + full) })
}

// TestPolicies evaluates policies of custom resources and of Kubernetes' own kinds.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("V-22-policies "+sem.String(), func(t *testing.T) {
			e := newEnv(t, sem)
			e.policy("Validating", "size", `variables: [{name: limit, expression: "10"}],
				matchConditions: [{name: sized, expression: "has(object.spec.size)"}],
				validations: [{expression: "object.spec.size <= variables.limit", messageExpression: "'at most ' + string(variables.limit) + ', not ' + string(object.spec.size) + ' in ' + namespaceObject.metadata.name"}]`, "")
			e.policy("Mutating", "color", `failurePolicy: Fail, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{color: 'green', nested: Object.spec.nested{a: 'policy'}}}"}},
				{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'by': 'policy'}}]"}}]`, "")
			a := e.must("POST", e.widgets("v1"), widget("v1", "a", "{size: 10}"))
			if a.at("spec.color") != "green" || a.at("spec.nested.a") != "policy" || a.at("metadata.labels.by") != "policy" || a.at("spec.size") != 10.0 {
				t.Error(a)
			}
			e.must("POST", e.widgets("v2"), widget("v2", "b", "{}"))
			for _, version := range []string{"v1", "v2"} {
				a = e.do("POST", e.widgets(version), widget(version, "c", "{size: 11}"))
				if a.code != http.StatusUnprocessableEntity || a.message() != fmt.Sprintf(`widgets.tests.example.com "c" is forbidden: ValidatingAdmissionPolicy '%[1]s-size' with binding '%[1]s-size' denied request: at most 10, not 11 in %[1]s`, e.namespace) {
					t.Error(a)
				}
			}
			if a := e.do("PATCH", e.widgets("v1")+"/a", "{spec: {size: 12}}"); a.code != http.StatusUnprocessableEntity {
				t.Error(a)
			}
			if a := e.must("GET", e.widgets("v1")+"/a", ""); a.at("spec.size") != 10.0 {
				t.Error(a)
			}
		})
	}
	t.Run("V-22-builtin", func(t *testing.T) {
		e := newEnv(t, schema.KEP)
		constraints := `, matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE, DELETE]}]}`
		e.policy("Validating", "data", `validations: [{expression: "request.operation != 'DELETE' ? !has(object.data) || !('secret' in object.data) : oldObject.metadata.name != 'keep'", message: no secrets}]`+constraints, "")
		e.policy("Mutating", "label", `mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': object.metadata.name}}}"}},
			{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/immutable', value: false}]"}}]`+strings.ReplaceAll(constraints, ", DELETE", ""), "")
		maps := "/api/v1/namespaces/" + e.namespace + "/configmaps"
		if a := e.must("POST", maps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: keep}}`); a.at("metadata.labels.a") != "keep" || a.at("immutable") != false {
			t.Error(a)
		}
		if a := e.do("POST", maps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {secret: x}}`); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), "no secrets") {
			t.Error(a)
		}
		if a := e.do("DELETE", maps+"/keep", ""); a.code != http.StatusUnprocessableEntity {
			t.Error(a)
		}
	})
	t.Run("V-22-namespaces", func(t *testing.T) {
		e := newEnv(t, schema.KEP)
		if a := e.do("POST", "/apis/tests.example.com/v1/namespaces/nowhere/widgets", widget("v1", "a", "{}")); a.code != http.StatusNotFound || a.message() != `namespaces "nowhere" not found` {
			t.Error(a)
		}
	})
}

// TestPolicyNormalizes checks that the result of a policy is pruned, and that its types are
// checked, as those of a webhook.
func TestPolicyNormalizes(t *testing.T) {
	t.Parallel()
	t.Run("P-15-policy", func(t *testing.T) {
		e := newEnv(t, schema.KEP)
		e.policy("Mutating", "a", `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/unknown', value: 'x'}, JSONPatch{op: 'add', path: '/spec/nested', value: {'b': 'x'}}]"}}]`, "")
		e.policy("Mutating", "b", `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "has(object.spec.unknown) || object.spec.nested.a != 'x' ? [JSONPatch{op: 'add', path: '/spec/color', value: 'seen'}] : []"}}]`, "")
		a := e.must("POST", e.widgets("v1"), widget("v1", "a", "{size: 1}"))
		if a.at("spec.unknown") != nil || a.at("spec.color") != "blue" || a.at("spec.nested.a") != "x" {
			t.Error(a)
		}
	})
	t.Run("P-13-policy", func(t *testing.T) {
		e := newEnv(t, schema.KEP)
		e.policy("Mutating", "a", `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/size', value: 'large'}]"}}]`, "")
		a := e.do("POST", e.widgets("v1"), widget("v1", "a", "{}"))
		if a.code != http.StatusBadRequest || !strings.Contains(a.message(), `spec.size in body must be of type integer: "string"`) {
			t.Error(a)
		}
	})
}

// TestPolicyApplies checks that a policy applies to the next request of its writer.
func TestPolicyApplies(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	path := "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	for i := range 2 {
		name := fmt.Sprintf("p%d", i)
		e.policy("Validating", name, `validations: [{expression: "false"}]`, "")
		if a := e.do("POST", e.widgets("v1"), widget("v1", name, "{}")); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), "failed expression: false") {
			t.Fatal(i, a)
		}
		e.must("PATCH", path+"ies/"+e.namespace+"-"+name, `{spec: {validations: [{expression: "true"}]}}`)
		e.must("POST", e.widgets("v1"), widget("v1", name, "{}"))
		e.must("PATCH", path+"ies/"+e.namespace+"-"+name, `{spec: {validations: [{expression: "false"}]}}`)
		e.must("DELETE", path+"ybindings/"+e.namespace+"-"+name, "")
		e.must("POST", e.widgets("v1"), widget("v1", name+"-after", "{}"))
	}
}

// TestParams gives policies parameters: custom resources and Kubernetes' own kinds.
func TestParams(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	limit := func(name, size, labels string) string {
		return fmt.Sprintf(`{apiVersion: tests.example.com/v2, kind: Widget, metadata: {name: %s, labels: {%s}}, spec: {size: %s}}`, name, labels, size)
	}
	e.must("POST", e.widgets("v2"), limit("limit", "5", ""))
	e.must("POST", e.widgets("v2"), limit("selected-1", "20", "limits: x"))
	e.must("POST", e.widgets("v2"), limit("selected-2", "15", "limits: x"))
	e.must("POST", "/api/v1/namespaces/"+e.namespace+"/configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: limit}, data: {max: "3"}}`)

	// The version of the parameters is not the one that is stored.
	e.policy("Validating", "named", `paramKind: {apiVersion: tests.example.com/v2, kind: Widget}, matchConditions: [{name: named, expression: "object.metadata.name.startsWith('named')"}],
		validations: [{expression: "object.spec.size <= params.spec.size", messageExpression: "'at most ' + string(params.spec.size) + ' by ' + params.apiVersion"}]`,
		`, paramRef: {name: limit, parameterNotFoundAction: Deny}`)
	e.must("POST", e.widgets("v1"), widget("v1", "named-5", "{size: 5}"))
	a := e.do("POST", e.widgets("v1"), widget("v1", "named-6", "{size: 6}"))
	if a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), "at most 5 by tests.example.com/v2") {
		t.Error(a)
	}

	e.policy("Validating", "selected", `paramKind: {apiVersion: tests.example.com/v1, kind: Widget}, matchConditions: [{name: named, expression: "object.metadata.name.startsWith('selected')"}],
		validations: [{expression: "object.spec.size <= params.spec.size", messageExpression: "'at most ' + string(params.spec.size)"}]`,
		`, paramRef: {selector: {matchLabels: {limits: x}}, parameterNotFoundAction: Deny}`)
	e.must("POST", e.widgets("v1"), widget("v1", "selected-a", "{size: 15}"))
	if a := e.do("POST", e.widgets("v1"), widget("v1", "selected-b", "{size: 16}")); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), "at most 15") {
		t.Error(a)
	}

	e.policy("Validating", "map", `paramKind: {apiVersion: v1, kind: ConfigMap}, matchConditions: [{name: named, expression: "object.metadata.name.startsWith('map')"}],
		validations: [{expression: "object.spec.size <= int(params.data.max) && params.kind == 'ConfigMap'"}]`, `, paramRef: {name: limit, parameterNotFoundAction: Deny}`)
	e.must("POST", e.widgets("v1"), widget("v1", "map-3", "{size: 3}"))
	if a := e.do("POST", e.widgets("v1"), widget("v1", "map-4", "{size: 4}")); a.code != http.StatusUnprocessableEntity {
		t.Error(a)
	}
	// The kind of the parameters is not the one that is stored.
	e.must("POST", "/apis/autoscaling/v2/namespaces/"+e.namespace+"/horizontalpodautoscalers", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: limit},
		spec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: a, apiVersion: apps/v1}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}}`)
	for _, ref := range []string{"name: limit", "selector: {}"} {
		name, _, _ := strings.Cut(ref, ":")
		e.policy("Validating", name, fmt.Sprintf(`paramKind: {apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler}, matchConditions: [{name: named, expression: "object.metadata.name == 'converted-%s'"}],
			validations: [{expression: "params.spec.targetCPUUtilizationPercentage != 80", messageExpression: "params.apiVersion + string(params.spec.targetCPUUtilizationPercentage)"}]`, name),
			fmt.Sprintf(`, paramRef: {%s, parameterNotFoundAction: Deny}`, ref))
		if a := e.do("POST", e.widgets("v1"), widget("v1", "converted-"+name, "{}")); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), "autoscaling/v180") {
			t.Error(a)
		}
	}
	// A new parameter counts at once.
	for _, c := range []struct {
		action string
		code   int
	}{{"Deny", http.StatusUnprocessableEntity}, {"Allow", http.StatusCreated}} {
		name := strings.ToLower(c.action)
		e.policy("Validating", name, fmt.Sprintf(`paramKind: {apiVersion: v1, kind: ConfigMap}, matchConditions: [{name: named, expression: "object.metadata.name.startsWith('%s')"}],
			validations: [{expression: "'ok' in params.data"}]`, name), fmt.Sprintf(`, paramRef: {name: missing-%s, parameterNotFoundAction: %s}`, name, c.action))
		if a := e.do("POST", e.widgets("v1"), widget("v1", name+"-1", "{}")); a.code != c.code {
			t.Error(c.action, a)
		}
		e.must("POST", "/api/v1/namespaces/"+e.namespace+"/configmaps", fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: missing-%s}, data: {ok: ok}}`, name))
		e.must("POST", e.widgets("v1"), widget("v1", name+"-2", "{}"))
	}

	// The CRD of the parameters may come later.
	group := e.namespace + ".example.com"
	e.policy("Mutating", "later", fmt.Sprintf(`paramKind: {apiVersion: %s/v1, kind: Later}, matchConditions: [{name: named, expression: "object.metadata.name.startsWith('later')"}],
		mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{color: params.color}}"}}]`, group), `, paramRef: {name: p, parameterNotFoundAction: Deny}`)
	if a := e.do("POST", e.widgets("v1"), widget("v1", "later-1", "{}")); a.code != http.StatusForbidden || !strings.Contains(a.message(), "failed to find resource referenced by paramKind") {
		t.Error(a)
	}
	servers[schema.KEP].InstallCRDs(t, fmt.Appendf(nil, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: laters.%[1]s}, spec: {group: %[1]s, scope: Cluster,
		names: {plural: laters, kind: Later}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {color: {type: string}}}}}]}}`, group))
	e.must("POST", "/apis/"+group+"/v1/laters", fmt.Sprintf(`{apiVersion: %s/v1, kind: Later, metadata: {name: p}, color: yellow}`, group))
	if a := e.must("POST", e.widgets("v1"), widget("v1", "later-2", "{}")); a.at("spec.color") != "yellow" {
		t.Error(a)
	}
}

// TestPolicyActions checks warnings, audit annotations, the authorizer and the failure policy.
func TestPolicyActions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	e.policy("Validating", "warn", `validations: [{expression: "object.spec.size < 5", message: rather large}], auditAnnotations: [{key: size, valueExpression: "string(object.spec.size)"}]`, `, validationActions: [Warn, Audit]`)
	a := e.must("POST", e.widgets("v1"), widget("v1", "a", "{size: 6}"))
	if want := fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%[1]s-warn' with binding '%[1]s-warn': rather large", e.namespace); !slices.Equal(a.warnings, []string{want}) {
		t.Error(a)
	}
	e.eventually("the annotations are in the audit log", func() bool {
		text, err := os.ReadFile(auditLog)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, fmt.Sprintf(`"%s-warn/size":"6"`, e.namespace)) && strings.Contains(line, `validation.policy.admission.k8s.io/validation_failure`) {
				return true
			}
		}
		return false
	})
	e.policy("Validating", "authorizer", `matchConditions: [{name: named, expression: "object.metadata.name == 'z'"}],
		validations: [{expression: "authorizer.group('').resource('secrets').namespace(object.metadata.namespace).check('delete').allowed()"}]`, "")
	e.must("POST", e.widgets("v1"), widget("v1", "z", "{size: 1}"))
	e.policy("Validating", "broken", `failurePolicy: Ignore, validations: [{expression: "object.spec.missing == 1"}]`, "")
	e.must("POST", e.widgets("v1"), widget("v1", "ignored", "{size: 1}"))
	e.policy("Validating", "strict", `failurePolicy: Fail, validations: [{expression: "object.spec.missing == 1", reason: Forbidden}]`, "")
	if a := e.do("POST", e.widgets("v1"), widget("v1", "failed", "{size: 1}")); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), "no such key: missing") {
		t.Error(a)
	}
	// A dry run is validated, too.
	if a := e.do("POST", e.widgets("v1")+"?dryRun=All", widget("v1", "failed", "{size: 1}")); a.code != http.StatusUnprocessableEntity {
		t.Error(a)
	}

	e.policy("Mutating", "works", `matchConditions: [{name: named, expression: "object.metadata.name == 'm'"}], mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{size: 2}}"}}]`, "")
	e.policy("Mutating", "fails", `matchConditions: [{name: named, expression: "object.metadata.name == 'm'"}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/spec/none'}]"}}]`, "")
	e.do("POST", e.widgets("v1"), widget("v1", "m", "{size: 1}"))
	counted := e.metrics()
	for _, want := range []string{
		`validating_admission_policy_check_total{enforcement_action="warn",error_type="invalid_error",policy="NS-warn",policy_binding="NS-warn"}`,
		`validating_admission_policy_check_total{enforcement_action="audit",error_type="invalid_error",policy="NS-warn",policy_binding="NS-warn"}`,
		`validating_admission_policy_check_total{enforcement_action="allow",error_type="invalid_error",policy="NS-broken",policy_binding="NS-broken"}`,
		`validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="NS-strict",policy_binding="NS-strict"}`,
		`mutating_admission_policy_check_total{error_type="no_error",policy="NS-works",policy_binding="NS-works"}`,
		`mutating_admission_policy_check_total{error_type="invalid_error",policy="NS-fails",policy_binding="NS-fails"}`,
	} {
		if want = "apiserver_" + strings.ReplaceAll(want, "NS", e.namespace); !strings.Contains(counted, want) {
			t.Errorf("no %s in\n%s", want, counted)
		}
	}
}

// metrics returns the metrics of policies in the namespace of the test.
func (e *env) metrics() (text string) {
	e.Helper()
	resp, err := e.client.Get(e.url + "/metrics")
	if err != nil {
		e.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `policy="`+e.namespace+"-") {
			text += lines.Text() + "\n"
		}
	}
	return text
}

// TestCostlyPolicies evaluates policies whose functions would take very long, or very much
// memory.
func TestCostlyPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("costly expressions")
	}
	t.Parallel()
	e := newEnv(t, schema.KEP)
	for name, c := range map[string]struct{ expression, want string }{
		"quantity": {"quantity('1e999999999').isGreaterThan(quantity('1'))", "its exponent too large, for a quantity"},
		"pattern":  {"object.spec.color.matches('^(.*a){1000}$')", "too long for a regular expression"},
		"replace":  {"object.spec.color.replace('', 'bbbbbbbbbbbbbbbbbbbbbbbb').size() > 0", "the result of replace is larger than 16 MiB"},
	} {
		e.policy("Validating", name, fmt.Sprintf(`validations: [{expression: %q}], matchConditions: [{name: this, expression: "object.metadata.name == '%s'"}]`, c.expression, name), "")
		a := e.do("POST", e.widgets("v1"), widget("v1", name, `{color: "`+strings.Repeat("a", 900_000)+`"}`))
		if a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), c.want) {
			t.Errorf("%s: %d %.300s", name, a.code, a.message())
		}
	}
}
