package apps

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/rules"
)

func defaultStatefulSet(set *appsv1.StatefulSet) {
	spec := &set.Spec
	rules.SetDefault(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		rules.SetDefaultPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if update := spec.UpdateStrategy.RollingUpdate; update != nil {
		rules.SetDefaultPointer(&update.Partition, 0)
	}
	rules.SetDefaultPointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	rules.SetDefault(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	rules.SetDefault(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	rules.SetDefaultPointer(&spec.Replicas, 1)
	rules.SetDefaultPointer(&spec.RevisionHistoryLimit, 10)
	pods.DefaultTemplate(&spec.Template)
	for i := range spec.VolumeClaimTemplates {
		claim := &spec.VolumeClaimTemplates[i]
		claim.APIVersion, claim.Kind = "v1", "PersistentVolumeClaim"
		rules.SetDefault(&claim.Status.Phase, corev1.ClaimPending)
		rules.DefaultClaimSpec(&claim.Spec)
		rules.RoundUp(claim.Status.Capacity)
		rules.RoundUp(claim.Status.AllocatedResources)
	}
}

func prepareStatefulSet(set, old *appsv1.StatefulSet) {
	if update := set.Spec.UpdateStrategy.RollingUpdate; update != nil && !hasMaxUnavailable(old) {
		update.MaxUnavailable = nil
	}
	if old == nil {
		set.Status = appsv1.StatefulSetStatus{}
		set.Generation = 1
		pods.PrepareTemplate(&set.Spec.Template, nil)
		return
	}
	old.Status.DeepCopyInto(&set.Status)
	pods.PrepareTemplate(&set.Spec.Template, &old.Spec.Template)
	if !apiequality.Semantic.DeepEqual(set.Spec, old.Spec) {
		set.Generation = old.Generation + 1
	}
}

// hasMaxUnavailable reports whether a set uses a field that is off by default.
func hasMaxUnavailable(set *appsv1.StatefulSet) bool {
	return set != nil && set.Spec.UpdateStrategy.RollingUpdate != nil && set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil
}

// setOptions are the rules that an update of a stateful set need not follow.
type setOptions struct {
	pods.Options
	// update is set for updates, which cannot change the service and the claims.
	update bool
	// invalidTemplate skips the template, because the old one is not valid either.
	invalidTemplate bool
}

func validateStatefulSet(set, old *appsv1.StatefulSet) field.ErrorList {
	if old == nil {
		errs := validateMeta(&set.ObjectMeta, nil, apivalidation.NameIsDNSLabel)
		return append(errs, validateStatefulSetSpec(&set.Spec, setOptions{})...)
	}
	errs := validateMeta(&set.ObjectMeta, &old.ObjectMeta, nil)
	opts := setOptions{Options: pods.TemplateOptions(&old.Spec.Template), update: true}
	opts.invalidTemplate = len(validateStatefulSetSpec(&old.Spec, opts)) > 0
	errs = append(errs, validateStatefulSetSpec(&set.Spec, opts)...)

	spec := *set.Spec.DeepCopy()
	spec.Replicas = old.Spec.Replicas
	spec.Template = old.Spec.Template
	spec.UpdateStrategy = old.Spec.UpdateStrategy
	spec.MinReadySeconds = old.Spec.MinReadySeconds
	spec.Ordinals = old.Spec.Ordinals
	spec.RevisionHistoryLimit = old.Spec.RevisionHistoryLimit
	spec.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	if !apiequality.Semantic.DeepEqual(spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath,
			"updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
	}
	return errs
}

func validateStatefulSetSpec(spec *appsv1.StatefulSetSpec, opts setOptions) (errs field.ErrorList) {
	switch path := specPath.Child("podManagementPolicy"); spec.PodManagementPolicy {
	case "":
		errs = append(errs, field.Required(path, ""))
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(path, spec.PodManagementPolicy, fmt.Sprintf("must be '%s' or '%s'",
			appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)))
	}
	errs = append(errs, validateStatefulSetStrategy(&spec.UpdateStrategy, specPath.Child("updateStrategy"))...)
	if policy, path := spec.PersistentVolumeClaimRetentionPolicy, specPath.Child("persistentVolumeClaimRetentionPolicy"); policy != nil {
		const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		errs = append(errs, rules.Enum(policy.WhenDeleted, path.Child("whenDeleted"), retain, remove)...)
		errs = append(errs, rules.Enum(policy.WhenScaled, path.Child("whenScaled"), retain, remove)...)
	}
	if !opts.update {
		for i := range spec.VolumeClaimTemplates {
			errs = append(errs, rules.ClaimSpec(&spec.VolumeClaimTemplates[i].Spec,
				specPath.Child("volumeClaimTemplates").Index(i).Child("spec"), rules.ClaimOptions{})...)
		}
	}
	errs = append(errs, rules.Nonnegative(ptr.Deref(spec.Replicas, 0), specPath.Child("replicas"))...)
	errs = append(errs, rules.Nonnegative(spec.MinReadySeconds, specPath.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		errs = append(errs, rules.Nonnegative(spec.Ordinals.Start, specPath.Child("ordinals.start"))...)
	}
	if !opts.update && spec.ServiceName != "" {
		errs = append(errs, rules.Label(spec.ServiceName, specPath.Child("serviceName"))...)
	}
	invalid, selector := validateSelector(spec.Selector, "statefulset", "", specPath.Child("selector"))
	errs = append(errs, invalid...)
	path := specPath.Child("template")
	if selector != nil {
		template := templateWithClaims(spec)
		errs = append(errs, pods.SelectedLabels(template, selector, path)...)
		if !opts.invalidTemplate {
			errs = append(errs, pods.Template(template, path, opts.Options)...)
		}
		errs = append(errs, metav1validation.ValidateLabels(template.Labels, path.Child("labels"))...)
		errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
		errs = append(errs, pods.Annotations(template.Annotations, &template.Spec, path.Child("annotations"), opts.Options)...)
	}
	return append(errs, pods.EndlessPods(&spec.Template, "StatefulSet", path)...)
}

// templateWithClaims returns the template with a volume for each claim, and without the names
// that the pods of a set get from it.
func templateWithClaims(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	template := spec.Template.DeepCopy()
	template.Spec.Subdomain, template.Spec.Hostname = "", ""
	if len(spec.VolumeClaimTemplates) == 0 {
		return template
	}
	var volumes []corev1.Volume
	seen := map[string]bool{}
	for _, claim := range spec.VolumeClaimTemplates {
		if !seen[claim.Name] {
			source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
			volumes = append(volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}})
		}
		seen[claim.Name] = true
	}
	for _, volume := range template.Spec.Volumes {
		if !seen[volume.Name] {
			volumes = append(volumes, volume)
		}
	}
	template.Spec.Volumes = volumes
	return template
}

func validateStatefulSetStrategy(strategy *appsv1.StatefulSetUpdateStrategy, path *field.Path) (errs field.ErrorList) {
	update, at := strategy.RollingUpdate, path.Child("rollingUpdate")
	switch strategy.Type {
	case "":
		errs = append(errs, field.Required(path, ""))
	case appsv1.OnDeleteStatefulSetStrategyType:
		if update != nil {
			errs = append(errs, field.Invalid(at, rules.Internal(update),
				fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType)))
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if update == nil {
			break
		}
		errs = append(errs, rules.Nonnegative(ptr.Deref(update.Partition, 0), at.Child("partition"))...)
		if most := update.MaxUnavailable; most != nil {
			errs = append(errs, validateAmount(*most, at.Child("maxUnavailable"))...)
			if isZero(*most) {
				errs = append(errs, field.Invalid(at.Child("maxUnavailable"), *most, "cannot be 0"))
			}
			errs = append(errs, validateShare(*most, at.Child("maxUnavailable"))...)
		}
	default:
		errs = append(errs, field.Invalid(path, rules.Internal(*strategy),
			fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType)))
	}
	return errs
}

