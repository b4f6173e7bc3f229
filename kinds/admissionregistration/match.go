package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

func validateRule(path *field.Path, r v1.RuleWithOperations) field.ErrorList {
	errs := wildcard(path.Child("operations"), r.Operations, "operations")
	for i, op := range r.Operations {
		errs = append(errs, rules.Enum(op, path.Child("operations").Index(i), v1.OperationAll,
			v1.Connect, v1.Create, v1.Delete, v1.Update)...)
	}
	errs = append(errs, wildcard(path.Child("apiGroups"), r.APIGroups, "API groups")...)
	errs = append(errs, wildcard(path.Child("apiVersions"), r.APIVersions, "API versions")...)
	for i, v := range r.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(path.Child("resources"), r.Resources)...)
	return append(errs, optionalEnum(r.Scope, path.Child("scope"), v1.AllScopes, v1.ClusterScope, v1.NamespacedScope)...)
}

// wildcard returns errors if a list is empty, or has other values beside "*".
func wildcard[T ~string](path *field.Path, values []T, noun string) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(path, values, "if '*' is present, must not specify other "+noun)}
	}
	return nil
}

// validateResources checks the resources and subresources of a rule: "pods", "pods/status",
// "pods/*", "*/status", "*", "*/*". None may be part of one before it.
func validateResources(path *field.Path, resources []string) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	allSubresources := sets.New[string]() // resources with /*
	allResources := sets.New[string]()    // subresources with */
	var plain bool                        // whether the last resource without a subresource is not "*"
	for i, r := range resources {
		if r == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		res, sub, ok := strings.Cut(r, "/")
		if !ok {
			plain = r != "*"
			continue
		}
		if allSubresources.Has(res) {
			errs = append(errs, field.Invalid(path.Index(i), r, fmt.Sprintf("if '%s/*' is present, must not specify %s", res, r)))
		}
		if allResources.Has(sub) {
			errs = append(errs, field.Invalid(path.Index(i), r, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, r)))
		}
		if sub == "*" {
			allSubresources.Insert(res)
		}
		if res == "*" {
			allResources.Insert(sub)
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

// validateMatch checks which resources a policy or a binding matches.
func validateMatch(path *field.Path, m *v1.MatchResources) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := requiredEnum(m.MatchPolicy, path.Child("matchPolicy"), v1.Equivalent, v1.Exact)
	if m.NamespaceSelector == nil {
		errs = append(errs, field.Required(path.Child("namespaceSelector"), ""))
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(m.NamespaceSelector,
		metavalidation.LabelSelectorValidationOptions{}, path.Child("namespaceSelector"))...)
	if m.ObjectSelector == nil {
		errs = append(errs, field.Required(path.Child("objectSelector"), ""))
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(m.ObjectSelector,
		metavalidation.LabelSelectorValidationOptions{}, path.Child("objectSelector"))...)
	for i, r := range m.ResourceRules {
		errs = append(errs, validateNamedRule(path.Child("resourceRules").Index(i), r)...)
	}
	for i, r := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(path.Child("excludeResourceRules").Index(i), r)...)
	}
	return errs
}

func validateNamedRule(path *field.Path, r v1.NamedRuleWithOperations) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, name := range r.ResourceNames {
		errs = append(errs, rules.Invalid(name, path.Child("resourceNames").Index(i), content.IsPathSegmentName(name))...)
		if names.Has(name) {
			errs = append(errs, field.Duplicate(path.Child("resourceNames").Index(i), name))
		}
		names.Insert(name)
	}
	return append(errs, validateRule(path, r.RuleWithOperations)...)
}

// validateMutable returns errors for operations that a mutating policy cannot have. The path is
// that of the match; kube-apiserver does not say which rule is wrong.
func validateMutable(path *field.Path, m *v1.MatchResources) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	for _, r := range m.ResourceRules {
		for _, op := range r.Operations {
			errs = append(errs, rules.Enum(op, path.Child("resourceRules", "operations"),
				v1.OperationAll, v1.Connect, v1.Create, v1.Update)...)
		}
	}
	return errs
}

func validateParamKind(path *field.Path, k *v1.ParamKind) field.ErrorList {
	if k == nil {
		return nil
	}
	var errs field.ErrorList
	api := path.Child("apiVersion")
	group, version, grouped := strings.Cut(k.APIVersion, "/")
	if !grouped {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(api, ""))
	case strings.Count(k.APIVersion, "/") > 1:
		errs = append(errs, field.Invalid(api, k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion))
	default:
		if group != "" {
			errs = append(errs, joined(api, group, "", validation.IsDNS1123Subdomain(group))...)
		}
		if version == "" {
			errs = append(errs, field.Invalid(api, k.APIVersion, "version must be specified"))
		} else {
			errs = append(errs, joined(api, version, "", validation.IsDNS1035Label(version))...)
		}
	}
	if k.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), ""))
	}
	return append(errs, joined(path.Child("kind"), k.Kind,
		"may have mixed case, but should otherwise match: ", validation.IsDNS1035Label(strings.ToLower(k.Kind)))...)
}

// joined returns one error with all messages, if there are any.
func joined(path *field.Path, value, prefix string, messages []string) field.ErrorList {
	if len(messages) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, prefix+strings.Join(messages, ","))}
}

func validateParamRef(path *field.Path, r *v1.ParamRef) field.ErrorList {
	if r == nil {
		return nil
	}
	const exclusive = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if r.Name != "" {
		errs = append(errs, rules.Invalid(r.Name, path.Child("name"), content.IsPathSegmentName(r.Name))...)
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), exclusive))
		}
	}
	if r.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(r.Selector,
			metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		if r.Name != "" {
			errs = append(errs, field.Forbidden(path.Child("selector"), exclusive))
		}
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	action := r.ParameterNotFoundAction
	switch {
	case action == nil || *action == "":
		errs = append(errs, field.Required(path.Child("parameterNotFoundAction"), ""))
	case *action != v1.DenyAction && *action != v1.AllowAction:
		errs = append(errs, field.NotSupported(path.Child("parameterNotFoundAction"), *action,
			[]v1.ParameterNotFoundActionType{v1.DenyAction, v1.AllowAction}))
	}
	return errs
}

// optionalEnum is rules.Enum for a pointer that may be nil.
func optionalEnum[T ~string](value *T, path *field.Path, supported ...T) field.ErrorList {
	if value == nil {
		return nil
	}
	return rules.Enum(*value, path, supported...)
}

// requiredEnum is rules.Enum for a pointer that must not be nil.
func requiredEnum[T ~string](value *T, path *field.Path, supported ...T) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return rules.Enum(*value, path, supported...)
}
