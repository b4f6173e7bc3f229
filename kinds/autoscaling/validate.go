package autoscaling

import (
	"errors"
	"fmt"

	v2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// reference is what an object reference may be.
type reference struct {
	// anyVersion skips the check of the apiVersion.
	anyVersion bool
	// core allows references to objects of the core group.
	core bool
}

func validate(obj, old *v2.HorizontalPodAutoscaler) (errs field.ErrorList) {
	meta := field.NewPath("metadata")
	if old == nil {
		errs = rules.ObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)
	} else {
		errs = rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, meta)
	}
	spec, path := &obj.Spec, field.NewPath("spec")
	least := int32(1)
	var target reference
	described := reference{core: true}
	if old != nil {
		if n := old.Spec.MinReplicas; n != nil && *n == 0 {
			least = 0
		}
		target.anyVersion = old.Spec.ScaleTargetRef.APIVersion == spec.ScaleTargetRef.APIVersion &&
			old.Spec.ScaleTargetRef.Kind == spec.ScaleTargetRef.Kind
		for _, m := range old.Spec.Metrics {
			if m.Type == v2.ObjectMetricSourceType && m.Object != nil &&
				validateAPIVersion(m.Object.DescribedObject, reference{core: true}) != nil {
				described.anyVersion = true
			}
		}
	}
	// The only kind of the core group that can be scaled.
	target.core = spec.ScaleTargetRef.Kind == "ReplicationController"

	if n := spec.MinReplicas; n != nil && *n < least {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), *n, fmt.Sprintf("must be greater than or equal to %d", least)))
	}
	replicas := path.Child("maxReplicas")
	switch {
	case spec.MaxReplicas == 0:
		errs = append(errs, field.Required(replicas, "must be set and greater than 0"))
	case spec.MaxReplicas < 0:
		errs = append(errs, field.Invalid(replicas, spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	if n := spec.MinReplicas; n != nil && spec.MaxReplicas < *n {
		errs = append(errs, field.Invalid(replicas, spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, validateReference(spec.ScaleTargetRef, target, path.Child("scaleTargetRef"))...)
	errs = append(errs, validateMetrics(spec, described, path.Child("metrics"))...)
	if b := spec.Behavior; b != nil {
		errs = append(errs, validateScaling(b.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateScaling(b.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	return errs
}

func validateStatus(obj, old *v2.HorizontalPodAutoscaler) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, rules.Nonnegative(obj.Status.CurrentReplicas, field.NewPath("status", "currentReplicas"))...)
	return append(errs, rules.Nonnegative(obj.Status.DesiredReplicas, field.NewPath("status", "desiredReplicas"))...)
}

func validateReference(ref v2.CrossVersionObjectReference, allowed reference, path *field.Path) field.ErrorList {
	errs := validateSegment(ref.Kind, "", path.Child("kind"))
	errs = append(errs, validateSegment(ref.Name, "", path.Child("name"))...)
	if err := validateAPIVersion(ref, allowed); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
	return errs
}

func validateAPIVersion(ref v2.CrossVersionObjectReference, allowed reference) error {
	if allowed.anyVersion {
		return nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return err
	}
	if gv.Group == "" && !allowed.core {
		return errors.New("apiVersion must specify API group")
	}
	return nil
}

// validateSegment checks a name that must not be empty and can be a segment of a URL path.
func validateSegment(name, missing string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, missing)}
	}
	return rules.Invalid(name, path, content.IsPathSegmentName(name))
}

func validateScaling(r *v2.HPAScalingRules, path *field.Path) (errs field.ErrorList) {
	const longest = 3600
	if r == nil {
		return nil
	}
	if s := r.StabilizationWindowSeconds; s != nil && *s < 0 {
		errs = append(errs, field.Invalid(path.Child("stabilizationWindowSeconds"), *s, "must be greater than or equal to zero"))
	} else if s != nil && *s > longest {
		errs = append(errs, field.Invalid(path.Child("stabilizationWindowSeconds"), *s,
			fmt.Sprintf("must be less than or equal to %d", longest)))
	}
	if p := r.SelectPolicy; p != nil {
		errs = append(errs, rules.Enum(*p, path.Child("selectPolicy"), v2.DisabledPolicySelect,
			v2.MaxChangePolicySelect, v2.MinChangePolicySelect)...)
	}
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(path.Child("policies"), "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		errs = append(errs, validatePolicy(p, path.Child("policies").Index(i))...)
	}
	if r.Tolerance != nil {
		errs = append(errs, rules.NonnegativeQuantity(*r.Tolerance, path.Child("tolerance"))...)
	}
	return errs
}

func validatePolicy(p v2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	const longest = 1800
	errs := rules.Enum(p.Type, path.Child("type"), v2.PercentScalingPolicy, v2.PodsScalingPolicy)
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), p.Value, "must be greater than zero"))
	}
	if p.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
	}
	if p.PeriodSeconds > longest {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), p.PeriodSeconds,
			fmt.Sprintf("must be less than or equal to %d", longest)))
	}
	return errs
}

