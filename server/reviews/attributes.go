package reviews

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// attributesOf returns the request that a review asks about.
func attributesOf(spec *authorizationv1.SubjectAccessReviewSpec) authorizer.AttributesRecord {
	u := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if spec.Extra != nil {
		u.Extra = map[string][]string{}
		for key, values := range spec.Extra {
			u.Extra[key] = values
		}
	}
	return attributesFor(u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

// attributesFor returns the request of a user for a resource or, if that is nil, a path.
func attributesFor(u user.Info, resource *authorizationv1.ResourceAttributes,
	other *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	if resource == nil {
		return authorizer.AttributesRecord{User: u, Verb: other.Verb, Path: other.Path}
	}
	a := authorizer.AttributesRecord{
		User:            u,
		Verb:            resource.Verb,
		Namespace:       resource.Namespace,
		APIGroup:        resource.Group,
		APIVersion:      cmp.Or(resource.Version, "*"),
		Resource:        resource.Resource,
		Subresource:     resource.Subresource,
		Name:            resource.Name,
		ResourceRequest: true,
	}
	if s := resource.LabelSelector; s != nil {
		if s.RawSelector != "" {
			selector, err := labels.Parse(s.RawSelector)
			if a.LabelSelectorParsingErr = err; err == nil {
				a.LabelSelectorRequirements, _ = selector.Requirements()
			}
		}
		if len(s.Requirements) > 0 {
			a.LabelSelectorRequirements, a.LabelSelectorParsingErr = labelRequirements(s.Requirements)
		}
	}
	if s := resource.FieldSelector; s != nil {
		if s.RawSelector != "" {
			selector, err := fields.ParseSelector(s.RawSelector)
			if a.FieldSelectorParsingErr = err; err == nil {
				a.FieldSelectorRequirements = selector.Requirements()
			}
		}
		if len(s.Requirements) > 0 {
			a.FieldSelectorRequirements, a.FieldSelectorParsingErr = fieldRequirements(s.Requirements)
		}
	}
	return a
}

// labelRequirements returns the requirements that can be understood, and an error about the
// others. All requirements must hold, so without some of them more is asked for, not less.
func labelRequirements(in []metav1.LabelSelectorRequirement) (out labels.Requirements, _ error) {
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var errs []error
	for _, r := range in {
		operator, ok := operators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		values := r.Values
		if len(values) == 0 {
			values = nil
		}
		one, err := labels.NewRequirement(r.Key, operator, values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, *one)
	}
	return out, utilerrors.NewAggregate(errs)
}

// fieldRequirements does the same for fields, which can only be compared with one value.
func fieldRequirements(in []metav1.FieldSelectorRequirement) (out fields.Requirements, _ error) {
	operators := map[metav1.FieldSelectorOperator]struct {
		operator selection.Operator
		name     string
	}{
		// As a selector that was parsed has them.
		metav1.FieldSelectorOpIn: {selection.Equals, "in"}, metav1.FieldSelectorOpNotIn: {selection.NotEquals, "not in"},
	}
	var errs []error
	for _, r := range in {
		if len(r.Values) > 1 {
			errs = append(errs, errors.New("fieldSelectors do not yet support multiple values"))
			continue
		}
		o, ok := operators[r.Operator]
		switch {
		case ok && len(r.Values) == 1:
			out = append(out, fields.Requirement{Field: r.Key, Operator: o.operator, Value: r.Values[0]})
		case ok:
			errs = append(errs, fmt.Errorf("fieldSelectors %s must have one value", o.name))
		case r.Operator == metav1.FieldSelectorOpExists, r.Operator == metav1.FieldSelectorOpDoesNotExist:
			errs = append(errs, fmt.Errorf("fieldSelectors do not yet support %v", r.Operator))
		default:
			errs = append(errs, fmt.Errorf("%q is not a valid field selector operator", r.Operator))
		}
	}
	return out, utilerrors.NewAggregate(errs)
}

// evaluationError returns the text about errors of the authorizer and in selectors.
func evaluationError(err error, a authorizer.AttributesRecord) string {
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	add := func(name string, understood int, err error) {
		switch {
		case err == nil:
		case understood > 0:
			texts = append(texts, "spec.resourceAttributes."+name+" partially ignored due to parse error")
		default:
			texts = append(texts, "spec.resourceAttributes."+name+" ignored due to parse error")
		}
	}
	add("fieldSelector", len(a.FieldSelectorRequirements), a.FieldSelectorParsingErr)
	add("labelSelector", len(a.LabelSelectorRequirements), a.LabelSelectorParsingErr)
	return strings.Join(texts, "; ")
}
