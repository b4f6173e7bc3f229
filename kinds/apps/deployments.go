package apps

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/rules"
)

func defaultDeployment(d *appsv1.Deployment) {
	spec := &d.Spec
	rules.SetDefaultPointer(&spec.Replicas, 1)
	rules.SetDefault(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	amount := intstr.FromInt32(0)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		amount = intstr.FromString("25%")
		rules.SetDefaultPointer(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	}
	if update := spec.Strategy.RollingUpdate; update != nil {
		rules.SetDefaultPointer(&update.MaxUnavailable, amount)
		rules.SetDefaultPointer(&update.MaxSurge, amount)
	}
	rules.SetDefaultPointer(&spec.RevisionHistoryLimit, 10)
	rules.SetDefaultPointer(&spec.ProgressDeadlineSeconds, 600)
	pods.DefaultTemplate(&spec.Template)
	setAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, d.Annotations[appsv1.DeprecatedRollbackTo])
}

func prepareDeployment(d, old *appsv1.Deployment) {
	if old == nil {
		d.Status = appsv1.DeploymentStatus{}
		d.Generation = 1
		pods.PrepareTemplate(&d.Spec.Template, nil)
		return
	}
	old.Status.DeepCopyInto(&d.Status)
	pods.PrepareTemplate(&d.Spec.Template, &old.Spec.Template)
	if !apiequality.Semantic.DeepEqual(d.Spec, old.Spec) || !apiequality.Semantic.DeepEqual(d.Annotations, old.Annotations) {
		d.Generation = old.Generation + 1
	}
}

func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
	if old == nil {
		errs := validateMeta(&d.ObjectMeta, nil, apivalidation.NameIsDNSSubdomain)
		return append(errs, validateDeploymentSpec(d, pods.Options{})...)
	}
	errs := validateMeta(&d.ObjectMeta, &old.ObjectMeta, nil)
	errs = append(errs, validateDeploymentSpec(d, pods.TemplateOptions(&old.Spec.Template))...)
	return append(errs, rules.Immutable(d.Spec.Selector, old.Spec.Selector, specPath.Child("selector"))...)
}

func validateDeploymentSpec(d *appsv1.Deployment, opts pods.Options) field.ErrorList {
	spec := &d.Spec
	errs := rules.Nonnegative(ptr.Deref(spec.Replicas, 0), specPath.Child("replicas"))
	invalid, selector := validateSelector(spec.Selector, "deployment", "invalid label selector", specPath.Child("selector"))
	errs = append(errs, invalid...)
	if selector != nil {
		errs = append(errs, pods.ReplicaTemplate(&spec.Template, selector, "ReplicaSet", specPath.Child("template"), opts)...)
	}
	errs = append(errs, validateDeploymentStrategy(&spec.Strategy, specPath.Child("strategy"))...)
	errs = append(errs, rules.Nonnegative(spec.MinReadySeconds, specPath.Child("minReadySeconds"))...)
	if spec.RevisionHistoryLimit != nil {
		errs = append(errs, rules.Nonnegative(*spec.RevisionHistoryLimit, specPath.Child("revisionHistoryLimit"))...)
	}
	if value := d.Annotations[appsv1.DeprecatedRollbackTo]; value != "" {
		// Kube-apiserver has a field for it, which was removed from the API.
		revision, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			errs = append(errs, field.Invalid(metadata.Child("annotations").Key(appsv1.DeprecatedRollbackTo), value, "must be a number"))
		}
		errs = append(errs, rules.Nonnegative(revision, specPath.Child("rollback", "version"))...)
	}
	if seconds := spec.ProgressDeadlineSeconds; seconds != nil {
		path := specPath.Child("progressDeadlineSeconds")
		errs = append(errs, rules.Nonnegative(*seconds, path)...)
		if *seconds <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(path, seconds, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

func validateDeploymentStrategy(strategy *appsv1.DeploymentStrategy, path *field.Path) (errs field.ErrorList) {
	at := path.Child("rollingUpdate")
	update := strategy.RollingUpdate
	switch strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if update != nil {
			errs = append(errs, field.Forbidden(at, "may not be specified when strategy `type` is 'Recreate'"))
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if update == nil {
			return field.ErrorList{field.Required(at, "this should be defaulted and never be nil")}
		}
		unavailable, surge := ptr.Deref(update.MaxUnavailable, intstr.IntOrString{}), ptr.Deref(update.MaxSurge, intstr.IntOrString{})
		errs = append(errs, validateAmount(unavailable, at.Child("maxUnavailable"))...)
		errs = append(errs, validateAmount(surge, at.Child("maxSurge"))...)
		if isZero(unavailable) && isZero(surge) {
			errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
		}
		errs = append(errs, validateShare(unavailable, at.Child("maxUnavailable"))...)
	default:
		errs = append(errs, field.NotSupported(path, rules.Internal(strategy),
			[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType}))
	}
	return errs
}

func prepareDeploymentStatus(d, old *appsv1.Deployment) {
	old.Spec.DeepCopyInto(&d.Spec)
	d.Labels = old.Labels
	// Kube-apiserver has the annotation in the spec.
	setAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, old.Annotations[appsv1.DeprecatedRollbackTo])
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&d.ObjectMeta, &old.ObjectMeta, metadata)
	s := &d.Status
	c := counts{
		{"observedGeneration", s.ObservedGeneration}, {"replicas", int64(s.Replicas)}, {"updatedReplicas", int64(s.UpdatedReplicas)},
		{"readyReplicas", int64(s.ReadyReplicas)}, {"availableReplicas", int64(s.AvailableReplicas)},
		{"unavailableReplicas", int64(s.UnavailableReplicas)},
	}
	c.add("terminatingReplicas", s.TerminatingReplicas)
	c.add("collisionCount", s.CollisionCount)
	errs = append(errs, c.validate()...)
	errs = append(errs, pods.AtMost(s.UpdatedReplicas, s.Replicas, "status.replicas", statusPath.Child("updatedReplicas"))...)
	errs = append(errs, pods.AtMost(s.ReadyReplicas, s.Replicas, "status.replicas", statusPath.Child("readyReplicas"))...)
	errs = append(errs, pods.AtMost(s.AvailableReplicas, s.Replicas, "status.replicas", statusPath.Child("availableReplicas"))...)
	errs = append(errs, pods.AtMost(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas", statusPath.Child("availableReplicas"))...)
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount)...)
}

