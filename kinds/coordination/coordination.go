// Package coordination has the rules of the kinds of the group coordination.k8s.io.
package coordination

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"leases": {
		Main:           kind.Write{Prepare: kind.Change(prepareLease), Validate: kind.Check(validateLease)},
		CreateOnUpdate: true,
		Conditional:    true,
	}}
}

// prepareLease drops the fields of coordinated leader election, which is off by default.
func prepareLease(l, old *coordinationv1.Lease) {
	if old == nil || old.Spec.Strategy == nil {
		l.Spec.Strategy = nil
	}
	if old == nil || old.Spec.PreferredHolder == nil {
		l.Spec.PreferredHolder = nil
	}
}

func validateLease(l, old *coordinationv1.Lease) (errs field.ErrorList) {
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	if old == nil {
		errs = apivalidation.ValidateObjectMeta(&l.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)
	} else {
		errs = apivalidation.ValidateObjectMetaUpdate(&l.ObjectMeta, &old.ObjectMeta, meta)
	}
	if seconds := l.Spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	if n := l.Spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	strategy, holder := l.Spec.Strategy, l.Spec.PreferredHolder
	if strategy != nil {
		// Kube-apiserver reports the name of the field twice.
		at := path.Child("strategy", "strategy")
		if strings.Contains(string(*strategy), "/") {
			errs = append(errs, rules.QualifiedName(string(*strategy), at)...)
		} else {
			errs = append(errs, rules.Enum(*strategy, at, coordinationv1.OldestEmulationVersion)...)
		}
	}
	if holder != nil && *holder != "" && (strategy == nil || *strategy == "") {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}
