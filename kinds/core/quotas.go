package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

func resourceQuotas() kind.Rules {
	return kind.Rules{
		Default: kind.On(func(q *corev1.ResourceQuota) {
			rules.RoundUp(q.Spec.Hard)
			rules.RoundUp(q.Status.Hard)
			rules.RoundUp(q.Status.Used)
		}),
		Main: kind.Write{
			Prepare: kind.Change(func(q, old *corev1.ResourceQuota) {
				q.Status = corev1.ResourceQuotaStatus{}
				if old != nil {
					q.Status = old.Status
				}
			}),
			Validate: kind.Check(validateQuota),
			Warnings: kind.Warn(quotaWarnings),
			Reset:    []string{"status"},
		},
		Status: &kind.Write{
			Prepare: kind.Change(func(q, old *corev1.ResourceQuota) { q.Spec = old.Spec }),
			Validate: kind.Check(func(q, old *corev1.ResourceQuota) field.ErrorList {
				errs := rules.ObjectMetaUpdate(&q.ObjectMeta, &old.ObjectMeta, metadata())
				errs = append(errs, rules.Required(q.ResourceVersion, field.NewPath("resourceVersion"))...)
				return append(errs, quotaStatus(&q.Status)...)
			}),
			Reset: []string{"spec"},
		},
	}
}

func validateQuota(q, old *corev1.ResourceQuota) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if old == nil {
		errs = rules.ObjectMeta(&q.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata())
	} else {
		errs = rules.ObjectMetaUpdate(&q.ObjectMeta, &old.ObjectMeta, metadata())
	}
	errs = append(errs, quantities(q.Spec.Hard, path.Child("hard"))...)
	errs = append(errs, scopes(&q.Spec, path.Child("scopes"))...)
	errs = append(errs, scopeSelector(&q.Spec, path.Child("scopeSelector", "matchExpressions"))...)
	if old == nil {
		return append(errs, quotaStatus(&q.Status)...)
	}
	if !sets.New(old.Spec.Scopes...).Equal(sets.New(q.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(path.Child("scopes"), rules.Internal(q.Spec.Scopes), apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

func quotaStatus(status *corev1.ResourceQuotaStatus) field.ErrorList {
	path := field.NewPath("status")
	return append(quantities(status.Hard, path.Child("hard")), quantities(status.Used, path.Child("used"))...)
}

func quantities(list corev1.ResourceList, path *field.Path) (errs field.ErrorList) {
	for _, name := range rules.Keys(list) {
		at := path.Key(string(name))
		errs = append(errs, rules.ResourceName(name, at)...)
		if !strings.Contains(string(name), "/") && !isQuotaResource(name) {
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for quota"))
		}
		errs = append(errs, rules.ResourceQuantity(name, list[name], at)...)
	}
	return errs
}

// isQuotaResource reports whether quotas know a resource: all standard ones but storage, which
// is a request.
func isQuotaResource(name corev1.ResourceName) bool {
	return rules.IsStandardResource(name) && name != corev1.ResourceStorage
}

func isScope(scope corev1.ResourceQuotaScope) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
		corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return true
	}
	return false
}

// isScopeOf reports whether a scope applies to a resource.
func isScopeOf(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		switch name {
		case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU,
			corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory:
			return true
		}
		return false
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	}
	return true
}

func conflicting(scopes []corev1.ResourceQuotaScope) (n int) {
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			n++
		}
	}
	return n
}

// outOfScope returns the number of resources of a quota that a scope does not apply to.
func outOfScope(spec *corev1.ResourceQuotaSpec, scope corev1.ResourceQuotaScope) (n int) {
	for name := range spec.Hard {
		if isQuotaResource(name) && !isScopeOf(scope, name) {
			n++
		}
	}
	return n
}