func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	rules.SetDefaultPointer(&rs.Spec.Replicas, 1)
	pods.DefaultTemplate(&rs.Spec.Template)
}

func prepareReplicaSet(rs, old *appsv1.ReplicaSet) {
	if old == nil {
		rs.Status = appsv1.ReplicaSetStatus{}
		rs.Generation = 1
		pods.PrepareTemplate(&rs.Spec.Template, nil)
		return
	}
	old.Status.DeepCopyInto(&rs.Status)
	pods.PrepareTemplate(&rs.Spec.Template, &old.Spec.Template)
	if !apiequality.Semantic.DeepEqual(rs.Spec, old.Spec) {
		rs.Generation = old.Generation + 1
	}
}

func validateReplicaSet(rs, old *appsv1.ReplicaSet) field.ErrorList {
	if old == nil {
		errs := validateMeta(&rs.ObjectMeta, nil, apivalidation.NameIsDNSSubdomain)
		return append(errs, validateReplicaSetSpec(&rs.Spec, pods.Options{})...)
	}
	errs := validateMeta(&rs.ObjectMeta, &old.ObjectMeta, nil)
	errs = append(errs, validateReplicaSetSpec(&rs.Spec, pods.TemplateOptions(&old.Spec.Template))...)
	return append(errs, rules.Immutable(rs.Spec.Selector, old.Spec.Selector, specPath.Child("selector"))...)
}

func validateReplicaSetSpec(spec *appsv1.ReplicaSetSpec, opts pods.Options) field.ErrorList {
	errs := rules.Nonnegative(ptr.Deref(spec.Replicas, 0), specPath.Child("replicas"))
	errs = append(errs, rules.Nonnegative(spec.MinReadySeconds, specPath.Child("minReadySeconds"))...)
	invalid, selector := validateSelector(spec.Selector, "deployment", "invalid label selector", specPath.Child("selector"))
	errs = append(errs, invalid...)
	if selector != nil {
		errs = append(errs, pods.ReplicaTemplate(&spec.Template, selector, "ReplicaSet", specPath.Child("template"), opts)...)
	}
	return errs
}

func validateReplicaSetStatus(rs, old *appsv1.ReplicaSet) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&rs.ObjectMeta, &old.ObjectMeta, metadata)
	s := &rs.Status
	c := counts{
		{"replicas", int64(s.Replicas)}, {"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)}, {"readyReplicas", int64(s.ReadyReplicas)},
		{"availableReplicas", int64(s.AvailableReplicas)}, {"observedGeneration", s.ObservedGeneration},
	}
	c.add("terminatingReplicas", s.TerminatingReplicas)
	errs = append(errs, c.validate()...)
	errs = append(errs, pods.AtMost(s.FullyLabeledReplicas, s.Replicas, "status.replicas", statusPath.Child("fullyLabeledReplicas"))...)
	errs = append(errs, pods.AtMost(s.ReadyReplicas, s.Replicas, "status.replicas", statusPath.Child("readyReplicas"))...)
	errs = append(errs, pods.AtMost(s.AvailableReplicas, s.Replicas, "status.replicas", statusPath.Child("availableReplicas"))...)
	return append(errs, pods.AtMost(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas", statusPath.Child("availableReplicas"))...)
}
