package core

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*$`)

func nodes() kind.Rules {
	return kind.Rules{
		Default: kind.On(defaultNode),
		Main: kind.Write{
			Prepare: kind.Change(prepareNode),
			Validate: kind.Check(func(n, old *corev1.Node) field.ErrorList {
				errs := validateNode(n)
				if old != nil {
					errs = append(errs, validateNodeUpdate(n, old)...)
				}
				return errs
			}),
			Warnings:     kind.Warn(func(n, _ *corev1.Node) []string { return nodeWarnings(n) }),
			Canonicalize: kind.On(setPodCIDR),
			Reset:        []string{"status"},
		},
		Status: &kind.Write{
			Prepare: kind.Change(func(n, old *corev1.Node) {
				n.Spec = old.Spec
				if old.Status.Config == nil {
					n.Status.Config = nil
				}
			}),
			Validate:     kind.Check(validateNodeUpdate),
			Canonicalize: kind.On(setPodCIDR),
			Reset:        []string{"spec"},
		},
		Fields: func(obj kind.Object) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(obj.(*corev1.Node).Spec.Unschedulable)}
		},
	}
}

func defaultNode(n *corev1.Node) {
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	rules.RoundUp(n.Status.Capacity)
	rules.RoundUp(n.Status.Allocatable)
	// Clients that only know podCIDR set the first element of podCIDRs.
	if cidr := n.Spec.PodCIDR; cidr != "" && (len(n.Spec.PodCIDRs) == 0 || n.Spec.PodCIDRs[0] != cidr) {
		n.Spec.PodCIDRs = []string{cidr}
	}
	setPodCIDR(n)
}

func setPodCIDR(n *corev1.Node) {
	n.Spec.PodCIDR = ""
	if len(n.Spec.PodCIDRs) > 0 {
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
}

// prepareNode drops the source of the kubelet's configuration, which Kubernetes has removed.
func prepareNode(n, old *corev1.Node) {
	if old == nil {
		n.Spec.ConfigSource, n.Status.Config = nil, nil
		return
	}
	n.Status = old.Status
	if old.Spec.ConfigSource == nil {
		n.Spec.ConfigSource = nil
	}
}

func validateNode(n *corev1.Node) field.ErrorList {
	meta := metadata()
	errs := rules.ObjectMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, meta)
	errs = append(errs, nodeAnnotations(n.Annotations, meta.Child("annotations"))...)
	errs = append(errs, taints(n.Spec.Taints, meta.Child("taints"))...)
	errs = append(errs, nodeResources(n)...)
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		errs = append(errs, field.Invalid(meta.Child("nodeSwapStatus", "capacity"), *swap.Capacity, "must be greater than zero"))
	}
	errs = append(errs, declaredFeatures(n.Status.DeclaredFeatures)...)
	path := field.NewPath("spec", "podCIDRs")
	for i, cidr := range n.Spec.PodCIDRs {
		errs = append(errs, rules.CIDR(cidr, path.Index(i), nil)...)
	}
	if len(n.Spec.PodCIDRs) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs)
		if err != nil {
			errs = append(errs, field.InternalError(path,
				fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%v", err)))
		}
		if !dual || len(n.Spec.PodCIDRs) > 2 {
			errs = append(errs, field.Invalid(path, n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family"))
		}
	}
	return errs
}

func validateNodeUpdate(n, old *corev1.Node) field.ErrorList {
	meta := metadata()
	errs := rules.ObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta, meta)
	errs = append(errs, nodeAnnotations(n.Annotations, meta.Child("annotations"))...)
	errs = append(errs, nodeResources(n)...)
	errs = append(errs, declaredFeatures(n.Status.DeclaredFeatures)...)
	for i, address := range n.Status.Addresses {
		if slices.Contains(n.Status.Addresses[:i], address) {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), rules.Internal(address)))
		}
	}
	errs = append(errs, podCIDRsUpdate(n.Spec.PodCIDRs, old.Spec.PodCIDRs, field.NewPath("spec", "podCIDRs"))...)
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "providerID"),
			`node updates may not change providerID except from "" to valid`))
	}
	if n.Spec.ConfigSource != nil {
		errs = append(errs, configSource(n.Spec.ConfigSource, false, field.NewPath("spec", "configSource"))...)
	}
	if config := n.Status.Config; config != nil {
		path := field.NewPath("status", "config")
		errs = append(errs, configSource(config.Assigned, true, path.Child("assigned"))...)
		errs = append(errs, configSource(config.Active, true, path.Child("active"))...)
		errs = append(errs, configSource(config.LastKnownGood, true, path.Child("lastKnownGood"))...)
	}
	errs = append(errs, taints(n.Spec.Taints, meta.Child("taints"))...)
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "externalID"), "may not be updated"))
	}
	return errs
}

func podCIDRsUpdate(cidrs, old []string, path *field.Path) (errs field.ErrorList) {
	if len(old) == 0 {
		return nil
	}
	changed := field.Forbidden(path, `node updates may not change podCIDR except from "" to valid`)
	if len(cidrs) != len(old) {
		return field.ErrorList{changed}
	}
	for i := range cidrs {
		if cidrs[i] != old[i] {
			errs = append(errs, changed)
		}
	}
	return errs
}

func nodeResources(n *corev1.Node) (errs field.ErrorList) {
	for _, name := range rules.Keys(n.Status.Capacity) {
		errs = append(errs, rules.ResourceQuantity(name, n.Status.Capacity[name], field.NewPath("status", "capacity", string(name)))...)
	}
	for _, name := range rules.Keys(n.Status.Allocatable) {
		errs = append(errs, rules.ResourceQuantity(name, n.Status.Allocatable[name],
			field.NewPath("status", "allocatable", string(name)))...)
	}
	return errs
}

// declaredFeatures validates a sorted list of the names of features.
func declaredFeatures(features []string) (errs field.ErrorList) {
	path := field.NewPath("status", "declaredFeatures")
	for i, feature := range features {
		switch {
		case len(feature) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.Invalid(path.Index(i), feature,
				fmt.Sprintf("invalid feature name %q: must be no more than %d characters", feature, validation.DNS1123SubdomainMaxLength)))
		case !featureName.MatchString(feature):
			errs = append(errs, field.Invalid(path.Index(i), feature,
				fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", feature)))
		}
		if i+1 == len(features) {
			break
		}
		switch next := features[i+1]; {
		case feature == next:
			errs = append(errs, field.Duplicate(path.Index(i+1), next))
		case feature > next:
			errs = append(errs, field.Invalid(path.Index(i+1), next, "list must be sorted alphabetically"))
		}
	}
	return errs
}

// nodeAnnotations validates annotations that came before fields.
func nodeAnnotations(annotations map[string]string, path *field.Path) (errs field.ErrorList) {
	if text := annotations[taintsAnnotation]; text != "" {
		var list []corev1.Taint
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			errs = append(errs, field.Invalid(path, taintsAnnotation, err.Error()))
		} else {
			errs = append(errs, taints(list, path.Child(taintsAnnotation))...)
		}
	}
	if text := annotations[corev1.PreferAvoidPodsAnnotationKey]; text != "" {
		var avoid corev1.AvoidPods
		if err := json.Unmarshal([]byte(text), &avoid); err != nil {
			return append(errs, field.Invalid(path.Child("AvoidPods"), corev1.PreferAvoidPodsAnnotationKey, err.Error()))
		}
		for i, entry := range avoid.PreferAvoidPods {
			at := path.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
			switch controller := entry.PodSignature.PodController; {
			case controller == nil:
				errs = append(errs, field.Required(at, ""))
			case controller.Controller == nil || !*controller.Controller:
				errs = append(errs, field.Invalid(at.Child("PodController", "Controller"), false, "must point to a controller"))
			}
		}
	}
	return errs
}

func taints(list []corev1.Taint, path *field.Path) (errs field.ErrorList) {
	for i, taint := range list {
		at := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, at.Child("key"))...)
		if messages := validation.IsValidLabelValue(taint.Value); len(messages) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), taint.Value, strings.Join(messages, ";")))
		}
		errs = append(errs, rules.RequiredEnum(taint.Effect, at.Child("effect"), corev1.TaintEffectNoSchedule,
			corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		if slices.ContainsFunc(list[:i], func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect }) {
			duplicate := field.Duplicate(at, rules.Internal(taint))
			duplicate.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, duplicate)
		}
	}
	return errs
}

// configSource validates a source of the kubelet's configuration, in the spec or, with the
// version that is used, in the status.
func configSource(source *corev1.NodeConfigSource, status bool, path *field.Path) (errs field.ErrorList) {
	if source == nil {
		return nil
	}
	cm, at := source.ConfigMap, path.Child("configMap")
	if cm == nil {
		return field.ErrorList{field.Invalid(path, rules.Internal(source), "exactly one reference subfield must be non-nil")}
	}
	if status {
		errs = append(errs, rules.Required(cm.UID, at.Child("uid"))...)
		errs = append(errs, rules.Required(cm.ResourceVersion, at.Child("resourceVersion"))...)
	} else {
		if cm.UID != "" {
			errs = append(errs, field.Forbidden(at.Child("uid"), "uid must not be set in spec"))
		}
		if cm.ResourceVersion != "" {
			errs = append(errs, field.Forbidden(at.Child("resourceVersion"), "resourceVersion must not be set in spec"))
		}
	}
	required := func(name, value string, messages func() []string) {
		if value == "" {
			errs = append(errs, field.Required(at.Child(name), ""))
		} else {
			errs = append(errs, rules.Invalid(value, at.Child(name), messages())...)
		}
	}
	required("namespace", cm.Namespace, func() []string { return apivalidation.ValidateNamespaceName(cm.Namespace, false) })
	required("name", cm.Name, func() []string { return apivalidation.NameIsDNSSubdomain(cm.Name, false) })
	required("kubeletConfigKey", cm.KubeletConfigKey, func() []string { return validation.IsConfigMapKey(cm.KubeletConfigKey) })
	return errs
}

func nodeWarnings(n *corev1.Node) (out []string) {
	if n.Spec.ConfigSource != nil {
		out = append(out, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range n.Spec.PodCIDRs {
		out = append(out, validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
	}
	return out
}