func scopes(spec *corev1.ResourceQuotaSpec, path *field.Path) (errs field.ErrorList) {
	invalid := func(message string) { errs = append(errs, field.Invalid(path, rules.Internal(spec.Scopes), message)) }
	for _, scope := range spec.Scopes {
		if !isScope(scope) {
			invalid("unsupported scope")
		}
		for range outOfScope(spec, scope) {
			invalid("unsupported scope applied to resource")
		}
	}
	for range conflicting(spec.Scopes) {
		invalid("conflicting scopes")
	}
	return errs
}

func scopeSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) (errs field.ErrorList) {
	if spec.ScopeSelector == nil {
		return nil
	}
	var names []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		names = append(names, r.ScopeName)
		if !isScope(r.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for range outOfScope(spec, r.ScopeName) {
			errs = append(errs, field.Invalid(path, rules.Internal(spec.ScopeSelector), "unsupported scope applied to resource"))
		}
		switch r.ScopeName {
		case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
			corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			if r.Operator != corev1.ScopeSelectorOpExists {
				errs = append(errs, field.Invalid(path.Child("operator"), r.Operator,
					"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
			}
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"),
					"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	for range conflicting(names) {
		errs = append(errs, field.Invalid(path, rules.Internal(spec.Scopes), "conflicting scopes"))
	}
	return errs
}

func quotaWarnings(q, old *corev1.ResourceQuota) (out []string) {
	if old != nil {
		return nil
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		requests, limits := "requests."+name, "limits."+name
		request, ok := q.Spec.Hard[requests]
		if !ok && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			requests = name
			request, ok = q.Spec.Hard[requests]
		}
		if limit, limited := q.Spec.Hard[limits]; ok && limited && request.Cmp(limit) > 0 {
			out = append(out, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)",
				requests, request.String(), limits, limit.String()))
		}
	}
	return out
}

func limitRanges() kind.Rules {
	return kind.Rules{
		CreateOnUpdate: true,
		Default: kind.On(func(l *corev1.LimitRange) {
			for i := range l.Spec.Limits {
				defaultLimits(&l.Spec.Limits[i])
			}
		}),
		Main: kind.Write{
			Prepare: kind.Change(func(l, old *corev1.LimitRange) {
				if old == nil && l.Name == "" {
					l.Name = uuid.NewString()
				}
			}),
			Validate: kind.Check(func(l, _ *corev1.LimitRange) field.ErrorList { return validateLimitRange(l) }),
		},
	}
}

func defaultLimits(item *corev1.LimitRangeItem) {
	if item.Type == corev1.LimitTypeContainer {
		if item.Default == nil {
			item.Default = corev1.ResourceList{}
		}
		if item.DefaultRequest == nil {
			item.DefaultRequest = corev1.ResourceList{}
		}
		fill(item.Default, item.Max)
		fill(item.DefaultRequest, item.Default)
		fill(item.DefaultRequest, item.Min)
	}
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		rules.RoundUp(list)
	}
}

// fill copies quantities that are missing.
func fill(to, from corev1.ResourceList) {
	for name, value := range from {
		if _, ok := to[name]; !ok {
			to[name] = value.DeepCopy()
		}
	}
}

func validateLimitRange(l *corev1.LimitRange) field.ErrorList {
	errs := rules.ObjectMeta(&l.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadata())
	types := map[corev1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, path := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, limitType(item.Type, path.Child("type"))...)
		if types[item.Type] {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		types[item.Type] = true
		errs = append(errs, validateLimits(item, path)...)
	}
	return errs
}

func limitType(value corev1.LimitType, path *field.Path) field.ErrorList {
	if errs := rules.Invalid(value, path, validation.IsQualifiedName(string(value))); len(errs) > 0 {
		return errs
	}
	if strings.Contains(string(value), "/") || value == corev1.LimitTypePod ||
		value == corev1.LimitTypeContainer || value == corev1.LimitTypePersistentVolumeClaim {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "must be a standard limit type or fully qualified")}
}

