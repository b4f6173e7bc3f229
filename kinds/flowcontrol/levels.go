package flowcontrol

import (
	"fmt"

	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

func validateLevel(obj, _ *v1.PriorityLevelConfiguration) field.ErrorList {
	// The annotation of v1beta3 for what v1 can express.
	const annotation = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	errs := rules.ObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, meta)
	if _, ok := obj.Annotations[annotation]; ok {
		errs = append(errs, field.Forbidden(meta.Child("annotations"), fmt.Sprintf("annotation '%s' is forbidden", annotation)))
	}
	errs = append(errs, validateLevelSpec(obj.Name, &obj.Spec, path)...)
	for _, fixed := range mandatoryLevels() {
		if fixed.Name != obj.Name {
			continue
		}
		spec, except := obj.Spec, ""
		if obj.Name == v1.PriorityLevelConfigurationNameExempt {
			spec.Exempt, except = fixed.Spec.Exempt, " except the 'spec.exempt' field"
		}
		if !equality.Semantic.DeepEqual(spec, fixed.Spec) {
			errs = append(errs, field.Invalid(path, rules.Internal(obj.Spec),
				fmt.Sprintf("spec of '%s'%s must equal the fixed value", obj.Name, except)))
		}
	}
	return append(errs, validateLevelStatus(obj, nil)...)
}

func validateLevelStatus(obj, _ *v1.PriorityLevelConfiguration) field.ErrorList {
	var types []string
	for _, c := range obj.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return validateTypes(types)
}

func validateLevelSpec(name string, spec *v1.PriorityLevelConfigurationSpec, path *field.Path) (errs field.ErrorList) {
	if (name == v1.PriorityLevelConfigurationNameExempt) != (spec.Type == v1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(path.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch spec.Type {
	case v1.PriorityLevelEnablementExempt:
		if spec.Limited != nil {
			errs = append(errs, field.Forbidden(path.Child("limited"), "must be nil if the type is not Limited"))
		}
		if e := spec.Exempt; e != nil {
			errs = append(errs, validateShares(e.NominalConcurrencyShares, path.Child("exempt"))...)
			errs = append(errs, validateLendable(e.LendablePercent, path.Child("exempt"))...)
		}
	case v1.PriorityLevelEnablementLimited:
		if spec.Exempt != nil {
			errs = append(errs, field.Forbidden(path.Child("exempt"), "must be nil if the type is Limited"))
		}
		if spec.Limited == nil {
			return append(errs, field.Required(path.Child("limited"), "must not be empty when type is Limited"))
		}
		errs = append(errs, validateLimited(spec.Limited, path.Child("limited"))...)
	default:
		errs = append(errs, rules.RequiredEnum(spec.Type, path.Child("type"),
			v1.PriorityLevelEnablementExempt, v1.PriorityLevelEnablementLimited)...)
	}
	return errs
}

func validateShares(shares *int32, path *field.Path) field.ErrorList {
	if shares == nil || *shares >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer")}
}

func validateLendable(percent *int32, path *field.Path) field.ErrorList {
	if percent == nil || *percent >= 0 && *percent <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("lendablePercent"), *percent, "must be between 0 and 100, inclusive")}
}

func validateLimited(l *v1.LimitedPriorityLevelConfiguration, path *field.Path) field.ErrorList {
	errs := validateShares(l.NominalConcurrencyShares, path)
	response := path.Child("limitResponse")
	switch r := l.LimitResponse; r.Type {
	case v1.LimitResponseTypeReject:
		if r.Queuing != nil {
			errs = append(errs, field.Forbidden(response.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
	case v1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			errs = append(errs, field.Required(response.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
		} else {
			errs = append(errs, validateQueuing(r.Queuing, response.Child("queuing"))...)
		}
	default:
		errs = append(errs, rules.RequiredEnum(r.Type, response.Child("type"), v1.LimitResponseTypeQueue, v1.LimitResponseTypeReject)...)
	}
	errs = append(errs, validateLendable(l.LendablePercent, path)...)
	if p := l.BorrowingLimitPercent; p != nil && *p < 0 {
		errs = append(errs, field.Invalid(path.Child("borrowingLimitPercent"), *p, "if specified, must be a non-negative integer"))
	}
	return errs
}

func validateQueuing(q *v1.QueuingConfiguration, path *field.Path) (errs field.ErrorList) {
	const mostQueues = 10_000_000
	invalid := func(name string, value int32, format string, args ...any) {
		errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf(format, args...)))
	}
	if q.QueueLengthLimit <= 0 {
		invalid("queueLengthLimit", q.QueueLengthLimit, "must be positive")
	}
	switch {
	case q.Queues <= 0:
		invalid("queues", q.Queues, "must be positive")
	case q.Queues > mostQueues:
		invalid("queues", q.Queues, "must not be greater than %d", mostQueues)
	}
	switch {
	case q.HandSize <= 0:
		invalid("handSize", q.HandSize, "must be positive")
	case q.HandSize > q.Queues:
		invalid("handSize", q.HandSize, "should not be greater than queues (%d)", q.Queues)
	case entropy(q.Queues, q.HandSize) > mostEntropy:
		invalid("handSize", q.HandSize, "required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues,
			q.HandSize, mostEntropy)
	}
	return errs
}