func validateMetrics(spec *v2.HorizontalPodAutoscalerSpec, described reference, path *field.Path) (errs field.ErrorList) {
	fromZero := false
	for i, m := range spec.Metrics {
		errs = append(errs, validateMetric(m, described, path.Index(i))...)
		if m.Type == v2.ObjectMetricSourceType || m.Type == v2.ExternalMetricSourceType {
			fromZero = true
		}
	}
	if n := spec.MinReplicas; n != nil && *n == 0 && !fromZero {
		errs = append(errs, field.Forbidden(path,
			"must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

func validateMetric(m v2.MetricSpec, described reference, path *field.Path) (errs field.ErrorList) {
	supported := []v2.MetricSourceType{v2.ContainerResourceMetricSourceType, v2.ExternalMetricSourceType,
		v2.ObjectMetricSourceType, v2.PodsMetricSourceType, v2.ResourceMetricSourceType}
	if m.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	errs = append(errs, rules.Enum(m.Type, path.Child("type"), supported...)...)

	// Only the first source is validated, in this order.
	sources := []struct {
		kind     v2.MetricSourceType
		name     string
		present  bool
		validate func(path *field.Path) field.ErrorList
	}{
		{v2.ObjectMetricSourceType, "object", m.Object != nil,
			func(path *field.Path) field.ErrorList { return validateObjectSource(m.Object, described, path) }},
		{v2.ExternalMetricSourceType, "external", m.External != nil,
			func(path *field.Path) field.ErrorList { return validateExternalSource(m.External, path) }},
		{v2.PodsMetricSourceType, "pods", m.Pods != nil,
			func(path *field.Path) field.ErrorList { return validatePodsSource(m.Pods, path) }},
		{v2.ResourceMetricSourceType, "resource", m.Resource != nil,
			func(path *field.Path) field.ErrorList { return validateResourceSource(m.Resource, path) }},
		{v2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil,
			func(path *field.Path) field.ErrorList { return validateContainerSource(m.ContainerResource, path) }},
	}
	present := 0
	for _, s := range sources {
		if s.present {
			if present++; present == 1 {
				errs = append(errs, s.validate(path.Child(s.name))...)
			}
		}
	}
	known := false
	for _, s := range sources {
		if s.kind == m.Type {
			known = true
			if !s.present {
				errs = append(errs, field.Required(path.Child(s.name), "must populate information for the given metric source"))
			}
		}
	}
	if !known {
		errs = append(errs, rules.Enum(m.Type, path.Child("type"), supported...)...)
	}
	if present != 1 {
		for _, s := range sources {
			if s.present && s.kind != m.Type {
				errs = append(errs, field.Forbidden(path.Child(s.name), "must populate the given metric source only"))
			}
		}
	}
	return errs
}

func validateObjectSource(s *v2.ObjectMetricSource, described reference, path *field.Path) field.ErrorList {
	errs := validateReference(s.DescribedObject, described, path.Child("describedObject"))
	errs = append(errs, validateIdentifier(s.Metric, path.Child("metric"))...)
	errs = append(errs, validateTarget(s.Target, path.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func validateExternalSource(s *v2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(s.Metric, path.Child("metric"))
	errs = append(errs, validateTarget(s.Target, path.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"),
			"must set either a target value for metric or a per-pod target"))
	}
	if s.Target.Value != nil && s.Target.AverageValue != nil {
		errs = append(errs, field.Forbidden(path.Child("target", "value"),
			"may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validatePodsSource(s *v2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(s.Metric, path.Child("metric"))
	errs = append(errs, validateTarget(s.Target, path.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func validateResourceSource(s *v2.ResourceMetricSource, path *field.Path) (errs field.ErrorList) {
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateUtilization(s.Target, path.Child("target"))...)
}

func validateContainerSource(s *v2.ContainerResourceMetricSource, path *field.Path) (errs field.ErrorList) {
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, rules.ContainerResourceName(s.Name, path.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "must specify a container"))
	} else {
		errs = append(errs, rules.Label(s.Container, path.Child("container"))...)
	}
	return append(errs, validateUtilization(s.Target, path.Child("target"))...)
}

// validateUtilization checks the target of a resource: a value or a utilization.
func validateUtilization(t v2.MetricTarget, path *field.Path) field.ErrorList {
	errs := validateTarget(t, path)
	if t.AverageUtilization == nil && t.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	}
	if t.AverageUtilization != nil && t.AverageValue != nil {
		errs = append(errs, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t v2.MetricTarget, path *field.Path) (errs field.ErrorList) {
	switch t.Type {
	case "":
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
		fallthrough
	default:
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	case v2.UtilizationMetricType, v2.ValueMetricType, v2.AverageValueMetricType:
	}
	positive := func(q *resource.Quantity, name string) {
		if q != nil && q.Sign() != 1 {
			errs = append(errs, field.Invalid(path.Child(name), q, "must be positive"))
		}
	}
	positive(t.Value, "value")
	positive(t.AverageValue, "averageValue")
	if n := t.AverageUtilization; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), *n, "must be greater than 0"))
	}
	return errs
}

func validateIdentifier(id v2.MetricIdentifier, path *field.Path) field.ErrorList {
	return validateSegment(id.Name, "must specify a metric name", path.Child("name"))
}