func validateStatefulSetStatus(set, old *appsv1.StatefulSet) field.ErrorList {
	s := &set.Status
	c := counts{
		{"replicas", int64(s.Replicas)}, {"readyReplicas", int64(s.ReadyReplicas)}, {"currentReplicas", int64(s.CurrentReplicas)},
		{"updatedReplicas", int64(s.UpdatedReplicas)},
		{"availableReplicas", int64(s.AvailableReplicas)}, {"observedGeneration", s.ObservedGeneration},
	}
	c.add("collisionCount", s.CollisionCount)
	errs := c.validate()
	errs = append(errs, pods.AtMost(s.ReadyReplicas, s.Replicas, "status.replicas", statusPath.Child("readyReplicas"))...)
	errs = append(errs, pods.AtMost(s.CurrentReplicas, s.Replicas, "status.replicas", statusPath.Child("currentReplicas"))...)
	errs = append(errs, pods.AtMost(s.UpdatedReplicas, s.Replicas, "status.replicas", statusPath.Child("updatedReplicas"))...)
	errs = append(errs, pods.AtMost(s.AvailableReplicas, s.Replicas, "status.replicas", statusPath.Child("availableReplicas"))...)
	errs = append(errs, pods.AtMost(s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas", statusPath.Child("availableReplicas"))...)
	errs = append(errs, rules.ObjectMetaUpdate(&set.ObjectMeta, &old.ObjectMeta, metadata)...)
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount)...)
}

