package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"espalier.dev/kinds/rules"
)

// policySpec are the fields that validating and mutating policies have in common.
type policySpec struct {
	failure    *v1.FailurePolicyType
	params     *v1.ParamKind
	match      *v1.MatchResources
	conditions []v1.MatchCondition
	// unchanged reports whether the conditions, and what they can use, are those of the stored
	// policy. They are not checked then.
	unchanged bool
	known     expressions
}

// policyHead checks the fields that policies have in common.
func (c *checks) policyHead(path *field.Path, s policySpec, mutating bool) field.ErrorList {
	errs := requiredEnum(s.failure, path.Child("failurePolicy"), v1.Fail, v1.Ignore)
	errs = append(errs, validateParamKind(path.Child("paramKind"), s.params)...)
	match := path.Child("matchConstraints")
	if s.match == nil {
		errs = append(errs, field.Required(match, ""))
	} else {
		errs = append(errs, validateMatch(match, s.match)...)
		if len(s.match.ResourceRules) == 0 {
			errs = append(errs, field.Required(match.Child("resourceRules"), ""))
		}
		if mutating {
			errs = append(errs, validateMutable(match, s.match)...)
		}
	}
	if !s.unchanged {
		errs = append(errs, c.matchConditions(path.Child("matchConditions"), s.conditions, s.params != nil, s.known)...)
	}
	return errs
}

func (c *checks) validatingPolicy(obj, old *v1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	spec := obj.Spec
	head := policySpec{failure: spec.FailurePolicy, params: spec.ParamKind, match: spec.MatchConstraints,
		conditions: spec.MatchConditions, known: expressions{}}
	if old != nil {
		head.unchanged = equality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) &&
			equality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions)
		for _, m := range old.Spec.MatchConditions {
			head.known.add(MatchCondition, m.Expression)
		}
		for _, v := range old.Spec.Validations {
			head.known.add(Validation, v.Expression)
			head.known.add(Message, v.MessageExpression)
		}
		for _, a := range old.Spec.AuditAnnotations {
			head.known.add(AuditValue, a.ValueExpression)
		}
	}
	errs = append(errs, c.policyHead(path, head, false)...)

	p, err := c.policy(len(spec.Variables) > 0, spec.ParamKind, head.known)
	if err != nil {
		return append(errs, field.InternalError(path, err))
	}
	defer p.close()
	for i, v := range spec.Variables {
		errs = append(errs, p.variable(path.Child("variables").Index(i), v)...)
	}
	annotations := path.Child("auditAnnotations")
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const needed = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(path.Child("validations"), needed), field.Required(annotations, needed))
	}
	for i, v := range spec.Validations {
		errs = append(errs, p.validation(path.Child("validations").Index(i), v)...)
	}
	const limit = 20
	if len(spec.AuditAnnotations) > limit {
		errs = append(errs, field.Invalid(annotations, rules.Internal(spec.AuditAnnotations),
			fmt.Sprintf("must not have more than %d auditAnnotations", limit)))
	}
	keys := sets.New[string]()
	for i, a := range spec.AuditAnnotations {
		errs = append(errs, p.auditAnnotation(annotations.Index(i), obj.Name, a)...)
		if keys.Has(a.Key) {
			errs = append(errs, field.Duplicate(annotations.Index(i).Child("key"), a.Key))
		}
		keys.Insert(a.Key)
	}
	return errs
}

func (c *checks) mutatingPolicy(obj, old *v1.MutatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	spec := obj.Spec
	head := policySpec{failure: spec.FailurePolicy, params: spec.ParamKind, match: spec.MatchConstraints,
		conditions: spec.MatchConditions, known: expressions{}}
	if old != nil {
		head.unchanged = equality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) &&
			equality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions)
		for _, m := range old.Spec.MatchConditions {
			head.known.add(MatchCondition, m.Expression)
		}
		for _, m := range old.Spec.Mutations {
			if m.ApplyConfiguration != nil {
				head.known.add(ApplyConfiguration, m.ApplyConfiguration.Expression)
			}
		}
	}
	errs = append(errs, c.policyHead(path, head, true)...)

	p, err := c.policy(true, spec.ParamKind, head.known)
	if err != nil {
		return append(errs, field.InternalError(path, err))
	}
	defer p.close()
	for i, v := range spec.Variables {
		errs = append(errs, p.variable(path.Child("variables").Index(i), v)...)
	}
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	for i, m := range spec.Mutations {
		errs = append(errs, p.mutation(path.Child("mutations").Index(i), m)...)
	}
	if spec.ReinvocationPolicy == "" {
		return append(errs, field.Required(path.Child("reinvocationPolicy"), ""))
	}
	return append(errs, rules.Enum(spec.ReinvocationPolicy, path.Child("reinvocationPolicy"),
		v1.IfNeededReinvocationPolicy, v1.NeverReinvocationPolicy)...)
}

