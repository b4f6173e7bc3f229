// Package scheduling has the rules of the kinds of the group scheduling.k8s.io.
package scheduling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

const (
	systemPrefix = "system-"
	// highestUser is the highest priority of classes that are not the system's.
	highestUser = int32(1000000000)
	// systemCritical is the lowest priority of the system's classes.
	systemCritical = 2 * highestUser
)

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"priorityclasses": {
		Default: kind.On(func(pc *schedulingv1.PriorityClass) {
			rules.SetDefaultPointer(&pc.PreemptionPolicy, corev1.PreemptLowerPriority)
		}),
		Main: kind.Write{
			Prepare: kind.Change(func(pc, old *schedulingv1.PriorityClass) {
				if old == nil {
					pc.Generation = 1
				}
			}),
			Validate: kind.Check(validatePriorityClass),
		},
	}}
}

// SystemPriorityClasses returns the classes that a server creates when it starts.
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{{
		ObjectMeta:  metav1.ObjectMeta{Name: "system-node-critical"},
		Value:       systemCritical + 1000,
		Description: "Used for system critical pods that must not be moved from their current node.",
	}, {
		ObjectMeta:  metav1.ObjectMeta{Name: "system-cluster-critical"},
		Value:       systemCritical,
		Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
	}}
}

func validatePriorityClass(pc, old *schedulingv1.PriorityClass) (errs field.ErrorList) {
	meta := field.NewPath("metadata")
	if old != nil {
		errs = rules.ObjectMetaUpdate(&pc.ObjectMeta, &old.ObjectMeta, meta)
		if pc.Value != old.Value {
			errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
		}
		return append(errs, rules.Immutable(pc.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
	}
	errs = rules.ObjectMeta(&pc.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, meta)
	if strings.HasPrefix(pc.Name, systemPrefix) {
		if err := checkSystemClass(pc); err != nil {
			errs = append(errs, field.Forbidden(meta.Child("name"),
				fmt.Sprintf("priority class names with '%s' prefix are reserved for system use only. error: %v", systemPrefix, err)))
		}
	} else if pc.Value > highestUser {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %d", highestUser)))
	}
	if pc.PreemptionPolicy != nil {
		errs = append(errs, rules.RequiredEnum(*pc.PreemptionPolicy, field.NewPath("preemptionPolicy"),
			corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

func checkSystemClass(pc *schedulingv1.PriorityClass) error {
	for _, known := range SystemPriorityClasses() {
		switch {
		case known.Name != pc.Name:
		case known.Value != pc.Value:
			return fmt.Errorf("value of %v PriorityClass must be %v", known.Name, known.Value)
		case known.GlobalDefault != pc.GlobalDefault:
			return fmt.Errorf("globalDefault of %v PriorityClass must be %v", known.Name, known.GlobalDefault)
		default:
			return nil
		}
	}
	return fmt.Errorf("%v is not a known system priority class", pc.Name)
}
