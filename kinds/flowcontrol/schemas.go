package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

func validateSchema(obj, _ *v1.FlowSchema) field.ErrorList {
	path := field.NewPath("spec")
	errs := rules.ObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateSchemaSpec(obj.Name, &obj.Spec, path)...)
	for _, fixed := range mandatorySchemas() {
		if fixed.Name == obj.Name && !equality.Semantic.DeepEqual(fixed.Spec, obj.Spec) {
			errs = append(errs, field.Invalid(path, rules.Internal(obj.Spec),
				fmt.Sprintf("spec of '%s' must equal the fixed value", obj.Name)))
		}
	}
	return append(errs, validateSchemaStatus(obj, nil)...)
}

func validateSchemaStatus(obj, _ *v1.FlowSchema) (errs field.ErrorList) {
	var types []string
	for _, c := range obj.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return validateTypes(types)
}

// validateTypes checks the types of conditions.
func validateTypes(types []string) (errs field.ErrorList) {
	for i, t := range types {
		path := field.NewPath("status", "conditions").Index(i).Child("type")
		if slices.Contains(types[:i], t) {
			errs = append(errs, field.Duplicate(path, t))
		}
		errs = append(errs, rules.Required(t, path)...)
	}
	return errs
}

func validateSchemaSpec(name string, spec *v1.FlowSchemaSpec, path *field.Path) (errs field.ErrorList) {
	precedence := func(detail string) {
		errs = append(errs, field.Invalid(path.Child("matchingPrecedence"), spec.MatchingPrecedence, detail))
	}
	switch p := spec.MatchingPrecedence; {
	case p <= 0:
		precedence("must be a positive value")
	case p > v1.FlowSchemaMaxMatchingPrecedence:
		precedence(fmt.Sprintf("must not be greater than %v", v1.FlowSchemaMaxMatchingPrecedence))
	case p == 1 && name != v1.FlowSchemaNameExempt:
		precedence("only the schema named 'exempt' may have matchingPrecedence 1")
	}
	if m := spec.DistinguisherMethod; m != nil && m.Type != v1.FlowDistinguisherMethodByNamespaceType &&
		m.Type != v1.FlowDistinguisherMethodByUserType {
		errs = append(errs, field.NotSupported(path.Child("distinguisherMethod", "type"), rules.Internal(*m),
			[]v1.FlowDistinguisherMethodType{v1.FlowDistinguisherMethodByNamespaceType, v1.FlowDistinguisherMethodByUserType}))
	}
	level := path.Child("priorityLevelConfiguration", "name")
	if spec.PriorityLevelConfiguration.Name == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		errs = append(errs, rules.Subdomain(spec.PriorityLevelConfiguration.Name, level)...)
	}
	for i := range spec.Rules {
		errs = append(errs, validateRule(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	return errs
}

func validateRule(r *v1.PolicyRulesWithSubjects, path *field.Path) (errs field.ErrorList) {
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResources(&r.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, validateURLs(&r.NonResourceRules[i], path.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

func validateSubject(s *v1.Subject, path *field.Path) (errs field.ErrorList) {
	// The one that the kind names comes first, then those that it forbids.
	users := []struct {
		kind  v1.SubjectKind
		field string
		set   bool
		check func(path *field.Path) field.ErrorList
	}{
		{v1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil,
			func(path *field.Path) field.ErrorList { return validateServiceAccount(s.ServiceAccount, path) }},
		{v1.SubjectKindUser, "user", s.User != nil,
			func(path *field.Path) field.ErrorList { return rules.Required(s.User.Name, path.Child("name")) }},
		{v1.SubjectKindGroup, "group", s.Group != nil,
			func(path *field.Path) field.ErrorList { return rules.Required(s.Group.Name, path.Child("name")) }},
	}
	known := false
	for _, u := range users {
		if u.kind != s.Kind {
			continue
		}
		known = true
		if u.set {
			errs = append(errs, u.check(path.Child(u.field))...)
		} else {
			errs = append(errs, field.Required(path.Child(u.field),
				fmt.Sprintf("%s is required when subject kind is '%s'", u.field, u.kind)))
		}
	}
	if !known {
		return rules.Enum(s.Kind, path.Child("kind"), v1.SubjectKindGroup, v1.SubjectKindServiceAccount, v1.SubjectKindUser)
	}
	for _, u := range users {
		if u.kind != s.Kind && u.set {
			errs = append(errs, field.Forbidden(path.Child(u.field),
				fmt.Sprintf("%s is forbidden when subject kind is not '%s'", u.field, u.kind)))
		}
	}
	return errs
}

func validateServiceAccount(s *v1.ServiceAccountSubject, path *field.Path) (errs field.ErrorList) {
	switch s.Name {
	case "":
		errs = append(errs, field.Required(path.Child("name"), ""))
	case v1.NameAll:
	default:
		errs = append(errs, rules.Subdomain(s.Name, path.Child("name"))...)
	}
	if s.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, rules.Label(s.Namespace, path.Child("namespace"))...)
}

// validateAll checks a list that may have "*", then as its only value.
func validateAll(list []string, path *field.Path, missing, noun string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(path, missing)}
	case len(list) > 1 && slices.Contains(list, "*"):
		return field.ErrorList{field.Invalid(path, list, "if '*' is present, must not specify other "+noun)}
	}
	return nil
}

func validateVerbs(verbs []string, path *field.Path) field.ErrorList {
	supported := []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
	if len(verbs) == 0 || slices.Contains(verbs, "*") {
		return validateAll(verbs, path, "verbs must contain at least one value", "verbs")
	}
	if slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(supported, v) }) {
		return field.ErrorList{field.NotSupported(path, verbs, supported)}
	}
	return nil
}

func validateResources(r *v1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	errs = append(errs, validateAll(r.APIGroups, path.Child("apiGroups"),
		"resource rules must supply at least one api group", "api groups")...)
	errs = append(errs, validateAll(r.Resources, path.Child("resources"),
		"resource rules must supply at least one resource", "resources")...)
	if len(r.Namespaces) > 0 || !r.ClusterScope {
		errs = append(errs, validateAll(r.Namespaces, path.Child("namespaces"),
			"resource rules that are not cluster scoped must supply at least one namespace", "namespaces")...)
	}
	if slices.Contains(r.Namespaces, "*") {
		return errs
	}
	for i, ns := range r.Namespaces {
		for _, message := range apivalidation.ValidateNamespaceName(ns, false) {
			errs = append(errs, field.Invalid(path.Child("namespaces").Index(i), ns,
				"each member of this list must be '*' or a DNS-1123 label; "+message))
		}
	}
	return errs
}

func validateURLs(r *v1.NonResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	path = path.Child("nonResourceURLs")
	errs = append(errs, validateAll(r.NonResourceURLs, path, "nonResourceURLs must contain at least one value", "non-resource URLs")...)
	if slices.Contains(r.NonResourceURLs, "*") {
		return errs
	}
	for i, url := range r.NonResourceURLs {
		if detail := invalidURL(url); detail != "" {
			errs = append(errs, field.Invalid(path.Index(i), url, detail))
		}
	}
	return errs
}

// invalidURL returns what is wrong with the path of a URL.
func invalidURL(path string) string {
	before, after, wildcard := strings.Cut(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case path == "/":
		return ""
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case wildcard && (after != "" || !strings.HasSuffix(before, "/")):
		return "wildcard can only do suffix matching"
	}
	return ""
}
