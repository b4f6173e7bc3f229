package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/schema"
)

// PolicyOptions configures Policies.
type PolicyOptions struct {
	// Configs enable and disable rules. Later ones override earlier ones.
	Configs []Config
	// Check returns the reasons why the API server rejects an object of a built-in kind. If it is
	// nil, nothing is checked that the API server rejects.
	Check func(ctx context.Context, source []byte) []analysis.Finding
	// Types checks the types of expressions. If it is nil, they are not checked.
	Types schema.TypeChecker
	// Definitions are the CRDs whose objects policies can match, and use as parameters.
	Definitions []*crd.Definition
	// Builtin returns the schema of a built-in kind, or nil if there is none.
	Builtin func(runtimeschema.GroupVersionKind) *schema.Structural
	// Objects are the names of all objects of the input, also those of the policies.
	Objects []ObjectName
	// Incomplete is set if Objects lacks objects that are neither CRDs nor policies.
	Incomplete bool
}

// ObjectName identifies an object of any version.
type ObjectName struct {
	runtimeschema.GroupKind
	Namespace, Name string
}

// IsPolicy reports whether an object is an admission policy, a binding of one, or a configuration of
// webhooks: what Policies lints.
func IsPolicy(meta metav1.TypeMeta) bool {
	return strings.HasPrefix(meta.APIVersion, v1.GroupName+"/") && slices.Contains(policyKinds(), meta.Kind)
}

const (
	validatingPolicy   = "ValidatingAdmissionPolicy"
	validatingBinding  = "ValidatingAdmissionPolicyBinding"
	mutatingPolicy     = "MutatingAdmissionPolicy"
	mutatingBinding    = "MutatingAdmissionPolicyBinding"
	validatingWebhooks = "ValidatingWebhookConfiguration"
	mutatingWebhooks   = "MutatingWebhookConfiguration"
)

func policyKinds() []string {
	return []string{validatingPolicy, validatingBinding, mutatingPolicy, mutatingBinding, validatingWebhooks, mutatingWebhooks}
}

// Policies lints admission policies, their bindings and configurations of webhooks, each given as
// JSON. It returns the findings of each in the order of their locations, and an error only for
// invalid options.
func Policies(ctx context.Context, objects [][]byte, o PolicyOptions) ([][]analysis.Finding, error) {
	selected, err := newSelection(o.Configs...)
	if err != nil {
		return nil, err
	}
	l := &policyLinter{PolicyOptions: o, resources: newResourceTable(o), policies: map[string][]*policyObject{}}
	all := make([]*policyObject, len(objects))
	for i, source := range objects {
		p := &policyObject{check: newCheck(selected, schema.Kubernetes)}
		all[i] = p
		p.decode(p.current(source))
		if p.spec != nil {
			key := p.kind + "/" + p.name
			l.policies[key] = append(l.policies[key], p)
		}
		if p.binding != nil {
			l.bound(p)
		}
	}
	findings := make([][]analysis.Finding, len(objects))
	for i, p := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l.lint(ctx, p)
		analysis.Sort(p.findings)
		findings[i] = p.findings
	}
	return findings, nil
}

// policyLinter is the state of linting the policies of an input.
type policyLinter struct {
	PolicyOptions
	resources *resourceTable
	// policies are those of the input by kind and name. Several files can define the same one.
	policies map[string][]*policyObject
	// bindings has the bindings of policies by kind and name of the policy.
	bindings map[string][]*policyObject
}

// policyObject is one object that is linted.
type policyObject struct {
	*check
	kind, name string
	// version is the one of the object, and source the object in the current version.
	version string
	source  []byte
	// Only one of these is set, if the object could be decoded.
	spec     *policySpec
	binding  *bindingSpec
	webhooks []webhookSpec
	// matches are the resources that a policy or a binding matches.
	matches *matches
}

// policySpec is a policy of either kind.
type policySpec struct {
	params     *v1.ParamKind
	match      *v1.MatchResources
	conditions []v1.MatchCondition
	variables  []v1.Variable
	// expressions are those after the variables.
	expressions []placedExpression
}

// placedExpression is an expression with its place.
type placedExpression struct {
	at   *place
	text string
}

// bindingSpec is a binding of either kind.
type bindingSpec struct {
	policy string
	params *v1.ParamRef
	match  *v1.MatchResources
}

// webhookSpec is what lint needs of a webhook.
type webhookSpec struct {
	Rules           []v1.RuleWithOperations `json:"rules"`
	MatchConditions []v1.MatchCondition     `json:"matchConditions"`
	MatchPolicy     *v1.MatchPolicyType     `json:"matchPolicy"`
}

func (p *policyObject) isMutating() bool { return strings.HasPrefix(p.kind, "Mutating") }