func (p *policy) mutation(path *field.Path, m v1.Mutation) field.ErrorList {
	var errs field.ErrorList
	jsonPatch, apply := path.Child("jsonPatch"), path.Child("applyConfiguration")
	switch m.PatchType {
	case "":
		errs = append(errs, field.Required(path.Child("patchType"), ""))
	case v1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(jsonPatch, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, p.patch(jsonPatch, JSONPatch, m.JSONPatch.Expression)...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case v1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs, p.patch(apply, ApplyConfiguration, m.ApplyConfiguration.Expression)...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(jsonPatch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		errs = append(errs, rules.Enum(m.PatchType, path.Child("patchType"), v1.PatchTypeApplyConfiguration, v1.PatchTypeJSONPatch)...)
	}
	return errs
}

// patch checks an expression that makes a patch. In kube-apiserver, both kinds of patches are known
// only if they were apply configurations.
func (p *policy) patch(path *field.Path, purpose Purpose, expression string) field.ErrorList {
	text := strings.TrimSpace(expression)
	if text == "" {
		return field.ErrorList{field.Required(path.Child("expression"), "")}
	}
	return p.compile(path.Child("expression"), purpose, text, text, p.known[ApplyConfiguration].Has(expression))
}

func validateValidatingBinding(obj, _ *v1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	errs = append(errs, validateBinding(path, obj.Spec.PolicyName, obj.Spec.ParamRef, obj.Spec.MatchResources)...)
	return append(errs, validateActions(path.Child("validationActions"), obj.Spec.ValidationActions)...)
}

func validateMutatingBinding(obj, _ *v1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	errs = append(errs, validateBinding(path, obj.Spec.PolicyName, obj.Spec.ParamRef, obj.Spec.MatchResources)...)
	return append(errs, validateMutable(path.Child("matchResources"), obj.Spec.MatchResources)...)
}

func validateBinding(path *field.Path, policy string, ref *v1.ParamRef, match *v1.MatchResources) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	} else {
		errs = append(errs, rules.Invalid(policy, path.Child("policyName"), apivalidation.NameIsDNSSubdomain(policy, false))...)
	}
	errs = append(errs, validateParamRef(path.Child("paramRef"), ref)...)
	return append(errs, validateMatch(path.Child("matchResources"), match)...)
}

func validateActions(path *field.Path, actions []v1.ValidationAction) field.ErrorList {
	if len(actions) == 0 {
		return field.ErrorList{field.Required(path, "at least one validation action is required")}
	}
	var errs field.ErrorList
	for i, a := range actions {
		errs = append(errs, rules.Enum(a, path.Index(i), v1.Audit, v1.Deny, v1.Warn)...)
		if slices.Contains(actions[:i], a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(actions, v1.Deny) && slices.Contains(actions, v1.Warn) {
		errs = append(errs, field.Invalid(path, actions,
			"must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}

func validatePolicyStatus(obj, _ *v1.ValidatingAdmissionPolicy) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	if obj.Status.TypeChecking != nil {
		for i, w := range obj.Status.TypeChecking.ExpressionWarnings {
			path := path.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(path.Child("warning"), ""))
			}
			errs = append(errs, validateFieldRef(path.Child("fieldRef"), strings.TrimSpace(w.FieldRef))...)
		}
	}
	return append(errs, metavalidation.ValidateConditions(obj.Status.Conditions, path.Child("conditions"))...)
}

func validateFieldRef(path *field.Path, ref string) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(path, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
