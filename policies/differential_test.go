package policies_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/policies"
	"espalier.dev/schema"
)

// TestDifferential compares the evaluation of generated policies and webhooks with the plugins of
// k8s.io/apiserver: errors, mutated objects, audit annotations, warnings, questions to the authorizer,
// whether other plugins are called again, and metrics. Some policies are malformed in ways that the API
// server rejects. ESPALIER_POLICIES and ESPALIER_POLICY_SEED are those of TestGenerated.
func TestDifferential(t *testing.T) {
	t.Parallel()
	policies := 60
	if testing.Short() {
		policies = 20
	}
	batches, seed := max(1, numberFrom(t, "ESPALIER_POLICIES", policies)/2), numberFrom(t, "ESPALIER_POLICY_SEED", 1)
	definitions := definitionsOf(t, schema.KEP, hooked)
	// What must happen, for each plugin.
	expected := map[string][]string{
		"validating": {"allowed", "denied", "annotated", "warned", "authorized", "Forbidden", "RequestEntityTooLarge", "failed to configure policy: ", "failed to configure binding: ",
			"unrecognized failure policy", "no params found", "not found", "running out of cost budget", "cannot be read", "compilation error", "resulted in error", "failed expression"},
		"mutating": {"allowed", "denied", "again", "authorized", "failed to configure policy: ", "failed to configure binding: ", "no params found", "not found", "cannot be read", "resulted in error"},
		"webhook":  {"called: true", "called: false", "denied", "authorized", "not found", "cannot be read"},
	}
	statistics, observed, requests := map[string]int{}, map[string]int{}, 0
	before := metrics(t)
	for n := range batches {
		b := newBatch(t, uint64(seed+n), definitions)
		for range 40 {
			r := b.request()
			happened, difference, err := b.Compare(t.Context(), r)
			if err != nil {
				continue // it cannot be decoded
			}
			requests++
			if difference != "" {
				t.Fatalf("seed %d: %s\nrequest: %+v\nobject: %s\nold: %s\npolicies:\n%s", seed+n, difference, r, r.Object, r.Old, strings.Join(b.texts, "\n"))
			}
			for plugin, parts := range expected {
				for _, part := range parts {
					if slices.ContainsFunc(happened, func(s string) bool { return strings.HasPrefix(s, plugin+" ") && strings.Contains(s, part) }) {
						statistics[plugin+" "+part]++
					}
				}
			}
		}
		maps.Copy(observed, b.Observed)
	}
	t.Logf("%d requests: %v", requests, statistics)
	for plugin, parts := range expected {
		for _, part := range parts {
			if statistics[plugin+" "+part] == 0 && batches >= 30 {
				t.Errorf("no request was %s %s", plugin, part)
			}
		}
	}
	counted := metrics(t)
	for key, n := range before {
		if counted[key] -= n; counted[key] == 0 {
			delete(counted, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(counted)) {
		if counted[key] != observed[key] {
			t.Errorf("%s: %d, reference %d", key, observed[key], counted[key])
		}
		delete(observed, key)
	}
	if len(observed) > 0 || len(counted) == 0 {
		t.Errorf("the reference does not count %v", observed)
	}
}

// TestDifferentialRare compares cases that generated policies rarely have. Each has an expected message.
func TestDifferentialRare(t *testing.T) {
	t.Parallel()
	const match = `matchConstraints: {matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}, resourceRules: [{apiGroups: [%s], apiVersions: [%s], resources: [%s], operations: ["*"]}]}`
	gardens := fmt.Sprintf(match, "example.com", "v1", "gardens")
	const sidecars = `apiVersion: mutations.example.com/v1, kind: Sidecar, metadata: {name: one}, spec: {name: a}`
	const widget = `apiVersion: example.com/v1, kind: Garden, metadata: {name: one, namespace: here}, spec: {beds: 2, owner: bob}`
	definitions := definitionsOf(t, schema.KEP, hooked)
	var variables, all []string
	for i := range 12 {
		variables = append(variables, fmt.Sprintf("{name: v%d, expression: \"%s\"}", i, costly(900_000)))
		all = append(all, fmt.Sprintf("variables.v%d", i))
	}
	for name, c := range map[string]struct {
		kind, policy, binding, object, params, want string
	}{
		"no conversion": {policy: fmt.Sprintf(match, "example.com", "v2", "hookeds") + `, validations: [{expression: "true"}]`, object: strings.ReplaceAll(widget, "Garden", "Hooked"),
			want: "failed to configure binding: failed to convert object version: a webhook converts"},
		"no conversion, mutating": {kind: "Mutating", policy: fmt.Sprintf(match, "example.com", "v2", "hookeds") + `, mutations: []`, object: strings.ReplaceAll(widget, "Garden", "Hooked"),
			want: "denied request: failed to configure policy: a webhook converts"},
		"other match policy": {policy: strings.Replace(fmt.Sprintf(match, "example.com", "v2", "gardens"), "Equivalent", "Other", 1) + `, validations: [{expression: "false"}]`, want: "failed expression: false"},
		"exact":              {policy: strings.Replace(fmt.Sprintf(match, "example.com", "v2", "gardens"), "Equivalent", "Exact", 1) + `, validations: [{expression: "false"}]`, want: "validating allowed"},
		"whole namespace": {policy: gardens + `, auditAnnotations: [{key: a, valueExpression: "string(size(dyn(namespaceObject).metadata.managedFields))"}]`,
			object: strings.ReplaceAll(widget, "here", policies.LateNamespace), want: "validating annotated"},
		"namespace selector": {policy: `matchConstraints: {objectSelector: {}}`, want: "a nil namespace selector was passed"},
		"object selector":    {policy: `matchConstraints: {namespaceSelector: {}}`, want: "a nil object selector was passed"},
		"selectors of a binding": {policy: gardens + `, validations: [{expression: "true"}]`, binding: `matchResources: {objectSelector: {}}`,
			want: "failed to configure binding: a nil namespace selector"},
		"selectors of a binding, mutating": {kind: "Mutating", policy: gardens + `, mutations: []`, binding: `matchResources: {namespaceSelector: {}}`,
			want: "failed to configure binding: a nil object selector"},
		"cluster-scoped": {policy: `matchConstraints: {namespaceSelector: {}, objectSelector: {}}, paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "true"}]`,
			binding: `paramRef: {name: first}`, object: sidecars, want: "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"},
		"no name": {policy: gardens + `, paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "true"}]`,
			binding: `paramRef: {}`, want: "one of name or selector must be provided"},
		"reason": {policy: gardens + `, validations: [{expression: "false", reason: Unauthorized}]`, want: "failed expression: false"},
		"message": {policy: gardens + `, variables: [` + strings.Join(variables[:8], ", ") + `], validations: [{expression: "` + strings.Join(all[:8], " || ") + `", messageExpression: "string(` +
			strings.Join(all[:8], " || ") + `)"}]`, want: "failed messageExpression: validation failed due to running out of cost budget"},
		"compilation": {kind: "Mutating", policy: gardens + `, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "no("}}]`, want: "compilation failed"},
		"budget": {kind: "Mutating", policy: gardens + `, variables: [` + strings.Join(variables, ", ") + `], mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'test', path: '/a', value: ` +
			strings.Join(all, " || ") + `}]"}}]`, want: "running out of cost budget"},
		"mutations": {kind: "Mutating", policy: gardens + `, mutations: [{patchType: JSONPatch}]`, want: "expected 1 compiled evaluators for policy " + prefix + "rare, got 0"},
		"several failures": {kind: "Mutating", policy: gardens + `, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "no("}}, {patchType: ApplyConfiguration, applyConfiguration: {expression: "no["}}]`,
			want: "compilation failed"},
		"params of another version": {policy: gardens + `, paramKind: {apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler}, validations: [{expression: "params.spec.targetCPUUtilizationPercentage > 90"}]`,
			binding: `paramRef: {name: scaler, parameterNotFoundAction: Deny}`, params: `apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: scaler, namespace: here}, ` +
				`spec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: a, apiVersion: apps/v1}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}`,
			want: "failed expression: params.spec.targetCPUUtilizationPercentage > 90"},
		"kind of params": {policy: gardens + `, paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "params.kind != 'ConfigMap'"}]`,
			binding: `paramRef: {name: first, parameterNotFoundAction: Deny}`, params: `apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: here}`,
			want: "failed expression: params.kind != 'ConfigMap'"},
		"kind of params, mutating": {kind: "Mutating", policy: gardens + `, paramKind: {apiVersion: v1, kind: ConfigMap}, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'test', path: '/a', value: params.kind}]"}}]`,
			binding: `paramRef: {name: first, parameterNotFoundAction: Deny}`, params: `apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: here}`,
			want: "no such key: kind"},
		"namespace": {policy: `matchConstraints: {namespaceSelector: {matchLabels: {a: b}}, objectSelector: {}}`, object: strings.ReplaceAll(widget, "here", policies.MissingNamespace),
			want: `failed to configure policy: namespaces "missing" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			kind := "Validating"
			if c.kind != "" {
				kind = c.kind
			}
			if c.object == "" {
				c.object = widget
			}
			actions := map[bool]string{true: `, validationActions: [Deny, Audit, Warn]`}[kind == "Validating"]
			if c.binding != "" {
				actions += ", " + c.binding
			}
			var objects []policies.Object
			if c.params != "" {
				objects = append(objects, policies.Object{JSON: toJSON(t, "{"+c.params+"}")})
			}
			o := policies.NewOracle(t, objects, func(gvk runtimeschema.GroupVersionKind) *crd.Definition { return definitions[gvk.GroupKind()] })
			var p, b runtime.Object = &policies.ValidatingPolicy{}, &policies.ValidatingBinding{}
			if kind == "Mutating" {
				p, b = &policies.MutatingPolicy{}, &policies.MutatingBinding{}
			}
			for text, into := range map[string]runtime.Object{
				fmt.Sprintf("{metadata: {name: %srare}, spec: {%s}}", prefix, c.policy):             p,
				fmt.Sprintf("{metadata: {name: b}, spec: {policyName: %srare%s}}", prefix, actions): b,
			} {
				if err := json.Unmarshal(toJSON(t, text), into); err != nil {
					t.Fatal(err)
				}
				o.Add(into)
			}
			happened, difference, err := o.Compile().Compare(t.Context(), policies.OracleRequest{Object: toJSON(t, "{"+c.object+"}"), Operation: admission.Create,
				Name: "one", Namespace: "here", User: &user.DefaultInfo{Name: "ann"}})
			if err != nil || difference != "" {
				t.Fatal(err, difference)
			}
			if !slices.ContainsFunc(happened, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("%q, not %q", happened, c.want)
			}
		})
	}
}

// metrics returns what k8s.io/apiserver has counted for the policies of this test.
func metrics(t *testing.T) map[string]int {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := map[string]string{}
			for _, l := range m.GetLabel() {
				label[l.GetName()] = l.GetValue()
			}
			if !strings.HasPrefix(label["policy"]+label["name"], prefix) || strings.HasPrefix(label["policy"], prefix+"rare") || label["kind"] == "webhook" {
				continue
			}
			key, n := "", int(m.GetCounter().GetValue())
			switch f.GetName() {
			case "apiserver_validating_admission_policy_check_total":
				key = fmt.Sprintf("validating %s %s %s %s", label["policy"], label["policy_binding"], label["enforcement_action"], label["error_type"])
			case "apiserver_mutating_admission_policy_check_total":
				key = fmt.Sprintf("mutating %s %s %s", label["policy"], label["policy_binding"], label["error_type"])
			case "apiserver_admission_match_condition_evaluation_errors_total":
				key = fmt.Sprintf("failed %s %s", label["name"], label["operation"])
			case "apiserver_admission_match_condition_evaluation_seconds":
				key, n = fmt.Sprintf("unmatched %s %s", label["name"], label["operation"]), int(m.GetHistogram().GetSampleCount())
			default:
				continue
			}
			out[key] += n
		}
	}
	return out
}

// definitionsOf returns the CRDs of the tests.
func definitionsOf(t *testing.T, sem schema.Semantics, more ...string) map[runtimeschema.GroupKind]*crd.Definition {
	t.Helper()
	out := map[runtimeschema.GroupKind]*crd.Definition{}
	for _, o := range objects(t, strings.Join(append([]string{customResources}, more...), "\n---\n")) {
		hub, err := codec.DecodeLenient(o.JSON)
		if err != nil {
			t.Fatal(err)
		}
		crd.PrepareCreate(hub)
		d, err := crd.New(hub, crd.Options{Semantics: sem, Rules: cel.Checker{}})
		if err != nil {
			t.Fatal(err)
		}
		out[runtimeschema.GroupKind{Group: d.Group(), Kind: d.Names().Kind}] = d
	}
	return out
}

// hooked is a CRD with a webhook that converts.
const hooked = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: hookeds.example.com}, spec: {group: example.com, scope: Namespaced,
  names: {plural: hookeds, kind: Hooked}, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://example.com"}}},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}},
    {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// costly returns a condition that is false, and has about a cost. It is evaluated fast.
func costly(cost int) string {
	return fmt.Sprintf("'%s'.contains('%s')", strings.Repeat("a", 20_000), strings.Repeat("b", cost/200))
}

// prefix is that of the names of all policies of this test.
const prefix = "differential-"

// batch are some policies and webhooks.
type batch struct {
	*policies.Dispatchers
	*generator
	t     *testing.T
	seed  uint64
	all   []generatedKind
	texts []string
}

// rare returns one of n cases in some of 100 calls, and -1 otherwise. It is always the same case in a
// batch, and another one in the next.
func (b *batch) rare(percent, n int) int {
	if b.chance(percent) {
		return int(b.seed % uint64(n))
	}
	return -1
}

func newBatch(t *testing.T, seed uint64, definitions map[runtimeschema.GroupKind]*crd.Definition) *batch {
	t.Helper()
	b := &batch{t: t, seed: seed, generator: &generator{Rand: rand.New(rand.NewPCG(seed, seed)), namespace: "here", costly: costly(1_200_000)}, all: generatedKinds()}
	hooked := b.all[0]
	hooked.kind, hooked.resource = "Hooked", "hookeds"
	b.all = append(b.all, hooked)
	b.Shuffle(len(b.all), func(i, j int) { b.all[i], b.all[j] = b.all[j], b.all[i] })
	b.all = b.all[:2] // so that most policies match many of the requests
	setup := append(b.parameters(), tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": b.namespace, "labels": tree{"tier": pick(b.generator, "front", "back")}, "annotations": tree{"owner": "ann"}}})
	var list []policies.Object
	for _, obj := range setup {
		list = append(list, policies.Object{JSON: toJSON(t, document(obj))})
	}
	o := policies.NewOracle(t, list, func(gvk runtimeschema.GroupVersionKind) *crd.Definition { return definitions[gvk.GroupKind()] })
	for i := range 4 + b.IntN(3) {
		for _, obj := range b.policy(b.all, fmt.Sprintf("%s%d-%d", prefix, seed, i)) {
			o.Add(b.typed(obj))
		}
	}
	for _, kind := range []string{"Mutating", "Validating"} {
		o.Add(b.configuration(kind))
	}
	b.Dispatchers = o.Compile()
	return b
}

// typed returns a generated object, with defaults. Some of them are malformed.
func (b *batch) typed(obj tree) (out runtime.Object) {
	text := toJSON(b.t, document(obj))
	decode := func(into runtime.Object) {
		if err := json.Unmarshal(text, into); err != nil {
			b.t.Fatal(err)
		}
		out = into
	}
	switch obj["kind"] {
	case "ValidatingAdmissionPolicy":
		p := &policies.ValidatingPolicy{}
		decode(p)
		b.constraints(p.Spec.MatchConstraints)
		b.validating(p)
		if b.chance(3) {
			p.Spec.MatchConstraints = nil
		}
	case "MutatingAdmissionPolicy":
		p := &policies.MutatingPolicy{}
		decode(p)
		b.constraints(p.Spec.MatchConstraints)
		b.failure(&p.Spec.FailurePolicy)
		if b.chance(25) {
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, b.authorizing())
		}
		if b.chance(3) {
			p.Spec.Mutations = append(p.Spec.Mutations, admissionregistrationv1.Mutation{})
		}
		if b.chance(15) && p.Spec.Mutations[0].JSONPatch != nil {
			var all []string
			for i := range 12 {
				p.Spec.Variables = append(p.Spec.Variables, admissionregistrationv1.Variable{Name: fmt.Sprint("costly", i), Expression: costly(900_000)})
				all = append(all, fmt.Sprint("variables.costly", i))
			}
			p.Spec.Mutations[0].JSONPatch.Expression = pick(b.generator, "[1]", "no(", "[JSONPatch{op: 'test', path: '/a', value: "+b.expensive()+"}]",
				"[JSONPatch{op: 'test', path: '/a', value: "+strings.Join(all, " || ")+"}]")
		}
	case "ValidatingAdmissionPolicyBinding":
		p := &policies.ValidatingBinding{}
		decode(p)
		b.constraints(p.Spec.MatchResources)
		b.reference(p.Spec.ParamRef)
		if b.chance(5) {
			p.Spec.ValidationActions = append(p.Spec.ValidationActions, "Other")
		}
	case "MutatingAdmissionPolicyBinding":
		p := &policies.MutatingBinding{}
		decode(p)
		b.constraints(p.Spec.MatchResources)
		b.reference(p.Spec.ParamRef)
	}
	text, _ = json.Marshal(out)
	b.texts = append(b.texts, string(text))
	return out
}

// failure changes some failure policies.
func (b *batch) failure(p **admissionregistrationv1.FailurePolicyType) {
	switch b.rare(20, 3) {
	case 0:
		*p = nil
	case 1:
		*p = new(admissionregistrationv1.FailurePolicyType)
		**p = "Other"
	}
}

// authorizing returns a condition that asks the authorizer.
func (b *batch) authorizing() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: "a", Expression: b.question()}
}

func (b *batch) question() string {
	verb := pick(b.generator, "get", "list", "use", "watch", "delete")
	return pick(b.generator,
		fmt.Sprintf("authorizer.group('example.com').resource('gardens').namespace('a').check('%s').allowed()", verb),
		fmt.Sprintf("!authorizer.path('/healthz').check('%s').allowed()", verb),
		fmt.Sprintf("authorizer.requestResource.check('%s').reason() != 'x'", verb),
		fmt.Sprintf("authorizer.group('').resource('pods').check('%s').errored() || true", verb))
}

// validating changes a validating policy.
func (b *batch) validating(p *policies.ValidatingPolicy) {
	b.failure(&p.Spec.FailurePolicy)
	if b.chance(20) {
		p.Spec.MatchConditions = append(p.Spec.MatchConditions, b.authorizing())
	}
	for i := range p.Spec.Validations {
		v := &p.Spec.Validations[i]
		if b.chance(15) {
			v.Expression = b.question()
		}
		if b.chance(3) {
			v.Expression = pick(b.generator, "1", "no(")
		}
		switch b.rare(25, 6) {
		case 0:
			v.MessageExpression = "'two\\nlines'"
		case 1:
			v.MessageExpression = "'  '"
		case 2:
			v.MessageExpression = "'" + strings.Repeat("long", 2000) + "'"
		case 3:
			v.MessageExpression = "' spaces ' + string(" + b.expensive() + ")"
		case 4:
			v.MessageExpression = "string(" + b.question() + ")"
		case 5:
			v.Message, v.Expression = " \t", " false "
		}
		if b.chance(5) {
			v.Reason = new(pick(b.generator, metav1.StatusReasonUnauthorized, metav1.StatusReasonConflict))
		}
	}
	switch b.rare(25, 5) {
	case 0: // the validations exceed their budget
		for range 12 {
			p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: costly(900_000) + " || object != null"})
		}
	case 1: // the messages do
		for range 8 {
			p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: costly(900_000), MessageExpression: "string(" + costly(900_000) + ")"})
		}
	case 2: // the match conditions do
		for range 4 {
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "costly", Expression: "!" + costly(900_000)})
		}
	case 3: // the audit annotations do
		for i := range 12 {
			p.Spec.AuditAnnotations = append(p.Spec.AuditAnnotations, admissionregistrationv1.AuditAnnotation{Key: fmt.Sprint("costly", i), ValueExpression: "string(" + costly(900_000) + ")"})
		}
	case 4: // more failures than the audit log has
		for range 30 {
			p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: "object != null && object.metadata.name == ''"})
		}
	}
	for i := range b.IntN(3) {
		p.Spec.AuditAnnotations = append(p.Spec.AuditAnnotations, admissionregistrationv1.AuditAnnotation{Key: fmt.Sprintf("k%d", i%2), ValueExpression: pick(b.generator,
			"null", "'  '", "' x '", "string("+b.question()+")", "1", "object.metadata.name", "string(object.spec.beds)", "namespaceObject.metadata.name", "string(has(namespaceObject.metadata.managedFields))",
			"params.metadata.name", "'"+strings.Repeat("0123456789", 1100)+"'", b.expensive()+" ? 'a' : 'b'", "request.operation + object.spec.owner", "variables.v0")})
	}
}

// constraints sets defaults and changes what matches.
func (b *batch) constraints(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	if m.MatchPolicy == nil {
		m.MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			b.widen(&rules[i].RuleWithOperations)
		}
	}
	switch b.rare(15, 10) {
	case 0:
		m.NamespaceSelector = nil
	case 1:
		m.ObjectSelector = nil
	case 2:
		m.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Unknown"}}}
	case 3:
		m.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Unknown"}}}
	case 4:
		m.MatchPolicy = nil
	case 5:
		m.MatchPolicy = new(admissionregistrationv1.MatchPolicyType("Other"))
	case 6:
		m.ResourceRules = nil
	case 7:
		for i := range m.ResourceRules {
			r := &m.ResourceRules[i]
			r.APIGroups, r.APIVersions, r.Resources = []string{"example.com"}, []string{"v2"}, []string{"hookeds"}
		}
	case 8, 9:
		m.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
	}
}

// widen makes a rule match more requests.
func (b *batch) widen(r *admissionregistrationv1.RuleWithOperations) {
	if b.chance(40) {
		r.Operations = append(r.Operations, pick(b.generator, admissionregistrationv1.Delete, admissionregistrationv1.Connect, admissionregistrationv1.OperationAll))
	}
	if b.chance(30) {
		r.Resources = append(r.Resources, pick(b.generator, "*/*", "*/status", "pods/exec", "*", "namespaces", "gardens/*", "pods/*"))
	}
	if b.chance(25) {
		r.APIGroups, r.APIVersions = append(r.APIGroups, "*"), append(r.APIVersions, "*")
	}
	if b.chance(3) {
		r.Scope = new(admissionregistrationv1.ScopeType("Other"))
	}
}

// reference changes a reference to parameters.
func (b *batch) reference(r *admissionregistrationv1.ParamRef) {
	if r == nil {
		return
	}
	switch b.rare(40, 7) {
	case 0:
		r.Name, r.Selector = "first", &metav1.LabelSelector{}
	case 1:
		r.Name, r.Selector = "", nil
	case 2:
		r.Name = policies.UnreadableParam
	case 3:
		r.Name, r.Selector = "", &metav1.LabelSelector{MatchLabels: map[string]string{policies.UnreadableParam: "yes"}}
	case 4:
		r.Name, r.Selector = "", &metav1.LabelSelector{}
	case 5:
		r.Name, r.Selector = "", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "size", Operator: "Unknown"}}}
	case 6:
		r.ParameterNotFoundAction = nil
	}
}

// configuration returns a webhook configuration.
func (b *batch) configuration(kind string) runtime.Object {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: prefix + kind}}
	for i := range 3 {
		k := &b.all[b.IntN(len(b.all))]
		m := &admissionregistrationv1.MatchResources{}
		text := toJSON(b.t, document(b.match(b.all, k, true)))
		if err := json.Unmarshal(text, m); err != nil {
			b.t.Fatal(err)
		}
		b.constraints(m)
		h := admissionregistrationv1.ValidatingWebhook{Name: fmt.Sprintf("%s%d", prefix, i), MatchPolicy: m.MatchPolicy,
			NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector, FailurePolicy: new(admissionregistrationv1.Fail)}
		b.failure(&h.FailurePolicy)
		for _, r := range m.ResourceRules {
			h.Rules = append(h.Rules, r.RuleWithOperations)
		}
		b.variables, b.params = nil, false
		for range pick(b.generator, 0, 0, 1, 2) {
			h.MatchConditions = append(h.MatchConditions, admissionregistrationv1.MatchCondition{Name: "c", Expression: b.condition(k, 1)})
		}
		if b.chance(25) {
			h.MatchConditions = append(h.MatchConditions, b.authorizing())
		}
		c.Webhooks = append(c.Webhooks, h)
	}
	text, _ := json.Marshal(c)
	b.texts = append(b.texts, string(text))
	if kind == "Validating" {
		return c
	}
	m := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := json.Unmarshal(text, m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// request returns a request.
func (b *batch) request() policies.OracleRequest {
	k := &b.all[b.IntN(len(b.all))]
	name := pick(b.generator, "one", "two", "three")
	obj, old := b.object(k, name), b.object(k, name)
	r := policies.OracleRequest{Name: name, Operation: pick(b.generator, admission.Create, admission.Create, admission.Update, admission.Update, admission.Delete),
		DryRun: b.chance(20), Between: b.chance(30), Namespace: b.namespace,
		User: pick[user.Info](b.generator, &user.DefaultInfo{Name: "ann", Groups: []string{"b", "a"}, Extra: map[string][]string{"x": {"1"}}}, &user.DefaultInfo{Name: "espalier-admin"})}
	if b.chance(10) {
		obj = tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": name, "labels": tree{"tier": pick(b.generator, "front", "back"), "team": "red"}}}
		old = obj
	} else if !k.clusterScoped && b.chance(30) {
		space := pick(b.generator, policies.LateNamespace, policies.MissingNamespace, policies.UnreadableNamespace)
		obj["metadata"].(tree)["namespace"], old["metadata"].(tree)["namespace"] = space, space
	}
	if k.kind == "Pod" && b.chance(40) {
		r.Operation = admission.Connect
	}
	if b.chance(20) {
		r.Subresource = pick(b.generator, "status", "scale", "other", "other")
	}
	if b.chance(5) {
		r.Name = ""
	}
	r.Object = toJSON(b.t, document(obj))
	if r.Operation == admission.Update {
		r.Old = toJSON(b.t, document(old))
	}
	return r
}
