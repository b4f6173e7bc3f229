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

// PrepareCreate prepares an object for validation and storage on create: it removes the
// status if there is a status subresource, sets the generation to 1, and removes the
// metadata that only the API server sets, such as the creation timestamp.
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

// PrepareUpdate prepares an object that replaces old: the status is that of old if
// there is a status subresource, and the generation increases if anything but metadata
// has changed. Afterwards obj may share parts with old.
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
	// Clients cannot change the creation and deletion timestamps.
	for _, k := range []string{"creationTimestamp", "deletionTimestamp"} {
		if t := oldMeta[k]; t != nil {
			meta[k] = t
		}
	}
	for _, k := range []string{"uid", "deletionGracePeriodSeconds"} {
		if x, ok := oldMeta[k]; ok && meta[k] == nil {
			meta[k] = x
		}
	}
}

// PrepareStatusUpdate replaces everything in obj except its status with the contents of
// old. Afterwards obj shares parts with old.
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

// Validate validates an object that is to be created or, if old is not nil, to replace
// old.
func (v *Version) Validate(ctx context.Context, obj, old schema.Object) (schema.Violations, error) {
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	return insertScale(p.Validate(ctx, obj, old), v.scale(obj, true)), nil
}

// ValidateStatus validates an object whose status is to replace that of old.
func (v *Version) ValidateStatus(ctx context.Context, obj, old schema.Object) (schema.Violations, error) {
	p, err := v.StatusProgram()
	if err != nil {
		return nil, err
	}
	return insertScale(p.Validate(ctx, obj, old), v.scale(obj, false)), nil
}

// insertScale adds the violations of the scale subresource to those of the schema: before the
// violations of list types and rules, as kube-apiserver orders them.
func insertScale(vs, scale schema.Violations) schema.Violations {
	at := len(vs)
	for at > 0 && afterScale(vs[at-1].Kind) {
		at--
	}
	return slices.Insert(vs, at, scale...)
}

func afterScale(k schema.ViolationKind) bool {
	return k == schema.DuplicateItem || k == schema.NotAnObject || k == schema.Rule || k == schema.RulesSkipped
}

// HasStatus reports whether the version has a status subresource.
func (v *Version) HasStatus() bool {
	return v.spec.Subresources != nil && v.spec.Subresources.Status != nil
}

func metadataOf(obj schema.Object) map[string]any {
	meta, _ := obj["metadata"].(map[string]any)
	if meta == nil {
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

// scale validates the fields that the scale subresource reads: those in the status and,
// if withSpec is true, those in the spec.
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

// replicas validates a number of replicas.
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

// Warnings returns the warnings for a client that writes obj: that the version is
// deprecated, and which finalizers have names that may collide. If old is not nil,
// finalizers that it already has are not reported.
func (v *Version) Warnings(obj, old schema.Object) (warnings []string) {
	if w := v.DeprecationWarning(); w != "" {
		warnings = append(warnings, w)
	}
	return append(warnings, FinalizerWarnings(obj, old)...)
}

// FinalizerWarnings returns the warnings about the names of an object's finalizers. If
// old is not nil, finalizers that it already has are not reported.
func FinalizerWarnings(obj, old schema.Object) (warnings []string) {
	for _, name := range NewFinalizers(obj, old) {
		for _, problem := range FinalizerNameProblems(name) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, problem))
		}
	}
	return warnings
}

// NewFinalizers returns the finalizers of an object, sorted, without those that old has.
func NewFinalizers(obj, old schema.Object) []string {
	before := finalizers(old)
	names := slices.Compact(slices.Sorted(slices.Values(finalizers(obj))))
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(before, name) })
}

func finalizers(obj schema.Object) []string {
	list, _, _ := unstructured.NestedStringSlice(obj, "metadata", "finalizers")
	return list
}

// FinalizerNameProblems returns why the name of a finalizer is invalid or may collide with
// others.
func FinalizerNameProblems(name string) (problems []string) {
	problems = append(problems, utilvalidation.IsQualifiedName(name)...)
	switch {
	case strings.Contains(name, "/"), name == metav1.FinalizerOrphanDependents,
		name == metav1.FinalizerDeleteDependents, name == "kubernetes":
	case strings.Contains(name, "."):
		problems = append(problems,
			"prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
	default:
		problems = append(problems, "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
	}
	return problems
}
