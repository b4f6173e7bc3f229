// Package apps has the rules of the kinds in the group apps, as kube-apiserver v1.36 has them.
package apps

import (
	"encoding/json"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

var metadata, specPath, statusPath = field.NewPath("metadata"), field.NewPath("spec"), field.NewPath("status")

// Rules returns the rules of the kinds in the group apps by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"deployments": {
			Default: kind.On(defaultDeployment),
			Main:    main(prepareDeployment, validateDeployment, deploymentWarnings),
			Status: &kind.Write{
				Prepare:  kind.Change(prepareDeploymentStatus),
				Validate: kind.Check(validateDeploymentStatus),
				Reset:    []string{"spec", "metadata.labels"},
			},
		},
		"replicasets": {
			Default: kind.On(defaultReplicaSet),
			Main:    main(prepareReplicaSet, validateReplicaSet, replicaSetWarnings),
			Status:  status(func(rs, old *appsv1.ReplicaSet) { old.Spec.DeepCopyInto(&rs.Spec) }, validateReplicaSetStatus),
			Fields: func(obj kind.Object) fields.Set {
				return fields.Set{"status.replicas": strconv.Itoa(int(obj.(*appsv1.ReplicaSet).Status.Replicas))}
			},
		},
		"statefulsets": {
			Default: kind.On(defaultStatefulSet),
			Main:    main(prepareStatefulSet, validateStatefulSet, statefulSetWarnings),
			Status:  status(func(set, old *appsv1.StatefulSet) { old.Spec.DeepCopyInto(&set.Spec) }, validateStatefulSetStatus),
		},
		"daemonsets": {
			Default: kind.On(defaultDaemonSet),
			Main:    main(prepareDaemonSet, validateDaemonSet, daemonSetWarnings),
			Status:  status(prepareDaemonSetStatus, validateDaemonSetStatus),
		},
		"controllerrevisions": {
			Main: kind.Write{Validate: kind.Check(validateRevision)},
		},
	}
}

// main returns the rules of writes of objects, whose status is another endpoint.
func main[T kind.Object](prepare func(obj, old T), validate func(obj, old T) field.ErrorList,
	warnings func(obj, old T) []string) kind.Write {
	return kind.Write{Prepare: kind.Change(prepare), Validate: kind.Check(validate),
		Warnings: kind.Warn(warnings), Reset: []string{"status"}}
}

// status returns the rules of writes of the status alone.
func status[T kind.Object](prepare func(obj, old T), validate func(obj, old T) field.ErrorList) *kind.Write {
	return &kind.Write{Prepare: kind.Change(prepare), Validate: kind.Check(validate), Reset: []string{"spec"}}
}

// validateMeta validates the metadata of an object that is created or updated.
func validateMeta(meta, old *metav1.ObjectMeta, name apivalidation.ValidateNameFunc) field.ErrorList {
	if old == nil {
		return rules.ObjectMeta(meta, true, name, metadata)
	}
	return rules.ObjectMetaUpdate(meta, old, metadata)
}

// setAnnotation sets an annotation, or deletes it if the value is empty.
func setAnnotation(meta *metav1.ObjectMeta, key, value string) {
	switch {
	case value == "":
		delete(meta.Annotations, key)
	case meta.Annotations == nil:
		meta.Annotations = map[string]string{key: value}
	default:
		meta.Annotations[key] = value
	}
}

// validateSelector validates the selector of a controller. kind is its name in errors. The
// second result is nil if there is no valid selector.
func validateSelector(selector *metav1.LabelSelector, kind, detail string,
	path *field.Path) (errs field.ErrorList, parsed labels.Selector) {
	if selector == nil {
		errs = append(errs, field.Required(path, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)...)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(path, selector, "empty selector is invalid for "+kind))
		}
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return append(errs, field.Invalid(path, selector, detail)), nil
	}
	return errs, parsed
}

// counts are numbers in a status by the names of their fields.
type counts []struct {
	name  string
	value int64
}

// validate rejects numbers below zero.
func (c counts) validate() (errs field.ErrorList) {
	for _, count := range c {
		errs = append(errs, rules.Nonnegative(count.value, statusPath.Child(count.name))...)
	}
	return errs
}

// add adds an optional number.
func (c *counts) add(name string, value *int32) {
	if value != nil {
		*c = append(*c, counts{{name, int64(*value)}}...)
	}
}

// validateCollisions rejects a smaller number of collisions.
func validateCollisions(count, old *int32) field.ErrorList {
	if old == nil || count != nil && *count >= *old {
		return nil
	}
	value := int32(0)
	if count != nil {
		value = *count
	}
	return field.ErrorList{field.Invalid(statusPath.Child("collisionCount"), value, "cannot be decremented")}
}

// validateAmount validates a number or a percentage of pods.
func validateAmount(amount intstr.IntOrString, path *field.Path) field.ErrorList {
	if amount.Type == intstr.String {
		return rules.Invalid(amount, path, validation.IsValidPercent(amount.StrVal))
	}
	return rules.Nonnegative(int64(amount.IntValue()), path)
}

// percentage returns the number of an amount that is a valid percentage.
func percentage(amount intstr.IntOrString) (int, bool) {
	if amount.Type != intstr.String || len(validation.IsValidPercent(amount.StrVal)) > 0 {
		return 0, false
	}
	value, _ := strconv.Atoi(amount.StrVal[:len(amount.StrVal)-1])
	return value, true
}

// isZero reports whether an amount is no pods.
func isZero(amount intstr.IntOrString) bool {
	if value, ok := percentage(amount); ok {
		return value == 0
	}
	return amount.IntValue() == 0
}

// validateShare rejects more than 100%.
func validateShare(amount intstr.IntOrString, path *field.Path) field.ErrorList {
	if value, ok := percentage(amount); ok && value > 100 {
		return field.ErrorList{field.Invalid(path, amount, "must not be greater than 100%")}
	}
	return nil
}

func validateRevision(revision, old *appsv1.ControllerRevision) (errs field.ErrorList) {
	if old != nil {
		errs = rules.ObjectMetaUpdate(&revision.ObjectMeta, &old.ObjectMeta, metadata)
	}
	errs = append(errs, rules.ObjectMeta(&revision.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata)...)
	errs = append(errs, rules.Nonnegative(revision.Revision, field.NewPath("revision"))...)
	path := field.NewPath("data")
	if old != nil {
		return append(errs, rules.Immutable(revision.Data, old.Data, path)...)
	}
	var data any
	if revision.Data.Raw == nil {
		errs = append(errs, field.Required(path, "data is mandatory"))
	} else if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		errs = append(errs, field.Invalid(path, "<value omitted>", "error parsing data: "+err.Error()))
	} else if data == nil {
		errs = append(errs, field.Required(path, "data is mandatory"))
	} else if _, ok := data.(map[string]any); !ok {
		errs = append(errs, field.Required(path, "data must be a valid JSON object"))
	}
	return errs
}