func defaultDaemonSet(ds *appsv1.DaemonSet) {
	defaultTemplateGeneration(ds)
	spec := &ds.Spec
	rules.SetDefault(&spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	unavailable := intstr.FromInt32(0)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		unavailable = intstr.FromInt32(1)
		rules.SetDefaultPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
	}
	if update := spec.UpdateStrategy.RollingUpdate; update != nil {
		rules.SetDefaultPointer(&update.MaxUnavailable, unavailable)
		rules.SetDefaultPointer(&update.MaxSurge, intstr.FromInt32(0))
	}
	rules.SetDefaultPointer(&spec.RevisionHistoryLimit, 10)
	pods.DefaultTemplate(&spec.Template)
}

// templateGeneration returns the number of templates that a daemon set has had. It is kept in an
// annotation since it was removed from the spec.
func templateGeneration(ds *appsv1.DaemonSet) (int64, error) {
	value, ok := ds.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(value, 10, 64)
}

// defaultTemplateGeneration adds the annotation of a new daemon set: in kube-apiserver, all that are decoded have
// it, so it belongs to field managers.
func defaultTemplateGeneration(ds *appsv1.DaemonSet) {
	if _, ok := ds.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok {
		setTemplateGeneration(ds, 1)
	}
}

func setTemplateGeneration(ds *appsv1.DaemonSet, generation int64) {
	setAnnotation(&ds.ObjectMeta, appsv1.DeprecatedTemplateGeneration, strconv.FormatInt(generation, 10))
}

func prepareDaemonSet(ds, old *appsv1.DaemonSet) {
	if old == nil {
		ds.Status = appsv1.DaemonSetStatus{}
		ds.Generation = 1
		if generation, err := templateGeneration(ds); err == nil {
			setTemplateGeneration(ds, max(generation, 1))
		}
		pods.PrepareTemplate(&ds.Spec.Template, nil)
		return
	}
	pods.PrepareTemplate(&ds.Spec.Template, &old.Spec.Template)
	old.Status.DeepCopyInto(&ds.Status)
	generation, _ := templateGeneration(old)
	if !apiequality.Semantic.DeepEqual(ds.Spec.Template, old.Spec.Template) {
		generation++
	}
	setTemplateGeneration(ds, generation)
	if !apiequality.Semantic.DeepEqual(ds.Spec, old.Spec) {
		ds.Generation = old.Generation + 1
	}
}

func prepareDaemonSetStatus(ds, old *appsv1.DaemonSet) {
	old.Spec.DeepCopyInto(&ds.Spec)
	generation, _ := templateGeneration(old)
	setTemplateGeneration(ds, generation)
}

