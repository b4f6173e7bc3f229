package crd

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/schema"
)

// PrepareCreate brings an object that is to be created into the state in which it
// is validated and stored: status is not for creators to write, if it has an
// endpoint of its own, the generation starts at 1, and what only a server may say of
// an object (when it came to be, say) is taken out for the server to fill in.
func (v *Version) PrepareCreate(obj schema.Object) {
	if v.HasStatus() {
		delete(obj, "status")
	}
	meta := metadataOf(obj)
	for _, k := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		delete(meta, k)
	}
	meta["generation"] = int64(1)
}

// PrepareUpdate does the same to an object that is to replace old: status stays as
// it was, if it has an endpoint of its own, and the generation grows if anything
// but metadata has changed. obj may share parts with old then.
func (v *Version) PrepareUpdate(obj, old schema.Object) {
	if v.HasStatus() {
		if status, ok := old["status"]; ok {
			obj["status"] = status
		} else {
			delete(obj, "status")
		}
	}
	meta := metadataOf(obj)
	generation, _, _ := unstructured.NestedInt64(old, "metadata", "generation")
	if !reflect.DeepEqual(withoutMetadata(obj), withoutMetadata(old)) {
		generation++
	}
	delete(meta, "generation")
	if generation != 0 {
		meta["generation"] = generation
	}
	oldMeta, _ := old["metadata"].(map[string]any)
	// Nobody changes when an object came to be, or that it is going.
	for _, k := range []string{"creationTimestamp", "deletionTimestamp"} {
		if t, ok := oldMeta[k]; ok && t != nil {
			meta[k] = t
		}
	}
	for _, k := range []string{"uid", "deletionGracePeriodSeconds"} {
		if x, ok := oldMeta[k]; ok && meta[k] == nil {
			meta[k] = x
		}
	}
}

// PrepareStatusUpdate makes obj the object old with the status of obj. It shares
// parts with old then.
func (v *Version) PrepareStatusUpdate(obj, old schema.Object) {
	status, hasStatus := obj["status"]
	managed, hasManaged, _ := unstructured.NestedFieldNoCopy(obj, "metadata", "managedFields")
	clear(obj)
	maps.Copy(obj, old)
	if meta, ok := old["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		delete(meta, "managedFields")
		if hasManaged {
			meta["managedFields"] = managed
		}
		obj["metadata"] = meta
	}
	delete(obj, "status")
	if hasStatus {
		obj["status"] = status
	}
}

// Validate checks an object that is to be created or, with old, to replace old.
func (v *Version) Validate(ctx context.Context, obj, old schema.Object) (schema.Violations, error) {
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	return append(p.Validate(ctx, obj, old), v.scale(obj, true)...), nil
}

// ValidateStatus checks an object whose status alone is to replace that of old.
func (v *Version) ValidateStatus(ctx context.Context, obj, old schema.Object) (schema.Violations, error) {
	p, err := v.StatusProgram()
	if err != nil {
		return nil, err
	}
	return append(p.Validate(ctx, obj, old), v.scale(obj, false)...), nil
}

// HasStatus reports whether the status has an endpoint of its own.
func (v *Version) HasStatus() bool {
	return v.spec.Subresources != nil && v.spec.Subresources.Status != nil
}

func metadataOf(obj schema.Object) map[string]any {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok || meta == nil {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	return meta
}

func withoutMetadata(obj schema.Object) schema.Object {
	rest := maps.Clone(obj)
	delete(rest, "metadata")
	return rest
}

// scale checks the fields that the scale subresource reads: those of the spec, if
// withSpec, and those of the status.
func (v *Version) scale(obj schema.Object, withSpec bool) (vs schema.Violations) {
	if v.spec.Subresources == nil || v.spec.Subresources.Scale == nil {
		return nil
	}
	if gvk := v.GroupVersionKind(); obj["kind"] != any(gvk.Kind) || obj["apiVersion"] != any(gvk.GroupVersion().String()) {
		return nil
	}
	scale := v.spec.Subresources.Scale
	if withSpec {
		vs = append(vs, replicas(obj, scale.SpecReplicasPath)...)
	}
	vs = append(vs, replicas(obj, scale.StatusReplicasPath)...)
	if p := scale.LabelSelectorPath; p != nil {
		if selector, _, err := unstructured.NestedString(obj, scaleFields(*p)...); err != nil {
			vs = append(vs, scaleViolation(*p, selector, err.Error()))
		}
	}
	return vs
}

// replicas checks a number of replicas.
func replicas(obj schema.Object, path string) schema.Violations {
	n, _, err := unstructured.NestedInt64(obj, scaleFields(path)...)
	switch {
	case err != nil:
		return schema.Violations{scaleViolation(path, n, err.Error())}
	case n < 0:
		return schema.Violations{scaleViolation(path, n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return schema.Violations{scaleViolation(path, n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

func scaleFields(path string) []string {
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}

func scaleViolation(path string, value any, detail string) schema.Violation {
	v := schema.Violation{Kind: schema.Scale, Value: value, Closest: -1, Cause: field.Invalid(field.NewPath(path), value, detail)}
	for _, name := range scaleFields(path) {
		v.Path = append(v.Path, schema.Step{Key: name})
	}
	return v
}

// Warnings is what whoever writes obj is to be told: that the version is
// deprecated, and which finalizers have names that may collide. With old, only
// finalizers that it does not have count.
func (v *Version) Warnings(obj, old schema.Object) (warnings []string) {
	if w := v.DeprecationWarning(); w != "" {
		warnings = append(warnings, w)
	}
	return append(warnings, FinalizerWarnings(obj, old)...)
}

// FinalizerWarnings is what there is to say about the names of an object's
// finalizers. With old, only those that it does not have count.
func FinalizerWarnings(obj, old schema.Object) (warnings []string) {
	before := finalizers(old)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(finalizers(obj)))) {
		if !slices.Contains(before, name) {
			warnings = append(warnings, finalizerWarnings(name)...)
		}
	}
	return warnings
}

func finalizers(obj schema.Object) []string {
	list, _, _ := unstructured.NestedStringSlice(obj, "metadata", "finalizers")
	return list
}

func finalizerWarnings(name string) (warnings []string) {
	warn := func(what string) {
		warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, what))
	}
	for _, problem := range utilvalidation.IsQualifiedName(name) {
		warn(problem)
	}
	switch {
	case strings.Contains(name, "/"), name == metav1.FinalizerOrphanDependents, name == metav1.FinalizerDeleteDependents, name == "kubernetes":
	case strings.Contains(name, "."):
		warn("prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
	default:
		warn("prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
	}
	return warnings
}
