// Package apiregistration has the rules of the kind of the group apiregistration.k8s.io.
package apiregistration

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// The largest priorities. Kubernetes' messages say that they are too large by one.
const (
	highestGroup   = 20000
	highestVersion = 1000
)

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"apiservices": {
		Default: kind.On(func(s *apiregistrationv1.APIService) {
			if s.Spec.Service != nil {
				rules.SetDefaultPointer(&s.Spec.Service.Port, 443)
			}
		}),
		Main: kind.Write{Prepare: kind.Change(prepare), Validate: kind.Check(validate), Reset: []string{"status"}},
		Status: &kind.Write{
			Prepare:  kind.Change(prepareStatus),
			Validate: kind.Check(validateStatus),
			Reset:    []string{"metadata", "spec"},
		},
		Conditional: true,
	}}
}

// prepare keeps the status. A new service of the server itself is available at once.
func prepare(s, old *apiregistrationv1.APIService) {
	if old != nil {
		s.Status = old.Status
		return
	}
	s.Status = apiregistrationv1.APIServiceStatus{}
	if s.Spec.Service == nil {
		s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
			Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason: "Local", Message: "Local APIServices are always available",
		}}
	}
}

func prepareStatus(s, old *apiregistrationv1.APIService) {
	s.Spec = old.Spec
	s.Labels, s.Annotations, s.Finalizers, s.OwnerReferences = old.Labels, old.Annotations, old.Finalizers, old.OwnerReferences
}

func validate(s, old *apiregistrationv1.APIService) (errs field.ErrorList) {
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	if old != nil {
		errs = apivalidation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, meta)
	}
	wanted := s.Spec.Version + "." + s.Spec.Group
	errs = append(errs, apivalidation.ValidateObjectMeta(&s.ObjectMeta, false, func(name string, _ bool) []string {
		if messages := path.IsValidPathSegmentName(name); len(messages) > 0 {
			return messages
		}
		if name != wanted {
			return []string{fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", wanted)}
		}
		return nil
	}, meta)...)
	switch {
	case s.Spec.Group != "":
		errs = append(errs, rules.Subdomain(s.Spec.Group, spec.Child("group"))...)
	case s.Spec.Version != "v1":
		errs = append(errs, field.Required(spec.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	errs = append(errs, rules.Invalid(s.Spec.Version, spec.Child("version"), validation.IsDNS1035Label(s.Spec.Version))...)
	errs = append(errs, priority(s.Spec.GroupPriorityMinimum, highestGroup, spec.Child("groupPriorityMinimum"))...)
	errs = append(errs, priority(s.Spec.VersionPriority, highestVersion, spec.Child("versionPriority"))...)
	if s.Spec.Service == nil {
		return append(errs, validateLocal(s, spec)...)
	}
	return append(errs, validateRemote(s, spec)...)
}

func priority(value, highest int32, path *field.Path) field.ErrorList {
	if value > 0 && value <= highest {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be positive and less than %d", highest))}
}

// validateLocal validates what only matters for a group of the server itself.
func validateLocal(s *apiregistrationv1.APIService, spec *field.Path) (errs field.ErrorList) {
	if n := len(s.Spec.CABundle); n != 0 {
		errs = append(errs, field.Invalid(spec.Child("caBundle"), fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle"))
	}
	if s.Spec.InsecureSkipTLSVerify {
		errs = append(errs, field.Invalid(spec.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
	}
	return errs
}

// validateRemote validates how a server of a group is reached.
func validateRemote(s *apiregistrationv1.APIService, spec *field.Path) (errs field.ErrorList) {
	path := spec.Child("service")
	errs = append(errs, rules.Required(s.Spec.Service.Namespace, path.Child("namespace"))...)
	errs = append(errs, rules.Required(s.Spec.Service.Name, path.Child("name"))...)
	var port int32
	if s.Spec.Service.Port != nil {
		port = *s.Spec.Service.Port
	}
	if messages := validation.IsValidPortNum(int(port)); len(messages) > 0 {
		errs = append(errs, field.Invalid(path.Child("port"), port, "port is not valid: "+strings.Join(messages, ", ")))
	}
	if s.Spec.InsecureSkipTLSVerify && len(s.Spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(spec.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateStatus(s, old *apiregistrationv1.APIService) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	conditions := field.NewPath("status", "conditions")
	for i, c := range s.Status.Conditions {
		errs = append(errs, rules.Enum(c.Status, conditions.Index(i).Child("status"),
			apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown)...)
	}
	return errs
}