// decode reads an object. What cannot be decoded is left to the API server's rules.
func (p *policyObject) decode(source []byte) {
	var head metav1.PartialObjectMetadata
	if json.Unmarshal(source, &head) != nil {
		return
	}
	p.kind, p.name = head.Kind, head.Name
	spec := root().child("spec")
	switch p.kind {
	case validatingPolicy:
		var obj v1.ValidatingAdmissionPolicy
		if json.Unmarshal(source, &obj) != nil {
			return
		}
		s := obj.Spec
		p.spec = &policySpec{params: s.ParamKind, match: s.MatchConstraints, conditions: s.MatchConditions, variables: s.Variables}
		for i, v := range s.Validations {
			at := spec.child("validations").index(i)
			p.spec.add(at.child("expression"), v.Expression)
			p.spec.add(at.child("messageExpression"), v.MessageExpression)
		}
		for i, a := range s.AuditAnnotations {
			p.spec.add(spec.child("auditAnnotations").index(i).child("valueExpression"), a.ValueExpression)
		}
	case mutatingPolicy:
		var obj v1.MutatingAdmissionPolicy
		if json.Unmarshal(source, &obj) != nil {
			return
		}
		s := obj.Spec
		p.spec = &policySpec{params: s.ParamKind, match: s.MatchConstraints, conditions: s.MatchConditions, variables: s.Variables}
		for i, m := range s.Mutations {
			at := spec.child("mutations").index(i)
			if m.ApplyConfiguration != nil {
				p.spec.add(at.child("applyConfiguration", "expression"), m.ApplyConfiguration.Expression)
			}
			if m.JSONPatch != nil {
				p.spec.add(at.child("jsonPatch", "expression"), m.JSONPatch.Expression)
			}
		}
	case validatingBinding, mutatingBinding:
		var obj struct {
			Spec struct {
				PolicyName     string             `json:"policyName"`
				ParamRef       *v1.ParamRef       `json:"paramRef"`
				MatchResources *v1.MatchResources `json:"matchResources"`
			} `json:"spec"`
		}
		if json.Unmarshal(source, &obj) == nil {
			p.binding = &bindingSpec{policy: obj.Spec.PolicyName, params: obj.Spec.ParamRef, match: obj.Spec.MatchResources}
		}
	case validatingWebhooks, mutatingWebhooks:
		var obj struct {
			Webhooks []webhookSpec `json:"webhooks"`
		}
		if json.Unmarshal(source, &obj) == nil {
			p.webhooks = obj.Webhooks
		}
	}
}

func (s *policySpec) add(at *place, text string) {
	if text != "" {
		s.expressions = append(s.expressions, placedExpression{at, text})
	}
}

// bound registers a binding of a policy.
func (l *policyLinter) bound(p *policyObject) {
	if l.bindings == nil {
		l.bindings = map[string][]*policyObject{}
	}
	key := policyOf(p)
	l.bindings[key] = append(l.bindings[key], p)
}

// policyOf returns the kind and the name of the policy of a binding.
func policyOf(p *policyObject) string {
	return strings.TrimSuffix(p.kind, "Binding") + "/" + p.binding.policy
}

// lint applies all rules to an object.
func (l *policyLinter) lint(ctx context.Context, p *policyObject) {
	if l.Check != nil {
		p.served()
		for _, f := range l.Check(ctx, p.source) {
			if f.Severity == analysis.Error {
				p.rejected[f.Pointer] = true
			}
			p.take(invalidPolicy, f)
		}
	}
	switch spec := root().child("spec"); {
	case p.spec != nil:
		l.matching(p, spec.child("matchConstraints"), p.spec.match)
		l.policyParams(p)
		l.policyBindings(p)
		l.policyTypes(ctx, p)
	case p.binding != nil:
		l.matching(p, spec.child("matchResources"), p.binding.match)
		l.bindingPolicy(p)
	default:
		for i := range p.webhooks {
			w := &p.webhooks[i]
			at := root().child("webhooks").index(i)
			found := l.resources.resolve(p, at.child("rules"), w.Rules, exemptOfWebhooks)
			l.conditionTypes(ctx, p, at.child("matchConditions"), w.MatchConditions, found)
		}
	}
}

// current keeps and returns the object in the version that all clusters serve. All versions have the
// same fields.
func (p *policyObject) current(source []byte) []byte {
	p.source = source
	var fields map[string]json.RawMessage
	var apiVersion string
	if json.Unmarshal(source, &fields) != nil || json.Unmarshal(fields["apiVersion"], &apiVersion) != nil {
		return source
	}
	if p.version = strings.TrimPrefix(apiVersion, v1.GroupName+"/"); p.version == v1.SchemeGroupVersion.Version {
		return source
	}
	fields["apiVersion"] = json.RawMessage(strconv.Quote(v1.SchemeGroupVersion.String()))
	if spec := map[string]any{}; p.version == "v1alpha1" && utiljson.Unmarshal(fields["spec"], &spec) == nil {
		admissionregistration.FromV1alpha1(map[string]any{"spec": spec})
		if data, err := json.Marshal(spec); err == nil {
			fields["spec"] = data
		}
	}
	if data, err := json.Marshal(fields); err == nil {
		p.source = data
	}
	return p.source
}

// served reports a version that not all clusters serve.
func (p *policyObject) served() {
	gvk := v1.SchemeGroupVersion.WithKind(p.kind)
	if p.version == "" || p.version == gvk.Version {
		return
	}
	gvk.Version = p.version
	served := "Kubernetes does not serve it any more"
	if slices.ContainsFunc(kinds.All(), func(r *kinds.Resource) bool { return r.GroupVersionKind() == gvk }) {
		served = "Kubernetes serves it only if it is enabled"
	}
	p.warn(invalidPolicy, root().child("apiVersion"), fmt.Sprintf("%s is not the current version of %s, and %s: use %s", gvk.Version, p.kind,
		served, v1.SchemeGroupVersion))
}

// take records a finding of another package as one of a rule.
func (c *check) take(rule string, f analysis.Finding) {
	if s, ok := c.severity[rule]; ok {
		f.Severity = s
	}
	if f.Rule = rule; c.on[rule] {
		c.findings = append(c.findings, f)
	}
}
