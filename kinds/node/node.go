// Package node has the rules of the kinds of the group node.k8s.io.
package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds by the plural names of their resources.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{"runtimeclasses": {
		CreateOnUpdate: true,
		Conditional:    true,
		Main: kind.Write{
			Validate: kind.Check(validate),
			Warnings: kind.Warn(warnings),
		},
	}}
}

func validate(c, old *nodev1.RuntimeClass) field.ErrorList {
	meta, handler := field.NewPath("metadata"), field.NewPath("handler")
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, meta)
	if c.Handler == "" {
		errs = append(errs, field.Required(handler, ""))
	} else {
		errs = append(errs, rules.Label(c.Handler, handler)...)
	}
	if c.Overhead != nil {
		errs = append(errs, validateOverhead(c.Overhead.PodFixed, field.NewPath("overhead"))...)
	}
	if c.Scheduling != nil {
		path := field.NewPath("scheduling")
		errs = append(errs, metav1validation.ValidateLabels(c.Scheduling.NodeSelector, path.Child("nodeSelector"))...)
		errs = append(errs, validateTolerations(c.Scheduling.Tolerations, path.Child("tolerations"))...)
	}
	if old != nil {
		errs = append(errs, apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, meta)...)
		errs = append(errs, rules.Immutable(c.Handler, old.Handler, handler)...)
	}
	return errs
}

// validateOverhead validates the resources as limits of a container.
func validateOverhead(list corev1.ResourceList, path *field.Path) (errs field.ErrorList) {
	compute, hugePages := false, false
	for _, name := range rules.Keys(list) {
		at := path.Child("limits").Key(string(name))
		errs = append(errs, rules.ContainerResourceName(name, at)...)
		errs = append(errs, rules.ResourceQuantity(name, list[name], at)...)
		if rules.IsHugePages(name) {
			hugePages = true
			errs = append(errs, rules.HugePages(name, list[name], at)...)
		}
		compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	if hugePages && !compute {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return errs
}

func validateTolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	errs := pods.ValidateTolerations(list, path)
	type key struct{ key, operator, value, effect string }
	seen := map[key]bool{}
	for i, t := range list {
		k := key{t.Key, string(t.Operator), t.Value, string(t.Effect)}
		if seen[k] {
			errs = append(errs, field.Duplicate(path.Index(i), rules.Internal(t)))
		}
		seen[k] = true
	}
	return errs
}

func warnings(c, _ *nodev1.RuntimeClass) (out []string) {
	if c.Scheduling == nil {
		return nil
	}
	for _, key := range rules.Keys(c.Scheduling.NodeSelector) {
		if message := rules.DeprecatedNodeLabel(key); message != "" {
			out = append(out, fmt.Sprintf("%s: %s", field.NewPath("scheduling", "nodeSelector"), message))
		}
	}
	return out
}