func validateLimits(item *corev1.LimitRangeItem, path *field.Path) (errs field.ErrorList) {
	names := sets.New[corev1.ResourceName]()
	check := func(list corev1.ResourceList, field string) {
		for _, name := range rules.Keys(list) {
			at := path.Child(field).Key(string(name))
			if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
				errs = append(errs, rules.ContainerResourceName(name, at)...)
			} else {
				errs = append(errs, rules.ResourceName(name, at)...)
			}
			names.Insert(name)
		}
	}
	check(item.Max, "max")
	check(item.Min, "min")
	defaults, requests := item.Default, item.DefaultRequest
	if item.Type == corev1.LimitTypePod {
		if len(defaults) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(requests) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
		defaults, requests = nil, nil
	}
	check(defaults, "default")
	check(requests, "defaultRequest")
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, hasMin := item.Min[corev1.ResourceStorage]
		_, hasMax := item.Max[corev1.ResourceStorage]
		if !hasMin && !hasMax {
			errs = append(errs, field.Required(path.Child("limits"),
				"either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	check(item.MaxLimitRequestRatio, "maxLimitRequestRatio")
	for _, name := range sets.List(names) {
		errs = append(errs, compareLimits(item, defaults, requests, name, path)...)
	}
	return errs
}

// compareLimits validates that the limits of a resource do not contradict each other.
func compareLimits(item *corev1.LimitRangeItem, defaults, requests corev1.ResourceList,
	name corev1.ResourceName, path *field.Path) (errs field.ErrorList) {
	invalid := func(in string, value resource.Quantity, format string, args ...any) {
		errs = append(errs, field.Invalid(path.Child(in).Key(string(name)), value, fmt.Sprintf(format, args...)))
	}
	least, hasMin := item.Min[name]
	most, hasMax := item.Max[name]
	limit, hasLimit := defaults[name]
	request, hasRequest := requests[name]
	ratio, hasRatio := item.MaxLimitRequestRatio[name]
	if hasMin && hasMax && least.Cmp(most) > 0 {
		invalid("min", least, "min value %s is greater than max value %s", least.String(), most.String())
	}
	if hasRequest && hasMin && least.Cmp(request) > 0 {
		invalid("defaultRequest", request, "min value %s is greater than default request value %s", least.String(), request.String())
	}
	if hasRequest && hasMax && request.Cmp(most) > 0 {
		invalid("defaultRequest", request, "default request value %s is greater than max value %s", request.String(), most.String())
	}
	if hasRequest && hasLimit && request.Cmp(limit) > 0 {
		invalid("defaultRequest", request, "default request value %s is greater than default limit value %s", request.String(),
			limit.String())
	}
	if hasLimit && hasMin && least.Cmp(limit) > 0 {
		invalid("default", least, "min value %s is greater than default value %s", least.String(), limit.String())
	}
	if hasLimit && hasMax && limit.Cmp(most) > 0 {
		invalid("default", most, "default value %s is greater than max value %s", limit.String(), most.String())
	}
	if hasRatio && ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		invalid("maxLimitRequestRatio", ratio, "ratio %s is less than 1", ratio.String())
	}
	if hasRatio && hasMin && hasMax {
		value, low, high := float64(ratio.Value()), least.Value(), most.Value()
		if ratio.Value() < resource.MaxMilliValue && low < resource.MaxMilliValue && high < resource.MaxMilliValue {
			value, low, high = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
		}
		if highest := float64(high) / float64(low); value > highest {
			invalid("maxLimitRequestRatio", ratio, "ratio %s is greater than max/min = %f", ratio.String(), highest)
		}
	}
	if !rules.IsOvercommitAllowed(name) && hasLimit && hasRequest && limit.Cmp(request) != 0 {
		invalid("defaultRequest", request, "default value %s must equal to defaultRequest value %s in %s", limit.String(),
			request.String(), name)
	}
	return errs
}