func validateDaemonSet(ds, old *appsv1.DaemonSet) field.ErrorList {
	if old == nil {
		errs := validateMeta(&ds.ObjectMeta, nil, apivalidation.NameIsDNSSubdomain)
		return append(errs, validateDaemonSetSpec(ds, pods.Options{})...)
	}
	errs := validateMeta(&ds.ObjectMeta, &old.ObjectMeta, nil)
	opts := pods.TemplateOptions(&old.Spec.Template)
	opts.InvalidSelectorValues = opts.InvalidSelectorValues || metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
	errs = append(errs, rules.Immutable(ds.Spec.Selector, old.Spec.Selector, specPath.Child("selector"))...)
	return append(errs, validateDaemonSetSpec(ds, opts)...)
}

func validateDaemonSetSpec(ds *appsv1.DaemonSet, opts pods.Options) field.ErrorList {
	spec := &ds.Spec
	path, template := specPath.Child("selector"), specPath.Child("template")
	errs := metav1validation.ValidateLabelSelector(spec.Selector,
		metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: opts.InvalidSelectorValues}, path)
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		errs = append(errs, pods.SelectedLabels(&spec.Template, selector, template)...)
	}
	if spec.Selector != nil && len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path, spec.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, pods.Template(&spec.Template, template, opts)...)
	errs = append(errs, pods.EndlessPods(&spec.Template, "DaemonSet", template)...)
	errs = append(errs, rules.Nonnegative(spec.MinReadySeconds, specPath.Child("minReadySeconds"))...)
	generation, err := templateGeneration(ds)
	if err != nil {
		errs = append(errs, field.Invalid(metadata.Child("annotations").Key(appsv1.DeprecatedTemplateGeneration),
			ds.Annotations[appsv1.DeprecatedTemplateGeneration], "must be a number"))
	}
	errs = append(errs, rules.Nonnegative(generation, specPath.Child("templateGeneration"))...)
	errs = append(errs, validateDaemonSetStrategy(&spec.UpdateStrategy, specPath.Child("updateStrategy"))...)
	if spec.RevisionHistoryLimit != nil {
		errs = append(errs, rules.Nonnegative(*spec.RevisionHistoryLimit, specPath.Child("revisionHistoryLimit"))...)
	}
	return errs
}

func validateDaemonSetStrategy(strategy *appsv1.DaemonSetUpdateStrategy, path *field.Path) (errs field.ErrorList) {
	update, at := strategy.RollingUpdate, path.Child("rollingUpdate")
	switch {
	case strategy.Type == appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		return field.ErrorList{field.NotSupported(path, rules.Internal(strategy),
			[]appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType})}
	case update == nil:
		return field.ErrorList{field.Required(at, "")}
	}
	unavailable, surge := ptr.Deref(update.MaxUnavailable, intstr.IntOrString{}), ptr.Deref(update.MaxSurge, intstr.IntOrString{})
	errs = append(errs, validateAmount(unavailable, at.Child("maxUnavailable"))...)
	errs = append(errs, validateAmount(surge, at.Child("maxSurge"))...)
	errs = append(errs, validateShare(unavailable, at.Child("maxUnavailable"))...)
	errs = append(errs, validateShare(surge, at.Child("maxSurge"))...)
	switch {
	case !isZero(unavailable) && !isZero(surge):
		errs = append(errs, field.Invalid(at.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case isZero(unavailable) && isZero(surge):
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func validateDaemonSetStatus(ds, old *appsv1.DaemonSet) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&ds.ObjectMeta, &old.ObjectMeta, metadata)
	s := &ds.Status
	c := counts{
		{"currentNumberScheduled", int64(s.CurrentNumberScheduled)}, {"numberMisscheduled", int64(s.NumberMisscheduled)},
		{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)},
		{"numberReady", int64(s.NumberReady)}, {"observedGeneration", s.ObservedGeneration},
		{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		{"numberAvailable", int64(s.NumberAvailable)}, {"numberUnavailable", int64(s.NumberUnavailable)},
	}
	c.add("collisionCount", s.CollisionCount)
	errs = append(errs, c.validate()...)
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount)...)
}
